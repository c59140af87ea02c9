/* A process is asked to name its Python functions while it runs.
 *
 * perfpy run --attach writes into the memory of the process, which takes the
 * right to trace it: it finds _PyPerfRequest among the symbols of the program,
 * puts there what it wants, and pokes the evaluators, so that they leave their
 * fast path as for a signal.  The next thread of each interpreter that comes
 * to where pending calls are made, or takes the GIL and then comes there,
 * serves the request: it switches on by what sys.activate_stack_trampoline()
 * does, and notes what is running and so cannot be shown.  No thread is
 * stopped, and no signal sent.  A wish to switch on stands until the opposite
 * is asked for, for interpreters that wait or do not exist yet; the latter is
 * done for all interpreters at once, by whoever comes first.
 *
 * The other process writes single bytes, and each write is right whatever was
 * there, as it cannot know: in a byte with several requests the poke makes all
 * of them whose loss would count.  What it pokes must not be freed meanwhile:
 * it says that it is poking, looks for what is in the lists of interpreters
 * and threads, and pokes; who frees takes it out of these lists, and then
 * waits while that is said, for a moment.
 *
 * Called by ceval.c or ceval_gil.c and by pystate.c.  Needs no lock: there is
 * one byte for who serves, and who comes in vain is reminded again.  Fork: the
 * child has the wish of its parent.  Failure: the text says why.
 */

#include "Python.h"
#include "pycore_frame.h"
#include "pycore_interp.h"
#include "pycore_perf_base.h"
#include "pycore_perf_hook.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_request.h"
#include "pycore_perf_trampoline.h"
#include "pycore_pyerrors.h"
#include "pycore_pystate.h"
#include "pycore_runtime.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

_PyPerf_Request _PyPerfRequest = {
    .magic = "cpython-perf rq",
    .version = 1,
    .size = sizeof(_PyPerf_Request),
    .interpreters = &_PyRuntime.interpreters.head,
    .next_interpreter = offsetof(PyInterpreterState, next),
    .first_thread = offsetof(PyInterpreterState, threads.head),
    .next_thread = offsetof(PyThreadState, next),
    _PyPerfBase_SAFE_POINT,
};

#define REQUEST _PyPerfRequest

/* So many functions that are running are told, at most. */
#define MOST_FUNCTIONS 64

/* So long is waited for who says that it is poking, and may have died. */
#define MAX_POKE_MILLISECONDS 200

/* --- What is running ----------------------------------------------------- */

typedef struct {
    PyCodeObject *codes[MOST_FUNCTIONS];
    size_t count;
} Functions;

static void
note_text(const char *text, size_t length)
{
    if (REQUEST.length + length + 1 > sizeof(REQUEST.text)) {
        REQUEST.left_out++;
        return;
    }
    memcpy(REQUEST.text + REQUEST.length, text, length);
    REQUEST.text[REQUEST.length + length] = '\n';
    REQUEST.length += (uint32_t)length + 1;
}

static void
note_function(Functions *functions, PyCodeObject *code)
{
    char symbol[512];
    for (size_t i = functions->count; i > 0; i--) {
        if (functions->codes[i - 1] == code) {
            return;
        }
    }
    if (functions->count == MOST_FUNCTIONS) {
        REQUEST.left_out++;
        return;
    }
    functions->codes[functions->count++] = code;
    const size_t length = _PyCode_Symbol(code, symbol, sizeof(symbol));
    note_text(symbol, Py_MIN(length, sizeof(symbol)));
}

/* Those that are on the stacks of an interpreter's threads. */
static void
note_functions(PyInterpreterState *interp)
{
    Functions functions = {.count = 0};
    _PyPerfBase_STOP_OTHERS(interp);
    _PyPerfBase_LOCK_THREADS();         /* they are born without a GIL */
    for (PyThreadState *tstate = PyInterpreterState_ThreadHead(interp);
         tstate != NULL; tstate = PyThreadState_Next(tstate)) {
        _PyInterpreterFrame *frame = _PyPerfBase_CURRENT_FRAME(tstate);
        while ((frame = _PyPerfBase_Function(frame)) != NULL) {
            note_function(&functions, _PyPerfBase_CODE(frame));
            frame = frame->previous;
        }
    }
    _PyPerfBase_UNLOCK_THREADS();
    _PyPerfBase_LET_OTHERS_RUN(interp);
}

/* --- On and off ---------------------------------------------------------- */

static void
fail(const char *reason)
{
    REQUEST.length = 0;
    note_text(reason, Py_MIN(strlen(reason), sizeof(REQUEST.text) / 2));
    REQUEST.has_failed = 1;
}

/* Take the text of the exception that is set. */
static void
fail_by_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    const char *bytes = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    fail(bytes != NULL ? bytes : "out of memory");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* Return whether there was anything to do. */
static bool
switch_on(PyThreadState *tstate, int details)
{
    /* The first one makes sure that there is a file with the names. */
    if (_PyPerfTrampoline_IsActive(tstate) && REQUEST.served != 0) {
        return false;
    }
    if (_PyPerfTrampoline_IsSealed()) {
        fail("sys.seal_stack_trampoline() was called");
    }
    else {
        note_functions(tstate->interp);
        if (_PyPerfTrampoline_Activate(tstate, "perf", details) < 0) {
            fail_by_exception();
        }
    }
    return true;
}

static unsigned char
wanted(void)
{
    return __atomic_load_n(&REQUEST.wanted, __ATOMIC_SEQ_CST);
}

/* It is done, or cannot be.  Who asks may want something else by now. */
static void
forget(unsigned char what)
{
    (void)__atomic_compare_exchange_n(&REQUEST.wanted, &what,
                                      _PyPerfRequest_NOTHING, false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void
serve(PyThreadState *tstate, unsigned char what)
{
    bool is_served = true;
    if (what >= _PyPerfRequest_ON) {
        is_served = switch_on(tstate, what - _PyPerfRequest_ON);
        if (REQUEST.has_failed) {
            forget(what);
        }
    }
    else {
        _PyPerfHook_RemoveAll();
        forget(what);
    }
    if (is_served) {
        __atomic_fetch_add(&REQUEST.served, 1, __ATOMIC_SEQ_CST);
    }
}

void
_PyPerfRequest_Serve(PyThreadState *tstate)
{
    if (wanted() == _PyPerfRequest_NOTHING || REQUEST.is_refused
        || _PyErr_Occurred(tstate)
        || __atomic_exchange_n(&REQUEST.is_serving, 1, __ATOMIC_SEQ_CST)) {
        return;
    }
    const int error = errno;
    /* Who gives up takes the wish back, and then looks for is_serving. */
    const unsigned char what = wanted();
    if (what != _PyPerfRequest_NOTHING) {
        serve(tstate, what);
    }
    __atomic_store_n(&REQUEST.is_serving, 0, __ATOMIC_SEQ_CST);
    errno = error;
}

void
_PyPerfRequest_Refuse(void)
{
    REQUEST.is_refused = 1;
}

/* --- Memory -------------------------------------------------------------- */

void
_PyPerfRequest_BeforeFree(void)
{
    const struct timespec millisecond = {0, 1000 * 1000};
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int i = 0; i < MAX_POKE_MILLISECONDS; i++) {
        if (!__atomic_load_n(&REQUEST.is_poking, __ATOMIC_SEQ_CST)) {
            return;
        }
        (void)nanosleep(&millisecond, NULL);
    }
    __atomic_store_n(&REQUEST.is_poking, 0, __ATOMIC_SEQ_CST);
}
