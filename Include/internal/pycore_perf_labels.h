#ifndef Py_INTERNAL_PERF_LABELS_H
#define Py_INTERNAL_PERF_LABELS_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include <stddef.h>                 // offsetof()

/* Labels: addresses that stand for Python functions in native call stacks.
 *
 * Every distinct symbol "py::<qualname>:<filename>" owns a few bytes of
 * address space in an arena, executable memory that is never written nor
 * run.  Symbols live as long as the process; code objects with equal symbols
 * share one.
 *
 * A code object refers to its label by a 32-bit offset.  It is kept in four
 * bytes of padding in PyCodeObject, so that the hot paths need one load and
 * the struct keeps its size and layout.  0: no label yet. */

typedef uint32_t _PyPerf_offset;

#if SIZEOF_VOID_P >= 8
#  define _PyCode_LABEL_POSITION \
       (offsetof(PyCodeObject, co_extra) - sizeof(_PyPerf_offset))

static inline _PyPerf_offset *
_PyCode_LabelOffset(const PyCodeObject *code)
{
    static_assert(_PyCode_LABEL_POSITION
                  >= offsetof(PyCodeObject, _co_firsttraceable) + sizeof(int),
                  "PyCodeObject has no padding before co_extra");
    return (_PyPerf_offset *)((char *)code + _PyCode_LABEL_POSITION);
}

/* The constructor of code objects must call this: it leaves padding alone. */
#  define _PyCode_INIT_LABEL(code) (*_PyCode_LabelOffset(code) = 0)
#else
#  define _PyCode_INIT_LABEL(code) ((void)0)
#endif

/* The size of a symbol, as profilers are told. */
#define _PyPerfLabels_SIZE 16

/* A symbol and its label.  Never freed. */
typedef struct _PyPerfSymbol {
    uintptr_t start;
    uint32_t room;              /* the next symbol is at least so far away */
    uint32_t announced;         /* a bit for each back end that wrote it */
    uint32_t length;
    char name[];                /* UTF-8, printable, NUL-terminated */
} _PyPerfSymbol;

/* label address = _PyPerfLabels_base + offset */
extern uintptr_t _PyPerfLabels_base;

/* Make ready to hand out labels, from now on with so much room for each
 * symbol.  Return 0, or -1 with errno set. */
extern int _PyPerfLabels_Init(uint32_t room);

/* Find or make the label of code and remember it in code.  Sets *is_new
 * to the symbol if it was made now and should be announced, else to
 * NULL.  Return 0, or -1 with errno if there was no memory: the label is
 * that of "py::<unknown>" then.  The GIL must be held,
 * _PyPerfLabels_Init() have succeeded. */
extern int _PyPerfLabels_Assign(PyCodeObject *code, _PyPerfSymbol **is_new);

/* Call visit for each symbol until it returns non-zero; return that, or 0. */
extern int _PyPerfLabels_ForEach(int (*visit)(_PyPerfSymbol *, void *),
                                 void *arg);

/* No symbol is announced in the child.  New labels come from a new arena:
 * profilers tie an arena to the files of the process that mapped it. */
extern void _PyPerfLabels_AfterFork_Child(void);

/* Write code's symbol into buffer as NUL-terminated UTF-8, with control
 * characters and lone surrogates escaped.  Return its length without the NUL;
 * if that is >= size, the text did not fit and must be ignored. */
extern size_t _PyCode_Symbol(PyCodeObject *code, char *buffer, size_t size);

/* The same for a name that somebody else gives: what is not UTF-8 is escaped,
 * too.  Needs no GIL. */
extern size_t _PyCode_PrintableName(const char *name, char *buffer,
                                    size_t size);

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_LABELS_H */
