/* The perf trampoline: the life of native profiling in a process.
 *
 * Switched on and off by Python/perf_sys.c (sys functions, -X perf, the
 * environment), told of forks by posixmodule.c and of the end by
 * pylifecycle.c.  Everything here runs with the GIL held.
 *
 * The back end, which writes symbols to a file, and the labels are shared by
 * the process.  Python/perf_hook.c keeps what belongs to an interpreter.
 *
 * Fork: the child closes its parent's file and, if any interpreter is on,
 * lists all inherited symbols in a file of its own.  A child that nobody told
 * of the fork does so before it adds a symbol.  Failure: activation reports
 * it; later, one line on stderr, and the program runs on with nameless
 * functions.  The program's pending exception is never touched.
 */

#include "Python.h"
#include "pycore_ceval.h"
#include "pycore_frame.h"
#include "pycore_interp.h"
#include "pycore_perf_hook.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_trampoline.h"
#include "pycore_pystate.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

/* --- Back ends ----------------------------------------------------------- */

typedef struct {
    const char *name;
    uint32_t label_room;        /* address space for each symbol */
    _PyPerf_AreaCode area_code;
    int (*open)(void);
    int (*write)(const _PyPerfSymbol *symbol);
    void (*hold)(void);         /* many symbols will follow... */
    int (*release)(void);       /* ...and these were they */
    void (*close)(void);
    void (*after_fork_child)(void);
    const char *(*path)(void);
} BackEnd;

static const BackEnd back_ends[] = {
    {
        .name = "perf",
        .label_room = _PyPerfLabels_SIZE,
        .area_code = {_PyPerf_EnterArea, _PyPerf_ShareArea},
        .open = PyUnstable_PerfMapState_Init,
        .write = _PyPerfMap_WriteSymbol,
        .hold = _PyPerfMap_Hold,
        .release = _PyPerfMap_Release,
        .close = PyUnstable_PerfMapState_Fini,
        .after_fork_child = _PyPerfMap_AfterFork_Child,
        .path = _PyPerfMap_Path,
    },
    {
        .name = "perf_jit",
        .label_room = _PyPerfJitdump_LABEL_ROOM,
        .area_code = {_PyPerf_EnterAreaWithUnwindInfo,
                      _PyPerf_ShareAreaWithUnwindInfo},
        .open = _PyPerfJitdump_Open,
        .write = _PyPerfJitdump_WriteSymbol,
        .hold = _PyPerfJitdump_Hold,
        .release = _PyPerfJitdump_Release,
        .close = _PyPerfJitdump_Close,
        .after_fork_child = _PyPerfJitdump_AfterFork_Child,
        .path = _PyPerfJitdump_Path,
    },
};

static struct {
    const BackEnd *back_end;    /* NULL: no interpreter was ever on, or the
                                   runtime has ended */
    bool shows_native;          /* functions between Python functions, too */
    pid_t process;              /* whose file that is */
    bool is_incomplete;         /* its file lacks symbols, and we said so */
} trampoline;

static const BackEnd *
find_back_end(const char *name)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(back_ends); i++) {
        if (strcmp(back_ends[i].name, name) == 0) {
            return &back_ends[i];
        }
    }
    return NULL;
}

/* Tell a back end of a symbol, once. */
static int
announce(_PyPerfSymbol *symbol, void *arg)
{
    const BackEnd *back_end = arg;
    const uint32_t bit = 1u << (back_end - back_ends);
    if (symbol->announced & bit) {
        return 0;
    }
    if (back_end->write(symbol) < 0) {
        return -1;
    }
    symbol->announced |= bit;
    return 0;
}

static int
announce_all(const BackEnd *back_end)
{
    back_end->hold();
    int result = _PyPerfLabels_ForEach(announce, (void *)back_end);
    int error = errno;
    if (back_end->release() < 0) {
        return -1;
    }
    errno = error;
    return result;
}

/* Say once that symbols are missing, and why: errno. */
static void
warn(int error)
{
    if (!trampoline.is_incomplete) {
        trampoline.is_incomplete = true;
        fprintf(stderr, "python: profilers will not know some functions by "
                        "name: '%s': %s\n",
                trampoline.back_end->path(), strerror(error));
    }
}

/* C programs fork without telling Python: uWSGI, unless asked to.  Called
   before an addition, or two children would name one address differently. */
static void
notice_fork(void)
{
    if (trampoline.back_end != NULL && trampoline.process != getpid()) {
        _PyPerfTrampoline_AfterFork_Child(_PyThreadState_GET());
    }
}

/* --- Labels -------------------------------------------------------------- */

/* Return 0, or -1 with errno set if profilers will not know the name of a code
   object that had no label yet.  It has one in either case. */
