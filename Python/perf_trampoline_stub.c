/* The perf trampoline on platforms that have none: it cannot be switched on.
 *
 * Linked instead of perf_trampoline.c when configure's check for the perf
 * trampoline says no.  The contracts are in pycore_perf_trampoline.h.
 */

#include "Python.h"
#include "pycore_interp.h"
#include "pycore_perf_process.h"
#include "pycore_perf_trampoline.h"

int
_PyPerfTrampoline_Activate(PyThreadState *Py_UNUSED(tstate),
                           const char *Py_UNUSED(name),
                           int Py_UNUSED(details))
{
    PyErr_SetString(PyExc_ValueError, "perf trampoline not available");
    return -1;
}

void
_PyPerfTrampoline_Deactivate(PyThreadState *Py_UNUSED(tstate))
{
}

int
_PyPerfTrampoline_IsActive(PyThreadState *Py_UNUSED(tstate))
{
    return 0;
}

const char *
_PyPerfTrampoline_BackEnd(int *Py_UNUSED(details))
{
    return NULL;
}

void
_PyPerfTrampoline_HoldSymbols(void)
{
}

void
_PyPerfTrampoline_ReleaseSymbols(void)
{
}

int
_PyPerfTrampoline_Announce(PyCodeObject *Py_UNUSED(code))
{
    return 0;
}

int
_PyPerfTrampoline_Seal(void)
{
    return 0;
}

int
_PyPerfTrampoline_IsSealed(void)
{
    return 0;
}

void
_PyPerfTrampoline_AfterFork_Child(PyThreadState *Py_UNUSED(tstate))
{
    _PyPerfProcess_AfterFork_Child();
    _PyPerfMap_AfterFork_Child();
}

void
_PyPerfTrampoline_AfterForkHandlers_Child(void)
{
}

void
_PyPerfTrampoline_Fini(void)
{
    PyUnstable_PerfMapState_Fini();
}

_PyFrameEvalFunction
_PyPerfTrampoline_GetTool(PyInterpreterState *interp)
{
    return interp->eval_frame;
}

void
_PyPerfTrampoline_SetTool(PyInterpreterState *interp,
                          _PyFrameEvalFunction eval_frame)
{
    interp->eval_frame = eval_frame;
}

PyObject *
_PyPerfTrampoline_Throw(struct _PyInterpreterFrame *Py_UNUSED(frame),
                        _PyPerf_throwfunc *throw, PyGenObject *generator,
                        int close_on_genexit, PyObject *type, PyObject *value,
                        PyObject *traceback)
{
    return throw(generator, close_on_genexit, type, value, traceback);
}

int
PyUnstable_PerfTrampoline_CompileCode(PyCodeObject *Py_UNUSED(code))
{
    return 0;
}

int
PyUnstable_PerfTrampoline_SetPersistAfterFork(int Py_UNUSED(enable))
{
    return 0;
}
