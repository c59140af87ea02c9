/* Feeds names of any kind to the writers of symbols, for libFuzzer.
 *
 * An input is a list of operations: announce the symbol of a code object or of
 * a task, write a JIT compiler's entry, hold, release, close, switch.
 * fuzz_model.py decodes it in the same way.  A target, map.c or jitdump.c, is
 * linked to this file and checks what came to be in its file, each time that
 * it must be whole.
 *
 * What must be there is worked out here, by other means than the writers use:
 * characters are escaped one by one, and CPython encodes the rest.
 *
 * Built and run by fuzz.py, with interpreter.c.
 */

#include "harness.h"
#include "pycore_perf_hook.h"

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

static const char *current;     /* the back end that is on */
static bool may_wait;           /* symbols of frozen code, for others */

static void
switch_to(const char *back_end)
{
    activate(back_end, _PyPerf_NAMES);
    current = back_end;
}

static void
check_file(Expectation *expected)
{
    PyObject *bytes = contents(target.path());
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
    PyCodeObject *code = changed_code(Py_BuildValue(
        "{sOsO}", "co_qualname", qualname, "co_filename", filename));

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
    Py_DECREF(filename);
    Py_DECREF(qualname);
}

static bool
is_expected(const Expectation *expected, PyObject *symbol)
{
    for (size_t i = 0; i < expected->length; i++) {
        if (expected->items[i].is_symbol
            && same_bytes(expected->items[i].name, symbol)) {
            return true;
        }
    }
    return false;
}

static void
announce_task(Input *input, Expectation *expected)
{
    PyObject *name = take_string(input);
    PyObject *symbol = task_symbol(name);
    if (!is_expected(expected, symbol)) {
        if (expected->task_kinds < MOST_TASK_KINDS) {
            expected->task_kinds++;
        }
        else {
            Py_SETREF(symbol, task_symbol(NULL));
        }
    }
    const uintptr_t label = _PyPerfTrampoline_TaskLabel(name);
    if (_PyPerfTrampoline_TaskLabel(name) != label) {
        fail("a task's label has changed");
    }
    expect_symbol(expected, (Expected){
        .start = label - _PyPerfLabels_SIZE / 2, .size = _PyPerfLabels_SIZE,
        .name = symbol, .is_symbol = true,
        .has_room = strcmp(current, "perf_jit") == 0});
    Py_DECREF(name);
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

static void
release_symbols(void)
{
    _PyPerfTrampoline_ReleaseSymbols();
    may_wait = false;
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
        announce_symbol(input, expected);
        break;
    case 1:
        announce_task(input, expected);
        break;
    case 2:
        write_entry(input, expected);
        break;
    case 3:
        _PyPerfTrampoline_HoldSymbols();
        may_wait = true;
        break;
    case 4:
        release_symbols();
        if (was_on) {           /* otherwise this one was not told */
            check_file(expected);
        }
        break;
    case 5:
        target.close();
        if (was_on && !may_wait) {
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

static void
forget_expected(Expectation *expected)
{
    for (size_t i = 0; i < expected->length; i++) {
        Py_DECREF(expected->items[i].name);
    }
    free(expected->items);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input input = {data, data + size};
    Expectation expected = {NULL, 0, 0};

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
    release_symbols();
    begin_anew();
    forget_expected(&expected);
    return 0;
}
