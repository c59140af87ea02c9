/* What every fuzzer of a writer needs: an interpreter, and what inputs are.
 *
 * An input is read as numbers and texts; of the names in it, what the writers
 * should make of them is worked out here, by other means than they use:
 * characters are escaped one by one, and CPython encodes the rest.
 *
 * Linked to each target by fuzz.py.  Only our own objects are instrumented;
 * the rest is the ordinary libpython.
 */

#include "harness.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

void
fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("fuzz: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    if (PyErr_Occurred()) {
        PyErr_Print();
    }
    unlink(_PyPerfMap_Path());
    unlink(_PyPerfJitdump_Path());
    abort();
}

void *
must(void *object)
{
    if (object == NULL) {
        fail("an exception");
    }
    return object;
}

/* --- Input --------------------------------------------------------------- */

/* A number of so many bytes, the lowest first; those that lack are 0. */
uint64_t
take(Input *input, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes && input->next < input->end; i++) {
        number |= (uint64_t)*input->next++ << (8 * i);
    }
    return number;
}

/* More than the writers collect before they write. */
#define MAX_TEXT 20000

void
take_text(Input *input, Text *text)
{
    const int form = (int)take(input, 1);
    const int bytes = (const int[]){1, 1, 2, 4}[form & 3];
    text->times = 1;
    if (form >= 0xc0) {
        text->times = (const int[]){2, 16, 64, 1024}[(form >> 4) & 3];
    }
    const Py_ssize_t units = (Py_ssize_t)take(input, 1);
    text->units = 0;
    while (text->units < units && input->next < input->end) {
        text->unit[text->units++] = (Py_UCS4)(take(input, bytes) % 0x110000);
    }
    while (text->units * text->times > MAX_TEXT) {
        text->times /= 2;
    }
}

PyObject *
take_string(Input *input)
{
    Text text;
    take_text(input, &text);
    PyObject *once = must(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND,
                                                    text.unit, text.units));
    PyObject *string = must(PySequence_Repeat(once, text.times));
    Py_DECREF(once);
    return string;
}

/* Bytes that end at a NUL, as C strings do. */
PyObject *
take_c_string(Input *input)
{
    Text text;
    char bytes[sizeof(text.unit) / sizeof(text.unit[0])];
    take_text(input, &text);
    for (Py_ssize_t i = 0; i < text.units; i++) {
        bytes[i] = (char)text.unit[i];
    }
    PyObject *once = must(PyBytes_FromStringAndSize(bytes, text.units));
    PyObject *many = must(PySequence_Repeat(once, text.times));
    PyObject *string = must(PyBytes_FromString(PyBytes_AS_STRING(many)));
    Py_DECREF(once);
    Py_DECREF(many);
    return string;
}

/* --- The rules for names, a second time ---------------------------------- */

static bool
is_control(Py_UCS4 ch)
{
    return ch < 32 || (ch >= 127 && ch < 160);
}

/* Return text in UTF-8, with what breaks lines or encoding in hexadecimal. */
static PyObject *
escaped(PyObject *text)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    Py_UCS4 *characters = must(PyMem_New(Py_UCS4, 6 * length + 1));
    Py_ssize_t end = 0;
    for (Py_ssize_t i = 0; i < length; i++) {
        char escape[16] = "";
        const Py_UCS4 ch = PyUnicode_READ_CHAR(text, i);
        if (is_control(ch)) {
            sprintf(escape, "\\x%02x", (unsigned int)ch);
        }
        else if (Py_UNICODE_ISLINEBREAK(ch) || Py_UNICODE_IS_SURROGATE(ch)) {
            sprintf(escape, "\\u%04x", (unsigned int)ch);
        }
        else {
            characters[end++] = ch;
        }
        for (const char *p = escape; *p; p++) {
            characters[end++] = (unsigned char)*p;
        }
    }
    PyObject *result = must(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND,
                                                      characters, end));
    PyMem_Free(characters);
    PyObject *utf8 = must(PyUnicode_AsUTF8String(result));
    Py_DECREF(result);
    return utf8;
}

