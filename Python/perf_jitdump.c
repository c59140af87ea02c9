/* The jitdump: jit-PID.dump in $JITDUMPDIR or /tmp, a binary file of records.
 *
 * `perf inject --jit` turns it into one small ELF file per symbol, with unwind
 * information, so that `perf record --call-graph dwarf` works without frame
 * pointers; samply reads it directly.  Written by the perf trampoline with the
 * lock of Python/perf_process.c held.
 *
 * Fork: the child must not write to its parent's file; the trampoline calls
 * _PyPerfJitdump_AfterFork_Child().  Failure: functions return -1 with errno.
 * The records of a symbol are written whole or not at all.
 *
 * The layout is that of the jitdump specification, version 1, in the kernel's
 * tools/perf/Documentation; so are the names of records and fields.
 *
 * What perf makes of one symbol, in file and address order:
 *
 *      T   .text           the dumped code, LABEL_SIZE bytes
 *      E   .eh_frame       at the next multiple of 8: CIE, FDE, end mark
 *      H   .eh_frame_hdr   a search table with one entry
 *
 * Addresses in E and H are relative, so they are the same for all symbols of
 * one size.  perf maps T, E and H at the label's address: the next label must
 * be farther off.
 *
 * A symbol with lines is longer, and has a record more.  Profilers want to
 * know of it before the code, and look for a line from its first address on:
 * the first entry is there, the last one, which tells nothing, at the end.
 * Each entry has the whole name of the file, since some readers do not know of
 * the mark for the same name again.
 *
 * The code that makes areas is dumped, too, and so gets unwind information
 * that leads through the records.  What it has in the program itself, for
 * whatever unwinds there, leads past them.
 */

#include "Python.h"
#include "pycore_perf_file.h"
#include "pycore_perf_hook.h"      // _PyPerf_EnterAreaWithUnwindInfo()
#include "pycore_perf_labels.h"
#include "pycore_perf_lines.h"
#include "pycore_perf_trampoline.h"

#include <errno.h>
#include <link.h>                 // dl_iterate_phdr()
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* --- Records ------------------------------------------------------------- */

#define JITDUMP_MAGIC 0x4A695444
#define JITDUMP_VERSION 1

enum {
    JIT_CODE_LOAD = 0,
    JIT_CODE_DEBUG_INFO = 2,
    JIT_CODE_UNWINDING_INFO = 4,
};

typedef struct {
    uint32_t magic;
    uint32_t version;
    uint32_t total_size;
    uint32_t elf_mach;
    uint32_t pad1;
    uint32_t pid;
    uint64_t timestamp;
    uint64_t flags;
} FileHeader;

typedef struct {
    uint32_t id;
    uint32_t total_size;
    uint64_t timestamp;
} RecordHeader;

typedef struct {
    RecordHeader header;
    uint64_t code_addr;
    uint64_t nr_entry;
    /* followed by entries, padding */
} DebugInfo;

typedef struct {
    uint64_t addr;
    uint32_t lineno;
    uint32_t discrim;
    /* followed by the file name with its NUL */
} DebugEntry;

typedef struct {
    RecordHeader header;
    uint64_t unwinding_size;
    uint64_t eh_frame_hdr_size;
    uint64_t mapped_size;
    /* followed by .eh_frame, .eh_frame_hdr, padding */
} UnwindingInfo;

typedef struct {
    RecordHeader header;
    uint32_t pid;
    uint32_t tid;
    uint64_t vma;
    uint64_t code_addr;
    uint64_t code_size;
    uint64_t code_index;
    /* followed by the name with its NUL, the code, padding */
} CodeLoad;

#define ALIGN_8(size) (((size) + 7) & ~(size_t)7)

/* --- Models (Python/asm_trampoline_*.S) ---------------------------------- */

/* The last eight bytes of all code that is dumped are a number, which makes it
   unique: perf merges files with equal contents. */
#define NUMBER_SIZE sizeof(uint64_t)

/* Code of LABEL_SIZE bytes with the unwind information of a label. */
extern const char _PyPerf_LabelModel[];
#define LABEL_SIZE _PyPerfLabels_SIZE

/* What the dump says of _PyPerf_EnterAreaWithUnwindInfo() and
   _PyPerf_ShareAreaWithUnwindInfo(): the same code with other information. */
extern const char _PyPerf_EnterAreaModel[], _PyPerf_ShareAreaModel[];

