/* Lines: which addresses of a function's label stand for which line.
 *
 * Called by Python/perf_labels.c, which gives a symbol its addresses, and by
 * the back ends, which write them to their files, all under the lock of
 * Python/perf_process.c.  Keeps no state and allocates
 * nothing, so that nothing fails and forks do not matter.
 *
 * A table of lines is what a program says that it is: code.replace() and
 * marshal take any bytes.  So it is read here with care, and what the
 * interpreter would make of it is not asked for.  The format is described in
 * CPython's Objects/locations.md.
 */

#include "Python.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_lines.h"

#include <limits.h>               // INT_MIN

#define UNIT_SIZE sizeof(_Py_CODEUNIT)
#define NO_LINE (-1)

_PyPerfLines
_PyPerfLines_Of(PyCodeObject *code)
{
    PyObject *const table = code->co_linetable;
    return (_PyPerfLines){
        .table = (const unsigned char *)PyBytes_AS_STRING(table),
        .size = (size_t)PyBytes_GET_SIZE(table),
        .units = (uint32_t)Py_SIZE(code),
        .first_line = code->co_firstlineno,
    };
}

bool
_PyPerfLines_AreEqual(const _PyPerfLines *a, const _PyPerfLines *b)
{
    return a->size == b->size && a->units == b->units
           && a->first_line == b->first_line
           && memcmp(a->table, b->table, a->size) == 0;
}

/* --- Reading a table ----------------------------------------------------- */

/* Lines are counted as the interpreter does, in an int; here it may overflow
   without harm. */
static int
add(int line, uint32_t delta)
{
    return (int)((uint32_t)line + delta);
}

/* Read a number of six bits in each byte, the lowest bit its sign. */
static uint32_t
read_signed(const _PyPerfLines *lines, size_t position)
{
    uint32_t number = 0;
    for (unsigned int shift = 0; position < lines->size; shift += 6) {
        const unsigned int byte = lines->table[position++];
        if (shift < 32) {
            number |= (uint32_t)(byte & 0x3f) << shift;
        }
        if (!(byte & 0x40)) {
            break;
        }
    }
    return number & 1 ? 0 - (number >> 1) : number >> 1;
}

/* Read the entry at the cursor.  Return for how many units it holds, and set
   line to the line or to NO_LINE; or return 0 at the end. */
static uint32_t
read_entry(const _PyPerfLines *lines, _PyPerfLineCursor *cursor, int *line)
{
    if (cursor->position >= lines->size) {
        return 0;
    }
    const unsigned int head = lines->table[cursor->position];
    const unsigned int kind = (head >> 3) & 15;
    if (kind == 13 || kind == 14) {
        cursor->line = add(cursor->line,
                           read_signed(lines, cursor->position + 1));
    }
    else if (kind >= 10 && kind <= 12) {
        cursor->line = add(cursor->line, kind - 10);
    }
    /* The first byte of an entry has the highest bit set. */
    do {
        cursor->position++;
    } while (cursor->position < lines->size
             && !(lines->table[cursor->position] & 0x80));
    *line = kind == 15 || cursor->line < 0 ? NO_LINE : cursor->line;
    return (head & 7) + 1;
}

/* --- Addresses ----------------------------------------------------------- */

/* Set next to what the next entry says.  Return false at the end. */
static bool
read_run(const _PyPerfSymbol *symbol, _PyPerfLineCursor *cursor)
{
    const _PyPerfLines *const lines = symbol->lines;
    const uint32_t left = lines->units - cursor->units;
    if (left == 0) {
        return false;
    }
    int line;
    uint32_t units = read_entry(lines, cursor, &line);
    if (units == 0) {                   /* the table is too short */
        units = left;
        line = NO_LINE;
    }
    units = Py_MIN(units, left);
    cursor->units += units;
    cursor->next.start = cursor->next.end;
    cursor->next.end += units * UNIT_SIZE;
    cursor->next.line = line;
    return true;
}

bool
_PyPerfLines_Next(const _PyPerfSymbol *symbol, _PyPerfLineCursor *cursor,
                  _PyPerfLineRun *run)
{
    if (!cursor->is_begun) {
        const int line = symbol->lines->first_line;
        cursor->is_begun = true;
        cursor->line = line;
        cursor->next.end = symbol->start + _PyPerfLines_FUNCTION_ROOM;
        cursor->next.start = cursor->next.end - UNIT_SIZE;
        cursor->next.line = line < 0 ? NO_LINE : line;
    }
    if (cursor->is_ended) {
        return false;
    }
    *run = cursor->next;
    while (read_run(symbol, cursor)) {
        if (cursor->next.line != run->line) {
            return true;
        }
        run->end = cursor->next.end;
    }
    cursor->is_ended = true;
    return true;
}

/* --- Entries of the map -------------------------------------------------- */

typedef struct {
    char *text;
    size_t size;
    size_t length;              /* may exceed size: then the text is cut */
} Writer;

static void
write_bytes(Writer *writer, const char *bytes, size_t length)
{
    if (writer->length + length <= writer->size) {
        memcpy(writer->text + writer->length, bytes, length);
    }
    writer->length += length;
}

/* There are thousands at start-up: the compiler has to know the base. */
static inline void
write_number(Writer *writer, uintptr_t number, const unsigned int base)
{
    char digits[3 * sizeof(number)];
    size_t start = sizeof(digits);
    do {
        digits[--start] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number != 0);
    write_bytes(writer, digits + start, sizeof(digits) - start);
}

static void
write_hexadecimal(Writer *writer, uintptr_t number)
{
    write_number(writer, number, 16);
}

static void
write_decimal(Writer *writer, uintptr_t number)
{
    write_number(writer, number, 10);
}

size_t
_PyPerfLines_WriteEntries(const _PyPerfSymbol *symbol, char *buffer,
                          size_t size)
{
    Writer writer = {buffer, size, 0};
    _PyPerfLineCursor cursor = {0};
    _PyPerfLineRun run;
    while (_PyPerfLines_Next(symbol, &cursor, &run)) {
        write_hexadecimal(&writer, run.start);
        write_bytes(&writer, " ", 1);
        write_hexadecimal(&writer, run.end - run.start);
        write_bytes(&writer, " ", 1);
        write_bytes(&writer, symbol->name, symbol->length);
        if (run.line >= 0) {
            write_bytes(&writer, ":", 1);
            write_decimal(&writer, (uintptr_t)run.line);
        }
        write_bytes(&writer, "\n", 1);
    }
    return writer.length;
}
