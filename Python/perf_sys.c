/* How people switch the perf trampoline on and off: functions of the sys
 * module, -X options and environment variables.
 *
 * The functions are entries of sysmodule.c's method table; the options are
 * looked at by pylifecycle.c for every new interpreter, before it runs Python
 * code.  Everything runs with a thread state and keeps no state of its own.
 */

#include "Python.h"
#include "pycore_initconfig.h"    // _Py_GetEnv()
#include "pycore_interp.h"        // PyInterpreterState.config
#include "pycore_perf_base.h"
#include "pycore_perf_process.h"
#include "pycore_perf_request.h"
#include "pycore_perf_trampoline.h"
#include "pycore_pyerrors.h"      // _PyErr_Occurred()
#include "pycore_pystate.h"       // _PyThreadState_GET()

#include <stdbool.h>

/* --- sys functions ------------------------------------------------------- */

const char _PyPerfTrampoline_SysActivate_doc[] =
"activate_stack_trampoline($module, backend, /, *, native=False,\n"
"                          lines=False)\n"
"--\n"
"\n"
"Let native profilers see Python functions by name from now on.\n"
"\n"
"The back end \"perf\" writes symbols to /tmp/perf-PID.map, \"perf_jit\" to\n"
"the jitdump jit-PID.dump in $JITDUMPDIR or /tmp.  Python functions follow\n"
"each other directly; with native=True, native functions show between them.\n"
"With lines=True, each function shows the line that it is executing.\n"
"If the trampoline is active already, this only makes sure that it works in\n"
"that way.";

