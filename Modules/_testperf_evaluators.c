/* Tools with frame evaluation functions of their own (PEP 523), as the tests
 * of the perf trampoline need them: each does in a few lines what a tool that
 * people use does with the interpreter's evaluator.
 *
 * Used by Lib/test/support/perf_evaluators.py; built for it by `make test`,
 * not installed.  Everything runs with the GIL held.  The state belongs to the
 * process, as that of such tools does.
 */

#ifndef Py_BUILD_CORE_MODULE
#  define Py_BUILD_CORE_MODULE 1
#endif

#include "Python.h"
#include "pycore_interp.h"        // PyInterpreterState.eval_frame

#include <stdbool.h>

typedef enum {
    REMEMBERS,      /* what was installed, calls it and puts it back: torch */
    RESETS,         /* calls the default and installs it at the end: Paddle */
    WRITES,         /* remembers, by eval_frame itself: before Python 3.9 */
} Manner;

typedef struct {
    const char *name;
    Manner manner;
    _PyFrameEvalFunction evaluator;
    _PyFrameEvalFunction before;    /* NULL: call the default */
    int users;
    unsigned long frames;
} Tool;

static Tool tools[];

static PyObject *
evaluate(Tool *tool, PyThreadState *tstate,
         struct _PyInterpreterFrame *frame, int throwflag)
{
    (void)__atomic_add_fetch(&tool->frames, 1, __ATOMIC_RELAXED);
    if (tool->before != NULL) {
        return tool->before(tstate, frame, throwflag);
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

#define DEFINE_EVALUATOR(index)                                         \
    static PyObject *                                                   \
    evaluator_##index(PyThreadState *tstate,                            \
                      struct _PyInterpreterFrame *frame, int throwflag) \
    {                                                                   \
        return evaluate(&tools[index], tstate, frame, throwflag);       \
    }

DEFINE_EVALUATOR(0)
DEFINE_EVALUATOR(1)
DEFINE_EVALUATOR(2)
DEFINE_EVALUATOR(3)
DEFINE_EVALUATOR(4)

static Tool tools[] = {
    {"A", REMEMBERS, evaluator_0},
    {"B", REMEMBERS, evaluator_1},
    {"P", RESETS, evaluator_2},
    {"W", WRITES, evaluator_3},
    {"X", WRITES, evaluator_4},
};

/* For PyArg_Parse(): the tool of that name. */
static int
convert_tool(PyObject *name, void *result)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tools); i++) {
        if (PyUnicode_Check(name)
            && PyUnicode_CompareWithASCIIString(name, tools[i].name) == 0) {
            *(Tool **)result = &tools[i];
            return 1;
        }
    }
    PyErr_Format(PyExc_ValueError, "no tool %R", name);
    return 0;
}

/* Return the tool whose evaluator that is, or NULL. */
static Tool *
find_tool(_PyFrameEvalFunction evaluator)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tools); i++) {
        if (tools[i].evaluator == evaluator) {
            return &tools[i];
        }
    }
    return NULL;
}

/* Tools that remember each other would call each other for ever. */
static bool
calls(Tool *caller, const Tool *tool)
{
    while (caller != NULL && caller != tool) {
        caller = find_tool(caller->before);
    }
    return caller != NULL;
}

static void
install(Tool *tool)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    _PyFrameEvalFunction found = tool->manner == WRITES
        ? interp->eval_frame : _PyInterpreterState_GetEvalFrameFunc(interp);
    if (calls(find_tool(found), tool)) {
        return;
    }
    switch (tool->manner) {
    case REMEMBERS:
        tool->before = found;
        _PyInterpreterState_SetEvalFrameFunc(interp, tool->evaluator);
        break;
    case RESETS:
        if (found == _PyEval_EvalFrameDefault) {
            _PyInterpreterState_SetEvalFrameFunc(interp, tool->evaluator);
        }
        break;
    case WRITES:
        tool->before = found;
        interp->eval_frame = tool->evaluator;
        break;
    }
}

static void
uninstall(Tool *tool)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    switch (tool->manner) {
    case REMEMBERS:
        if (tool->before != NULL) {
            _PyInterpreterState_SetEvalFrameFunc(interp, tool->before);
            tool->before = NULL;
        }
        break;
    case RESETS:
        if (_PyInterpreterState_GetEvalFrameFunc(interp) == tool->evaluator) {
            _PyInterpreterState_SetEvalFrameFunc(interp,
                                                 _PyEval_EvalFrameDefault);
        }
        break;
    case WRITES:
        if (interp->eval_frame == tool->evaluator) {
            interp->eval_frame = tool->before;
            tool->before = NULL;
        }
        break;
    }
}

