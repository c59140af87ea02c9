#ifndef Py_INTERNAL_PERF_BASE_H
#define Py_INTERNAL_PERF_BASE_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* What our C files have to know of the CPython that they are part of: nothing
 * else of ours in C depends on the version.  Each base has a header of its
 * own, pycore_perf_facts.h in patches/3.X/files/.
 *
 * _PyPerfBase_HAS_CFRAME      defined if tstate->cframe leads to the
 *     evaluator; otherwise an evaluator has an entry frame
 * _PyPerfBase_CODE(frame)     the code object of a Python function's frame
 * _PyPerfBase_BYTECODE(frame)     where in memory its first instruction is
 * _PyPerfBase_SHOWN_INSTRUCTION(frame)     and the one whose line it shows
 * _PyPerfBase_CURRENT_FRAME(tstate)    that of what runs
 * _PyPerfBase_Function(frame)     frame or, if it is not a Python function's,
 *     the next one behind it that is, or NULL
 * _PyPerfBase_GENERATOR_CODE(generator)    that of a generator, borrowed
 * _PyPerfBase_GENERATOR_FRAME(generator)   and its frame
 * _PyPerfBase_HASH(bytes, length)
 * _PyPerfBase_DEPTH(tstate)   how deep Python functions have called
 * _PyPerfBase_PERSIST_RESULT(enable)     what
 *     PyUnstable_PerfTrampoline_SetPersistAfterFork() returns
 * _PyPerfBase_PROFILING(config)   what a PyConfig says: -1 if nothing, else 0
 *     for off or the number of a back end, from 1, in the order "perf",
 *     "perf_jit"
 * _PyPerfBase_STOP_OTHERS(interp), _PyPerfBase_LET_OTHERS_RUN(interp)
 *     around what all threads of an interpreter read without a lock; nothing
 *     where they have a GIL.  pycore_pystate.h has to be included
 * _PyPerfBase_STOP_ALL(), _PyPerfBase_LET_ALL_RUN()
 *     the same for the threads of all interpreters
 * _PyPerfBase_LOCK_INTERPRETERS(), _PyPerfBase_UNLOCK_INTERPRETERS()
 *     around a look at all of them; nothing where they share a GIL
 * _PyPerfBase_LOCK_THREADS(), _PyPerfBase_UNLOCK_THREADS()
 *     around a look at the threads of the interpreter whose GIL one has, or
 *     whose others are stopped
 * _PyPerfBase_BEGIN_CRITICAL_SECTION(object)
 * _PyPerfBase_END_CRITICAL_SECTION()
 *     a block, around a look at what other threads change of the object
 * _PyPerfBase_CODE_SIZE       the type in which
 *     PyUnstable_WritePerfMapEntry() is told a size; unsigned int unless the
 *     base says otherwise
 * _PyPerfBase_MAY_ENTER(tstate)    will an evaluator that is entered now run,
 *     whatever is the limit of recursion through C?  Always, unless the base
 *     says otherwise
 * _PyPerfBase_STACK_LIMIT(tstate)  where on the C stack recursion through C is
 *     ended; 0, unless the base says otherwise: where the stack ends
 * _PyPerfBase_BEFORE_HOOK(interp)      what has to be done before eval_frame
 *     takes the place of NULL; nothing unless the base says otherwise
 * _PyPerfBase_SAFE_POINT      members of a _PyPerf_Request: how another
 *     process makes evaluators come to where pending calls are made.  Not
 *     defined if there are other ways to let the process do something.
 *     pycore_ceval.h and pycore_interp.h have to be included
 * _PyPerfBase_BREAK(tstate)   makes a thread come there that has the GIL
 * _PyPerfBase_OPTIMIZE        a pragma for the compiler of our evaluators, or
 *     nothing
 * _PyPerfBase_TAIL_CALLS      is each instruction a function that jumps to the
 *     next one's?  0 unless the base says otherwise
 *
 * Facts of bases with entry frames, from which some of the above follow:
 *
 * _PyPerfBase_ENTRY_OWNER     the owner that tells an entry frame from others
 * _PyPerfBase_ENTRY_FRAME     the evaluator's variable
 * _PyPerfBase_NO_STACK(frame)     initializers of a frame with nothing on its
 *     stack; none unless the base says otherwise
 * _PyPerfBase_OBJECT(reference)    the object, borrowed, that a member of a
 *     frame refers to
 * _PyPerfBase_REFERENCE(object)    the other way round, steals the object
 * _PyPerfBase_GENERATOR(frame)     the generator that has this frame
 * _PyPerfBase_LAST_FRAME(tstate)     where the list of frames ends; NULL
 *     unless the base says otherwise */

