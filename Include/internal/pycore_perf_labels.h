#ifndef Py_INTERNAL_PERF_LABELS_H
#define Py_INTERNAL_PERF_LABELS_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include <stdbool.h>
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

/* Threads may run without a lock between them.  The offset is set to one that
 * is of use from then on; whoever does not see it yet asks for it. */
static inline _PyPerf_offset
_PyCode_Label(const PyCodeObject *code)
{
    return __atomic_load_n(_PyCode_LabelOffset(code), __ATOMIC_RELAXED);
}

/* The constructor of code objects must call this: it leaves padding alone. */
#  define _PyCode_INIT_LABEL(code) (*_PyCode_LabelOffset(code) = 0)
#else
#  define _PyCode_INIT_LABEL(code) ((void)0)
#endif

/* The size of a symbol without lines, as profilers are told. */
#define _PyPerfLabels_SIZE 16

/* Where in it the label is.  Profilers look up the byte before a return
 * address: not the first.  Behind it, by one, is the label of code whose
 * symbol has lines, and by two that of code which can have none. */
#define _PyPerfLabels_POSITION (_PyPerfLabels_SIZE / 2)
#define _PyPerfLabels_HAS_LINES 1
#define _PyPerfLabels_LACKS_LINES 2

struct _PyPerfLines;

/* A symbol and its label.  Never freed. */
typedef struct _PyPerfSymbol {
    uintptr_t start;
    uint64_t made;              /* CLOCK_MONOTONIC, nanoseconds */
    const struct _PyPerfSymbol *next;   /* made after it */
    const char *name;           /* UTF-8, printable, not NUL-terminated */
    uint32_t length;
    uint32_t file_start;        /* where in it the name of the file begins */
    uint32_t room;              /* the next symbol is at least so far away */
    const struct _PyPerfLines *lines;   /* or NULL: see pycore_perf_lines.h */
} _PyPerfSymbol;

/* The lines of the map for all symbols, in the order in which these were made.
 * Grows at its end, and is never freed. */
typedef struct _PyPerfText {
    struct _PyPerfText *next;
    size_t length;
    char bytes[];
} _PyPerfText;

/* label address = _PyPerfLabels_base + offset */
extern uintptr_t _PyPerfLabels_base;

/* Make ready to hand out labels, from now on with so much room for each
 * symbol.  Return 0, or -1 with errno set. */
extern int _PyPerfLabels_Init(uint32_t room);

/* Find or make the label of code and remember it in code, one that has lines
 * if they are wanted.  Set *is_new to the symbol if it was made now and should
 * be announced, else to NULL.  Return 0, or -1 with errno if there was no
 * memory: the label is that of "py::<unknown>" then.  _PyPerfLabels_Init()
 * must have succeeded. */
extern int _PyPerfLabels_Assign(PyCodeObject *code, bool with_lines,
                                const _PyPerfSymbol **is_new);

/* The same for a task with that name, an exact str.  What it finds or makes,
 * without lines, is in *offset. */
extern int _PyPerfLabels_OfTask(PyObject *name, _PyPerf_offset *offset,
                                const _PyPerfSymbol **is_new);

/* Has code got one? */
static inline bool
_PyPerfLabels_IsAssigned(_PyPerf_offset offset, bool with_lines)
{
    return with_lines ? (offset & (_PyPerfLabels_HAS_LINES
                                   | _PyPerfLabels_LACKS_LINES)) != 0
                      : offset != 0;
}

/* How many addresses stand for the symbol. */
extern size_t _PyPerfLabels_Size(const _PyPerfSymbol *symbol);

/* Symbols in the order in which they were made; the first is there once
 * _PyPerfLabels_Init() has succeeded. */
extern const _PyPerfSymbol *_PyPerfLabels_First(void);
extern const _PyPerfText *_PyPerfLabels_Text(void);

/* The time by which _PyPerfSymbol.made goes. */
extern uint64_t _PyPerfLabels_Nanoseconds(void);

/* Map no more arenas: from when the current one is full, or at once if there
 * is none of this process, code is given the label of "py::<unknown>". */
extern void _PyPerfLabels_Seal(bool is_sealed);

/* The current arena is the parent's from now on. */
extern void _PyPerfLabels_AfterFork_Child(void);

/* Make the parent's arena the child's own: profilers tie an arena to the files
 * of the process that mapped it.  If not in_place, new labels come from
 * another arena: the parent's file may have other names for the same
 * addresses.  Does nothing in a process that is no child or has done so. */
extern void _PyPerfLabels_TakeArena(bool in_place);

/* Write code's symbol into buffer as NUL-terminated UTF-8, with control
 * characters and lone surrogates escaped.  Return its length without the NUL;
 * if that is >= size, the text did not fit and must be ignored. */
extern size_t _PyCode_Symbol(PyCodeObject *code, char *buffer, size_t size);

/* Where in it does the name of the file begin? */
extern size_t _PyCode_SymbolFile(PyCodeObject *code);

/* The same for the kind of a task with that name: the name, cut if it is long,
 * with # in the place of each number.  NULL: of any other.  At most
 * _PyCode_TASK_SIZE bytes with the NUL. */
#define _PyCode_TASK "py::<task>:"
#define _PyCode_MAX_TASK_LENGTH 200
#define _PyCode_TASK_SIZE \
    (sizeof(_PyCode_TASK) + 6 * _PyCode_MAX_TASK_LENGTH + 3)
extern size_t _PyCode_TaskSymbol(PyObject *name, char *buffer, size_t size);

/* The same for a name that somebody else gives: what is not UTF-8 is escaped,
 * too.  Needs no GIL. */
extern size_t _PyCode_PrintableName(const char *name, char *buffer,
                                    size_t size);

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_LABELS_H */
