/* The perf trampoline: the hook through which C enters Python functions while
 * native profiling is on, and the life of that state.
 *
 * Switched on and off by Python/perf_sys.c (sys functions, -X perf, the
 * environment), told of forks by posixmodule.c and of the end by
 * pylifecycle.c.  Everything here runs with the GIL held.
 *
 * On or off is a property of an interpreter and is kept nowhere but in its
 * eval_frame.  The back end, which writes symbols to a file, and the labels
 * are shared by the process.
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
#include "pycore_perf_labels.h"
#include "pycore_perf_trampoline.h"
#include "pycore_pystate.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- Back ends ----------------------------------------------------------- */

typedef struct {
    const char *name;
    uint32_t label_room;        /* address space for each symbol */
    _PyPerf_enterfunc *enter_area;
    _PyPerf_continuefunc *continue_area;
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
        .enter_area = _PyPerf_EnterArea,
        .continue_area = _PyPerf_ContinueArea,
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
        .enter_area = _PyPerf_EnterAreaWithUnwindInfo,
        .continue_area = _PyPerf_ContinueAreaWithUnwindInfo,
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
    _PyPerf_enterfunc *enter_area;      /* these two outlive back_end */
    _PyPerf_continuefunc *continue_area;
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

/* --- Areas --------------------------------------------------------------- */

/* Slots of an area that C enters, and of one that continues a full area: with
   these, deep recursion takes less than 32 bytes of C stack a call. */
#define AREA_SLOTS 32
#define NEXT_AREA_SLOTS 256

/* Areas of AREA_SLOTS may take an eighth of a thread's C stack... */
#define STACK_PER_AREA (8 * AREA_SLOTS * sizeof(_PyPerf_record))

/* ...and beyond this depth no area gets slots: a program with a raised
   recursion limit needs its C stack more than we do. */
#define MAX_LABELLED_DEPTH 2048

static int max_depth = MAX_LABELLED_DEPTH;

static int
depth_for_stack(size_t stack_size)
{
    return (int)Py_MIN(stack_size / STACK_PER_AREA, MAX_LABELLED_DEPTH);
}

/* A thread has as much stack as the main thread unless the program has called
   threading.stack_size(). */
static void
measure_main_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) == 0
        && limit.rlim_cur != RLIM_INFINITY) {
        max_depth = depth_for_stack(limit.rlim_cur);
    }
}

static inline int
depth(PyThreadState *tstate)
{
    return tstate->recursion_limit - tstate->recursion_remaining;
}

/* How much C stack to spend on slots in this depth of calls. */
static size_t
free_bytes(PyThreadState *tstate, size_t slots)
{
    int limit = max_depth;
    size_t thread_stack = tstate->interp->threads.stacksize;
    if (thread_stack != 0) {
        limit = Py_MIN(limit, depth_for_stack(thread_stack));
    }
    return depth(tstate) < limit ? slots * sizeof(_PyPerf_record) : 0;
}

PyObject *
_PyPerfTrampoline_EvalInNewArea(PyThreadState *tstate,
                                _PyInterpreterFrame *frame,
                                _PyPerf_record *newest)
{
    return trampoline.continue_area(tstate, frame, newest,
                                    _PyPerfTrampoline_Label(frame->f_code),
                                    free_bytes(tstate, NEXT_AREA_SLOTS),
                                    _PyEval_EvalFrameDefault_labelled);
}

/* --- The hook ------------------------------------------------------------ */

static Py_NO_INLINE PyObject *
eval_frame_carefully(PyThreadState *tstate, _PyInterpreterFrame *frame,
                     int throwflag)
{
    return trampoline.enter_area(tstate, frame, throwflag,
                                 _PyPerfTrampoline_Label(frame->f_code),
                                 free_bytes(tstate, AREA_SLOTS),
                                 _PyEval_EvalFrameDefault_labelled);
}

/* Each resumption of a generator comes through here: what is not needed every
   time is done elsewhere, so that this needs no stack frame. */
PyObject *
_PyPerfTrampoline_EvalFrame(PyThreadState *tstate, _PyInterpreterFrame *frame,
                            int throwflag)
{
    _PyPerf_offset offset = *_PyCode_LabelOffset(frame->f_code);
    if (offset == 0 || tstate->interp->threads.stacksize != 0
        || depth(tstate) >= max_depth) {
        return eval_frame_carefully(tstate, frame, throwflag);
    }
    return trampoline.enter_area(tstate, frame, throwflag,
                                 _PyPerfLabels_base + offset,
                                 AREA_SLOTS * sizeof(_PyPerf_record),
                                 _PyEval_EvalFrameDefault_labelled);
}

