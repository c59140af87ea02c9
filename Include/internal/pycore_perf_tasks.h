#ifndef Py_INTERNAL_PERF_TASKS_H
#define Py_INTERNAL_PERF_TASKS_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* The tasks of asyncio's event loops in native call stacks: while the
 * trampoline is on, a task whose name was chosen stands above its coroutine.
 * Between Modules/_asynciomodule.c, which tells when a thread begins and ends
 * a step of a task, and the hook (Python/perf_hook.c), through which C enters
 * the coroutine.  Call with a thread state.  Nothing can fail, and no
 * exception that is set is lost. */

#ifdef PY_HAVE_PERF_TRAMPOLINE

#include "pycore_interp.h"          // PyInterpreterState.eval_frame
#include "pycore_pystate.h"         // _PyInterpreterState_GET()

struct _PyInterpreterFrame;

/* For _asynciomodule.c.  This thread is about to make a step of task, from now
 * to LEAVE().  name: where a task that is written in C keeps its name, which
 * is no str if nobody chose it.  That and coroutine may be NULL. */
#  define _PyPerfTasks_ENTER(task, name, coroutine) \
    do { \
        if (_PyPerfTasks_MayBeShown()) { \
            _PyPerfTasks_Enter(task, name, coroutine); \
        } \
    } while (0)

/* The same for a task of any other kind, or None. */
#  define _PyPerfTasks_ENTER_OBJECT(task) \
    do { \
        if (_PyPerfTasks_MayBeShown()) { \
            _PyPerfTasks_EnterObject(task); \
        } \
    } while (0)

#  define _PyPerfTasks_LEAVE() \
    do { \
        if (_PyPerfTasks_MayBeShown()) { \
            _PyPerfTasks_Leave(); \
        } \
    } while (0)

static inline int
_PyPerfTasks_MayBeShown(void)
{
    return _PyInterpreterState_GET()->eval_frame != NULL;
}

PyAPI_FUNC(void) _PyPerfTasks_Enter(PyObject *task, PyObject *const *name,
                                    PyObject *coroutine);
PyAPI_FUNC(void) _PyPerfTasks_EnterObject(PyObject *task);
PyAPI_FUNC(void) _PyPerfTasks_Leave(void);

/* For the hook.  Return the label of the task that this thread makes a step of
 * if it is frame with which the step begins, otherwise 0. */
extern uintptr_t _PyPerfTasks_Take(const struct _PyInterpreterFrame *frame);

#else

#  define _PyPerfTasks_ENTER(task, name, coroutine) ((void)0)
#  define _PyPerfTasks_ENTER_OBJECT(task) ((void)0)
#  define _PyPerfTasks_LEAVE() ((void)0)

#endif /* PY_HAVE_PERF_TRAMPOLINE */

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_TASKS_H */
