/* The fuzzer's target for Python/perf_map.c: what a map must be.
 *
 * Linked to harness.c, which calls check(), by fuzz.py.
 */

#include "harness.h"

#include <inttypes.h>
#include <stdlib.h>

/* Read a hexadecimal number that a space ends.  Return what follows. */
static const char *
read_number(const char *text, uint64_t *number)
{
    char *end;
    *number = strtoull(text, &end, 16);
    char again[20];
    const int length = snprintf(again, sizeof(again), "%" PRIx64 " ", *number);
    if (end == text || strncmp(text, again, (size_t)length) != 0) {
        fail("no number: %.60s", text);
    }
    return end + 1;
}

static void
check_line(const char *line, const char *end, Expectation *expected)
{
    uint64_t start, size;
    const char *name = read_number(read_number(line, &start), &size);
    if (name > end) {
        fail("a line without a name: %.60s", line);
    }
    PyObject *bytes = must(PyBytes_FromStringAndSize(name, end - name));
    find_expected(expected, (uintptr_t)start, (unsigned int)size, bytes);
    Py_DECREF(bytes);
}

/* Whoever reads the map as text must see the same lines. */
static void
check_text(PyObject *bytes, size_t lines)
{
    PyObject *text = PyUnicode_DecodeUTF8(PyBytes_AS_STRING(bytes),
                                          PyBytes_GET_SIZE(bytes), "strict");
    PyObject *list = must(PyUnicode_Splitlines(must(text), 0));
    if (PyList_GET_SIZE(list) != (Py_ssize_t)lines) {
        fail("%zu lines, or %zd", lines, PyList_GET_SIZE(list));
    }
    Py_DECREF(list);
    Py_DECREF(text);
}

static void
check(PyObject *bytes, Expectation *expected)
{
    const char *line = PyBytes_AS_STRING(bytes);
    const char *end = line + PyBytes_GET_SIZE(bytes);
    size_t lines = 0;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        if (newline == NULL) {
            fail("a line without an end: %.60s", line);
        }
        check_line(line, newline, expected);
        line = newline + 1;
        lines++;
    }
    /* Each is a line that was expected, and none was twice: all are there. */
    if (lines != expected->length) {
        fail("%zu lines instead of %zu", lines, expected->length);
    }
    check_text(bytes, lines);
}

const Target target = {
    .back_end = "perf",
    .close = PyUnstable_PerfMapState_Fini,
    .path = _PyPerfMap_Path,
    .check = check,
};
