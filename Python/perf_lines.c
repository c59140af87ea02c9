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
static inline int
add(int line, uint32_t delta)
{
    return (int)((uint32_t)line + delta);
}

/* Read a number of six bits in each byte, the lowest bit its sign. */
static uint32_t
read_signed(const unsigned char *table, const unsigned char *end)
{
    uint32_t number = 0;
    for (unsigned int shift = 0; table < end; shift += 6) {
        const unsigned int byte = *table++;
        if (shift < 32) {
            number |= (uint32_t)(byte & 0x3f) << shift;
        }
        if (!(byte & 0x40)) {
            break;
        }
    }
    return number & 1 ? 0 - (number >> 1) : number >> 1;
}

/* Read the entry that begins with head; what follows is at table.  Return
   the line that it counts to from line, and set *is_line to whether it tells
   it. */
static inline int
read_line(unsigned int head, const unsigned char *table,
          const unsigned char *end, int line, bool *is_line)
{
    const unsigned int kind = (head >> 3) & 15;
    if (kind == 13 || kind == 14) {
        line = add(line, read_signed(table, end));
    }
    else if (kind >= 10 && kind <= 12) {
        line = add(line, kind - 10);
    }
    *is_line = kind != 15 && line >= 0;
    return line;
}

/* --- Addresses ----------------------------------------------------------- */

static void
begin(const _PyPerfSymbol *symbol, _PyPerfLineCursor *cursor)
{
    const int line = symbol->lines->first_line;
    cursor->is_begun = true;
    cursor->counted = line;
    cursor->line = line < 0 ? NO_LINE : line;
    cursor->start = symbol->start + _PyPerfLines_FUNCTION_ROOM - UNIT_SIZE;
}

/* There are thousands of entries at start-up. */
bool
_PyPerfLines_Next(const _PyPerfSymbol *symbol, _PyPerfLineCursor *cursor,
                  _PyPerfLineRun *run)
{
    const _PyPerfLines *const lines = symbol->lines;
    if (!cursor->is_begun) {
        begin(symbol, cursor);
    }
    else if (cursor->is_ended) {
        return false;
    }
    const unsigned char *table = lines->table + cursor->position;
    const unsigned char *const end = lines->table + lines->size;
    const int line_of_run = cursor->line;
    int line = NO_LINE, counted = cursor->counted;
    uint32_t done, units = cursor->units;
    do {
        done = units;
        if (done == lines->units) {
            cursor->is_ended = true;
            break;
        }
        if (table == end) {             /* the table is too short */
            units = lines->units;
            line = NO_LINE;
            continue;
        }
        bool is_line;
        const unsigned int head = *table++;
        counted = read_line(head, table, end, counted, &is_line);
        line = is_line ? counted : NO_LINE;
        /* The first byte of an entry has the highest bit set. */
        while (table < end && !(*table & 0x80)) {
            table++;
        }
        units += Py_MIN((head & 7) + 1, lines->units - done);
    } while (line == line_of_run);
    *run = (_PyPerfLineRun){
        .start = cursor->start,
        .end = symbol->start + _PyPerfLines_FUNCTION_ROOM
               + (size_t)done * UNIT_SIZE,
        .line = line_of_run,
    };
    cursor->position = (size_t)(table - lines->table);
    cursor->counted = counted;
    cursor->line = line;
    cursor->units = units;
    cursor->start = run->end;
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

/* Put a number before end, and return where it starts. */
static char *
put_hexadecimal(char *end, uintptr_t number)
{
    do {
        *--end = "0123456789abcdef"[number % 16];
        number /= 16;
    } while (number != 0);
    return end;
}

static char *
put_decimal(char *end, unsigned int number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return end;
}

/* What stands before the name and after it. */
static void
write_numbers(Writer *writer, const _PyPerfLineRun *run)
{
    char text[2 * (2 * sizeof(uintptr_t) + 1)];
    char *const end = text + sizeof(text);
    char *start = end;
    *--start = ' ';
    start = put_hexadecimal(start, run->end - run->start);
    *--start = ' ';
    start = put_hexadecimal(start, run->start);
    write_bytes(writer, start, (size_t)(end - start));
}

static void
write_line(Writer *writer, const _PyPerfLineRun *run)
{
    char text[3 * sizeof(run->line) + 2];
    char *const end = text + sizeof(text);
    char *start = end;
    *--start = '\n';
    if (run->line >= 0) {
        start = put_decimal(start, (unsigned int)run->line);
        *--start = ':';
    }
    write_bytes(writer, start, (size_t)(end - start));
}

size_t
_PyPerfLines_WriteEntries(const _PyPerfSymbol *symbol, char *buffer,
                          size_t size)
{
    Writer writer = {buffer, size, 0};
    _PyPerfLineCursor cursor = {0};
    _PyPerfLineRun run;
    while (_PyPerfLines_Next(symbol, &cursor, &run)) {
        write_numbers(&writer, &run);
        write_bytes(&writer, symbol->name, symbol->length);
        write_line(&writer, &run);
    }
    return writer.length;
}
