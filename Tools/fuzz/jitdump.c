/* The fuzzer's target for Python/perf_jitdump.c: what a jitdump must be.
 *
 * Linked to harness.c, which calls check(), by fuzz.py.  Reads the file by the
 * jitdump specification, version 1, in the kernel's tools/perf/Documentation,
 * field by field.
 */

#include "harness.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    const char *bytes;
    size_t size;
    size_t offset;
} File;

static uint64_t
read_field(File *file, size_t size)
{
    uint64_t number = 0;
    if (file->size - file->offset < size) {
        fail("offset %zu: the end of the file", file->offset);
    }
    memcpy(&number, file->bytes + file->offset, size);  /* little-endian */
    file->offset += size;
    return number;
}

#define U32(file) read_field((file), 4)
#define U64(file) read_field((file), 8)

static void
expect_field(File *file, size_t size, uint64_t value, const char *what)
{
    const uint64_t number = read_field(file, size);
    if (number != value) {
        fail("offset %zu: %s is %llu instead of %llu", file->offset - size,
             what, (unsigned long long)number, (unsigned long long)value);
    }
}

static uint64_t
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void
check_time(File *file, uint64_t *last)
{
    const uint64_t time = U64(file);
    if (time < *last || time > now()) {
        fail("offset %zu: time runs backwards", file->offset - 8);
    }
    *last = time;
}

static uint64_t
own_machine(void)
{
    static Elf64_Ehdr header;
    if (header.e_machine == 0) {
        int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        if (read(fd, &header, sizeof(header)) != sizeof(header)) {
            fail("cannot read /proc/self/exe");
        }
        close(fd);
    }
    return header.e_machine;
}

static void
check_header(File *file, uint64_t *time)
{
    expect_field(file, 4, 0x4A695444, "magic");
    expect_field(file, 4, 1, "version");
    expect_field(file, 4, 40, "the size of the header");
    expect_field(file, 4, own_machine(), "the machine");
    expect_field(file, 4, 0, "padding");
    expect_field(file, 4, (uint64_t)getpid(), "the process");
    check_time(file, time);
    expect_field(file, 8, 0, "flags");
}

/* Return the end of the record that begins here. */
static size_t
check_record_header(File *file, uint64_t kind, uint64_t *time)
{
    const size_t start = file->offset;
    expect_field(file, 4, kind, "the kind of record");
    const size_t size = U32(file);
    if (size % 8 != 0 || size > file->size - start) {
        fail("offset %zu: a record of %zu bytes", start, size);
    }
    check_time(file, time);
    return start + size;
}

static void
check_padding(File *file, size_t end)
{
    if (file->offset > end || end - file->offset > 7) {
        fail("offset %zu: the record should end at %zu", file->offset, end);
    }
    while (file->offset < end) {
        expect_field(file, 1, 0, "padding");
    }
}

/* Return the mapped size. */
static uint64_t
check_unwinding(File *file, uint64_t *time)
{
    const size_t end = check_record_header(file, 4, time);
    const uint64_t size = U64(file);
    const uint64_t header_size = U64(file);
    const uint64_t mapped_size = U64(file);
    if (size == 0 || header_size == 0 || header_size >= size
        || (mapped_size != 0 && mapped_size != size)) {
        fail("offset %zu: sizes %zu, %zu, %zu", file->offset - 24,
             (size_t)size, (size_t)header_size, (size_t)mapped_size);
    }
    file->offset += size;
    check_padding(file, end);
    return mapped_size;
}

/* Each file begins with the code that makes areas. */
static const char *const area_code[] = {
    "_PyPerf_EnterAreaWithUnwindInfo", "_PyPerf_ShareAreaWithUnwindInfo",
};

/* Return the symbol, or NULL for the code of areas. */
static const Expected *
check_load(File *file, uint64_t number, uint64_t *time, Expectation *expected)
{
    const size_t end = check_record_header(file, 0, time);
    expect_field(file, 4, (uint64_t)getpid(), "the process");
    expect_field(file, 4, (uint64_t)syscall(SYS_gettid), "the thread");
    const uint64_t vma = U64(file);
    expect_field(file, 8, vma, "the address");
    const uint64_t code_size = U64(file);
    expect_field(file, 8, number, "the number");

    const char *name = file->bytes + file->offset;
    const size_t length = strnlen(name, end - file->offset);
    const Expected *symbol = NULL;
    if (number >= Py_ARRAY_LENGTH(area_code)) {
        PyObject *bytes = must(PyBytes_FromStringAndSize(name,
                                                         (Py_ssize_t)length));
        /* All of the name: it has no NUL within. */
        symbol = find_expected(expected, (uintptr_t)vma,
                               (unsigned int)code_size, bytes);
        Py_DECREF(bytes);
    }
    else if (strcmp(name, area_code[number]) != 0) {
        fail("%s instead of %s", name, area_code[number]);
    }
    file->offset += length;
    expect_field(file, 1, 0, "the end of the name");

    /* No two codes are equal: perf would take them for one. */
    file->offset += code_size - 8;
    expect_field(file, 8, number, "the number in the code");
    check_padding(file, end);
    return symbol;
}

/* perf maps the unwind information behind the code: keep it free. */
static void
check_room(const Expected *symbol, uint64_t mapped_size,
           const Expectation *expected)
{
    if (symbol->has_room && mapped_size == 0) {
        fail("the unwind information of %s is not mapped",
             PyBytes_AS_STRING(symbol->name));
    }
    const uintptr_t end = symbol->start + symbol->size + mapped_size;
    for (size_t i = 0; i < expected->length; i++) {
        const Expected *other = &expected->items[i];
        if (other->is_symbol && other->start > symbol->start
            && other->start < end) {
            fail("%s reaches into %s", PyBytes_AS_STRING(symbol->name),
                 PyBytes_AS_STRING(other->name));
        }
    }
}

static void
check(PyObject *bytes, Expectation *expected)
{
    File file = {PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), 0};
    uint64_t time = 0;
    uint64_t symbols = 0;
    for (size_t i = 0; i < expected->length; i++) {
        symbols += expected->items[i].is_symbol;
        /* The map has the others. */
        expected->items[i].is_found = !expected->items[i].is_symbol;
    }
    check_header(&file, &time);
    uint64_t number = 0;
    while (file.offset < file.size) {
        const uint64_t mapped_size = check_unwinding(&file, &time);
        const Expected *symbol = check_load(&file, number++, &time, expected);
        if (symbol != NULL) {
            check_room(symbol, mapped_size, expected);
        }
    }
    symbols += Py_ARRAY_LENGTH(area_code);
    if (number != symbols) {
        fail("%zu symbols instead of %zu", (size_t)number, (size_t)symbols);
    }
}

const Target target = {
    .back_end = "perf_jit",
    .close = _PyPerfJitdump_Close,
    .path = _PyPerfJitdump_Path,
    .check = check,
};
