#ifndef Py_INTERNAL_PERF_CALLER_H
#define Py_INTERNAL_PERF_CALLER_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include "pycore_perf_arch.h"
#include "pycore_perf_hook.h"

#include <stddef.h>                 // offsetof()

/* Which Python function has called the C code that runs now?  The hook asks,
 * so that Python functions follow each other in the list of records, whatever
 * C stands between them.
 *
 * tstate->cframe leads to the _PyCFrame of the innermost evaluator.  That of
 * an evaluator with labels has more members, and tells so by the lowest bit of
 * `previous`, which nobody but the evaluator follows.  The ordinary evaluator
 * has no such bit, nor has the _PyCFrame that greenlet makes for the start of
 * a greenlet, so that a greenlet has no caller.  When greenlet switches from
 * one C stack to another, tstate->cframe follows.
 *
 * The members make the evaluator's stack frame no larger than the ordinary
 * one's: recursion is as deep. */
typedef struct {
    union {
        _PyCFrame base;
        struct {
            uint8_t use_tracing;
            int32_t own_distance;       /* in padding of _PyCFrame */
            struct _PyInterpreterFrame *current_frame;
            struct _PyCFrame *previous;
        };
    };
    _PyPerf_record *lowest;     /* of the evaluator's area */
} _PyPerf_CFrame;

static_assert(offsetof(_PyPerf_CFrame, current_frame)
              == offsetof(_PyCFrame, current_frame)
              && offsetof(_PyPerf_CFrame, previous)
                 == offsetof(_PyCFrame, previous)
              && offsetof(_PyPerf_CFrame, lowest) == sizeof(_PyCFrame),
              "_PyCFrame is laid out in another way");

#define _PyPerf_CFRAME_TAG ((uintptr_t)1)

static inline int
_PyPerf_IsTagged(const _PyCFrame *cframe)
{
    return ((uintptr_t)cframe->previous & _PyPerf_CFRAME_TAG) != 0;
}

/* Let C that is called from now on find the records of this evaluator. */
static inline void
_PyPerf_TagCFrame(_PyPerf_CFrame *cframe, _PyPerf_record *own,
                  _PyPerf_record *lowest)
{
    cframe->own_distance = (int32_t)((char *)own - (char *)cframe);
    cframe->lowest = lowest;
    cframe->previous = (_PyCFrame *)((uintptr_t)cframe->previous
                                     | _PyPerf_CFRAME_TAG);
}

static inline _PyCFrame *
_PyPerf_PreviousCFrame(const _PyPerf_CFrame *cframe)
{
    return (_PyCFrame *)((uintptr_t)cframe->previous & ~_PyPerf_CFRAME_TAG);
}

/* Return the newest record of an evaluator that has called C: the link, with
 * which its own frame record begins. */
static inline _PyPerf_record *
_PyPerf_Newest(const _PyPerf_CFrame *cframe)
{
    const char *own = (const char *)cframe + cframe->own_distance;
    return ((const _PyPerf_record *)own)->next;
}

/* C++ exceptions and longjmp() that leave evaluators let tstate->cframe point
 * at what these were.  It is below here then, or something else has come to
 * lie there.  An evaluator with labels has its own record near, and returns to
 * the code that has called it. */
#define _PyPerf_MAX_OWN_DISTANCE 4096
#define _PyPerf_AREA_CODE_SIZE 1024

static inline int
_PyPerf_IsLive(const _PyPerf_CFrame *cframe, uintptr_t stack_pointer)
{
    if ((uintptr_t)cframe <= stack_pointer || !_PyPerf_IsTagged(&cframe->base)
        || (uint32_t)cframe->own_distance > _PyPerf_MAX_OWN_DISTANCE) {
        return 0;
    }
    const char *own = (const char *)cframe + cframe->own_distance;
    const uintptr_t back = _PyPerfArch_PlainAddress(
        ((const _PyPerf_record *)own)->label);
    return back - (uintptr_t)_PyPerf_EnterArea < _PyPerf_AREA_CODE_SIZE;
}

/* Return the evaluator with labels that has called C, or NULL.  It may have
 * called an ordinary evaluator, as another tool's does, which has called C. */
static inline const _PyPerf_CFrame *
_PyPerf_Caller(PyThreadState *tstate, uintptr_t stack_pointer,
               uintptr_t end_of_stack)
{
    const _PyCFrame *cframe = tstate->cframe;
    if ((uintptr_t)cframe > stack_pointer && !_PyPerf_IsTagged(cframe)) {
        cframe = cframe->previous;
        if ((uintptr_t)cframe >= end_of_stack) {
            return NULL;
        }
    }
    const _PyPerf_CFrame *caller = (const _PyPerf_CFrame *)cframe;
    return _PyPerf_IsLive(caller, stack_pointer) ? caller : NULL;
}

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_CALLER_H */
