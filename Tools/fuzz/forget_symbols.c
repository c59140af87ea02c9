/* Python/perf_labels.c with a way to forget all symbols.
 *
 * In a program a symbol lives as long as the process.  A fuzzer runs a million
 * inputs in one, and each has to do the same as it would alone: harness.c
 * calls this after each.  The first arena is used again.
 */

#include "../../Python/perf_labels.c"
#include "harness.h"

static void
free_symbols(void)
{
    _PyPerfSymbol *block = labels.first, *symbol = labels.first;
    for (size_t number = 1; symbol != NULL; number++) {
        free((void *)symbol->lines);
        symbol = (_PyPerfSymbol *)symbol->next;
        if (symbol == NULL || number % SYMBOLS_PER_BLOCK == 0) {
            free(block);
            block = symbol;
        }
    }
    labels.first = labels.last = labels.free = NULL;
    labels.free_count = 0;
}

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
    free_symbols();
    labels.last_text = NULL;
    labels.text_room = 0;
    labels.unknown = 0;
    labels.task_kinds = 0;
    memset(labels.recent_tasks, 0, sizeof(labels.recent_tasks));
    if (labels.end != 0) {
        labels.next_free = arena_start();
    }
}

uintptr_t
arena_start(void)
{
    return labels.end - LABELS_SIZE;
}

uintptr_t
arena_end(void)
{
    return labels.end;
}
