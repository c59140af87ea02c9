/* The fuzzer's target for lines: Python/perf_lines.c and who writes them.
 *
 * An input is a list of functions: names of any kind, a first line, a size, a
 * table of lines of any bytes, and which back end is told of it.
 * fuzz_model.py decodes it in the same way.  In the end, each file must have
 * all of them: for every address of a function, the line that the table says,
 * worked out here address by address, and neither gaps nor anything else.
 *
 * Built and run by fuzz.py, with interpreter.c.
 */

#include "harness.h"

#include <inttypes.h>

#define MAX_FUNCTIONS 24
#define MAX_UNITS 3000
#define MAX_TABLE 4096
#define MAX_TEXT_OF_ALL (1 << 20)

/* Such functions show no lines: files repeat the name for each. */
#define TOO_MUCH_TEXT ((uint64_t)1 << 26)

/* The addresses of a function, before those of its units: of it as a whole,
   and of what comes before its first instruction. */
#define WHOLE 14
#define BEFORE 16

typedef struct {
    PyObject *name;             /* bytes, as they must be in files */
    PyObject *file;
    PyObject *table;            /* bytes */
    int first_line;
    size_t units;
    bool has_lines;
    uintptr_t start;
    size_t size;                /* in the map; the jitdump's is of eights */
    int line[1 + MAX_UNITS];    /* before the first unit and of each, or -1 */
    bool is_found;
} Function;

static Function functions[MAX_FUNCTIONS];
static size_t count;

/* --- What a table says --------------------------------------------------- */

static uint32_t
varint(const uint8_t *table, size_t size, size_t position)
{
    size_t end = position;
    while (end < size && table[end] & 0x40) {
        end++;
    }
    uint64_t number = 0;
    for (size_t i = end < size ? end + 1 : size; i-- > position;) {
        number = number << 6 | (table[i] & 0x3f);
    }
    return (uint32_t)number;
}

/* Set the lines of all units, one after the other. */
static void
read_table(Function *function)
{
    const uint8_t *table = (uint8_t *)PyBytes_AS_STRING(function->table);
    const size_t size = (size_t)PyBytes_GET_SIZE(function->table);
    uint32_t line = (uint32_t)function->first_line;
    size_t position = 0;
    function->line[0] = function->first_line;
    for (size_t unit = 0; unit < function->units;) {
        bool has_line = false;
        size_t length = MAX_UNITS;
        if (position < size) {
            const int kind = table[position] >> 3 & 15;
            length = (table[position] & 7) + 1;
            if (kind == 13 || kind == 14) {
                const uint32_t number = varint(table, size, position + 1);
                line += number % 2 ? -(number / 2) : number / 2;
            }
            else if (kind >= 10 && kind < 13) {
                line += (uint32_t)kind - 10;
            }
            has_line = kind < 15 && (int)line >= 0;
            do {
                position++;
            } while (position < size && table[position] < 0x80);
        }
        while (length-- > 0 && unit < function->units) {
            function->line[1 + unit++] = has_line ? (int)line : -1;
        }
    }
}

/* --- Functions ----------------------------------------------------------- */

static PyObject *
take_table(Input *input)
{
    Text text;
    take_text(input, &text);
    char bytes[MAX_TABLE];
    size_t size = 0;
    for (Py_ssize_t times = 0; times < text.times; times++) {
        for (Py_ssize_t i = 0; i < text.units && size < MAX_TABLE; i++) {
            bytes[size++] = (char)text.unit[i];
        }
    }
    return must(PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size));
}

static bool
same_bytes(PyObject *a, PyObject *b)
{
    return PyBytes_GET_SIZE(a) == PyBytes_GET_SIZE(b)
           && memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b),
                     (size_t)PyBytes_GET_SIZE(a)) == 0;
}

/* Are both to have one symbol? */
static bool
are_equal(const Function *a, const Function *b)
{
    if (a->has_lines != b->has_lines || !same_bytes(a->name, b->name)) {
        return false;
    }
    return !a->has_lines
           || (a->units == b->units && a->first_line == b->first_line
               && same_bytes(a->table, b->table));
}

