#ifndef Py_INTERNAL_CEVAL_LABELS_H
#define Py_INTERNAL_CEVAL_LABELS_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* The seams of Python/ceval.c, which is compiled twice.
 *
 * As it is, it gives the ordinary evaluator: each macro below stands for what
 * the unpatched file says, or for nothing.  Included by ceval_labelled.c, with
 * Py_CEVAL_LABELLED defined, it gives the evaluator that keeps the label of
 * each Python function on the C stack while it runs.
 *
 * Both run with the GIL held.  A signal handler or a profiler may walk the
 * frame pointers between any two instructions, and finds a valid chain: a
 * record is filled first and then linked by one store. */

/* Run what Py_AddPendingCall() has queued.  Both evaluators have to call the
 * same function: it keeps itself from being called recursively. */
extern int _PyEval_MakePendingCalls(PyInterpreterState *interp);

#ifndef Py_CEVAL_LABELLED

#  define CEVAL_AREA_PARAMETER
#  define CEVAL_CFRAME _PyCFrame
#  define CEVAL_OWN_CFRAME (&cframe)
#  define CEVAL_PREVIOUS_CFRAME (cframe.previous)
#  define CEVAL_BEGIN_LABELS() ((void)0)
#  define CEVAL_THROWS() (throwflag)
#  define CEVAL_INLINES_CALLS(interp) ((interp)->eval_frame == NULL)
#  define CEVAL_INLINES_GETITEM(interp) 1
#  define CEVAL_PUSH_LABEL() ((void)0)
#  define CEVAL_POP_LABEL() ((void)0)
#  define CEVAL_PUSH_LABEL_SLOWLY

#else

#  include "pycore_frame.h"
#  include "pycore_perf_arch.h"
#  include "pycore_perf_caller.h"
#  include "pycore_perf_hook.h"
#  include "pycore_perf_labels.h"
#  include "pycore_perf_trampoline.h"

#  define make_pending_calls _PyEval_MakePendingCalls

#  define CEVAL_AREA_PARAMETER , _PyPerf_record *lowest

#  define CEVAL_CFRAME _PyPerf_CFrame
#  define CEVAL_OWN_CFRAME (&cframe.base)
#  define CEVAL_PREVIOUS_CFRAME _PyPerf_PreviousCFrame(&cframe)

#  define CEVAL_INLINES_CALLS(interp) \
       _PyPerfTrampoline_IS_EVALUATOR((interp)->eval_frame)
#  define CEVAL_INLINES_GETITEM(interp) CEVAL_INLINES_CALLS(interp)

/* The evaluator's own frame record starts with the link: the newest record of
 * the area.  Its saved frame pointer, that is: the caller does not need it.
 * An evaluator without an area has never a free slot, and leaves it alone. */
#  define CEVAL_OWN_RECORD \
       _PyPerfArch_RECORD((_PyPerf_record *)__builtin_frame_address(0))
#  define CEVAL_LINK (*(_PyPerf_record *volatile *)CEVAL_OWN_RECORD)
#  define CEVAL_LOWEST (cframe.lowest)
#  define CEVAL_HAS_AREA() _PyPerf_IsTagged(&cframe.base)

/* Once tstate->cframe is CEVAL_OWN_CFRAME. */
#  define CEVAL_BEGIN_LABELS() \
       _PyPerf_TagCFrame(&cframe, CEVAL_OWN_RECORD, lowest)

/* Flags are rare: the question whether there are some is asked anyway. */
#  define CEVAL_THROWS() \
       (throwflag && ceval_take_flags(&cframe, throwflag))

/* No further slot.  An area made without free slots is saturated: it only ever
 * shows the innermost function of its evaluator.  Its single record is
 * followed by something other than the next record upwards. */
#  define CEVAL_AREA_IS_FULL() (CEVAL_LINK == CEVAL_LOWEST)
#  define CEVAL_AREA_IS_SATURATED() \
       (_PyPerfArch_RECORD(CEVAL_LOWEST)->next != CEVAL_LOWEST + 1)

