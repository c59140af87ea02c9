#ifndef Py_INTERNAL_PERF_CALLER_CFRAME_H
#define Py_INTERNAL_PERF_CALLER_CFRAME_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* The way to the calling evaluator in a base with _PyCFrame; included by
 * pycore_perf_caller.h, which says what it is for.
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

typedef _PyPerf_CFrame _PyPerf_Evaluator;

#define _PyPerf_DEFINE_CALLER

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

static inline _PyPerf_record *
_PyPerf_Newest(const _PyPerf_CFrame *cframe)
{
    const char *own = (const char *)cframe + cframe->own_distance;
    return ((const _PyPerf_record *)own)->next;
}

static inline _PyPerf_record *
_PyPerf_Lowest(const _PyPerf_CFrame *cframe)
{
    return cframe->lowest;
}

static inline int
_PyPerf_IsLive(const _PyPerf_CFrame *cframe, uintptr_t stack_pointer)
{
    return (uintptr_t)cframe > stack_pointer && _PyPerf_IsTagged(&cframe->base)
           && _PyPerf_IsOwnRecord(
               cframe, (const _PyPerf_record *)((const char *)cframe
                                                + cframe->own_distance));
}

static inline const _PyPerf_CFrame *
_PyPerf_QuickCaller(PyThreadState *tstate, uintptr_t floor,
                    size_t Py_UNUSED(span))
{
    const _PyCFrame *cframe = tstate->cframe;
    if ((uintptr_t)cframe < floor
        || (uintptr_t)cframe <= _PyPerfArch_StackPointer()
        || !_PyPerf_IsTagged(cframe)) {
        return NULL;
    }
    return (const _PyPerf_CFrame *)cframe;
}

static inline const _PyPerf_CFrame *
_PyPerf_Caller(PyThreadState *tstate, _PyPerf_StackBounds bounds)
{
    const _PyCFrame *cframe = tstate->cframe;
    if ((uintptr_t)cframe > bounds.stack_pointer && !_PyPerf_IsTagged(cframe))
    {
        cframe = cframe->previous;
        if ((uintptr_t)cframe >= bounds.end) {
            return NULL;
        }
    }
    const _PyPerf_CFrame *caller = (const _PyPerf_CFrame *)cframe;
    return _PyPerf_IsLive(caller, bounds.stack_pointer) ? caller : NULL;
}

static inline int
_PyPerf_IsFirst(PyThreadState *tstate)
{
    return tstate->cframe == &tstate->root_cframe;
}

static inline int
_PyPerf_IsOutermost(const struct _PyInterpreterFrame *frame)
{
    return frame->is_entry;
}

static inline void
_PyPerf_MakeOutermost(struct _PyInterpreterFrame *first,
                      struct _PyInterpreterFrame *callee,
                      struct _PyInterpreterFrame *caller)
{
    first->is_entry = true;
    callee->is_entry = false;
    callee->previous = caller;
}

static inline int
_PyPerf_HasRecord(const struct _PyInterpreterFrame *Py_UNUSED(frame))
{
    return 1;
}

static inline const void *
_PyPerf_CallerMark(PyThreadState *tstate)
{
    return tstate->cframe;
}

typedef _PyPerf_CFrame _PyPerf_StandIn;

static inline void
_PyPerf_BeginToStandIn(PyThreadState *tstate, _PyPerf_StandIn *cframe,
                       _PyPerf_record *own, _PyPerf_record *lowest)
{
    cframe->base = *tstate->cframe;
    cframe->previous = tstate->cframe;
    _PyPerf_TagCFrame(cframe, own, lowest);
    tstate->cframe = &cframe->base;
}

/* As an evaluator does, let tracing that was switched go on so outside. */
static inline void
_PyPerf_StopStandingIn(PyThreadState *tstate, const _PyPerf_StandIn *cframe)
{
    tstate->cframe = _PyPerf_PreviousCFrame(cframe);
    tstate->cframe->use_tracing = cframe->use_tracing;
}

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_CALLER_CFRAME_H */