#include "pycore_perf_facts.h"

#ifndef _PyPerfBase_MAY_ENTER
#  define _PyPerfBase_MAY_ENTER(tstate) true
#endif
#ifndef _PyPerfBase_STACK_LIMIT
#  define _PyPerfBase_STACK_LIMIT(tstate) ((void)(tstate), (uintptr_t)0)
#endif
#ifndef _PyPerfBase_BEFORE_HOOK
#  define _PyPerfBase_BEFORE_HOOK(interp) ((void)(interp))
#endif
/* Of GCC's optimisations, the first makes code that never runs out of all that
 * our evaluators go to by computed gotos, if it has a profile to partition by.
 * GCC advises against gcse where there are computed gotos; in evaluators that
 * are generated, it takes registers that calls preserve from variables that
 * all instructions need: in 3.14, from next_instr. */
#if !defined(__GNUC__) || defined(__clang__)
#  define _PyPerfBase_OPTIMIZE
#elif defined(_PyPerfBase_HAS_CFRAME)
#  define _PyPerfBase_OPTIMIZE \
       _Pragma("GCC optimize (\"no-reorder-blocks-and-partition\")")
#else
#  define _PyPerfBase_OPTIMIZE \
       _Pragma("GCC optimize (\"no-reorder-blocks-and-partition,no-gcse\")")
#endif
#ifndef _PyPerfBase_TAIL_CALLS
#  define _PyPerfBase_TAIL_CALLS 0
#endif
#ifndef _PyPerfBase_CODE_SIZE
#  define _PyPerfBase_CODE_SIZE unsigned int
#endif

#ifndef _PyPerfBase_HAS_CFRAME

#  include "pycore_critical_section.h"

#  ifndef _PyPerfBase_LAST_FRAME
#    define _PyPerfBase_LAST_FRAME(tstate) NULL
#  endif
#  ifndef _PyPerfBase_NO_STACK
#    define _PyPerfBase_NO_STACK(frame)
#  endif

#  define _PyPerfBase_CODE(frame) \
       _PyFrame_GetCode((_PyInterpreterFrame *)(frame))
#  define _PyPerfBase_SHOWN_INSTRUCTION(frame) ((frame)->instr_ptr)
#  ifndef _PyPerfBase_BYTECODE
#    define _PyPerfBase_BYTECODE(frame) _PyCode_CODE(_PyPerfBase_CODE(frame))
#  endif
#  define _PyPerfBase_GENERATOR_CODE(generator) \
       _PyFrame_GetCode(_PyPerfBase_GENERATOR_FRAME(generator))
#  define _PyPerfBase_DEPTH(tstate) \
       ((tstate)->py_recursion_limit - (tstate)->py_recursion_remaining)
#  define _PyPerfBase_PERSIST_RESULT(enable) (enable)
#  define _PyPerfBase_PROFILING(config) ((config)->perf_profiling)
#  define _PyPerfBase_CURRENT_FRAME(tstate) ((tstate)->current_frame)
#  define _PyPerfBase_STOP_OTHERS(interp) _PyEval_StopTheWorld(interp)
#  define _PyPerfBase_LET_OTHERS_RUN(interp) _PyEval_StartTheWorld(interp)
#  define _PyPerfBase_STOP_ALL() _PyEval_StopTheWorldAll(&_PyRuntime)
#  define _PyPerfBase_LET_ALL_RUN() _PyEval_StartTheWorldAll(&_PyRuntime)
#  define _PyPerfBase_LOCK_INTERPRETERS() HEAD_LOCK(&_PyRuntime)
#  define _PyPerfBase_UNLOCK_INTERPRETERS() HEAD_UNLOCK(&_PyRuntime)
#  define _PyPerfBase_LOCK_THREADS() HEAD_LOCK(&_PyRuntime)
#  define _PyPerfBase_UNLOCK_THREADS() HEAD_UNLOCK(&_PyRuntime)
#  define _PyPerfBase_BEGIN_CRITICAL_SECTION(object) \
       Py_BEGIN_CRITICAL_SECTION(object)
#  define _PyPerfBase_END_CRITICAL_SECTION() Py_END_CRITICAL_SECTION()

/* Not entry frames, nor that which cleans up after __init__(). */
static inline _PyInterpreterFrame *
_PyPerfBase_Function(_PyInterpreterFrame *frame)
{
    while (frame != NULL
           && (frame->owner == _PyPerfBase_ENTRY_OWNER
               || Py_IsNone(_PyPerfBase_OBJECT(frame->f_funcobj)))) {
        frame = frame->previous;
    }
    return frame;
}

#endif /* !_PyPerfBase_HAS_CFRAME */

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_BASE_H */