static void
drop_last(void)
{
    const Function *function = &functions[--count];
    Py_DECREF(function->name);
    Py_DECREF(function->file);
    Py_DECREF(function->table);
}

/* The last function has its address: it must be that of an equal one, or be
   nobody else's. */
static void
check_address(void)
{
    const Function *last = &functions[count - 1];
    if (last->start < arena_start() || last->start + last->size > arena_end()
        || last->start % 16 != 0) {
        fail("%zx is no address for a symbol", (size_t)last->start);
    }
    for (size_t i = 0; i + 1 < count; i++) {
        const Function *other = &functions[i];
        if (are_equal(last, other)) {
            if (last->start != other->start) {
                fail("%s has two addresses", PyBytes_AS_STRING(last->name));
            }
            drop_last();
            return;
        }
        if (last->start < other->start + other->size
            && other->start < last->start + last->size) {
            fail("%zx is of two functions", (size_t)last->start);
        }
    }
}

static void
announce(PyCodeObject *code)
{
    Function *const function = &functions[count - 1];
    for (int i = 0; i < 2; i++) {           /* the second time: nothing new */
        if (PyUnstable_PerfTrampoline_CompileCode(code) < 0) {
            fail("a function was not announced");
        }
    }
    const _PyPerf_offset offset = _PyCode_Label(code);
    const unsigned int kind = offset % _PyPerfLabels_POSITION;
    if (kind != (function->has_lines ? _PyPerfLabels_HAS_LINES
                 : _PyPerfLabels_LACKS_LINES)) {
        fail("%u is no label of a function that is to have %s", offset,
             function->has_lines ? "lines" : "none");
    }
    function->start = _PyPerfLabels_base + offset - kind
                      - _PyPerfLabels_POSITION;
    check_address();
}

static void
add_function(Input *input)
{
    activate(take(input, 1) % 2 ? "perf_jit" : "perf", _PyPerf_LINES);
    PyObject *qualname = take_string(input);
    PyObject *filename = take_string(input);
    Function *const function = &functions[count++];
    *function = (Function){.name = symbol_of(qualname, filename)};
    PyObject *empty = must(PyUnicode_FromString(""));
    PyObject *only_file = symbol_of(empty, filename);
    function->file = must(PyBytes_FromString(PyBytes_AS_STRING(only_file)
                                             + strlen("py:::")));
    function->first_line = (int)(take(input, 4) & INT32_MAX);
    function->units = take(input, 2) % MAX_UNITS + 1;
    function->table = take_table(input);
    const uint64_t text = (uint64_t)PyBytes_GET_SIZE(function->name)
                          * function->units;
    function->has_lines = text <= TOO_MUCH_TEXT;
    if (function->has_lines && text > MAX_TEXT_OF_ALL) {
        function->units = function->units * MAX_TEXT_OF_ALL / text + 1;
    }
    function->size = function->has_lines ? BEFORE + 2 * function->units
                     : _PyPerfLabels_SIZE;
    read_table(function);

    PyObject *instructions = must(PyBytes_FromStringAndSize(
        NULL, (Py_ssize_t)(2 * function->units)));
    memset(PyBytes_AS_STRING(instructions), 9, 2 * function->units);  /* NOP */
    PyCodeObject *code = changed_code(Py_BuildValue(
        "{sO sO sO sO si}", "co_qualname", qualname, "co_filename", filename,
        "co_code", instructions, "co_linetable", function->table,
        "co_firstlineno", function->first_line));
    announce(code);
    Py_DECREF(code);
    Py_DECREF(instructions);
    Py_DECREF(only_file);
    Py_DECREF(empty);
    Py_DECREF(filename);
    Py_DECREF(qualname);
}

/* Return the function whose addresses begin here, for the first time. */
static Function *
find_function(uintptr_t start)
{
    for (size_t i = 0; i < count; i++) {
        if (functions[i].start == start) {
            if (functions[i].is_found) {
                fail("%zx is there twice", (size_t)start);
            }
            functions[i].is_found = true;
            return &functions[i];
        }
    }
    fail("nobody asked for %zx", (size_t)start);
}

