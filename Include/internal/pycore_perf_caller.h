#ifndef Py_INTERNAL_PERF_CALLER_H
#define Py_INTERNAL_PERF_CALLER_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* Which Python function has called the C code that runs now?  The hook asks,
 * so that Python functions follow each other in the list of records, whatever
 * C stands between them.  The answer is an evaluator with labels, or C code
 * that stands in for one; how it is found depends on the base.
 *
 * _PyPerf_Evaluator    what there is to know of one
 * _PyPerf_Newest(evaluator)    its newest record, now that it has called C
 * _PyPerf_Lowest(evaluator)    the lowest slot of its area
 *
 * _PyPerf_Caller(tstate, bounds)   the one that has called C, or NULL.  It may
 *     have called an ordinary evaluator, as another tool's does, that has.
 *     bounds: the stack of the thread, and how far down it is in use
 * _PyPerf_QuickCaller(tstate, floor, span)     the same in a few instructions,
 *     if it is known, and not below floor, nor below the stack pointer; what
 *     is less than span above floor can be read
 * _PyPerf_IsFirst(tstate)      is there no evaluator at all?
 * _PyPerf_IsOutermost(frame)   has C, not another function of the same
 *     evaluator, called this function?
 * _PyPerf_MakeOutermost(first, callee, caller)     callee, which C has just
 *     entered, was called by caller, and instead of it C has called first
 * _PyPerf_HasRecord(frame)     has it a record, in an evaluator with labels?
 * _PyPerf_CallerMark(tstate)   a pointer that tells calls of C apart
 *
 * _PyPerf_StandIn      C code that runs below records in the place of an
 *     evaluator lets functions that it enters find the records: from
 * _PyPerf_BeginToStandIn(tstate, stand_in, own, lowest)    with its own frame
 *     record, which is linked to them
 * _PyPerf_StopStandingIn(tstate, stand_in)     to this
 *
 * _PyPerf_DEFINE_CALLER    the variables for all this, in perf_hook.c */

#include "pycore_perf_arch.h"
#include "pycore_perf_base.h"
#include "pycore_perf_hook.h"

#include <stddef.h>                 // offsetof()

typedef struct {
    uintptr_t low;
    uintptr_t stack_pointer;
    uintptr_t end;
} _PyPerf_StackBounds;

/* C++ exceptions and longjmp() that leave evaluators let tstate point at what
 * these were.  It is below the stack pointer then, or something else has come
 * to lie there.  An evaluator with labels has its own record near, and returns
 * to the code that has called it. */
#define _PyPerf_MAX_OWN_DISTANCE 4096
#define _PyPerf_AREA_CODE_SIZE 1024

static inline int
_PyPerf_IsOwnRecord(const void *near, const _PyPerf_record *own)
{
    if ((uintptr_t)own - (uintptr_t)near > _PyPerf_MAX_OWN_DISTANCE) {
        return 0;
    }
    const uintptr_t back = _PyPerfArch_PlainAddress(own->label);
    return back - (uintptr_t)_PyPerf_EnterArea < _PyPerf_AREA_CODE_SIZE;
}

#ifdef _PyPerfBase_HAS_CFRAME
#  include "pycore_perf_caller_cframe.h"
#else
#  include "pycore_perf_caller_entry.h"
#endif

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_CALLER_H */
