#ifndef Py_INTERNAL_CEVAL_LABELS_TAIL_H
#define Py_INTERNAL_CEVAL_LABELS_TAIL_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* Where an evaluator with labels has its variables, and how to get from one
 * place of it to another; included by pycore_ceval_labels.h.
 *
 * With --with-tail-call-interp each instruction is a function, a handler.  The
 * evaluator calls the first one, and handlers jump to each other.  So the
 * frame record of the one that runs is always followed by the evaluator's own,
 * which begins with the link.  A handler finds the evaluator's variables by
 * their distance from that record, which is the same in all calls.
 *
 * CEVAL_LEVEL          how many records up the evaluator's own is
 * CEVAL_ENTRY, CEVAL_LINES     pointers to the variables
 * CEVAL_TELL_HANDLERS()        the evaluator's first statement
 * CEVAL_PLACE(name) {...}      is where CEVAL_GO_TO(name) goes
 * CEVAL_OPCODE         a declaration that DISPATCH() needs in {...}
 * CEVAL_DECLARE_SLOW_PUSH, CEVAL_DEFINE_SLOW_PUSH      before and behind all
 *     handlers */

#if defined(Py_CEVAL_LABELLED) && _PyPerfBase_TAIL_CALLS

enum { ceval_level = 1 };
#  define CEVAL_LEVEL ceval_level

static struct {
    uintptr_t entry;
    uintptr_t lines;
} ceval_distance;

#  define CEVAL_VARIABLE(name)                                            \
       ((uintptr_t)CEVAL_OWN_RECORD                                       \
        - __atomic_load_n(&ceval_distance.name, __ATOMIC_RELAXED))
#  define CEVAL_ENTRY ((_PyInterpreterFrame *)CEVAL_VARIABLE(entry))
#  define CEVAL_LINES ((ceval_lines *)CEVAL_VARIABLE(lines))

/* Each thread that stores these stores the same. */
#  define CEVAL_TELL_HANDLERS()                                           \
    enum { ceval_level = 0 };                                             \
    ceval_tell_distance(&ceval_distance.entry,                            \
                        CEVAL_OWN_RECORD, &_PyPerfBase_ENTRY_FRAME);      \
    CEVAL_TELL_LINES()

#  ifdef Py_CEVAL_LINES
#    define CEVAL_TELL_LINES() \
         ceval_tell_distance(&ceval_distance.lines, CEVAL_OWN_RECORD, &lines)
#  else
#    define CEVAL_TELL_LINES() ((void)0)
#  endif

static inline void
ceval_tell_distance(uintptr_t *distance, const void *record,
                    const void *variable)
{
    __atomic_store_n(distance, (uintptr_t)record - (uintptr_t)variable,
                     __ATOMIC_RELAXED);
}

#  define CEVAL_PLACE(name) LABEL(name)
#  define CEVAL_GO_TO(name) JUMP_TO_LABEL(name)
#  define CEVAL_OPCODE int opcode;
#  define CEVAL_DECLARE_SLOW_PUSH \
    Py_PRESERVE_NONE_CC static PyObject * \
    _TAIL_CALL_push_label_slowly(TAIL_CALL_PARAMS);
#  define CEVAL_DEFINE_SLOW_PUSH CEVAL_PUSH_LABEL_SLOWLY

#else

#  define CEVAL_LEVEL 0
#  define CEVAL_ENTRY (&_PyPerfBase_ENTRY_FRAME)
#  define CEVAL_LINES (&lines)
#  define CEVAL_TELL_HANDLERS() ((void)0)
#  define CEVAL_PLACE(name) name:
#  define CEVAL_GO_TO(name) goto name
#  define CEVAL_OPCODE
#  define CEVAL_DECLARE_SLOW_PUSH
#  define CEVAL_DEFINE_SLOW_PUSH

#endif

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_CEVAL_LABELS_TAIL_H */
