#ifndef HARNESS_H
#define HARNESS_H

#define PY_SSIZE_T_CLEAN
#include "Python.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_trampoline.h"

#include <stdbool.h>

/* What the fuzzers of the map and of the jitdump share: see harness.c. */

/* What must be in the file. */
typedef struct {
    uintptr_t start;
    unsigned int size;
    PyObject *name;             /* bytes, by the rules for names */
    bool is_symbol;             /* of a code object; or a JIT's entry */
    bool has_room;              /* for the unwind information of a jitdump */
    bool is_found;              /* for the target's use */
} Expected;

/* All of it, in the order in which it was asked for. */
typedef struct {
    Expected *items;
    size_t length;
} Expectation;

/* Return what is expected to be so and mark it as found.  Fails if there is
 * nothing, or only what was found before. */
extern Expected *find_expected(Expectation *expected, uintptr_t start,
                               unsigned int size, PyObject *name);

/* What a target is. */
typedef struct {
    const char *back_end;
    void (*close)(void);
    const char *(*path)(void);

    /* Called when all that is expected must be in the file: fails if the bytes
     * of the file are not just that. */
    void (*check)(PyObject *bytes, Expectation *expected);
} Target;

extern const Target target;

/* Say what does not hold, and end the process so that libFuzzer sees it. */
extern void fail(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* PyObject *, or the end. */
extern void *must(void *object);

/* forget_symbols.c */
extern void forget_symbols(void);
extern uintptr_t arena_start(void);
extern uintptr_t arena_end(void);

#endif /* !HARNESS_H */
