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
 * As it is, it gives the ordinary evaluator: each macro CEVAL_... stands for
 * what the unpatched file says, or for nothing.  Included by ceval_labelled.c,
 * with Py_CEVAL_LABELLED defined, it gives the evaluator that keeps the label
 * of each Python function on the C stack while it runs.
 *
 * Both run with the GIL held.  A signal handler or a profiler may walk the
 * frame pointers between any two instructions, and finds a valid chain: a
 * record is filled first and then linked by one store.
 *
 * What is here serves all bases.  The macros that patches put into ceval.c are
 * in the headers included at the end. */

#include "pycore_perf_base.h"

#ifdef Py_CEVAL_LABELLED

#  include "pycore_frame.h"
#  include "pycore_perf_arch.h"
#  include "pycore_perf_caller.h"
#  include "pycore_perf_hook.h"
#  include "pycore_perf_labels.h"
#  include "pycore_perf_trampoline.h"

#  define CEVAL_AREA_PARAMETER , _PyPerf_record *lowest

#  define CEVAL_INLINES_CALLS(interp) \
       _PyPerfTrampoline_IS_EVALUATOR((interp)->eval_frame)

/* The evaluator's own frame record starts with the link: the newest record of
 * the area.  Its saved frame pointer, that is: the caller does not need it.
 * An evaluator without an area has never a free slot, and leaves it alone. */
#  define CEVAL_OWN_RECORD \
       _PyPerfArch_RECORD((_PyPerf_record *)__builtin_frame_address(0))
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

/* Make the only record of a saturated area stand for code. */
static inline void
ceval_relabel(volatile _PyPerf_record *record, PyCodeObject *code)
{
    _PyPerfArch_RECORD(record)->label = _PyPerfTrampoline_Label(code);
}

#else
#  define CEVAL_AREA_PARAMETER
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
