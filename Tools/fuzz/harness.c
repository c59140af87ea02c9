/* Feeds names of any kind to the writers of symbols, for libFuzzer.
 *
 * An input is a list of operations: announce a code object's symbol, write a
 * JIT compiler's entry, hold, release, close, switch.  fuzz_model.py decodes
 * it in the same way.  A target, map.c or jitdump.c, is linked to this file
 * and checks what came to be in its file, each time that it must be whole.
 *
 * What must be there is worked out here, by other means than the writers use:
 * characters are escaped one by one, and CPython encodes the rest.
 *
 * Built and run by fuzz.py.  Only our own objects are instrumented; the rest
 * is the ordinary libpython.
 */

#include "harness.h"
#include "pycore_perf_hook.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

void
fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", target.back_end);
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

typedef struct {
    const uint8_t *next;
    const uint8_t *end;
} Input;

/* A number of so many bytes, the lowest first; those that lack are 0. */
static uint64_t
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

/* A text of one, two or four bytes for each unit.  Some are repeated: buffers
   have to be exceeded by short inputs, but few need to be. */
typedef struct {
    Py_ssize_t units;
    Py_ssize_t times;
    Py_UCS4 unit[256];
} Text;

static void
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

static PyObject *
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
static PyObject *
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

static PyObject *
symbol_of(PyObject *qualname, PyObject *filename)
{
    PyObject *text = must(PyUnicode_FromFormat("py::%U:%U", qualname,
                                               filename));
    PyObject *symbol = escaped(text);
    Py_DECREF(text);
    return symbol;
}

/* A byte that is no UTF-8 is escaped as a byte. */
static PyObject *
entry_name(PyObject *c_string)
{
    PyObject *text = must(PyUnicode_DecodeUTF8(PyBytes_AS_STRING(c_string),
                                               PyBytes_GET_SIZE(c_string),
                                               "backslashreplace"));
    PyObject *name = escaped(text);
    Py_DECREF(text);
    return name;
}

/* --- What is expected ---------------------------------------------------- */

static bool
same_bytes(PyObject *a, PyObject *b)
{
    return PyBytes_GET_SIZE(a) == PyBytes_GET_SIZE(b)
           && memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b),
                     PyBytes_GET_SIZE(a)) == 0;
}

Expected *
find_expected(Expectation *expected, uintptr_t start, unsigned int size,
              PyObject *name)
{
    for (size_t i = 0; i < expected->length; i++) {
        Expected *item = &expected->items[i];
        if (!item->is_found && item->start == start && item->size == size
            && same_bytes(item->name, name)) {
            item->is_found = true;
            return item;
        }
    }
    fail("nobody asked for %zx %x %s", (size_t)start, size,
         PyBytes_AS_STRING(name));
}

/* Takes over the reference to item.name. */
static void
expect(Expectation *expected, Expected item)
{
    Expected *items = realloc(expected->items,
                              (expected->length + 1) * sizeof(item));
    expected->items = must(items);
    expected->items[expected->length++] = item;
}

/* The same for a symbol, whose address must be its own and its own only. */
static void
expect_symbol(Expectation *expected, Expected item)
{
    if (item.start < arena_start() || item.start + item.size > arena_end()
        || item.start % 16 != 0) {
        fail("%zx is no address for a symbol", (size_t)item.start);
    }
    for (size_t i = 0; i < expected->length; i++) {
        const Expected *other = &expected->items[i];
        if (!other->is_symbol) {
            continue;
        }
        if (same_bytes(other->name, item.name)) {
            if (other->start != item.start) {
                fail("%s has two addresses", PyBytes_AS_STRING(item.name));
            }
            Py_DECREF(item.name);
            return;
        }
        if (other->start < item.start + item.size
            && item.start < other->start + other->size) {
            fail("%zx has two names", (size_t)item.start);
        }
    }
    expect(expected, item);
}

/* --- Operations ---------------------------------------------------------- */

static PyCodeObject *template;
static const char *current;     /* the back end that is on */

static void
switch_to(const char *back_end)
{
    if (_PyPerfTrampoline_Activate(PyThreadState_Get(), back_end, 0) < 0) {
        fail("cannot activate %s", back_end);
    }
    current = back_end;
}

static void
check_file(Expectation *expected)
{
    struct stat st;
    int fd = open(target.path(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        fail("cannot open %s", target.path());
    }
    PyObject *bytes = must(PyBytes_FromStringAndSize(NULL, st.st_size));
    if (read(fd, PyBytes_AS_STRING(bytes), st.st_size) != st.st_size) {
        fail("cannot read %s", target.path());
    }
    close(fd);
    for (size_t i = 0; i < expected->length; i++) {
        expected->items[i].is_found = false;
    }
    target.check(bytes, expected);
    Py_DECREF(bytes);
}

/* A buffer that is too small gets what fits; nothing is written after it. */
static void
check_cut_symbol(PyCodeObject *code, PyObject *symbol)
{
    const size_t length = (size_t)PyBytes_GET_SIZE(symbol);
    const size_t sizes[] = {0, length / 2, length, length + 1};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(sizes); i++) {
        char *buffer = must(malloc(sizes[i]));
        if (_PyCode_Symbol(code, buffer, sizes[i]) != length) {
            fail("another length for a buffer of %zu", sizes[i]);
        }
        if (sizes[i] > length
            && memcmp(buffer, PyBytes_AS_STRING(symbol), length + 1) != 0) {
            fail("another symbol: %s", buffer);
        }
        free(buffer);
    }
}

