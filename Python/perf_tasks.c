/* Tasks of asyncio's event loops: which coroutine is to have its task's label
 * above its own.
 *
 * A step of a task resumes its coroutine from C, as it would resume any other.
 * So Modules/_asynciomodule.c announces the step, and Python/perf_hook.c takes
 * the label when that very coroutine is entered.  Between the two only other
 * functions can run that the step has called.
 *
 * All is thread-local: an event loop runs in one thread.  Indifferent to fork,
 * since labels outlive it.  Failure: the task is not shown.
 */

#include "Python.h"
#include "pycore_frame.h"
#include "pycore_perf_base.h"
#include "pycore_perf_hook.h"
#include "pycore_perf_tasks.h"
#include "pycore_perf_trampoline.h"

#include <stdbool.h>

/* The step that was announced, until it begins. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    const _PyInterpreterFrame *frame;   /* the coroutine's, or NULL */
    uintptr_t label;
} announced;

/* Does the name say anything?  asyncio calls tasks Task-1 and so on. */
static bool
is_chosen(PyObject *name)
{
    static const char prefix[] = "Task-";
    if (!PyUnicode_IS_ASCII(name)) {
        return true;
    }
    const char *text = (const char *)PyUnicode_1BYTE_DATA(name);
    const size_t length = (size_t)PyUnicode_GET_LENGTH(name);
    if (strncmp(text, prefix, strlen(prefix)) == 0) {
        text += strlen(prefix);
    }
    return text + strspn(text, "0123456789")
           != (const char *)PyUnicode_1BYTE_DATA(name) + length;
}

/* Let the hook look, in each function that this thread enters from C, whether
   the step begins with it; or no longer, without a frame. */
static void
announce(const _PyInterpreterFrame *frame, uintptr_t label)
{
    if (frame != announced.frame) {
        announced.frame = frame;
        _PyPerfHook_AwaitTask(frame != NULL);
    }
    announced.label = label;
}

/* The frame of a coroutine that is not running yet, or NULL.  One that runs
   has asked to be announced before, for a step that another one interrupts. */
static const _PyInterpreterFrame *
frame_to_resume(PyObject *coroutine)
{
    if (coroutine == NULL
        || !(PyCoro_CheckExact(coroutine) || PyGen_CheckExact(coroutine))) {
        return NULL;
    }
    PyGenObject *generator = (PyGenObject *)coroutine;
    const int state = __atomic_load_n(&generator->gi_frame_state,
                                      __ATOMIC_RELAXED);
    return state < FRAME_EXECUTING ? _PyPerfBase_GENERATOR_FRAME(generator)
                                   : NULL;
}

static void
enter(PyObject *name, PyObject *coroutine)
{
    const _PyInterpreterFrame *frame = NULL;
    if (name != NULL && PyUnicode_CheckExact(name) && is_chosen(name)
        && _PyPerfHook_IsInstalled(_PyInterpreterState_GET())) {
        frame = frame_to_resume(coroutine);
    }
    announce(frame, frame != NULL ? _PyPerfTrampoline_TaskLabel(name) : 0);
}

/* Without a GIL, another thread may change the name. */
void
_PyPerfTasks_Enter(PyObject *task, PyObject *const *name, PyObject *coroutine)
{
    PyObject *own_name;
    _PyPerfBase_BEGIN_CRITICAL_SECTION(task);
    own_name = Py_XNewRef(*name);
    _PyPerfBase_END_CRITICAL_SECTION();
    enter(own_name, coroutine);
    Py_XDECREF(own_name);
}

/* Return NULL, and no exception is set, if there is no such attribute. */
static PyObject *
attribute(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    if (value == NULL) {
        PyErr_Clear();
    }
    return value;
}

/* A task that is written in Python has both as attributes. */
void
_PyPerfTasks_EnterObject(PyObject *task)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *name = attribute(task, "_name");
    PyObject *coroutine = attribute(task, "_coro");
    PyErr_Restore(type, value, traceback);
    enter(name, coroutine);
    Py_XDECREF(name);
    Py_XDECREF(coroutine);
}

void
_PyPerfTasks_Leave(void)
{
    announce(NULL, 0);
}

uintptr_t
_PyPerfTasks_Take(const _PyInterpreterFrame *frame)
{
    if (announced.frame == NULL || announced.frame != frame) {
        return 0;
    }
    const uintptr_t label = announced.label;
    announce(NULL, 0);
    return label;
}
