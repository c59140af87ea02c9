#ifndef Py_INTERNAL_CEVAL_LABELS_CFRAME_H
#define Py_INTERNAL_CEVAL_LABELS_CFRAME_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* The seams of ceval.c in a base with _PyCFrame; included by
 * pycore_ceval_labels.h, which says what they are for. */

/* Run what Py_AddPendingCall() has queued.  Both evaluators have to call the
 * same function: it keeps itself from being called recursively. */
extern int _PyEval_MakePendingCalls(PyInterpreterState *interp);

/* The instruction op starts.  PRECALL has shown the line of the CALL that
 * follows it, and the record that of RESUME when it was made, or next to it:
 * where RESUME lets others run, it is put right. */
#define CEVAL_START(op)                                                   \
    ((op) == RESUME || (op) == RESUME_QUICK || (op) == CALL               \
     || (op) == CALL_ADAPTIVE || (op) == CALL_PY_EXACT_ARGS               \
     || (op) == CALL_PY_WITH_DEFAULTS                                     \
     ? (void)0 : CEVAL_SHOW_LINE(next_instr))

#ifndef Py_CEVAL_LABELLED

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

#  define make_pending_calls _PyEval_MakePendingCalls

#  define CEVAL_CFRAME _PyPerf_CFrame
#  define CEVAL_OWN_CFRAME (&cframe.base)
#  define CEVAL_PREVIOUS_CFRAME _PyPerf_PreviousCFrame(&cframe)

#  define CEVAL_INLINES_GETITEM(interp) CEVAL_INLINES_CALLS(interp)

#  define CEVAL_LOWEST (cframe.lowest)
#  define CEVAL_HAS_AREA() _PyPerf_IsTagged(&cframe.base)

/* Once tstate->cframe is CEVAL_OWN_CFRAME. */
#  define CEVAL_BEGIN_LABELS() \
       _PyPerf_TagCFrame(&cframe, CEVAL_OWN_RECORD, lowest)

/* Flags are rare: the question whether there are some is asked anyway. */
#  define CEVAL_THROWS() \
       (throwflag && ({ CEVAL_TAKE_FLAGS(); CEVAL_THROW_OF(throwflag); }))

/* Without an area, C finds no records here. */
#  define CEVAL_TAKE_FLAGS()                                              \
    do {                                                                  \
        if (throwflag & _PyPerf_NO_AREA) {                                \
            cframe.previous = _PyPerf_PreviousCFrame(&cframe);            \
        }                                                                 \
        if (throwflag & _PyPerf_TAKES_OVER) {                             \
            _PyPerfTrampoline_TakeOver(CEVAL_OWN_RECORD, CEVAL_LOWEST);   \
        }                                                                 \
    } while (0)

/* Before the jump to start_frame: frame is the callee. */
#  define CEVAL_PUSH_LABEL()                                              \
    do {                                                                  \
        _PyPerf_record *caller = CEVAL_LINK;                              \
        _PyPerf_offset offset = _PyCode_Label(frame->f_code);             \
        if (caller == CEVAL_LOWEST || !CEVAL_IS_ASSIGNED(offset)) {       \
            goto push_label_slowly;                                       \
        }                                                                 \
        ceval_link_record(&CEVAL_LINK, caller, CEVAL_LABEL_AT(offset));   \
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
        uintptr_t label = CEVAL_LABEL(frame);                             \
        if (!CEVAL_AREA_IS_FULL()) {                                      \
            ceval_link_record(&CEVAL_LINK, CEVAL_LINK, label);            \
            goto start_frame;                                             \
        }                                                                 \
        if (CEVAL_AREA_IS_SATURATED()) {                                  \
            ceval_relabel(CEVAL_LOWEST, frame);                           \
            goto start_frame;                                             \
        }                                                                 \
        _PyInterpreterFrame *first = _PyPerfTrampoline_ChooseFirst(       \
            tstate, frame, label);                                        \
        frame = cframe.current_frame = first->previous;                   \
        PyObject *result = _PyPerfTrampoline_EvalInNewArea(               \
            tstate, CEVAL_OWN_RECORD, CEVAL_EVALUATOR);                   \
        _PyEvalFrameClearAndPop(tstate, first);                           \
        if (result == NULL) {                                             \
            goto resume_with_error;                                       \
        }                                                                 \
        _PyFrame_StackPush(frame, result);                                \
        goto resume_frame;                                                \
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
#endif /* !Py_INTERNAL_CEVAL_LABELS_CFRAME_H */