static void
find_all(void)
{
    for (size_t i = 0; i < count; i++) {
        if (!functions[i].is_found) {
            fail("%s is missing", PyBytes_AS_STRING(functions[i].name));
        }
        functions[i].is_found = false;
    }
}

/* Is this the line of all addresses from start to end, seen from the first of
   what comes before the first unit? */
static void
check_lines(const Function *function, size_t start, size_t end, int line)
{
    if (start >= end || start % 2 != 0 || end % 2 != 0) {
        fail("lines from %zu to %zu", start, end);
    }
    for (size_t unit = start / 2; unit < end / 2; unit++) {
        if (function->line[unit] != line) {
            fail("line %d of unit %zu, which has %d", line, unit,
                 function->line[unit]);
        }
    }
}

/* --- The map ------------------------------------------------------------- */

typedef struct {
    uint64_t start, size;
    const char *name;
    size_t length;
} Entry;

/* Return what follows the line. */
static const char *
read_entry(const char *line, const char *end, Entry *entry)
{
    int length = 0;
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    if (newline == NULL
        || sscanf(line, "%" SCNx64 " %" SCNx64 "%n", &entry->start,
                  &entry->size, &length) != 2 || line[length] != ' ') {
        fail("no entry: %.60s", line);
    }
    entry->name = line + length + 1;
    entry->length = (size_t)(newline - entry->name);
    return newline + 1;
}

/* Return the line in an entry's name, or -1 if it is the function alone. */
static int
line_of(const Entry *entry, const Function *function)
{
    const size_t length = (size_t)PyBytes_GET_SIZE(function->name);
    if (entry->length < length
        || memcmp(entry->name, PyBytes_AS_STRING(function->name), length)
           != 0) {
        fail("another name: %.60s", entry->name);
    }
    if (entry->length == length) {
        return -1;
    }
    int line, read = 0;
    if (sscanf(entry->name + length, ":%d%n", &line, &read) != 1
        || (size_t)read != entry->length - length || line < 0) {
        fail("no line: %.60s", entry->name + length);
    }
    return line;
}

/* Functions are in one part of the map, their lines in another. */
static void
check_map(void)
{
    PyObject *bytes = contents(_PyPerfMap_Path());
    const char *line = PyBytes_AS_STRING(bytes);
    const char *const end = line + PyBytes_GET_SIZE(bytes);
    const Function *function = NULL;        /* whose lines are being read */
    size_t done = 0;
    size_t with_lines = 0;
    while (line < end) {
        Entry entry;
        line = read_entry(line, end, &entry);
        if (function == NULL) {
            for (size_t i = 0; i < count; i++) {
                if (entry.start == functions[i].start + WHOLE
                    && functions[i].has_lines) {
                    function = &functions[i];
                    done = 0;
                    with_lines++;
                }
            }
        }
        if (function == NULL) {
            const Function *whole = find_function((uintptr_t)entry.start);
            if (line_of(&entry, whole) != -1
                || entry.size != (whole->has_lines ? WHOLE : whole->size)) {
                fail("not the whole function: %.60s", entry.name);
            }
            continue;
        }
        if (entry.start != function->start + WHOLE + done) {
            fail("a gap before %zx", (size_t)entry.start);
        }
        check_lines(function, done, done + entry.size,
                    line_of(&entry, function));
        done += entry.size;
        if (WHOLE + done == function->size) {
            function = NULL;
        }
    }
    if (function != NULL) {
        fail("lines are missing");
    }
    find_all();
    for (size_t i = 0; i < count; i++) {
        with_lines -= functions[i].has_lines;
    }
    if (with_lines != 0) {
        fail("lines are missing, or there twice");
    }
    Py_DECREF(bytes);
}

/* --- The jitdump --------------------------------------------------------- */

/* Field by field, as jitdump.c reads the rest. */
typedef struct {
    const char *next;
    const char *end;
} Record;

static uint64_t
number(Record *record, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(record->end - record->next) < size) {
        fail("a record is too short");
    }
    memcpy(&value, record->next, size);     /* little-endian */
    record->next += size;
    return value;
}

