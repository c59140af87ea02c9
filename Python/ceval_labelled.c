/* The evaluator that labels Python functions: a second compilation of ceval.c.
 *
 * Py_CEVAL_LABELLED switches on the macros of pycore_ceval_labels.h and leaves
 * out ceval.c's public functions, so that this file defines one symbol.  It is
 * reached only through _PyPerf_EnterArea(); with the trampoline off not one of
 * its instructions runs.
 *
 * The function is still called _PyEval_EvalFrameDefault in the debug
 * information, because gdb's py-bt looks for that name, and has a symbol of its
 * own that starts with it, because other tools look for that.
 */

#define Py_CEVAL_LABELLED

/* The headers declare the ordinary evaluator, which has another signature. */
#define _PyEval_EvalFrameDefault _PyEval_EvalFrameDefault_ordinary
#include "Python.h"
#include "pycore_ceval.h"
#include "pycore_ceval_labels.h"
#undef _PyEval_EvalFrameDefault

PyObject *_PyEval_EvalFrameDefault(PyThreadState *tstate,
                                   _PyInterpreterFrame *frame, int throwflag,
                                   _PyPerf_record *lowest)
    __asm__("_PyEval_EvalFrameDefault_labelled");

/* Helpers of the public functions that are left out. */
#pragma GCC diagnostic ignored "-Wunused-function"

#include "ceval.c"