/* .eh_frame and .eh_frame_hdr as perf places them after the code. */
typedef struct {
    unsigned char bytes[_PyPerfJitdump_AREA_ROOM];
    size_t code_size;           /* with the number */
    size_t fde_offset;
    size_t eh_frame_size;
    size_t size;                /* with .eh_frame_hdr; 0: not made yet */
} Unwinding;

static struct {
    Unwinding label, enter_area, share_area;
} unwinding;

/* From the DWARF and LSB standards. */
#define DW_EH_PE_udata4 0x03
#define DW_EH_PE_sdata4 0x0b
#define DW_EH_PE_pcrel 0x10
#define DW_EH_PE_datarel 0x30

/* The fixed head of an entry of .eh_frame.  In a CIE, the identifier is 0; in
   an FDE, the distance back to its CIE, and the addressed code follows. */
typedef struct {
    uint32_t length;            /* of what follows this field */
    uint32_t identifier;
    int32_t pc_begin;           /* relative to this field */
    uint32_t pc_range;
} FrameEntry;

typedef struct {
    unsigned char version;
    unsigned char eh_frame_ptr_enc;
    unsigned char fde_count_enc;
    unsigned char table_enc;
    int32_t eh_frame_ptr;       /* relative to this field */
    uint32_t fde_count;
    int32_t initial_location;   /* relative to the header, as is the next */
    int32_t fde;
} FrameHeader;

static size_t
entry_size(const FrameEntry *entry)
{
    return sizeof(entry->length) + entry->length;
}

typedef struct {
    uintptr_t code;
    const FrameEntry *fde;
} FrameSearch;

/* Look for the FDE of code in .eh_frame_hdr of the object it is linked to. */
static int
find_fde(struct dl_phdr_info *info, size_t Py_UNUSED(size), void *arg)
{
    FrameSearch *search = arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) {
            continue;
        }
        const char *start = (const char *)(info->dlpi_addr
                                           + info->dlpi_phdr[i].p_vaddr);
        const FrameHeader *header = (const FrameHeader *)start;
        if (header->fde_count_enc != DW_EH_PE_udata4
            || header->table_enc != (DW_EH_PE_datarel | DW_EH_PE_sdata4)) {
            continue;
        }
        const int32_t *table = &header->initial_location;
        for (uint32_t n = 0; n < header->fde_count; n++) {
            const intptr_t offset = table[2 * n];
            if ((uintptr_t)start + (uintptr_t)offset == search->code) {
                search->fde = (const FrameEntry *)(start + table[2 * n + 1]);
                return 1;
            }
        }
    }
    return 0;
}

/* Put .eh_frame_hdr behind unwind information of one function, which is to
   stand so far behind the start of its code. */
static void
add_frame_header(Unwinding *made, size_t cie_size, size_t size,
                 size_t to_eh_frame)
{
    const FrameHeader header = {
        .version = 1,
        .eh_frame_ptr_enc = DW_EH_PE_pcrel | DW_EH_PE_sdata4,
        .fde_count_enc = DW_EH_PE_udata4,
        .table_enc = DW_EH_PE_datarel | DW_EH_PE_sdata4,
        .eh_frame_ptr = -(int32_t)(size + offsetof(FrameHeader, eh_frame_ptr)),
        .fde_count = 1,
        .initial_location = -(int32_t)(to_eh_frame + size),
        .fde = (int32_t)cie_size - (int32_t)size,
    };
    memcpy(made->bytes + size, &header, sizeof(header));
    made->fde_offset = cie_size;
    made->eh_frame_size = size;
    made->size = size + sizeof(header);
}

/* Take the unwind information that the assembler made for a model and give
   it the addresses that it has behind dumped code, where there is room. */
