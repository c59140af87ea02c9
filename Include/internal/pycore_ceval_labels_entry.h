#ifndef Py_INTERNAL_CEVAL_LABELS_ENTRY_H
#define Py_INTERNAL_CEVAL_LABELS_ENTRY_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* The seams of ceval.c in a base with entry frames; included by
 * pycore_ceval_labels.h, which says what they are for.
 *
 * Functions return through the entry frame, so that also the evaluator's first
 * record is popped, and the link is then what followed it.  Generators are
 * resumed without a call in C: each time they push a label, and pop it when
 * they yield. */

#ifndef Py_CEVAL_LABELLED

#  define CEVAL_BEGIN_LABELS() ((void)0)
#  define CEVAL_END_LABELS() ((void)0)
#  define CEVAL_THROWS() (throwflag)
#  define CEVAL_PEP_523(tstate) ((tstate)->interp->eval_frame)
#  define CEVAL_INLINES_INIT(tstate) 1
#  define CEVAL_PUSH_LABEL() ((void)0)
#  define CEVAL_POP_LABEL() ((void)0)
#  define CEVAL_POP_LABEL_OF(dying) ((void)0)
#  define CEVAL_PUSH_LABEL_SLOWLY
#  define CEVAL_STAYS_IN_TIER_1 0

#else

#  include "pycore_code.h"          // INLINE_CACHE_ENTRIES_SEND

/* Must every call go through interp->eval_frame? */
#  define CEVAL_PEP_523(tstate) (!CEVAL_INLINES_CALLS((tstate)->interp))

/* The base does not ask that before it inlines an __init__(). */
#  define CEVAL_INLINES_INIT(tstate) (!CEVAL_PEP_523(tstate))

/* Traces know nothing of labels: make none, and enter none. */
#  define CEVAL_STAYS_IN_TIER_1 1

#  define CEVAL_LOWEST _PyPerf_ENTRY_LOWEST(CEVAL_ENTRY)
#  define CEVAL_HAS_AREA() (CEVAL_ENTRY->instr_ptr == _PyPerf_LABELLED)

/* tstate->current_frame has become frame. */
#  define CEVAL_NOTE_FRAME() \
       ((void)(CEVAL_ENTRY->f_locals = (PyObject *)frame))

/* Let C that is called from now on find the records of this evaluator, if it
 * has an area.  Functions are taken over here: asked for later, together with
 * throwflag, it would cost some bases a larger stack frame. */
#  define CEVAL_BEGIN_LABELS()                                            \
    CEVAL_TELL_HANDLERS();                                                \
    do {                                                                  \
        _PyPerf_MarkEntry(CEVAL_ENTRY,                                    \
                          throwflag & _PyPerf_NO_AREA                     \
                          ? CEVAL_ENTRY->instr_ptr : _PyPerf_LABELLED,    \
                          CEVAL_OWN_RECORD, lowest);                      \
        CEVAL_ENTRY->frame_obj = (PyFrameObject *)_PyPerf_entered;        \
        CEVAL_NOTE_FRAME();                                               \
        _PyPerf_entered = CEVAL_ENTRY;                                    \
        if (throwflag & _PyPerf_TAKES_OVER) {                             \
            _PyPerfTrampoline_TakeOver(CEVAL_OWN_RECORD, lowest);         \
        }                                                                 \
        CEVAL_FIND_LINES_OF(frame);                                       \
    } while (0)

#  define CEVAL_END_LABELS() \
       ((void)(_PyPerf_entered = _PyPerf_ENTRY_BEFORE(CEVAL_ENTRY)))

#  define CEVAL_THROWS() CEVAL_THROW_OF(throwflag)

/* Whenever frame has become what runs.  An entry frame has no code, and the
 * one that cleans up after __init__() has code without label. */
#  ifdef Py_CEVAL_LINES
#    define CEVAL_FIND_LINES_OF(frame)                                    \
    do {                                                                  \
        if ((frame)->owner == _PyPerfBase_ENTRY_OWNER) {                  \
            CEVAL_LINES->place = &CEVAL_LINES->bias;                      \
        }                                                                 \
        else {                                                            \
            CEVAL_FIND_LINES(frame);                                      \
        }                                                                 \
    } while (0)
#  else
#    define CEVAL_FIND_LINES_OF(frame) ((void)0)
#  endif

/* Before the jump to start_frame: frame is the callee. */
#  define CEVAL_PUSH_LABEL()                                              \
    do {                                                                  \
        _PyPerf_record *caller = CEVAL_LINK;                              \
        _PyPerf_offset offset = _PyCode_Label(                            \
            (PyCodeObject *)_PyPerfBase_OBJECT(frame->f_executable));     \
        CEVAL_NOTE_FRAME();                                               \
        if (caller == CEVAL_LOWEST || !CEVAL_IS_ASSIGNED(offset)) {       \
            CEVAL_GO_TO(push_label_slowly);                               \
        }                                                                 \
        ceval_link_record(&CEVAL_LINK, caller, CEVAL_LABEL_AT(offset));   \
        CEVAL_FIND_LINES_OF(frame);                                       \
    } while (0)