PyObject *
_PyPerfTrampoline_SysActivate(PyObject *Py_UNUSED(module), PyObject *args,
                              PyObject *kwargs)
{
    static char *keywords[] = {"", "native", "lines", NULL};
    PyObject *backend;
    int native = 0, lines = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs,
                                     "O|$pp:activate_stack_trampoline",
                                     keywords, &backend, &native, &lines)) {
        return NULL;
    }
    if (!PyUnicode_Check(backend)) {
        PyErr_Format(PyExc_TypeError,
                     "activate_stack_trampoline() argument must be str, "
                     "not %.50s", Py_IsNone(backend) ? "None"
                                  : Py_TYPE(backend)->tp_name);
        return NULL;
    }
    Py_ssize_t length;
    const char *name = PyUnicode_AsUTF8AndSize(backend, &length);
    if (name == NULL) {
        return NULL;
    }
    if (strlen(name) != (size_t)length) {
        PyErr_SetString(PyExc_ValueError, "embedded null character");
        return NULL;
    }
    const int details = native * _PyPerf_NATIVE + lines * _PyPerf_LINES;
    if (_PyPerfTrampoline_Activate(_PyThreadState_GET(), name, details) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

const char _PyPerfTrampoline_SysDeactivate_doc[] =
"deactivate_stack_trampoline($module, /)\n"
"--\n"
"\n"
"Stop showing Python functions to native profilers.\n"
"\n"
"Functions that are running keep their names until they return.  Does\n"
"nothing if the trampoline is not active.";

PyObject *
_PyPerfTrampoline_SysDeactivate(PyObject *Py_UNUSED(module),
                                PyObject *Py_UNUSED(ignored))
{
    _PyPerfTrampoline_Deactivate(_PyThreadState_GET());
    Py_RETURN_NONE;
}

const char _PyPerfTrampoline_SysIsActive_doc[] =
"is_stack_trampoline_active($module, /)\n"
"--\n"
"\n"
"Return whether native profilers see the functions of this interpreter.";

PyObject *
_PyPerfTrampoline_SysIsActive(PyObject *Py_UNUSED(module),
                              PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(_PyPerfTrampoline_IsActive(_PyThreadState_GET()));
}

const char _PyPerfTrampoline_SysSeal_doc[] =
"seal_stack_trampoline($module, /)\n"
"--\n"
"\n"
"Announce all functions now, and make no system calls from now on.\n"
"\n"
"For a program that is about to enter a sandbox in which it would be killed\n"
"for writing to a file.  Functions whose code does not exist yet have no\n"
"names.  The next activation ends this.";

/* Announce code and all code that it contains.  Return 0, or -1 with an
   exception set. */
static int
announce_with_contents(PyCodeObject *code)
{
    if (_PyPerfTrampoline_Announce(code) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
        PyObject *constant = PyTuple_GET_ITEM(code->co_consts, i);
        if (PyCode_Check(constant)) {
            if (Py_EnterRecursiveCall(" while announcing functions")) {
                return -1;
            }
            int result = announce_with_contents((PyCodeObject *)constant);
            Py_LeaveRecursiveCall();
            if (result < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* What runs defines functions, and so does what goes on later. */
static PyCodeObject *
code_of(PyObject *object)
{
    if (PyFunction_Check(object)) {
        return (PyCodeObject *)PyFunction_GET_CODE(object);
    }
    if (PyGen_CheckExact(object) || PyCoro_CheckExact(object)
        || PyAsyncGen_CheckExact(object)) {
        return _PyPerfBase_GENERATOR_CODE((PyGenObject *)object);
    }
    return NULL;
}

static int
announce_functions(void)
{
    PyObject *gc = PyImport_ImportModule("gc");
    if (gc == NULL) {
        return -1;
    }
    PyObject *objects = PyObject_CallMethod(gc, "get_objects", NULL);
    Py_DECREF(gc);
    if (objects == NULL) {
        return -1;
    }
    int result = 0;
    PyInterpreterState *interp = PyInterpreterState_Get();
    _PyPerfBase_STOP_OTHERS(interp);    /* they may change functions' code */
    for (Py_ssize_t i = 0; result == 0 && i < PyList_GET_SIZE(objects); i++) {
        PyCodeObject *code = code_of(PyList_GET_ITEM(objects, i));
        if (code != NULL) {
            result = announce_with_contents(code);
        }
    }
    _PyPerfBase_LET_OTHERS_RUN(interp);
    Py_DECREF(objects);
    return result;
}

/* Those of a frame and its callers, as they are now. */
static int
announce_stack(PyObject *frame)
{
    int result = 0;
    PyInterpreterState *interp = PyInterpreterState_Get();
    _PyPerfBase_STOP_OTHERS(interp);
    Py_INCREF(frame);
    while (frame != NULL && result == 0) {
        PyCodeObject *code = PyFrame_GetCode((PyFrameObject *)frame);
        PyObject *back = (PyObject *)PyFrame_GetBack((PyFrameObject *)frame);
        result = announce_with_contents(code);
        Py_DECREF(code);
        Py_SETREF(frame, back);
    }
    Py_XDECREF(frame);
    _PyPerfBase_LET_OTHERS_RUN(interp);
    return result;
}

static int
announce_running(void)
{
    PyObject *frames = _PyThread_CurrentFrames();
    PyObject *thread, *frame;
    Py_ssize_t position = 0;
    int result = frames != NULL ? 0 : -1;
    while (result == 0
           && PyDict_Next(frames, &position, &thread, &frame)) {
        result = announce_stack(frame);
    }
    Py_XDECREF(frames);
    return result;
}

PyObject *
_PyPerfTrampoline_SysSeal(PyObject *Py_UNUSED(module),
                          PyObject *Py_UNUSED(ignored))
{
    PyThreadState *tstate = _PyThreadState_GET();
    if (_PyPerfTrampoline_IsActive(tstate)
        && !_PyPerfTrampoline_IsSealed()
        && (announce_functions() < 0 || announce_running() < 0)) {
        return NULL;
    }
    if (_PyPerfTrampoline_Seal() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

const char _PyPerfTrampoline_SysAnnouncesNames_doc[] =
"_announces_thread_names($module, /)\n"
"--\n"
"\n"
"Return whether threading shall tell the kernel the names of threads.";

PyObject *
_PyPerfTrampoline_SysAnnouncesNames(PyObject *Py_UNUSED(module),
                                    PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(_PyPerfTrampoline_IsActive(_PyThreadState_GET())
                           && !_PyPerfTrampoline_IsSealed());
}

/* --- Options ------------------------------------------------------------- */

/* From ON on, what to show is added to it: see _PyPerf_Detail. */
typedef enum {NOT_GIVEN, OFF, ON} Switch;

/* What one of the words of a value asks for. */
static int
detail(const wchar_t *word, size_t length)
{
    static const struct {const wchar_t *word; int detail;} known[] = {
        {L"native", _PyPerf_NATIVE}, {L"lines", _PyPerf_LINES},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(known); i++) {
        if (wcslen(known[i].word) == length
            && wcsncmp(known[i].word, word, length) == 0) {
            return known[i].detail;
        }
    }
    return 0;
}

/* Every value but two means on, and may have words between commas. */
static Switch
switch_from_value(const wchar_t *value)
{
    int details = 0;
    if (*value == L'\0' || wcscmp(value, L"0") == 0) {
        return OFF;
    }
    for (;;) {
        const size_t length = wcscspn(value, L",");
        details |= detail(value, length);
        if (value[length] == L'\0') {
            return ON + details;
        }
        value += length + 1;
    }
}

/* -X name or -X name=value.  The last one given counts. */
static Switch
get_xoption(const PyConfig *config, const wchar_t *name)
{
    size_t length = wcslen(name);
    for (Py_ssize_t i = config->xoptions.length - 1; i >= 0; i--) {
        const wchar_t *option = config->xoptions.items[i];
        if (wcsncmp(option, name, length) != 0) {
            continue;
        }
        const wchar_t *value = option + length;
        if (*value == L'\0') {
            return ON;
        }
        if (*value == L'=') {
            return switch_from_value(value + 1);
        }
    }
    return NOT_GIVEN;
}

static Switch
get_environment(const PyConfig *config, const char *name)
{
    /* NULL also for an empty value, and under -E and -I. */
    const char *value = _Py_GetEnv(config->use_environment, name);
    if (value == NULL) {
        return NOT_GIVEN;
    }
    /* No more than all words that there are. */
    wchar_t wide[sizeof("native,lines")];
    size_t length = 0;
    while (length < Py_ARRAY_LENGTH(wide) - 1 && value[length] != '\0') {
        wide[length] = (unsigned char)value[length];
        length++;
    }
    wide[length] = L'\0';
    return value[length] == '\0' ? switch_from_value(wide) : ON;
}

typedef struct {
    int number;                 /* in _PyPerfBase_PROFILING(config) */
    const char *back_end;
    const wchar_t *xoption;
    const char *given_as;       /* as users write it */
    const char *variable;
} Option;

/* In order of precedence within the same level. */
static const Option options[] = {
    {2, "perf_jit", L"perf_jit", "-X perf_jit", "PYTHON_PERF_JIT_SUPPORT"},
    {1, "perf", L"perf", "-X perf", "PYTHONPERFSUPPORT"},
};

/* Return the option that is on, or NULL.  -X beats the environment: it can
   also switch its own variable off. */
static const Option *
find_option(const PyConfig *config, const char **given_as, Switch *value)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(options); i++) {
        *value = get_xoption(config, options[i].xoption);
        if (*value >= ON) {
            *given_as = options[i].given_as;
            return &options[i];
        }
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(options); i++) {
        *value = get_environment(config, options[i].variable);
        if (*value >= ON
            && get_xoption(config, options[i].xoption) != OFF) {
            *given_as = options[i].variable;
            return &options[i];
        }
    }
    return NULL;
}

int
_PyPerfTrampoline_FromOptions(const PyConfig *config)
{
    const char *given_as;
    Switch how;
    const Option *option = find_option(config, &given_as, &how);
    return option != NULL ? option->number : 0;
}

/* The same with what a program that embeds Python has put into config, where
   that has a place for it. */
static const Option *
find_choice(const PyConfig *config, const char **given_as, Switch *value)
{
    const int number = _PyPerfBase_PROFILING(config);
    const Option *option = find_option(config, given_as, value);
    if (number < 0 || number == (option != NULL ? option->number : 0)) {
        return option;
    }
    *given_as = "PyConfig.perf_profiling";
    *value = ON;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(options); i++) {
        if (options[i].number == number) {
            return &options[i];
        }
    }
    return NULL;
}

/* By the words that CPython 3.14 has for the same: any value but none. */
static bool
refuses_requests(const PyConfig *config)
{
    return get_xoption(config, L"disable-remote-debug") != NOT_GIVEN
           || _Py_GetEnv(config->use_environment,
                         "PYTHON_DISABLE_REMOTE_DEBUG") != NULL;
}

void
_PyPerfTrampoline_Init(PyThreadState *tstate)
{
    const char *given_as;
    Switch how;
    const Option *option = find_choice(&tstate->interp->config, &given_as,
                                       &how);
    _PyPerfProcess_Init();
    if (refuses_requests(&tstate->interp->config)) {
        _PyPerfRequest_Refuse();
    }
    if (option == NULL || _PyPerfTrampoline_IsSealed()) {
        return;
    }
    /* An interpreter that comes later leaves the others their back end. */
    int details;
    const char *back_end = _PyPerfTrampoline_BackEnd(&details);
    if (back_end == NULL) {
        back_end = option->back_end;
        details = how - ON;
    }
    if (_PyPerfTrampoline_Activate(tstate, back_end, details) == 0) {
        _PyPerfTrampoline_HoldSymbols();
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PySys_FormatStderr("python: %s has no effect: %S\n", given_as, value);
    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}