PyObject *
symbol_of(PyObject *qualname, PyObject *filename)
{
    PyObject *text = must(PyUnicode_FromFormat("py::%U:%U", qualname,
                                               filename));
    PyObject *symbol = escaped(text);
    Py_DECREF(text);
    return symbol;
}

/* Numbers, as a regular expression of Python's. */
static PyObject *numbers;

static void
compile_numbers(void)
{
    PyObject *re = must(PyImport_ImportModule("re"));
    numbers = must(PyObject_CallMethod(
        re, "compile", "s",
        "0x[0-9a-fA-F]*"
        "|(?<![^\\W_])[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]+)*(?![^\\W_])"
        "|[0-9]+"));
    Py_DECREF(re);
}

/* Calls no function that is written in Python: it would get a symbol. */
PyObject *
task_symbol(PyObject *name)
{
    if (name == NULL) {
        return must(PyBytes_FromString("py::<task>:..."));
    }
    PyObject *start = must(PyUnicode_Substring(name, 0, 200));
    PyObject *kind = must(PyObject_CallMethod(numbers, "sub", "sO", "#",
                                              start));
    PyObject *text = must(PyUnicode_FromFormat(
        "py::<task>:%U%s", kind,
        PyUnicode_GET_LENGTH(name) > 200 ? "..." : ""));
    PyObject *symbol = escaped(text);
    Py_DECREF(text);
    Py_DECREF(kind);
    Py_DECREF(start);
    return symbol;
}

/* A byte that is no UTF-8 is escaped as a byte. */
PyObject *
entry_name(PyObject *c_string)
{
    PyObject *text = must(PyUnicode_DecodeUTF8(PyBytes_AS_STRING(c_string),
                                               PyBytes_GET_SIZE(c_string),
                                               "backslashreplace"));
    PyObject *name = escaped(text);
    Py_DECREF(text);
    return name;
}

/* --- The interpreter ----------------------------------------------------- */

static PyCodeObject *template;

PyCodeObject *
changed_code(PyObject *changes)
{
    must(changes);
    PyObject *replace = must(PyObject_GetAttrString((PyObject *)template,
                                                    "replace"));
    PyObject *arguments = must(PyTuple_New(0));
    PyCodeObject *code = must(PyObject_Call(replace, arguments, changes));
    Py_DECREF(arguments);
    Py_DECREF(replace);
    Py_DECREF(changes);
    return code;
}

void
activate(const char *back_end, int details)
{
    if (_PyPerfTrampoline_Activate(PyThreadState_Get(), back_end,
                                   details) < 0) {
        fail("cannot activate %s", back_end);
    }
}

PyObject *
contents(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        fail("cannot open %s", path);
    }
    PyObject *bytes = must(PyBytes_FromStringAndSize(NULL, st.st_size));
    if (read(fd, PyBytes_AS_STRING(bytes), st.st_size) != st.st_size) {
        fail("cannot read %s", path);
    }
    close(fd);
    return bytes;
}

void
begin_anew(void)
{
    _PyPerfTrampoline_Deactivate(PyThreadState_Get());
    _PyPerfTrampoline_Fini();
    unlink(_PyPerfMap_Path());
    unlink(_PyPerfJitdump_Path());
    _PyPerfMap_AfterFork_Child();
    _PyPerfJitdump_AfterFork_Child();
    forget_symbols();
}

int
LLVMFuzzerInitialize(int *Py_UNUSED(argc), char ***Py_UNUSED(argv))
{
    PyPreConfig preconfig;
    PyConfig config;
    PyPreConfig_InitIsolatedConfig(&preconfig);
    /* AddressSanitizer watches what malloc() returns. */
    preconfig.allocator = PYMEM_ALLOCATOR_MALLOC;
    preconfig.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&preconfig);
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.install_signal_handlers = 0;
    config.module_search_paths_set = 1;
    if (!PyStatus_Exception(status)) {
        status = PyWideStringList_Append(&config.module_search_paths,
                                         L"" STANDARD_LIBRARY);
    }
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        Py_ExitStatusException(status);
    }
    compile_numbers();
    template = must(PyCode_NewEmpty("file", "function", 1));
    return 0;
}