/* When frame has become the caller again, or the entry frame. */
#  define CEVAL_POP_LABEL()                                               \
    do {                                                                  \
        _PyPerf_record *callee = CEVAL_LINK;                              \
        CEVAL_NOTE_FRAME();                                               \
        if (callee != CEVAL_LOWEST) {                                     \
            CEVAL_LINK = _PyPerfArch_RECORD(callee)->next;                \
        }                                                                 \
        else if (CEVAL_HAS_AREA()) {                                      \
            ceval_pop_lowest(&CEVAL_LINK, CEVAL_LOWEST,                   \
                             CEVAL_IS_CLEANUP(frame) ? frame->previous    \
                                                     : frame);            \
        }                                                                 \
        CEVAL_FIND_LINES_OF(frame);                                       \
    } while (0)

/* The frame that cleans up after __init__() has no label. */
#  define CEVAL_IS_CLEANUP(frame) \
       (_PyPerfBase_OBJECT((frame)->f_executable)                         \
        == (PyObject *)&_Py_InitCleanup)

/* The same when dying has returned. */
#  define CEVAL_POP_LABEL_OF(dying)                                       \
    do {                                                                  \
        if (CEVAL_IS_CLEANUP(dying)) {                                    \
            CEVAL_NOTE_FRAME();                                           \
            CEVAL_FIND_LINES_OF(frame);                                   \
        }                                                                 \
        else {                                                            \
            CEVAL_POP_LABEL();                                            \
        }                                                                 \
    } while (0)

/* At the end of the evaluator, for what CEVAL_PUSH_LABEL() cannot handle: a
 * first call, or a full area, which is followed by another one below it. */
#  define CEVAL_PUSH_LABEL_SLOWLY                                         \
    CEVAL_PLACE(push_label_slowly)                                        \
    {                                                                     \
        CEVAL_OPCODE                                                      \
        if (!CEVAL_HAS_AREA()) {                                          \
            CEVAL_GO_TO(start_frame);                                     \
        }                                                                 \
        const uintptr_t label = CEVAL_LABEL(frame);                       \
        if (!CEVAL_AREA_IS_FULL()) {                                      \
            ceval_link_record(&CEVAL_LINK, CEVAL_LINK, label);            \
            CEVAL_FIND_LINES_OF(frame);                                   \
            CEVAL_GO_TO(start_frame);                                     \
        }                                                                 \
        if (CEVAL_AREA_IS_SATURATED()) {                                  \
            ceval_relabel(CEVAL_LOWEST, frame);                           \
            CEVAL_FIND_LINES_OF(frame);                                   \
            CEVAL_GO_TO(start_frame);                                     \
        }                                                                 \
        _PyInterpreterFrame *first = _PyPerfTrampoline_ChooseFirst(       \
            tstate, frame, label);                                        \
        PyGenObject *generator = first->owner == FRAME_OWNED_BY_GENERATOR \
                                 ? _PyPerfBase_GENERATOR(first) : NULL;   \
        frame = tstate->current_frame = first->previous;                  \
        CEVAL_NOTE_FRAME();                                               \
        PyObject *result = _PyPerfTrampoline_EvalInNewArea(               \
            tstate, CEVAL_OWN_RECORD, CEVAL_EVALUATOR);                   \
        CEVAL_FIND_LINES_OF(frame);                                       \
        if (result == NULL) {                                             \
            frame->return_offset = 0;                                     \
            next_instr = frame->instr_ptr;                                \
            stack_pointer = _PyFrame_GetStackPointer(frame);              \
            CEVAL_GO_TO(error);                                           \
        }                                                                 \
        _PyFrame_StackPush(frame, _PyPerfBase_REFERENCE(result));         \
        next_instr = frame->instr_ptr                                     \
                     + ceval_return_offset(frame, generator);             \
        stack_pointer = _PyFrame_GetStackPointer(frame);                  \
        DISPATCH();                                                       \
    }

/* Where frame goes on when a function that it has called has come to its end,
 * or a generator has yielded. */
static inline int
ceval_return_offset(const _PyInterpreterFrame *frame, PyGenObject *generator)
{
    if (generator != NULL && FRAME_STATE_SUSPENDED(generator->gi_frame_state))
    {
        return 1 + INLINE_CACHE_ENTRIES_SEND;
    }
    return frame->return_offset;
}

/* Leave the function in the lowest slot.  frame: its caller, or the entry. */
static inline void
ceval_pop_lowest(_PyPerf_record *volatile *link, _PyPerf_record *lowest,
                 _PyInterpreterFrame *frame)
{
    _PyPerf_record *next = _PyPerfArch_RECORD(lowest)->next;
    if (next == lowest + 1 || _PyPerf_IsEntry(frame)) {
        *link = next;
        return;
    }
    ceval_relabel(lowest, frame);
}

#endif /* Py_CEVAL_LABELLED */

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_CEVAL_LABELS_ENTRY_H */