static int
make_unwinding(Unwinding *made, const char *model, size_t room)
{
    FrameSearch search = {.code = (uintptr_t)model};
    dl_iterate_phdr(find_fde, &search);
    const FrameEntry *const model_fde = search.fde;
    if (model_fde == NULL) {
        errno = ENOTSUP;
        return -1;
    }
    const FrameEntry *model_cie = (const FrameEntry *)
        ((const char *)&model_fde->identifier - model_fde->identifier);
    const size_t cie_size = entry_size(model_cie);
    const size_t fde_size = entry_size(model_fde);
    const size_t end_mark_size = sizeof(uint32_t);
    const size_t size = ALIGN_8(cie_size + fde_size + end_mark_size);
    const size_t end_of_code = ALIGN_8(model_fde->pc_range);
    const size_t to_eh_frame = model == _PyPerf_LabelModel
                               ? end_of_code : end_of_code + NUMBER_SIZE;
    if (to_eh_frame + size + sizeof(FrameHeader) > end_of_code + room
        || size + sizeof(FrameHeader) > sizeof(made->bytes)) {
        errno = ENOTSUP;
        return -1;
    }
    memset(made->bytes, 0, sizeof(made->bytes));

    memcpy(made->bytes, model_cie, cie_size);
    FrameEntry *fde = (FrameEntry *)(made->bytes + cie_size);
    memcpy(fde, model_fde, fde_size);
    fde->identifier = (uint32_t)(cie_size + offsetof(FrameEntry, identifier));
    fde->pc_begin = -(int32_t)(to_eh_frame + cie_size
                               + offsetof(FrameEntry, pc_begin));
    made->code_size = to_eh_frame;
    add_frame_header(made, cie_size, size, to_eh_frame);
    return 0;
}

/* Copy what was made for code of one size to where it stands behind code with
   so many bytes more. */
static void
put_unwinding(char *position, const Unwinding *made, size_t more)
{
    FrameEntry fde;
    FrameHeader header;
    const size_t header_offset = made->eh_frame_size;
    memcpy(position, made->bytes, made->size);
    memcpy(&fde, made->bytes + made->fde_offset, sizeof(fde));
    memcpy(&header, made->bytes + header_offset, sizeof(header));
    fde.pc_begin -= (int32_t)more;
    fde.pc_range += (uint32_t)more;
    header.initial_location -= (int32_t)more;
    memcpy(position + made->fde_offset, &fde, sizeof(fde));
    memcpy(position + header_offset, &header, sizeof(header));
}

static int
make_all_unwinding(void)
{
    if (unwinding.label.size != 0) {
        return 0;
    }
    return make_unwinding(&unwinding.enter_area, _PyPerf_EnterAreaModel,
                          _PyPerfJitdump_AREA_ROOM) < 0
           || make_unwinding(&unwinding.share_area, _PyPerf_ShareAreaModel,
                             _PyPerfJitdump_AREA_ROOM) < 0
           || make_unwinding(&unwinding.label, _PyPerf_LabelModel,
                             _PyPerfJitdump_LABEL_ROOM - LABEL_SIZE) < 0
           ? -1 : 0;
}

/* --- The file ------------------------------------------------------------ */

static struct {
    _PyPerfFile file;           /* perf finds it by the mapping, its pin */
    uint64_t began;             /* the time */
    uint64_t count;             /* a number for the next symbol */
    const _PyPerfSymbol *written;       /* the last one; NULL: none */
    struct {
        const _PyPerfSymbol *last;
        uint64_t count;
        char *on_heap;          /* records too large for the buffer */
    } piece;                    /* what is being written */
} jitdump = {_PyPerfFile_INIT};