static int
ensure_label(PyCodeObject *code)
{
    _PyPerfSymbol *new_symbol;
    notice_fork();
    int result = _PyPerfLabels_Assign(code, &new_symbol);
    /* The last objects of a runtime die after its files are closed. */
    if (new_symbol == NULL || trampoline.back_end == NULL) {
        return result;
    }
    return announce(new_symbol, (void *)trampoline.back_end);
}

static Py_NO_INLINE uintptr_t
label_for_the_first_time(PyCodeObject *code)
{
    int error = errno;
    if (ensure_label(code) < 0 && trampoline.back_end != NULL) {
        warn(errno);
    }
    errno = error;
    return _PyPerfLabels_base + *_PyCode_LabelOffset(code);
}

uintptr_t
_PyPerfTrampoline_Label(PyCodeObject *code)
{
    _PyPerf_offset offset = *_PyCode_LabelOffset(code);
    if (offset == 0) {
        return label_for_the_first_time(code);
    }
    return _PyPerfLabels_base + offset;
}

static bool
is_on_anywhere(void)
{
    PyInterpreterState *interp = PyInterpreterState_Head();
    while (interp != NULL && !_PyPerfHook_IsInstalled(interp)) {
        interp = PyInterpreterState_Next(interp);
    }
    return interp != NULL;
}

/* --- On and off ---------------------------------------------------------- */

static int
set_os_error(const BackEnd *back_end)
{
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, back_end->path());
    return -1;
}

/* Make back_end the one in use and let it know all symbols.  If that fails,
   the one before stays in use. */
static int
use_back_end(const BackEnd *back_end)
{
    const bool is_in_use = trampoline.back_end == back_end;
    if (is_in_use && !trampoline.is_incomplete) {
        return 0;
    }
    if (back_end->open() < 0) {
        return set_os_error(back_end);
    }
    if (announce_all(back_end) < 0) {
        set_os_error(back_end);
        if (!is_in_use) {
            back_end->close();
        }
        return -1;
    }
    if (!is_in_use && trampoline.back_end != NULL) {
        trampoline.back_end->close();
    }
    trampoline.back_end = back_end;
    trampoline.process = getpid();
    trampoline.is_incomplete = false;
    return 0;
}

int
_PyPerfTrampoline_Activate(PyThreadState *tstate, const char *name,
                           int shows_native)
{
    const BackEnd *back_end = find_back_end(name);
    if (back_end == NULL) {
        PyErr_Format(PyExc_ValueError, "invalid backend: %s", name);
        return -1;
    }
    notice_fork();
    if (_PyPerfLabels_Init(back_end->label_room) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (use_back_end(back_end) < 0) {
        return -1;
    }
    trampoline.shows_native = shows_native;
    _PyPerfHook_UseAreas(&back_end->area_code, shows_native);
    if (_PyPerfHook_Install(tstate->interp) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void
_PyPerfTrampoline_Deactivate(PyThreadState *tstate)
{
    _PyPerfHook_Remove(tstate->interp);
}

void
_PyPerfTrampoline_HoldSymbols(void)
{
    if (trampoline.back_end != NULL) {
        trampoline.back_end->hold();
    }
}

void
_PyPerfTrampoline_ReleaseSymbols(void)
{
    if (trampoline.back_end != NULL && trampoline.back_end->release() < 0) {
        warn(errno);
    }
}

int
_PyPerfTrampoline_IsActive(PyThreadState *tstate)
{
    return _PyPerfHook_IsInstalled(tstate->interp);
}

const char *
_PyPerfTrampoline_BackEnd(int *shows_native)
{
    *shows_native = trampoline.shows_native;
    return trampoline.back_end != NULL ? trampoline.back_end->name : NULL;
}

void
_PyPerfTrampoline_AfterFork_Child(PyThreadState *Py_UNUSED(tstate))
{
    const BackEnd *back_end = trampoline.back_end;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(back_ends); i++) {
        back_ends[i].after_fork_child();
    }
    _PyPerfLabels_AfterFork_Child();
    trampoline.process = getpid();
    if (back_end == NULL || !is_on_anywhere()) {
        trampoline.back_end = NULL;
    }
    else if (back_end->open() < 0 || announce_all(back_end) < 0) {
        warn(errno);
    }
}

void
_PyPerfTrampoline_Fini(void)
{
    if (trampoline.back_end != NULL) {
        trampoline.back_end->close();
        trampoline.back_end = NULL;
    }
}

/* --- Public functions; see Include/cpython/perf_trampoline.h ------------- */

int
PyUnstable_PerfTrampoline_CompileCode(PyCodeObject *code)
{
    return is_on_anywhere() ? ensure_label(code) : 0;
}

int
PyUnstable_PerfTrampoline_SetPersistAfterFork(int Py_UNUSED(enable))
{
    return 0;
}
