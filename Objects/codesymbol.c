/* The symbol by which native profilers know a code object,
 * py::<co_qualname>:<co_filename>, and a task of asyncio, py::<task>:<kind>
 *
 * Called by Python/perf_labels.c when a code object or a task runs for the
 * first time, with the GIL held.  The same rules for the name that a JIT
 * compiler gives: called by Python/perf_map.c, without the GIL.  Allocates
 * nothing, raises nothing, keeps no state.
 *
 * Profilers take one line per symbol, as UTF-8.  What would break the line or
 * the encoding is written as Python would write it in a string literal.
 */

#include "Python.h"
#include "pycore_perf_labels.h"

#include <stdbool.h>

typedef struct {
    char *text;
    size_t size;
    size_t length;              /* may exceed size: then the text is cut */
} Writer;

static void
write_byte(Writer *writer, unsigned int byte)
{
    if (writer->length < writer->size) {
        writer->text[writer->length] = (char)byte;
    }
    writer->length++;
}

static void
write_bytes(Writer *writer, const char *bytes)
{
    while (*bytes) {
        write_byte(writer, (unsigned char)*bytes++);
    }
}

static int
breaks_line_or_encoding(Py_UCS4 ch)
{
    return ch < 0x20
           || (ch >= 0x7f && ch < 0xa0)         /* DEL and the C1 controls */
           || ch == 0x2028 || ch == 0x2029      /* line, paragraph separator */
           || Py_UNICODE_IS_SURROGATE(ch);
}

static void
write_escape(Writer *writer, Py_UCS4 ch)
{
    char escape[sizeof("\\uffff")];
    PyOS_snprintf(escape, sizeof(escape), ch < 0x100 ? "\\x%02x" : "\\u%04x",
                  (unsigned int)ch);
    write_bytes(writer, escape);
}

static void
write_character(Writer *writer, Py_UCS4 ch)
{
    if (breaks_line_or_encoding(ch)) {
        write_escape(writer, ch);
    }
    else if (ch < 0x80) {
        write_byte(writer, ch);
    }
    else if (ch < 0x800) {
        write_byte(writer, 0xc0 | (ch >> 6));
        write_byte(writer, 0x80 | (ch & 0x3f));
    }
    else if (ch < 0x10000) {
        write_byte(writer, 0xe0 | (ch >> 12));
        write_byte(writer, 0x80 | ((ch >> 6) & 0x3f));
        write_byte(writer, 0x80 | (ch & 0x3f));
    }
    else {
        write_byte(writer, 0xf0 | (ch >> 18));
        write_byte(writer, 0x80 | ((ch >> 12) & 0x3f));
        write_byte(writer, 0x80 | ((ch >> 6) & 0x3f));
        write_byte(writer, 0x80 | (ch & 0x3f));
    }
}

/* Most names are printable ASCII: copy as much as is. */
static Py_ssize_t
write_plain_prefix(Writer *writer, const Py_UCS1 *text, Py_ssize_t length)
{
    Py_ssize_t i = 0;
    while (i < length && text[i] >= 0x20 && text[i] < 0x7f) {
        i++;
    }
    if (writer->length + (size_t)i <= writer->size) {
        memcpy(writer->text + writer->length, text, (size_t)i);
    }
    writer->length += (size_t)i;
    return i;
}

static void
write_string(Writer *writer, PyObject *str)
{
    assert(PyUnicode_Check(str) && PyUnicode_IS_READY(str));
    int kind = PyUnicode_KIND(str);
    const void *data = PyUnicode_DATA(str);
    Py_ssize_t length = PyUnicode_GET_LENGTH(str);
    Py_ssize_t i = 0;
    if (kind == PyUnicode_1BYTE_KIND) {
        i = write_plain_prefix(writer, data, length);
    }
    for (; i < length; i++) {
        write_character(writer, PyUnicode_READ(kind, data, i));
    }
}

/* Decode the character at the beginning of bytes, which a NUL ends.  Return
   how many bytes it takes, or 0 if they are no UTF-8. */
static int
read_utf8(const unsigned char *bytes, Py_UCS4 *ch)
{
    static const Py_UCS4 least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = bytes[0];
    if (first < 0x80) {
        *ch = first;
        return 1;
    }
    int length = first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3
                 : first < 0xf8 ? 4 : 0;
    *ch = first & (0x7f >> length);
    for (int i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
        *ch = (*ch << 6) | (bytes[i] & 0x3f);
    }
    bool is_character = *ch >= least[length] && *ch <= 0x10ffff
                        && !Py_UNICODE_IS_SURROGATE(*ch);
    return is_character ? length : 0;
}