static uint64_t
timestamp(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The ELF header of the object this file is linked into; by the linker. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static FileHeader
make_header(void)
{
    return (FileHeader){
        .magic = JITDUMP_MAGIC,
        .version = JITDUMP_VERSION,
        .total_size = sizeof(FileHeader),
        .elf_mach = __ehdr_start.e_machine,
        .pid = (uint32_t)getpid(),
        .timestamp = timestamp(),
    };
}

/* Set count to what no symbol of the file has yet. */
static int
begin_new_file(uint64_t *count)
{
    const FileHeader header = make_header();
    *count = 0;
    return _PyPerfFile_Append(&jitdump.file, &header, sizeof(header));
}

/* After exec(), the process has written to its file already, as another
   program; there are fewer symbols than bytes.  Others' are left alone. */
static int
continue_file(uint64_t *count)
{
    FileHeader expected = make_header(), found;
    struct stat st;
    if (pread(jitdump.file.fd, &found, sizeof(found), 0) == sizeof(found)
        && fstat(jitdump.file.fd, &st) == 0) {
        expected.timestamp = found.timestamp;
        if (memcmp(&expected, &found, sizeof(found)) == 0) {
            *count = (uint64_t)st.st_size;
            return 0;
        }
    }
    errno = EEXIST;
    return -1;
}

/* --- What is put into it ------------------------------------------------- */

static char *
put(char *position, const void *bytes, size_t size)
{
    memcpy(position, bytes, size);
    return position + size;
}

/* What is dumped: code at an address. */
typedef struct {
    const char *name;
    size_t name_length;
    uintptr_t address;
    const char *code;
    size_t more;                /* bytes, zeros, between code and number */
    const _PyPerfSymbol *lines; /* the symbol, if it has some... */
    uint64_t entries;           /* ...and how many there are of them */
    const Unwinding *unwinding;
    bool is_mapped;             /* is there room for the unwinding? */
    uint64_t made;
} Dumped;

static uint64_t
count_entries(const _PyPerfSymbol *symbol)
{
    _PyPerfLineCursor cursor = {0};
    _PyPerfLineRun run;
    uint64_t count = 1;                 /* the end */
    while (_PyPerfLines_Next(symbol, &cursor, &run)) {
        count++;
    }
    return count;
}

static Dumped
dumped_label(const _PyPerfSymbol *symbol)
{
    const size_t size = ALIGN_8(_PyPerfLabels_Size(symbol));
    return (Dumped){
        .name = symbol->name, .name_length = symbol->length,
        .address = symbol->start, .code = _PyPerf_LabelModel,
        .more = size - LABEL_SIZE,
        .lines = symbol->lines != NULL ? symbol : NULL,
        .entries = symbol->lines != NULL ? count_entries(symbol) : 0,
        .unwinding = &unwinding.label,
        .is_mapped = size + unwinding.label.size <= symbol->room,
        .made = symbol->made,
    };
}

static Dumped
dumped_code(const char *name, const char *code, const Unwinding *unwinding)
{
    return (Dumped){
        .name = name, .name_length = strlen(name),
        .address = (uintptr_t)code, .code = code,
        .unwinding = unwinding, .is_mapped = true,
    };
}

static size_t
code_size(const Dumped *dumped)
{
    return dumped->unwinding->code_size + dumped->more;
}

/* --- Lines --------------------------------------------------------------- */

/* Put an entry at *end, and move that on. */
static void
put_entry(char **end, uintptr_t address, int line, const _PyPerfSymbol *symbol)
{
    const char *file = symbol->name + symbol->file_start;
    const DebugEntry entry = {
        .addr = address, .lineno = (uint32_t)Py_MAX(line, 0),
    };
    *end = put(*end, &entry, sizeof(entry));
    *end = put(*end, file, symbol->length - symbol->file_start);
    *(*end)++ = '\0';
}

static size_t
size_of_lines(const Dumped *dumped)
{
    if (dumped->lines == NULL) {
        return 0;
    }
    const size_t name_size = dumped->lines->length - dumped->lines->file_start
                             + 1;
    return ALIGN_8(sizeof(DebugInfo) + (size_t)dumped->entries
                                       * (sizeof(DebugEntry) + name_size));
}

/* Write the record of dumped's lines, if it has some, and return its end. */
static char *
put_lines(char *start, const Dumped *dumped, uint64_t time)
{
    const size_t size = size_of_lines(dumped);
    if (size == 0) {
        return start;
    }
    const _PyPerfSymbol *const symbol = dumped->lines;
    const DebugInfo info = {
        .header.id = JIT_CODE_DEBUG_INFO,
        .header.total_size = (uint32_t)size,
        .header.timestamp = time,
        .code_addr = dumped->address,
        .nr_entry = dumped->entries,
    };
    memset(start + size - 8, 0, 8);                     /* padding */
    char *position = put(start, &info, sizeof(info));
    _PyPerfLineCursor cursor = {0};
    _PyPerfLineRun run;
    uintptr_t address = dumped->address;
    while (_PyPerfLines_Next(symbol, &cursor, &run)) {
        put_entry(&position, address, run.line, symbol);
        address = run.end;
    }
    put_entry(&position, dumped->address + code_size(dumped), 0, symbol);
    return start + size;
}

/* --- Code ---------------------------------------------------------------- */

/* The two records, without what follows their fixed parts. */
typedef struct {
    UnwindingInfo info;
    CodeLoad load;
} Records;

static Records
begin_records(const Dumped *dumped)
{
    const Unwinding *const unwinding = dumped->unwinding;
    return (Records){
        .info = {
            .header.id = JIT_CODE_UNWINDING_INFO,
            .header.total_size = (uint32_t)ALIGN_8(sizeof(UnwindingInfo)
                                                   + unwinding->size),
            .unwinding_size = unwinding->size,
            .eh_frame_hdr_size = unwinding->size - unwinding->eh_frame_size,
            .mapped_size = dumped->is_mapped ? unwinding->size : 0,
        },
        .load = {
            .header.id = JIT_CODE_LOAD,
            .header.total_size = (uint32_t)ALIGN_8(
                sizeof(CodeLoad) + dumped->name_length + 1
                + code_size(dumped)),
            .vma = dumped->address,
            .code_addr = dumped->address,
            .code_size = code_size(dumped),
        },
    };
}

static size_t
size_of_records(const Dumped *dumped)
{
    const Records records = begin_records(dumped);
    return size_of_lines(dumped) + records.info.header.total_size
           + records.load.header.total_size;
}

/* Write the records, the code last, and return their end. */
static char *
put_records(char *start, const Dumped *dumped, uint32_t pid, uint32_t tid,
            uint64_t number)
{
    Records records = begin_records(dumped);
    UnwindingInfo *info = &records.info;
    CodeLoad *load = &records.load;
    /* Samples that are older than a record do not find it. */
    info->header.timestamp = Py_MAX(dumped->made, jitdump.began);
    load->header.timestamp = info->header.timestamp;
    start = put_lines(start, dumped, info->header.timestamp);
    load->pid = pid;
    load->tid = tid;
    load->code_index = number;
    char *const middle = start + info->header.total_size;
    char *const end = middle + load->header.total_size;
    memset(middle - 8, 0, 8);                           /* padding */
    memset(end - 8, 0, 8);
    start = put(start, info, sizeof(*info));
    put_unwinding(start, dumped->unwinding, dumped->more);
    start = put(middle, load, sizeof(*load));
    start = put(start, dumped->name, dumped->name_length);
    *start++ = '\0';
    start = put(start, dumped->code,
                dumped->unwinding->code_size - sizeof(number));
    memset(start, 0, dumped->more);
    start += dumped->more;
    put(start, &number, sizeof(number));
    return end;
}

static uint32_t
thread_number(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* The code that makes areas is there before any label is used. */
static int
append_area_code(uint64_t *number)
{
    const Dumped all[] = {
        dumped_code("_PyPerf_EnterAreaWithUnwindInfo",
                    (const char *)_PyPerf_EnterAreaWithUnwindInfo,
                    &unwinding.enter_area),
        dumped_code("_PyPerf_ShareAreaWithUnwindInfo",
                    (const char *)_PyPerf_ShareAreaWithUnwindInfo,
                    &unwinding.share_area),
    };
    char buffer[2048];
    char *end = buffer;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(all); i++) {
        assert(size_of_records(&all[i]) <= sizeof(buffer) / 2);
        end = put_records(end, &all[i], (uint32_t)getpid(), thread_number(),
                          (*number)++);
    }
    return _PyPerfFile_Append(&jitdump.file, buffer, (size_t)(end - buffer));
}

/* --- Opening ------------------------------------------------------------- */

/* Make ready to add records.  perf finds the file by an executable mapping. */
static int
begin_file(void)
{
    uint64_t count;
    if ((jitdump.file.size == 0 ? begin_new_file(&count)
                                : continue_file(&count)) < 0
        || _PyPerfFile_Pin(&jitdump.file, PROT_READ | PROT_EXEC) < 0) {
        return -1;
    }
    jitdump.began = timestamp();
    if (append_area_code(&count) < 0) {
        return -1;
    }
    jitdump.count = count;
    jitdump.written = NULL;
    return 0;
}

static int
choose_path(void)
{
    const char *directory = getenv("JITDUMPDIR");
    if (directory == NULL || *directory == '\0') {
        directory = "/tmp";
    }
    int length = snprintf(jitdump.file.path, sizeof(jitdump.file.path),
                          "%s/jit-%ld.dump", directory, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof(jitdump.file.path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return 0;
}

static int
ensure_open(void)
{
    if (_PyPerfFile_IsOpen(&jitdump.file)) {
        return 0;
    }
    /* One that was closed meanwhile keeps its place. */
    const bool is_begun = jitdump.file.pin != NULL;
    if ((!is_begun && choose_path() < 0) || make_all_unwinding() < 0
        || _PyPerfFile_Open(&jitdump.file) < 0) {
        return -1;
    }
    if (!jitdump.file.is_new) {
        return 0;
    }
    const bool is_empty = jitdump.file.size == 0;
    if (begin_file() == 0) {
        return 0;
    }
    int error = errno;
    _PyPerfFile_Forget(&jitdump.file);
    if (is_empty) {
        unlink(jitdump.file.path);
    }
    errno = error;
    return -1;
}

/* --- Symbols ------------------------------------------------------------- */

static const _PyPerfSymbol *
symbol_after(const _PyPerfSymbol *symbol)
{
    return symbol == NULL ? _PyPerfLabels_First() : symbol->next;
}

/* See _PyPerfFile_Pieces. */
static ssize_t
next_records(size_t limit, const char **bytes)
{
    static char buffer[1 << 15];
    const _PyPerfSymbol *symbol = symbol_after(jitdump.written);
    if (symbol == NULL) {
        return 0;
    }
    Dumped dumped = dumped_label(symbol);
    const size_t size = size_of_records(&dumped);
    char *start = buffer, *end = buffer + Py_MIN(limit, sizeof(buffer));
    if (size > sizeof(buffer)) {
        start = realloc(jitdump.piece.on_heap, size);
        if (start == NULL) {
            errno = ENOMEM;
            return -1;
        }
        jitdump.piece.on_heap = start;
        end = start;
    }
    const uint32_t pid = (uint32_t)getpid();
    const uint32_t tid = thread_number();
    jitdump.piece.count = jitdump.count;
    char *position = start;
    do {
        position = put_records(position, &dumped, pid, tid,
                               jitdump.piece.count++);
        jitdump.piece.last = symbol;
        symbol = symbol->next;
        if (symbol != NULL) {
            dumped = dumped_label(symbol);
        }
    } while (symbol != NULL && end > position
             && (size_t)(end - position) >= size_of_records(&dumped));
    *bytes = start;
    return position - start;
}

static void
records_are_written(void)
{
    jitdump.written = jitdump.piece.last;
    jitdump.count = jitdump.piece.count;
}

int
_PyPerfJitdump_WriteSymbols(void)
{
    static const _PyPerfFile_Pieces pieces = {
        next_records, records_are_written
    };
    if (ensure_open() < 0) {
        return -1;
    }
    int result = _PyPerfFile_AppendAll(&jitdump.file, &pieces);
    int error = errno;
    free(jitdump.piece.on_heap);
    jitdump.piece.on_heap = NULL;
    errno = error;
    return result;
}

#ifdef _Py_JIT

/* --- Code that CPython's own JIT has made -------------------------------- */

/* Put unwind information, which is relative, behind the code. */
static int
make_given_unwinding(Unwinding *made, size_t code_size,
                     const unsigned char *eh_frame, size_t eh_frame_size)
{
    if (code_size < NUMBER_SIZE
        || eh_frame_size + sizeof(FrameHeader) > sizeof(made->bytes)) {
        errno = ENOTSUP;
        return -1;
    }
    const size_t cie_size = entry_size((const FrameEntry *)eh_frame);
    memcpy(made->bytes, eh_frame, eh_frame_size);
    made->code_size = code_size;
    add_frame_header(made, cie_size, eh_frame_size, ALIGN_8(code_size));
    return 0;
}

int
_PyPerfJitdump_WriteCode(const char *name, const void *code, size_t code_size,
                         const unsigned char *eh_frame, size_t eh_frame_size)
{
    Unwinding given;
    if (ensure_open() < 0
        || make_given_unwinding(&given, code_size, eh_frame,
                                eh_frame_size) < 0) {
        return -1;
    }
    Dumped dumped = dumped_code(name, code, &given);
    dumped.made = timestamp();          /* other code may have been there */
    const size_t size = size_of_records(&dumped);
    char *const records = malloc(size);
    if (records == NULL) {
        errno = ENOMEM;
        return -1;
    }
    (void)put_records(records, &dumped, (uint32_t)getpid(), thread_number(),
                      jitdump.count);
    const int result = _PyPerfFile_Append(&jitdump.file, records, size);
    const int error = errno;
    free(records);
    errno = error;
    if (result == 0) {
        jitdump.count++;
    }
    return result;
}

#endif /* _Py_JIT */

int
_PyPerfJitdump_Open(void)
{
    _PyPerfFile_Check(&jitdump.file);
    return ensure_open();
}

bool
_PyPerfJitdump_IsShared(void)
{
    return jitdump.file.is_shared;
}

void
_PyPerfJitdump_Close(void)
{
    _PyPerfFile_Close(&jitdump.file);
}

void
_PyPerfJitdump_AfterFork_Child(void)
{
    _PyPerfFile_Forget(&jitdump.file);
}

const char *
_PyPerfJitdump_Path(void)
{
    return jitdump.file.path;
}