static void
announce_symbol(Input *input, Expectation *expected)
{
    PyObject *qualname = take_string(input);
    PyObject *filename = take_string(input);
    PyObject *replace = must(PyObject_GetAttrString((PyObject *)template,
                                                    "replace"));
    PyObject *arguments = must(PyTuple_New(0));
    PyObject *names = must(Py_BuildValue("{sOsO}", "co_qualname", qualname,
                                         "co_filename", filename));
    PyCodeObject *code = must(PyObject_Call(replace, arguments, names));

    uintptr_t start = 0;
    for (int i = 0; i < 2; i++) {           /* the second time: nothing new */
        if (PyUnstable_PerfTrampoline_CompileCode(code) < 0) {
            fail("a symbol was not announced");
        }
        const uintptr_t label = _PyPerfTrampoline_Label(code);
        if (i > 0 && label - _PyPerfLabels_SIZE / 2 != start) {
            fail("a code object's label has changed");
        }
        start = label - _PyPerfLabels_SIZE / 2;
    }
    PyObject *symbol = symbol_of(qualname, filename);
    check_cut_symbol(code, symbol);
    expect_symbol(expected, (Expected){
        .start = start, .size = _PyPerfLabels_SIZE, .name = symbol,
        .is_symbol = true, .has_room = strcmp(current, "perf_jit") == 0});
    Py_DECREF(code);
    Py_DECREF(names);
    Py_DECREF(arguments);
    Py_DECREF(replace);
    Py_DECREF(filename);
    Py_DECREF(qualname);
}

static void
write_entry(Input *input, Expectation *expected)
{
    const uintptr_t start = (uintptr_t)take(input, 8);
    const unsigned int size = (unsigned int)take(input, 4);
    PyObject *name = take_c_string(input);
    if (PyUnstable_WritePerfMapEntry((void *)start, size,
                                     PyBytes_AS_STRING(name)) < 0) {
        fail("an entry was not written");
    }
    expect(expected, (Expected){.start = start, .size = size,
                                .name = entry_name(name)});
    Py_DECREF(name);
}

static bool
is_on(void)
{
    return strcmp(current, target.back_end) == 0;
}

static void
run_operation(Input *input, Expectation *expected)
{
    const bool was_on = is_on();
    switch (take(input, 1) % 8) {
    case 0:
    case 1:
        announce_symbol(input, expected);
        break;
    case 2:
        write_entry(input, expected);
        break;
    case 3:
        _PyPerfTrampoline_HoldSymbols();
        break;
    case 4:
        _PyPerfTrampoline_ReleaseSymbols();
        if (was_on) {           /* otherwise this one was not told */
            check_file(expected);
        }
        break;
    case 5:
        target.close();
        if (was_on) {
            check_file(expected);
        }
        break;
    case 6:
        switch_to("perf");
        break;
    case 7:
        switch_to("perf_jit");
        break;
    }
    if (was_on != is_on()) {
        check_file(expected);
    }
}

/* As if the process had just been started. */
static void
begin_anew(Expectation *expected)
{
    _PyPerfTrampoline_Deactivate(PyThreadState_Get());
    _PyPerfTrampoline_Fini();
    unlink(_PyPerfMap_Path());
    unlink(_PyPerfJitdump_Path());
    _PyPerfMap_AfterFork_Child();
    _PyPerfJitdump_AfterFork_Child();
    forget_symbols();
    for (size_t i = 0; i < expected->length; i++) {
        Py_DECREF(expected->items[i].name);
    }
    free(expected->items);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input input = {data, data + size};
    Expectation expected = {NULL, 0};

    switch_to(target.back_end);
    /* The symbol of those that get none for lack of memory. */
    expect_symbol(&expected, (Expected){
        .start = arena_start(), .size = _PyPerfLabels_SIZE,
        .name = must(PyBytes_FromString("py::<unknown>")), .is_symbol = true,
        .has_room = strcmp(current, "perf_jit") == 0});
    while (input.next < input.end) {
        run_operation(&input, &expected);
    }
    switch_to(target.back_end);
    target.close();
    check_file(&expected);
    begin_anew(&expected);
    return 0;
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
    template = must(PyCode_NewEmpty("file", "function", 1));
    return 0;
}
