/* The evaluator that labels Python functions: a second compilation of ceval.c.
 *
 * Py_CEVAL_LABELLED switches on the macros of pycore_ceval_labels.h and leaves
 * out ceval.c's public functions, so that this file defines one symbol.  It is
 * reached only through _PyPerf_EnterArea(); with the trampoline off not one of
 * its instructions runs.  Included by ceval_lines.c, it makes another one.
 *
 * The function keeps the name _PyEval_EvalFrameDefault, by which gdb's py-bt
 * knows an evaluator, and is linked by another one that starts with it,
 * because other tools look for that.
 */

#define Py_CEVAL_LABELLED

/* The headers declare the ordinary evaluator, which has another signature. */
#define _PyEval_EvalFrameDefault _PyEval_EvalFrameDefault_ordinary
#include "Python.h"
#include "pycore_ceval.h"
#include "pycore_ceval_labels.h"
#include "pycore_perf_system.h"
#undef _PyEval_EvalFrameDefault

static PyObject *_PyEval_EvalFrameDefault(PyThreadState *tstate,
                                          _PyInterpreterFrame *frame,
                                          int throwflag,
                                          _PyPerf_record *lowest);

/* Helpers of the public functions that are left out. */
#pragma GCC diagnostic ignored "-Wunused-function"

/* A handler asks for the evaluator's frame, which is always there. */
#pragma GCC diagnostic ignored "-Wframe-address"

/* One that releases of 3.13 got in their course, where no patch that also fits
 * the older ones can leave it out: what was declared static stays static. */
#define _PyEval_NoToolsForUnwind no_tools_for_unwind
static bool no_tools_for_unwind(PyThreadState *tstate);

_PyPerfBase_OPTIMIZE
#include "ceval.c"

_PyPerfSystem_ALIAS(CEVAL_EVALUATOR, _PyEval_EvalFrameDefault);
