#ifndef Py_INTERNAL_PERF_FACTS_H
#define Py_INTERNAL_PERF_FACTS_H

/* The facts of CPython 3.13; included by pycore_perf_base.h, which says what
 * they are. */

#include "pycore_frame.h"         // _PyInterpreterFrame
#include "pycore_optimizer.h"     // _Py_Executors_InvalidateAll()
#include "pycore_pyhash.h"        // _Py_HashBytes()

#define _PyPerfBase_BEFORE_HOOK(interp) _Py_Executors_InvalidateAll(interp, 1)
/* An evaluator counts as two calls in C. */
#define _PyPerfBase_MAY_ENTER(tstate) ((tstate)->c_recursion_remaining > 2)
#define _PyPerfBase_HASH(bytes, length) _Py_HashBytes(bytes, length)
#define _PyPerfBase_ENTRY_OWNER FRAME_OWNED_BY_CSTACK
#define _PyPerfBase_ENTRY_FRAME entry_frame
#define _PyPerfBase_OBJECT(reference) (reference)
#define _PyPerfBase_REFERENCE(object) (object)
#define _PyPerfBase_GENERATOR_FRAME(generator) \
    ((_PyInterpreterFrame *)(generator)->gi_iframe)
#define _PyPerfBase_GENERATOR(frame) _PyFrame_GetGenerator(frame)

/* All that nobody repeats who finds it undone.  A thread that waits for the
 * GIL, a collection that is due and a stop of the world ask again. */
#ifdef Py_GIL_DISABLED
#  define _PyPerfBase_MERGE_BIT _PY_EVAL_EXPLICIT_MERGE_BIT
#else
#  define _PyPerfBase_MERGE_BIT 0
#endif
#define _PyPerfBase_SAFE_POINT \
    .of_thread = {offsetof(PyThreadState, eval_breaker), \
                  _PY_SIGNALS_PENDING_BIT | _PY_CALLS_TO_DO_BIT \
                  | _PY_ASYNC_EXCEPTION_BIT | _PyPerfBase_MERGE_BIT}
#define _PyPerfBase_BREAK(tstate) \
    _Py_set_eval_breaker_bit(tstate, _PY_CALLS_TO_DO_BIT)

#endif /* !Py_INTERNAL_PERF_FACTS_H */
