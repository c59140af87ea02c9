/* Calls Python from C and C from Python, in two interpreters one after the
   other and in a thread, through macros and inline functions that the headers
   compiled into this program.

   Compiled and run by embedding.sh and embedding_bases.sh.  Prints what Python
   prints, and, to standard error, how many lines its map has. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <pthread.h>
#include <unistd.h>

static PyObject *
twice(PyObject *module, PyObject *function)
{
    PyObject *first = PyObject_CallNoArgs(function);
    if (first == NULL) {
        return NULL;
    }
    PyObject *second = PyObject_CallNoArgs(function);
    PyObject *both = second ? PyTuple_Pack(2, first, second) : NULL;
    Py_DECREF(first);
    Py_XDECREF(second);
    return both;
}

static PyObject *
caller(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    PyCodeObject *code = PyFrame_GetCode(PyEval_GetFrame());
    /* Read through the layout that the headers know. */
    PyObject *name = Py_NewRef(code->co_qualname);
    Py_DECREF(code);
    return name;
}

static PyMethodDef methods[] = {
    {"twice", twice, METH_O, NULL},
    {"caller", caller, METH_NOARGS, NULL},
    {NULL}
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "host", NULL, -1, methods
};

static PyObject *
create(void)
{
    return PyModule_Create(&definition);
}

static const char program[] =
    "import host, sys, json, decimal\n"
    "class Item:\n"
    "    def who(self):\n"
    "        return host.caller()\n"
    "def fib(n):\n"
    "    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
    "def numbers():\n"
    "    yield from range(3)\n"
    "print(host.twice(lambda: fib(15)), Item().who(), list(numbers()),\n"
    "      json.dumps({'a': str(decimal.Decimal(1) / 7)}))\n"
    "try:\n"
    "    host.twice(lambda: 1 / 0)\n"
    "except ZeroDivisionError as error:\n"
    "    print(error, flush=True)\n";

static void *
in_thread(void *arg)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int failed = PyRun_SimpleString(program);
    PyGILState_Release(state);
    return failed ? arg : NULL;
}

int
main(int argc, char **argv)
{
    PyImport_AppendInittab("host", create);
    for (int i = 0; i < 2; i++) {
        PyConfig config;
        PyConfig_InitPythonConfig(&config);
        config.parse_argv = 0;
        PyStatus status = PyConfig_SetBytesArgv(&config, argc, argv);
        if (!PyStatus_Exception(status)) {
            status = Py_InitializeFromConfig(&config);
        }
        PyConfig_Clear(&config);
        if (PyStatus_Exception(status)) {
            Py_ExitStatusException(status);
        }
        if (PyRun_SimpleString(program) != 0) {
            return 1;
        }
        pthread_t thread;
        void *failed;
        PyThreadState *save = PyEval_SaveThread();
        pthread_create(&thread, NULL, in_thread, &config);
        pthread_join(thread, &failed);
        PyEval_RestoreThread(save);
        if (failed || Py_FinalizeEx() < 0) {
            return 1;
        }
    }
    char path[100];
    snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)getpid());
    FILE *map = fopen(path, "r");
    int lines = 0;
    for (int c; map != NULL && (c = getc(map)) != EOF;) {
        lines += c == '\n';
    }
    unlink(path);
    fprintf(stderr, "%d\n", lines);
    return 0;
}
