#ifndef HARNESS_H
#define HARNESS_H

#define PY_SSIZE_T_CLEAN
#include "Python.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_trampoline.h"

#include <stdbool.h>

/* --- What all fuzzers of writers share: see interpreter.c ---------------- */

/* Say what does not hold, and end the process so that libFuzzer sees it. */
extern void fail(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* PyObject *, or the end. */
extern void *must(void *object);

typedef struct {
    const uint8_t *next;
    const uint8_t *end;
} Input;

/* A text of one, two or four bytes for each unit.  Some are repeated: buffers
   have to be exceeded by short inputs, but few need to be. */
typedef struct {
    Py_ssize_t units;
    Py_ssize_t times;
    Py_UCS4 unit[256];
} Text;

/* A number of so many bytes, the lowest first; those that lack are 0. */
extern uint64_t take(Input *input, int bytes);
extern void take_text(Input *input, Text *text);
extern PyObject *take_string(Input *input);

/* Bytes that end at a NUL, as C strings do. */
extern PyObject *take_c_string(Input *input);

/* Bytes: what the files must call a function, and a JIT compiler's entry. */
extern PyObject *symbol_of(PyObject *qualname, PyObject *filename);
extern PyObject *entry_name(PyObject *c_string);

/* The same of a task's name, or with NULL of any that comes too late. */
extern PyObject *task_symbol(PyObject *name);
#define MOST_TASK_KINDS 500

/* A code object, by code.replace() with these arguments, whose reference is
 * taken over. */
extern PyCodeObject *changed_code(PyObject *changes);

extern void activate(const char *back_end, int details);

/* The bytes of a file. */
extern PyObject *contents(const char *path);

/* Go on as if the process had just been started. */
extern void begin_anew(void);

/* forget_symbols.c */
extern void forget_symbols(void);
extern uintptr_t arena_start(void);
extern uintptr_t arena_end(void);

/* --- And those of the map and of the jitdump: see harness.c -------------- */

/* What must be in the file. */
typedef struct {
    uintptr_t start;
    unsigned int size;
    PyObject *name;             /* bytes, by the rules for names */
    bool is_symbol;             /* of code or a task; or a JIT's entry */
    bool has_room;              /* for the unwind information of a jitdump */
    bool is_found;              /* for the target's use */
} Expected;

/* All of it, in the order in which it was asked for. */
typedef struct {
    Expected *items;
    size_t length;
    size_t task_kinds;
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

#endif /* !HARNESS_H */