static size_t
round_up(size_t size, size_t multiple)
{
    return (size + multiple - 1) / multiple * multiple;
}

static void
check_debug_info(Record record, const Function *function)
{
    const uint64_t address = number(&record, 8);
    const uint64_t entries = number(&record, 8);
    if (address != function->start) {
        fail("lines at %zx instead of %zx", (size_t)address,
             (size_t)function->start);
    }
    uint64_t last = 0;
    int last_line = 0;
    for (uint64_t i = 0; i < entries; i++) {
        const uint64_t start = number(&record, 8) - address;
        const int line = (int)number(&record, 4);
        (void)number(&record, 4);           /* discriminator */
        if (i == 0 ? start != 0 : start <= last) {
            fail("%zx after %zx", (size_t)start, (size_t)last);
        }
        /* Here, no line is 0. */
        for (uint64_t place = last; place < start; place += 2) {
            const size_t unit = place < WHOLE ? 0 : (place - WHOLE) / 2;
            if (unit <= function->units
                && Py_MAX(function->line[unit], 0) != last_line) {
                fail("line %d of unit %zu", last_line, unit);
            }
        }
        const size_t length = strnlen(record.next,
                                      (size_t)(record.end - record.next));
        if (length != (size_t)PyBytes_GET_SIZE(function->file)
            || memcmp(record.next, PyBytes_AS_STRING(function->file), length)
               != 0) {
            fail("another file: %.60s", record.next);
        }
        record.next += length + 1;
        last = start;
        last_line = line;
    }
    if (last != round_up(function->size, 8) || last_line != 0
        || record.end < record.next || record.end - record.next > 7) {
        fail("lines to %zx", (size_t)last);
    }
}

static void
check_load(Record record, const Record *debug_info)
{
    (void)number(&record, 8);               /* process, thread */
    const uintptr_t address = (uintptr_t)number(&record, 8);
    if (address < arena_start() || address >= arena_end()) {
        return;                             /* the code that makes areas */
    }
    const Function *function = find_function(address);
    if (number(&record, 8) != address
        || number(&record, 8) != round_up(function->size, 8)) {
        fail("another size of code: %zx", (size_t)address);
    }
    if (function->has_lines != (debug_info->next != NULL)) {
        fail("lines or none: %zx", (size_t)address);
    }
    if (debug_info->next != NULL) {
        check_debug_info(*debug_info, function);
    }
}

static void
check_jitdump(void)
{
    PyObject *bytes = contents(_PyPerfJitdump_Path());
    Record file = {PyBytes_AS_STRING(bytes),
                   PyBytes_AS_STRING(bytes) + PyBytes_GET_SIZE(bytes)};
    Record debug_info = {NULL, NULL};
    file.next += 40;
    while (file.next < file.end) {
        const char *start = file.next;
        const uint64_t kind = number(&file, 4);
        const uint64_t size = number(&file, 4);
        (void)number(&file, 8);             /* time */
        if (size % 8 != 0 || size < 16
            || (size_t)(file.end - start) < size) {
            fail("a record of %zu bytes", (size_t)size);
        }
        const Record record = {file.next, start + size};
        if (kind == 2) {
            debug_info = record;
        }
        else if (kind == 0) {
            check_load(record, &debug_info);
            debug_info = (Record){NULL, NULL};
        }
        file.next = record.end;
    }
    find_all();
    Py_DECREF(bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input input = {data, data + size};

    activate("perf", _PyPerf_LINES);
    /* The symbol of those that get none for lack of memory. */
    functions[count++] = (Function){
        .name = must(PyBytes_FromString("py::<unknown>")),
        .file = must(PyBytes_FromString("")),
        .table = must(PyBytes_FromString("")),
        .start = arena_start(), .size = _PyPerfLabels_SIZE};
    while (input.next < input.end && count < MAX_FUNCTIONS) {
        add_function(&input);
    }
    activate("perf", _PyPerf_LINES);
    check_map();
    activate("perf_jit", _PyPerf_LINES);
    check_jitdump();
    begin_anew();
    while (count > 0) {
        drop_last();
    }
    return 0;
}