/* Before the jump to start_frame: frame is the callee. */
#  define CEVAL_PUSH_LABEL()                                              \
    do {                                                                  \
        _PyPerf_record *caller = CEVAL_LINK;                              \
        _PyPerf_offset offset = *_PyCode_LabelOffset(frame->f_code);      \
        if (caller == CEVAL_LOWEST || offset == 0) {                      \
            goto push_label_slowly;                                       \
        }                                                                 \
        ceval_link_record(&CEVAL_LINK, caller,                            \
                          _PyPerfLabels_base + offset);                   \
    } while (0)

/* When frame has become the caller again. */
#  define CEVAL_POP_LABEL()                                               \
    do {                                                                  \
        _PyPerf_record *callee = CEVAL_LINK;                              \
        if (callee != CEVAL_LOWEST) {                                     \
            CEVAL_LINK = callee + 1;                                      \
        }                                                                 \
        else if (CEVAL_HAS_AREA()) {                                      \
            ceval_pop_lowest(&CEVAL_LINK, CEVAL_LOWEST, frame);           \
        }                                                                 \
    } while (0)

/* At the end of the evaluator, for what CEVAL_PUSH_LABEL() cannot handle: a
 * first call, or a full area, which is followed by another one below it. */
#  define CEVAL_PUSH_LABEL_SLOWLY                                         \
    push_label_slowly:                                                    \
    {                                                                     \
        if (!CEVAL_HAS_AREA()) {                                          \
            goto start_frame;                                             \
        }                                                                 \
        uintptr_t label = _PyPerfTrampoline_Label(frame->f_code);         \
        if (!CEVAL_AREA_IS_FULL()) {                                      \
            ceval_link_record(&CEVAL_LINK, CEVAL_LINK, label);            \
            goto start_frame;                                             \
        }                                                                 \
        if (CEVAL_AREA_IS_SATURATED()) {                                  \
            ceval_relabel(CEVAL_LOWEST, frame);                           \
            goto start_frame;                                             \
        }                                                                 \
        _PyInterpreterFrame *callee = frame;                              \
        frame = cframe.current_frame = callee->previous;                  \
        PyObject *result = _PyPerfTrampoline_EvalInNewArea(tstate, callee, \
                                                           CEVAL_LOWEST); \
        _PyEvalFrameClearAndPop(tstate, callee);                          \
        if (result == NULL) {                                             \
            goto resume_with_error;                                       \
        }                                                                 \
        _PyFrame_StackPush(frame, result);                                \
        goto resume_frame;                                                \
    }

/* Return whether to throw.  Without an area, C finds no records here. */
static inline int
ceval_take_flags(_PyPerf_CFrame *cframe, int flags)
{
    if (flags & _PyPerf_NO_AREA) {
        cframe->previous = _PyPerf_PreviousCFrame(cframe);
    }
    return flags & ~_PyPerf_NO_AREA;
}

/* Fill the slot below the newest record, then link it. */
static inline void
ceval_link_record(_PyPerf_record *volatile *link, _PyPerf_record *newest,
                  uintptr_t label)
{
    volatile _PyPerf_record *slot = _PyPerfArch_RECORD(newest - 1);
    slot->next = newest;
    slot->label = label;
    *link = newest - 1;
}

/* Make the only record of a saturated area stand for frame. */
static inline void
ceval_relabel(volatile _PyPerf_record *record, _PyInterpreterFrame *frame)
{
    _PyPerfArch_RECORD(record)->label = _PyPerfTrampoline_Label(frame->f_code);
}

/* Leave the function in the lowest slot.  frame: its caller. */
static inline void
ceval_pop_lowest(_PyPerf_record *volatile *link, _PyPerf_record *lowest,
                 _PyInterpreterFrame *frame)
{
    if (_PyPerfArch_RECORD(lowest)->next == lowest + 1) {
        *link = lowest + 1;
    }
    else {
        ceval_relabel(lowest, frame);
    }
}

#endif /* Py_CEVAL_LABELLED */

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_CEVAL_LABELS_H */