/* Interpreters that had another tool's evaluator when they were switched on.
   There is rarely one, and never more than a few. */
typedef struct Predecessor {
    struct Predecessor *next;
    int64_t interpreter_id;
    _PyFrameEvalFunction eval_frame;
} Predecessor;

static Predecessor *predecessors;

static Predecessor **
find_predecessor(PyInterpreterState *interp)
{
    Predecessor **p = &predecessors;
    while (*p != NULL && (*p)->interpreter_id != interp->id) {
        p = &(*p)->next;
    }
    return p;
}

/* The hook of such interpreters.  The other evaluator does not know of areas:
   it gets one without slots, so each call of a Python function is a C call. */
static PyObject *
eval_frame_of_other_tool(PyThreadState *tstate, _PyInterpreterFrame *frame,
                         int throwflag)
{
    Predecessor *predecessor = *find_predecessor(tstate->interp);
    return trampoline.enter_area(tstate, frame, throwflag,
                                 _PyPerfTrampoline_Label(frame->f_code), 0,
                                 (_PyPerf_areaevalfunc)(void (*)(void))
                                     predecessor->eval_frame);
}

static bool
is_on(PyInterpreterState *interp)
{
    return interp->eval_frame == _PyPerfTrampoline_EvalFrame
           || interp->eval_frame == eval_frame_of_other_tool;
}

static bool
is_on_anywhere(void)
{
    PyInterpreterState *interp = PyInterpreterState_Head();
    while (interp != NULL && !is_on(interp)) {
        interp = PyInterpreterState_Next(interp);
    }
    return interp != NULL;
}

/* --- Frames without an evaluator ----------------------------------------- */

typedef struct {
    _PyPerf_throwfunc *throw;
    PyGenObject *generator;
    int close_on_genexit;
    PyObject *type, *value, *traceback;
} ThrowCall;

/* In the place of an evaluator, with a ThrowCall in that of a frame. */
static PyObject *
throw_below_area(PyThreadState *Py_UNUSED(tstate), _PyInterpreterFrame *arg,
                 int Py_UNUSED(throwflag), _PyPerf_record *Py_UNUSED(lowest))
{
    const ThrowCall *call = (const ThrowCall *)arg;
    return call->throw(call->generator, call->close_on_genexit, call->type,
                       call->value, call->traceback);
}

PyObject *
_PyPerfTrampoline_Throw(_PyInterpreterFrame *frame, _PyPerf_throwfunc *throw,
                        PyGenObject *generator, int close_on_genexit,
                        PyObject *type, PyObject *value, PyObject *traceback)
{
    PyThreadState *tstate = _PyThreadState_GET();
    if (!is_on(tstate->interp)) {
        return throw(generator, close_on_genexit, type, value, traceback);
    }
    ThrowCall call = {
        throw, generator, close_on_genexit, type, value, traceback,
    };
    return trampoline.enter_area(tstate, (_PyInterpreterFrame *)&call, 0,
                                 _PyPerfTrampoline_Label(frame->f_code), 0,
                                 throw_below_area);
}

static int
install_hook(PyInterpreterState *interp)
{
    if (is_on(interp)) {
        return 0;
    }
    Predecessor **p = find_predecessor(interp);
    if (interp->eval_frame == NULL) {
        interp->eval_frame = _PyPerfTrampoline_EvalFrame;
        return 0;
    }
    if (*p == NULL) {
        *p = calloc(1, sizeof(Predecessor));
        if (*p == NULL) {
            return -1;
        }
        (*p)->interpreter_id = interp->id;
    }
    (*p)->eval_frame = interp->eval_frame;
    interp->eval_frame = eval_frame_of_other_tool;
    return 0;
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
    trampoline.enter_area = back_end->enter_area;
    trampoline.continue_area = back_end->continue_area;
    trampoline.is_incomplete = false;
    return 0;
}

int
_PyPerfTrampoline_Activate(PyThreadState *tstate, const char *name)
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
    measure_main_stack();
    if (install_hook(tstate->interp) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void
_PyPerfTrampoline_Deactivate(PyThreadState *tstate)
{
    PyInterpreterState *interp = tstate->interp;
    if (interp->eval_frame == _PyPerfTrampoline_EvalFrame) {
        interp->eval_frame = NULL;
    }
    else if (interp->eval_frame == eval_frame_of_other_tool) {
        interp->eval_frame = (*find_predecessor(interp))->eval_frame;
    }
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
    return is_on(tstate->interp);
}

const char *
_PyPerfTrampoline_BackEnd(void)
{
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
