/* The hook: how C enters Python functions while native profiling is on.
 *
 * It is the frame evaluation function (PEP 523) of an interpreter that
 * Python/perf_trampoline.c has switched on.  It chooses the area of labels
 * for the function and enters an evaluator below it, by the code in
 * Python/asm_trampoline_*.S.  Everything here runs with the GIL held.
 *
 * On or off is kept nowhere but in the interpreter's eval_frame.  Indifferent
 * to fork.  Nothing can fail but the installation.
 */

#include "Python.h"
#include "pycore_ceval.h"
#include "pycore_frame.h"
#include "pycore_interp.h"
#include "pycore_perf_hook.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_trampoline.h"
#include "pycore_pystate.h"

#include <stdbool.h>
#include <sys/resource.h>

/* The code in use, for all interpreters.  It outlives the back end. */
static struct {
    _PyPerf_enterfunc *enter;
    _PyPerf_continuefunc *go_on;
} areas;

void
_PyPerfHook_UseAreas(_PyPerf_enterfunc *enter, _PyPerf_continuefunc *go_on)
{
    areas.enter = enter;
    areas.go_on = go_on;
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
    return areas.go_on(tstate, frame, newest,
                                    _PyPerfTrampoline_Label(frame->f_code),
                                    free_bytes(tstate, NEXT_AREA_SLOTS),
                                    _PyEval_EvalFrameDefault_labelled);
}

/* --- The hook ------------------------------------------------------------ */

static Py_NO_INLINE PyObject *
eval_frame_carefully(PyThreadState *tstate, _PyInterpreterFrame *frame,
                     int throwflag)
{
    return areas.enter(tstate, frame, throwflag,
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
    return areas.enter(tstate, frame, throwflag,
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
    return areas.enter(tstate, frame, throwflag,
                                 _PyPerfTrampoline_Label(frame->f_code), 0,
                                 (_PyPerf_areaevalfunc)(void (*)(void))
                                     predecessor->eval_frame);
}

int
_PyPerfHook_IsInstalled(PyInterpreterState *interp)
{
    return interp->eval_frame == _PyPerfTrampoline_EvalFrame
           || interp->eval_frame == eval_frame_of_other_tool;
}

/* --- On and off ---------------------------------------------------------- */

int
_PyPerfHook_Install(PyInterpreterState *interp)
{
    measure_main_stack();
    if (_PyPerfHook_IsInstalled(interp)) {
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

void
_PyPerfHook_Remove(PyInterpreterState *interp)
{
    if (interp->eval_frame == _PyPerfTrampoline_EvalFrame) {
        interp->eval_frame = NULL;
    }
    else if (interp->eval_frame == eval_frame_of_other_tool) {
        interp->eval_frame = (*find_predecessor(interp))->eval_frame;
    }
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
    if (!_PyPerfHook_IsInstalled(tstate->interp)) {
        return throw(generator, close_on_genexit, type, value, traceback);
    }
    ThrowCall call = {
        throw, generator, close_on_genexit, type, value, traceback,
    };
    return areas.enter(tstate, (_PyInterpreterFrame *)&call, 0,
                                 _PyPerfTrampoline_Label(frame->f_code), 0,
                                 throw_below_area);
}
