#ifndef Py_INTERNAL_PERF_FACTS_H
#define Py_INTERNAL_PERF_FACTS_H

/* The facts of CPython 3.11; included by pycore_perf_base.h, which says what
 * they are. */

#define _PyPerfBase_HAS_CFRAME
#define _PyPerfBase_CODE(frame) ((frame)->f_code)
#define _PyPerfBase_BYTECODE(frame) _PyCode_CODE((frame)->f_code)
#define _PyPerfBase_SHOWN_INSTRUCTION(frame) ((frame)->prev_instr)
#define _PyPerfBase_GENERATOR_CODE(generator) ((generator)->gi_code)
#define _PyPerfBase_GENERATOR_FRAME(generator) \
    ((_PyInterpreterFrame *)(generator)->gi_iframe)
#define _PyPerfBase_HASH(bytes, length) _Py_HashBytes(bytes, length)
#define _PyPerfBase_DEPTH(tstate) \
    ((tstate)->recursion_limit - (tstate)->recursion_remaining)
#define _PyPerfBase_PERSIST_RESULT(enable) 0
#define _PyPerfBase_PROFILING(config) (-1)
#define _PyPerfBase_CURRENT_FRAME(tstate) ((tstate)->cframe->current_frame)
#define _PyPerfBase_Function(frame) (frame)
#define _PyPerfBase_STOP_OTHERS(interp) ((void)(interp))
#define _PyPerfBase_LET_OTHERS_RUN(interp) ((void)(interp))
#define _PyPerfBase_STOP_ALL() ((void)0)
#define _PyPerfBase_LET_ALL_RUN() ((void)0)
#define _PyPerfBase_LOCK_INTERPRETERS() ((void)0)
#define _PyPerfBase_UNLOCK_INTERPRETERS() ((void)0)
#define _PyPerfBase_LOCK_THREADS() \
    PyThread_acquire_lock(_PyRuntime.interpreters.mutex, WAIT_LOCK)
#define _PyPerfBase_UNLOCK_THREADS() \
    PyThread_release_lock(_PyRuntime.interpreters.mutex)
#define _PyPerfBase_BEGIN_CRITICAL_SECTION(object) {
#define _PyPerfBase_END_CRITICAL_SECTION() }

/* Pending calls are the main thread's, but lead other threads there, too. */
#define _PyPerfBase_SAFE_POINT \
    .of_interpreter = { \
        {offsetof(PyInterpreterState, ceval.pending.calls_to_do), 1}, \
        {offsetof(PyInterpreterState, ceval.eval_breaker), 1}, \
    }
#define _PyPerfBase_BREAK(tstate) \
    (_Py_atomic_store_relaxed( \
         &(tstate)->interp->ceval.pending.calls_to_do, 1), \
     _Py_atomic_store_relaxed(&(tstate)->interp->ceval.eval_breaker, 1))

#endif /* !Py_INTERNAL_PERF_FACTS_H */
