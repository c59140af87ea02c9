#ifndef Py_INTERNAL_CEVAL_LABELS_H
#define Py_INTERNAL_CEVAL_LABELS_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* The seams of Python/ceval.c, which is compiled three times.
 *
 * As it is, it gives the ordinary evaluator: each macro CEVAL_... stands for
 * what the unpatched file says, or for nothing.  Included by ceval_labelled.c,
 * with Py_CEVAL_LABELLED defined, it gives the evaluator that keeps the label
 * of each Python function on the C stack while it runs; with Py_CEVAL_LINES
 * defined as well, one that moves it with each instruction.
 *
 * All run with the GIL held.  A signal handler or a profiler may walk the
 * frame pointers between any two instructions, and finds a valid chain: a
 * record is filled first and then linked by one store.
 *
 * What is here serves all bases.  The macros that patches put into ceval.c are
 * in the headers included at the end. */

#include "pycore_perf_base.h"
#include "pycore_ceval_labels_tail.h"

#ifdef Py_CEVAL_LABELLED

#  include "pycore_frame.h"
#  include "pycore_perf_arch.h"
#  include "pycore_perf_caller.h"
#  include "pycore_perf_hook.h"
#  include "pycore_perf_labels.h"
#  include "pycore_perf_lines.h"
#  include "pycore_perf_trampoline.h"

#  define CEVAL_AREA_PARAMETER , _PyPerf_record *lowest

/* Which evaluator is this, under which hook does it inline calls, and which
 * label has a frame, or a function that is called? */
#  ifndef Py_CEVAL_LINES
#    define CEVAL_EVALUATOR _PyEval_EvalFrameDefault_labelled
#    define CEVAL_HOOK _PyPerfTrampoline_EvalFrame
#    define CEVAL_LABEL(frame) \
         _PyPerfTrampoline_Label(_PyPerfBase_CODE(frame))
#    define CEVAL_IS_ASSIGNED(offset) _PyPerfLabels_IsAssigned(offset, false)
#    define CEVAL_LABEL_AT(offset) (_PyPerfLabels_base + (offset))
#  else
#    define CEVAL_EVALUATOR _PyEval_EvalFrameDefault_lines
#    define CEVAL_HOOK _PyPerfTrampoline_EvalLines
#    define CEVAL_LABEL(frame) _PyPerfTrampoline_LineLabel(frame)
#    define CEVAL_IS_ASSIGNED(offset) _PyPerfLines_SHOWN(offset)
#    define CEVAL_LABEL_AT(offset) _PyPerfLines_FirstLabel(offset)
#  endif

/* What is left of an evaluator's throwflag without our own flags. */
#  define CEVAL_THROW_OF(throwflag) \
       ((throwflag) & ~(_PyPerf_NO_AREA | _PyPerf_TAKES_OVER))

#  define CEVAL_INLINES_CALLS(interp) ((interp)->eval_frame == CEVAL_HOOK)

/* The evaluator's own frame record starts with the link: the newest record of
 * the area.  Its saved frame pointer, that is: the caller does not need it.
 * An evaluator without an area has never a free slot, and leaves it alone. */
#  define CEVAL_OWN_RECORD \
       _PyPerfArch_RECORD( \
           (_PyPerf_record *)__builtin_frame_address(CEVAL_LEVEL))
#  define CEVAL_LINK (*(_PyPerf_record *volatile *)CEVAL_OWN_RECORD)

/* No further slot.  An area made without free slots is saturated: it only ever
 * shows the innermost function of its evaluator.  Its single record is
 * followed by something other than the next record upwards. */
#  define CEVAL_AREA_IS_FULL() (CEVAL_LINK == CEVAL_LOWEST)
#  define CEVAL_AREA_IS_SATURATED() \
       (_PyPerfArch_RECORD(CEVAL_LOWEST)->next != CEVAL_LOWEST + 1)

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
    _PyPerfArch_RECORD(record)->label = CEVAL_LABEL(frame);
}

#else
#  define CEVAL_AREA_PARAMETER
#endif

/* The label of the function that runs moves with its instructions: whatever
 * calls CEVAL_SHOW_LINE(next) lets it stand for the instruction before next.
 * CEVAL_FIND_LINES() comes first, when frame has become what runs, or goes on
 * in another copy of its bytecode; its record is right then already.
 *
 * A label is as far from its instruction in memory as any other label of the
 * code.  The evaluator keeps this distance, and the place of the label in the
 * newest record.  Code that shows no lines, or has no record of its own, lets
 * what nobody reads take that place. */
#ifdef Py_CEVAL_LINES

typedef struct {
    volatile uintptr_t *place;
    volatile uintptr_t bias;
} ceval_lines;

#  define CEVAL_LINES_VARIABLE ceval_lines lines;

#  define CEVAL_SHOW_LINE(next) \
       ((void)(*CEVAL_LINES->place = (uintptr_t)(next) + CEVAL_LINES->bias))

#  define CEVAL_FIND_LINES(frame)                                         \
    do {                                                                  \
        const _PyPerf_offset offset = _PyCode_Label(                      \
            _PyPerfBase_CODE(frame));                                     \
        ceval_lines *shown = CEVAL_LINES;                                 \
        shown->bias = _PyPerfLines_Bias(offset,                           \
                                        _PyPerfBase_BYTECODE(frame));     \
        shown->place = ceval_place_of_label(CEVAL_LINK);                  \
        if (!_PyPerfLines_SHOWN(offset) || !CEVAL_HAS_AREA()) {           \
            shown->place = &shown->bias;                                  \
        }                                                                 \
    } while (0)

static inline volatile uintptr_t *
ceval_place_of_label(_PyPerf_record *record)
{
    return &_PyPerfArch_RECORD(record)->label;
}

#else
#  define CEVAL_LINES_VARIABLE
#  define CEVAL_SHOW_LINE(next) ((void)0)
#  define CEVAL_FIND_LINES(frame) ((void)0)
#endif

#ifdef _PyPerfBase_HAS_CFRAME
#  include "pycore_ceval_labels_cframe.h"
#else
#  include "pycore_ceval_labels_entry.h"
#endif

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_CEVAL_LABELS_H */