size_t
_PyCode_PrintableName(const char *name, char *buffer, size_t size)
{
    Writer writer = {buffer, size, 0};
    const unsigned char *next = (const unsigned char *)name;
    while (*next) {
        Py_UCS4 ch;
        int length = read_utf8(next, &ch);
        if (length > 0) {
            write_character(&writer, ch);
            next += length;
        }
        else {
            write_escape(&writer, *next++);
        }
    }
    size_t length = writer.length;
    write_byte(&writer, '\0');
    return length;
}

static void
write_function(Writer *writer, PyCodeObject *code)
{
    write_bytes(writer, "py::");
    write_string(writer, code->co_qualname);
    write_bytes(writer, ":");
}

size_t
_PyCode_SymbolFile(PyCodeObject *code)
{
    Writer writer = {NULL, 0, 0};
    write_function(&writer, code);
    return writer.length;
}

size_t
_PyCode_Symbol(PyCodeObject *code, char *buffer, size_t size)
{
    Writer writer = {buffer, size, 0};
    write_function(&writer, code);
    write_string(&writer, code->co_filename);
    size_t length = writer.length;
    write_byte(&writer, '\0');
    return length;
}

/* --- Tasks --------------------------------------------------------------- */

/* A shorter number in hexadecimal could be a word. */
#define MIN_HEX_LENGTH 8

typedef struct {
    int kind;
    const void *data;
    Py_ssize_t length;
} Text;

static Py_UCS4
character(const Text *text, Py_ssize_t i)
{
    return i >= 0 && i < text->length ? PyUnicode_READ(text->kind, text->data,
                                                       i) : 0;
}

static bool
is_digit(Py_UCS4 ch)
{
    return ch < 128 && Py_ISDIGIT(ch);
}

static bool
is_hex_digit(Py_UCS4 ch)
{
    return ch < 128 && Py_ISXDIGIT(ch);
}

/* Where do such characters end that begin at start? */
static Py_ssize_t
skip(const Text *text, Py_ssize_t start, bool (*is_such)(Py_UCS4))
{
    while (is_such(character(text, start))) {
        start++;
    }
    return start;
}

/* The end of a hexadecimal number of some length that begins at start, or
   start.  A UUID is one. */
static Py_ssize_t
skip_hex(const Text *text, Py_ssize_t start)
{
    Py_ssize_t end = start;
    Py_ssize_t next = skip(text, start, is_hex_digit);
    if (next - start < MIN_HEX_LENGTH
        || Py_UNICODE_ISALNUM(character(text, start - 1))) {
        return start;
    }
    while (next > end && !Py_UNICODE_ISALNUM(character(text, next))) {
        end = next;
        if (character(text, end) == '-') {
            const Py_ssize_t group = skip(text, end + 1, is_hex_digit);
            next = group > end + 1 ? group : end;
        }
    }
    return end;
}

static Py_ssize_t
skip_number(const Text *text, Py_ssize_t start)
{
    if (!is_hex_digit(character(text, start))) {
        return start;
    }
    if (character(text, start) == '0' && character(text, start + 1) == 'x') {
        return skip(text, start + 2, is_hex_digit);
    }
    const Py_ssize_t end = skip_hex(text, start);
    return end > start ? end : skip(text, start, is_digit);
}

static void
write_kind(Writer *writer, PyObject *name)
{
    const Text text = {
        PyUnicode_KIND(name), PyUnicode_DATA(name),
        Py_MIN(PyUnicode_GET_LENGTH(name), _PyCode_MAX_TASK_LENGTH)
    };
    for (Py_ssize_t i = 0; i < text.length; ) {
        const Py_ssize_t end = skip_number(&text, i);
        if (end > i) {
            write_byte(writer, '#');
            i = end;
        }
        else {
            write_character(writer, character(&text, i++));
        }
    }
    if (text.length < PyUnicode_GET_LENGTH(name)) {
        write_bytes(writer, "...");
    }
}

size_t
_PyCode_TaskSymbol(PyObject *name, char *buffer, size_t size)
{
    Writer writer = {buffer, size, 0};
    write_bytes(&writer, _PyCode_TASK);
    if (name == NULL) {
        write_bytes(&writer, "...");
    }
    else {
        write_kind(&writer, name);
    }
    const size_t length = writer.length;
    write_byte(&writer, '\0');
    return length;
}
