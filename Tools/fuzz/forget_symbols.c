/* Python/perf_labels.c with a way to forget all symbols.
 *
 * In a program a symbol lives as long as the process.  A fuzzer runs a million
 * inputs in one, and each has to do the same as it would alone: harness.c
 * calls this after each.  The first arena is used again.
 */

#include "../../Python/perf_labels.c"
#include "harness.h"

static int
free_symbol(_Py_hashtable_t *Py_UNUSED(table), const void *Py_UNUSED(key),
            const void *symbol, void *Py_UNUSED(user_data))
{
    free((void *)symbol);
    return 0;
}

void
forget_symbols(void)
{
    if (labels.symbols != NULL) {
        _Py_hashtable_foreach(labels.symbols, free_symbol, NULL);
        _Py_hashtable_destroy(labels.symbols);
        labels.symbols = NULL;
        labels.unknown = 0;
        labels.next_free = arena_start();
    }
}

uintptr_t
arena_start(void)
{
    return labels.end - ARENA_SIZE;
}

uintptr_t
arena_end(void)
{
    return labels.end;
}
