/* Python/perf_labels.c with a way to forget all symbols.
 *
 * In a program a symbol lives as long as the process.  A fuzzer runs a million
 * inputs in one, and each has to do the same as it would alone: harness.c
 * calls this after each.  The first arena is used again.
 */

#include "../../Python/perf_labels.c"
#include "harness.h"

void
forget_symbols(void)
{
    while (labels.text != NULL) {
        _PyPerfText *next = labels.text->next;
        free(labels.text);
        labels.text = next;
    }
    if (labels.table != NULL) {
        _Py_hashtable_destroy(labels.table);
        labels.table = NULL;
    }
    /* The blocks of symbols are used again; few inputs fill one. */
    labels.first = labels.last = NULL;
    labels.last_text = NULL;
    labels.text_room = 0;
    labels.unknown = 0;
    if (labels.end != 0) {
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
