#ifndef Py_INTERNAL_PERF_LINES_H
#define Py_INTERNAL_PERF_LINES_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include <stdbool.h>
#include "pycore_code.h"            // _PyCode_CODE()
#include "pycore_perf_labels.h"

/* Lines: the label of a function that shows them moves with its instructions.
 *
 * Such a function's symbol owns more addresses than others, in this order:
 *
 *     FUNCTION_ROOM - 2 bytes    labels of the whole function, without line
 *     2 bytes                    it has been called, no instruction has begun
 *     2 bytes                    its first code unit
 *     2 bytes                    its second one, ...
 *
 * A label is the second byte of a unit: some profilers look up the byte before
 * a return address, others the address itself.  Since a code unit has two
 * bytes, too, the distance of labels from bytecode is the same for a whole
 * function. */

#define _PyPerfLines_FUNCTION_ROOM 16

static_assert(sizeof(_Py_CODEUNIT) == 2,
              "a code unit and its label have the same size");

/* What code refers to: see _PyPerfLabels_Assign(). */
#define _PyPerfLines_SHOWN(offset) (((offset) & _PyPerfLabels_HAS_LINES) != 0)

/* From where a code object's symbol starts to the label of an instruction that
 * precedes the first one. */
#define _PyPerfLines_BEFORE_FIRST (_PyPerfLines_FUNCTION_ROOM - 1)

/* The label of a function that shows its lines when it is called. */
static inline uintptr_t
_PyPerfLines_FirstLabel(_PyPerf_offset offset)
{
    return _PyPerfLabels_base + offset
           + (_PyPerfLines_BEFORE_FIRST - _PyPerfLabels_POSITION
              - _PyPerfLabels_HAS_LINES);
}

/* The distance from an instruction in memory, where bytecode is the first one,
 * to the label of the instruction before. */
static inline uintptr_t
_PyPerfLines_Bias(_PyPerf_offset offset, const _Py_CODEUNIT *bytecode)
{
    return _PyPerfLines_FirstLabel(offset) - (uintptr_t)bytecode;
}

/* The label of an instruction in memory. */
static inline uintptr_t
_PyPerfLines_Label(_PyPerf_offset offset, const _Py_CODEUNIT *bytecode,
                   const _Py_CODEUNIT *instruction)
{
    return _PyPerfLines_Bias(offset, bytecode) + (uintptr_t)(instruction + 1);
}

/* The lines of a code object, as long as it lives, or of a symbol. */
typedef struct _PyPerfLines {
    const unsigned char *table;         /* as co_linetable */
    size_t size;
    uint32_t units;                     /* of code */
    int first_line;
} _PyPerfLines;

extern _PyPerfLines _PyPerfLines_Of(PyCodeObject *code);
extern bool _PyPerfLines_AreEqual(const _PyPerfLines *a,
                                  const _PyPerfLines *b);

/* A part of a symbol's addresses that belongs to one line. */
typedef struct {
    uintptr_t start;
    uintptr_t end;
    int line;                           /* negative: none */
} _PyPerfLineRun;

/* Goes through these parts.  Begin with {0}. */
typedef struct {
    size_t position;                    /* in the table */
    int counted;                        /* the line, as the table counts it */
    uint32_t units;                     /* that the table has told of */
    uintptr_t start;                    /* of the next part */
    int line;                           /* of that */
    bool is_begun;
    bool is_ended;
} _PyPerfLineCursor;

/* The next part of the symbol, behind its function's labels, or false if there
 * is none.  Whatever the table contains, parts ascend and fill the symbol. */
extern bool _PyPerfLines_Next(const _PyPerfSymbol *symbol,
                              _PyPerfLineCursor *cursor, _PyPerfLineRun *run);

/* Write the map's entries of a symbol's lines into buffer, as far as there is
 * room.  Return how long they are.  If only_size, buffer may be NULL. */
extern size_t _PyPerfLines_WriteEntries(const _PyPerfSymbol *symbol,
                                        char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_LINES_H */
