#ifndef Py_INTERNAL_PERF_FACTS_H
#define Py_INTERNAL_PERF_FACTS_H

/* The facts of CPython 3.11; included by pycore_perf_base.h, which says what
 * they are. */

#define _PyPerfBase_HAS_CFRAME
#define _PyPerfBase_CODE(frame) ((frame)->f_code)
#define _PyPerfBase_BYTECODE(frame) _PyCode_CODE((frame)->f_code)
#define _PyPerfBase_SHOWN_INSTRUCTION(frame) ((frame)->prev_instr)
#define _PyPerfBase_GENERATOR_CODE(generator) ((generator)->gi_code)
#define _PyPerfBase_HASH(bytes, length) _Py_HashBytes(bytes, length)
#define _PyPerfBase_DEPTH(tstate) \
    ((tstate)->recursion_limit - (tstate)->recursion_remaining)
#define _PyPerfBase_PERSIST_RESULT(enable) 0
#define _PyPerfBase_PROFILING(config) (-1)
#define _PyPerfBase_CURRENT_FRAME(tstate) ((tstate)->cframe->current_frame)
#define _PyPerfBase_Function(frame) (frame)
#define _PyPerfBase_STOP_OTHERS(interp) ((void)0)
#define _PyPerfBase_LET_OTHERS_RUN(interp) ((void)0)
#define _PyPerfBase_LOCK_INTERPRETERS() ((void)0)
#define _PyPerfBase_UNLOCK_INTERPRETERS() ((void)0)

#endif /* !Py_INTERNAL_PERF_FACTS_H */