PyDoc_STRVAR(install_doc,
"install(tool)\n"
"\n"
"Install its evaluator as the tool does, unless that is called already.");

static PyObject *
evaluators_install(PyObject *Py_UNUSED(module), PyObject *name)
{
    Tool *tool;
    if (!convert_tool(name, &tool)) {
        return NULL;
    }
    install(tool);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(uninstall_doc,
"uninstall(tool)\n"
"\n"
"Remove its evaluator as the tool does.");

static PyObject *
evaluators_uninstall(PyObject *Py_UNUSED(module), PyObject *name)
{
    Tool *tool;
    if (!convert_tool(name, &tool)) {
        return NULL;
    }
    uninstall(tool);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(reset_doc,
"reset()\n"
"\n"
"Let no tool be installed, nor remember anything.");

static PyObject *
evaluators_reset(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tools); i++) {
        tools[i].before = NULL;
    }
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(),
                                         _PyEval_EvalFrameDefault);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(call_doc,
"call(tool, callable)\n"
"\n"
"Call with the evaluator installed, for as long as a thread is in here.");

static PyObject *
evaluators_call(PyObject *Py_UNUSED(module), PyObject *args)
{
    Tool *tool;
    PyObject *callable;
    if (!PyArg_ParseTuple(args, "O&O:call", convert_tool, &tool, &callable)) {
        return NULL;
    }
    if (tool->users++ == 0) {
        install(tool);
    }
    PyObject *result = PyObject_CallNoArgs(callable);
    if (--tool->users == 0) {
        uninstall(tool);
    }
    return result;
}

PyDoc_STRVAR(frames_doc,
"frames() -> {tool: number of frames it was given to evaluate so far}");

static PyObject *
evaluators_frames(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *result = PyDict_New();
    for (size_t i = 0; result != NULL && i < Py_ARRAY_LENGTH(tools); i++) {
        PyObject *frames = PyLong_FromUnsignedLong(tools[i].frames);
        if (frames == NULL
            || PyDict_SetItemString(result, tools[i].name, frames) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(frames);
    }
    return result;
}

static PyObject *
name_of(_PyFrameEvalFunction evaluator)
{
    if (evaluator == NULL || evaluator == _PyEval_EvalFrameDefault) {
        Py_RETURN_NONE;
    }
    const Tool *tool = find_tool(evaluator);
    if (tool != NULL) {
        return PyUnicode_FromString(tool->name);
    }
    return PyUnicode_FromString("somebody else's");
}

PyDoc_STRVAR(installed_doc,
"installed() -> tool, or None, or \"somebody else's\"\n"
"\n"
"Whose evaluator is in place, as any tool is told.");

static PyObject *
evaluators_installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return name_of(_PyInterpreterState_GetEvalFrameFunc(
        PyInterpreterState_Get()));
}

PyDoc_STRVAR(effective_doc,
"effective() -> tool, or None, or \"somebody else's\"\n"
"\n"
"Whose evaluator the interpreter calls.");

static PyObject *
evaluators_effective(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return name_of(PyInterpreterState_Get()->eval_frame);
}

static PyMethodDef evaluators_methods[] = {
    {"install", evaluators_install, METH_O, install_doc},
    {"uninstall", evaluators_uninstall, METH_O, uninstall_doc},
    {"reset", evaluators_reset, METH_NOARGS, reset_doc},
    {"call", evaluators_call, METH_VARARGS, call_doc},
    {"frames", evaluators_frames, METH_NOARGS, frames_doc},
    {"installed", evaluators_installed, METH_NOARGS, installed_doc},
    {"effective", evaluators_effective, METH_NOARGS, effective_doc},
    {NULL, NULL, 0, NULL},
};

#ifdef Py_GIL_DISABLED
static PyModuleDef_Slot evaluators_slots[] = {
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};
#endif

static struct PyModuleDef evaluators_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_testperf_evaluators",
    .m_size = 0,
    .m_methods = evaluators_methods,
#ifdef Py_GIL_DISABLED
    .m_slots = evaluators_slots,
#endif
};

PyMODINIT_FUNC
PyInit__testperf_evaluators(void)
{
    return PyModuleDef_Init(&evaluators_module);
}
