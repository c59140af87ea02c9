/* C++ exceptions and the ends of threads, in programs that run Python below
 * them: for Lib/test/test_perf_unwind.py.  Built by
 * Tools/build/build-testperf.sh.
 *
 * Each destructor that has to run writes a word to standard output.
 */

#include <Python.h>

#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

namespace {

class Guard {
public:
    explicit Guard(const char *word) : word(word) {}
    ~Guard()
    {
        if (write(STDOUT_FILENO, word, strlen(word)) < 0) {
            abort();
        }
    }
private:
    const char *word;
};

PyObject *
throw_exception(PyObject *, PyObject *)
{
    Guard guard("thrown ");
    throw std::runtime_error("message");
}

/* Call and return what it returns, or the message of what it throws.  Values in
   registers that callees save have to be there afterwards. */
PyObject *
catch_exception(PyObject *, PyObject *function)
{
    long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e),
                          "+r"(f));
    try {
        Guard guard("caught ");
        return PyObject_CallNoArgs(function);
    }
    catch (std::exception &exception) {
        return PyUnicode_FromFormat("%s %ld%ld%ld%ld%ld%ld", exception.what(),
                                    a, b, c, d, e, f);
    }
}

/* Both end the thread, without the lock. */

PyObject *
exit_thread(PyObject *, PyObject *)
{
    Guard guard("exited ");
    PyEval_SaveThread();
    pthread_exit(NULL);
}

PyObject *
cancel_thread(PyObject *, PyObject *)
{
    Guard guard("cancelled ");
    PyEval_SaveThread();
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return NULL;
}

void *
call_in_thread(void *function)
{
    Guard guard("joined ");
    PyGILState_Ensure();
    Py_XDECREF(PyObject_CallNoArgs((PyObject *)function));
    abort();
}

PyObject *
run_thread(PyObject *, PyObject *function)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, call_in_thread, function);
    if (error == 0) {
        PyThreadState *state = PyEval_SaveThread();
        error = pthread_join(thread, NULL);
        PyEval_RestoreThread(state);
    }
    return PyLong_FromLong(error);
}

PyMethodDef methods[] = {
    {"throw", throw_exception, METH_NOARGS, NULL},
    {"catch", catch_exception, METH_O, NULL},
    {"exit_thread", exit_thread, METH_NOARGS, NULL},
    {"cancel_thread", cancel_thread, METH_NOARGS, NULL},
    {"run_thread", run_thread, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_testperf_unwind", NULL, -1, methods,
    NULL, NULL, NULL, NULL,
};

}   // namespace

PyMODINIT_FUNC
PyInit__testperf_unwind(void)
{
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module != NULL) {
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
    }
#endif
    return module;
}
