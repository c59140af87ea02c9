/* Labels: which address stands for which Python function.
 *
 * Called by Python/perf_trampoline.c, which lets one thread in at a time.  The
 * table of symbols is shared by all interpreters of the process and only
 * grows.
 *
 * An arena is address space, not memory: pages that are mapped readable and
 * executable once, never touched, and so never backed by anything.  Nothing
 * jumps there.  The mapping exists because profilers look up only addresses
 * that they know to be executable.  They hear of an arena when it is mapped,
 * before any of its symbols is announced; guard pages keep the kernel from
 * merging it with a neighbour, which would be reported as a new mapping.
 *
 * Two programs that one process runs, by exec(), write to one file: the
 * address of the first arena is chosen at random, wherever the kernel puts
 * other mappings.
 *
 * Fork: the child inherits symbols and arenas.  For what it adds, it maps the
 * arena that is not full yet anew, at the same place.  Failure: no memory for
 * a symbol means the label "py::<unknown>".
 */

#include "Python.h"
#include "pycore_hashtable.h"     // _Py_hashtable_new_full()
#include "pycore_perf_base.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_lines.h"
#include "pycore_perf_system.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#define LABELS_SIZE ((size_t)1 << 20)
#define GUARD_SIZE ((size_t)1 << 16)    /* the largest page size there is */
#define RESERVED_SIZE (LABELS_SIZE + 2 * GUARD_SIZE)

/* Code that needs more addresses than an arena has shows no lines. */
#define MAX_LINES_SIZE (LABELS_SIZE - 1024)

/* Files repeat the name for each line: nor does code for which this could take
   so many bytes. */
#define MAX_NAMES_SIZE ((uint64_t)1 << 26)

/* Programs make up names for tasks while they run: further kinds have one
   symbol. */
#define MAX_TASK_KINDS 500

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Offsets reach as far to both sides of the first arena. */
#define REACH ((uintptr_t)1 << 31)

uintptr_t _PyPerfLabels_base;

/* Symbols are kept in blocks: they do not move. */
#define SYMBOLS_PER_BLOCK 500
#define TEXT_PER_BLOCK ((size_t)1 << 16)

static struct {
    _Py_hashtable_t *table;     /* symbol -> itself */
    _PyPerfSymbol *first;
    _PyPerfSymbol *last;
    _PyPerfSymbol *free;        /* room for the next one... */
    size_t free_count;          /* ...and more */
    _PyPerfText *text;          /* the names are in here */
    _PyPerfText *last_text;
    size_t text_room;           /* in the last block */

    uintptr_t next_free;        /* in the current arena */
    uintptr_t end;
    uintptr_t last_arena;
    bool is_inherited;          /* the current arena is the parent's */
    bool keeps_apart;           /* see _PyPerfLabels_TakeArena() */
    bool is_sealed;
    uint32_t room;              /* for each new symbol */
    _PyPerf_offset unknown;     /* label of "py::<unknown>" */
    unsigned int task_kinds;    /* how many have a symbol */
    struct {
        Py_hash_t hash;         /* of a name: two with the same are equal... */
        _PyPerf_offset offset;
    } recent_tasks[64];         /* ...and found here if they are */
} labels;


static Py_uhash_t
hash_symbol(const void *key)
{
    const _PyPerfSymbol *symbol = key;
    Py_uhash_t hash = (Py_uhash_t)_PyPerfBase_HASH(symbol->name,
                                                   symbol->length);
    if (symbol->lines != NULL) {
        hash ^= (Py_uhash_t)_PyPerfBase_HASH(symbol->lines->table,
                                             (Py_ssize_t)symbol->lines->size);
        hash += (Py_uhash_t)symbol->lines->first_line;
    }
    return hash;
}

static int
same_symbol(const void *key1, const void *key2)
{
    const _PyPerfSymbol *a = key1, *b = key2;
    if (a->length != b->length || memcmp(a->name, b->name, a->length) != 0
        || (a->lines == NULL) != (b->lines == NULL)) {
        return 0;
    }
    return a->lines == NULL || _PyPerfLines_AreEqual(a->lines, b->lines);
}

static int
is_within_reach(uintptr_t arena)
{
    return arena - _PyPerfLabels_base < 2 * REACH - RESERVED_SIZE;
}

uint64_t
_PyPerfLabels_Nanoseconds(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uintptr_t
random_number(void)
{
    uintptr_t number;
    if (!_PyPerfSystem_RANDOM(&number, sizeof(number))) {
        number = (uintptr_t)_PyPerfLabels_Nanoseconds() * GUARD_SIZE;
    }
    return number;
}

/* Reserve address space at a random place in a range.  If there is something
   wherever we look, the kernel chooses, and not from that range. */
static void *
reserve_at_random(uintptr_t start, uintptr_t size)
{
    for (int attempt = 0; ; attempt++) {
        uintptr_t hint = start + random_number() % size;
        hint -= hint % GUARD_SIZE;
        void *memory = mmap((void *)hint, RESERVED_SIZE, PROT_NONE,
                            RESERVE_FLAGS, -1, 0);
        if (memory == MAP_FAILED || memory == (void *)hint || attempt == 8) {
            return memory;
        }
        munmap(memory, RESERVED_SIZE);
    }
}

/* Reserve it for the first arena: where the kernel puts nothing of its own
   accord, in the second quarter below the stack. */
static void *
reserve_first(void)
{
    const char on_stack = 0;
    const uintptr_t quarter = (uintptr_t)&on_stack / 4;
    return reserve_at_random(quarter, quarter);
}

/* Reserve it near the last arena: look further and further. */
static void *
reserve_next(void)
{
    for (uintptr_t distance = RESERVED_SIZE; distance < REACH; distance *= 2) {
        const uintptr_t hints[] = {labels.last_arena - distance,
                                   labels.last_arena + distance};
        for (int i = 0; i < 2; i++) {
            /* The kernel follows a hint if there is room. */
            void *memory = mmap((void *)hints[i], RESERVED_SIZE, PROT_NONE,
                                RESERVE_FLAGS, -1, 0);
            if (memory == MAP_FAILED) {
                return memory;
            }
            if (is_within_reach((uintptr_t)memory)) {
                return memory;
            }
            munmap(memory, RESERVED_SIZE);
        }
    }
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Reserve it where a relative who writes to the same file has no arena. */
static void *
reserve_apart(void)
{
    void *memory = reserve_at_random(_PyPerfLabels_base,
                                     2 * REACH - 2 * RESERVED_SIZE);
    if (memory == MAP_FAILED || is_within_reach((uintptr_t)memory)) {
        return memory;
    }
    munmap(memory, RESERVED_SIZE);
    return reserve_next();
}

/* Map an arena in a reserved place, or anew.  Profilers hear of it. */
static void *
map_arena(void *address)
{
    return mmap(address, LABELS_SIZE, _PyPerfSystem_ARENA,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0);
}

static int
new_arena(void)
{
    if (labels.is_sealed) {
        errno = ENOMEM;
        return -1;
    }
    char *memory = labels.last_arena == 0 ? reserve_first()
                   : labels.keeps_apart ? reserve_apart() : reserve_next();
    if (memory == MAP_FAILED) {
        return -1;
    }
    char *arena = map_arena(memory + GUARD_SIZE);
    if (arena == MAP_FAILED) {
        int error = errno;
        munmap(memory, RESERVED_SIZE);
        errno = error;
        return -1;
    }
    if (labels.last_arena == 0) {
        uintptr_t address = (uintptr_t)arena;
        _PyPerfLabels_base = address > REACH ? address - REACH : 0;
    }
    labels.last_arena = (uintptr_t)memory;
    labels.next_free = (uintptr_t)arena;
    labels.end = labels.next_free + LABELS_SIZE;
    labels.is_inherited = false;
    return 0;
}

void
_PyPerfLabels_TakeArena(bool in_place)
{
    if (!labels.is_inherited) {
        return;
    }
    labels.is_inherited = false;
    labels.keeps_apart = !in_place;
    if (!in_place
        || map_arena((char *)labels.last_arena + GUARD_SIZE) == MAP_FAILED) {
        labels.end = labels.next_free;
    }
}

/* --- Symbols ------------------------------------------------------------- */

static int
make_room_for_symbol(void)
{
    if (labels.free_count > 0) {
        return 0;
    }
    labels.free = malloc(SYMBOLS_PER_BLOCK * sizeof(_PyPerfSymbol));
    if (labels.free == NULL) {
        errno = ENOMEM;
        return -1;
    }
    labels.free_count = SYMBOLS_PER_BLOCK;
    return 0;
}

static int
make_room_for_text(size_t size)
{
    if (size <= labels.text_room) {
        return 0;
    }
    const size_t room = Py_MAX(size, TEXT_PER_BLOCK - sizeof(_PyPerfText));
    _PyPerfText *text = malloc(sizeof(_PyPerfText) + room);
    if (text == NULL) {
        errno = ENOMEM;
        return -1;
    }
    text->next = NULL;
    text->length = 0;
    if (labels.text == NULL) {
        labels.text = text;
    }
    else {
        labels.last_text->next = text;
    }
    labels.last_text = text;
    labels.text_room = room;
    return 0;
}

/* Write "START SIZE " to line, in which SIZE takes no more than two digits.
   Return its length. */
static size_t
write_numbers(char *line, uintptr_t start, unsigned int size)
{
    char digits[2 * sizeof(start)];
    size_t count = 0, length = 0;
    do {
        digits[count++] = "0123456789abcdef"[start % 16];
        start /= 16;
    } while (start != 0);
    while (count > 0) {
        line[length++] = digits[--count];
    }
    return length + (size_t)sprintf(line + length, " %x ", size);
}

/* Room for what stands before the name and after it. */
#define LINE_SIZE(name_length) ((name_length) + 2 * sizeof(uintptr_t) + 5)

/* Return a copy of lines, or NULL with errno set. */
static const _PyPerfLines *
keep_lines(const _PyPerfLines *lines)
{
    _PyPerfLines *copy = malloc(sizeof(*lines) + lines->size);
    if (copy == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    *copy = *lines;
    copy->table = memcpy(copy + 1, lines->table, lines->size);
    return copy;
}

size_t
_PyPerfLabels_Size(const _PyPerfSymbol *symbol)
{
    return symbol->lines == NULL ? _PyPerfLabels_SIZE
           : _PyPerfLines_FUNCTION_ROOM
             + sizeof(_Py_CODEUNIT) * (size_t)symbol->lines->units;
}

/* How much of that is for labels of the whole function. */
static unsigned int
size_of_function(const _PyPerfSymbol *symbol)
{
    return symbol->lines == NULL ? _PyPerfLabels_SIZE
           : _PyPerfLines_FUNCTION_ROOM - sizeof(_Py_CODEUNIT);
}

/* How many addresses it takes.  Unwinders that read DWARF expect code at
   multiples of 16. */
static uint32_t
room_for(const _PyPerfSymbol *symbol)
{
    const size_t more = _PyPerfLabels_Size(symbol) - _PyPerfLabels_SIZE;
    return labels.room + (uint32_t)((more + 15) & ~(size_t)15);
}

/* Enter a copy of symbol into the table, with an address of its own, and its
   line into the text.  Return it, or NULL with errno set. */
static const _PyPerfSymbol *
keep_symbol(const _PyPerfSymbol *symbol)
{
    const uint32_t room = room_for(symbol);
    const _PyPerfLines *lines = NULL;
    if ((labels.end - labels.next_free < room && new_arena() < 0)
        || make_room_for_symbol() < 0
        || make_room_for_text(LINE_SIZE((size_t)symbol->length)) < 0) {
        return NULL;
    }
    if (symbol->lines != NULL && (lines = keep_lines(symbol->lines)) == NULL) {
        return NULL;
    }
    _PyPerfText *const text = labels.last_text;
    char *const line = text->bytes + text->length;
    char *const name = line + write_numbers(line, labels.next_free,
                                            size_of_function(symbol));
    memcpy(name, symbol->name, symbol->length);
    name[symbol->length] = '\n';

    _PyPerfSymbol *copy = labels.free;
    *copy = (_PyPerfSymbol){
        .start = labels.next_free,
        .made = _PyPerfLabels_Nanoseconds(),
        .name = name,
        .length = symbol->length,
        .file_start = symbol->file_start,
        .room = room,
        .lines = lines,
    };
    if (_Py_hashtable_set(labels.table, copy, copy) < 0) {
        free((void *)lines);
        errno = ENOMEM;
        return NULL;
    }
    const size_t line_length = (size_t)(name - line) + symbol->length + 1;
    text->length += line_length;
    labels.text_room -= line_length;
    labels.next_free += room;
    labels.free++;
    labels.free_count--;
    if (labels.first == NULL) {
        labels.first = copy;
    }
    else {
        labels.last->next = copy;
    }
    labels.last = copy;
    return copy;
}

static _PyPerf_offset
offset_of(const _PyPerfSymbol *symbol)
{
    return (_PyPerf_offset)(symbol->start + _PyPerfLabels_POSITION
                            + (symbol->lines != NULL) * _PyPerfLabels_HAS_LINES
                            - _PyPerfLabels_base);
}

int
_PyPerfLabels_Init(uint32_t room)
{
    static const char unknown_name[] = "py::<unknown>";

    /* Unwinders that read DWARF expect code at multiples of 16. */
    assert(room >= _PyPerfLabels_SIZE && room % 16 == 0);
    labels.room = room;
    if (labels.unknown != 0) {
        return 0;
    }
    if (labels.table == NULL) {
        /* The table outlives the runtime, whose allocators may change. */
        _Py_hashtable_allocator_t allocator = {malloc, free};
        labels.table = _Py_hashtable_new_full(hash_symbol, same_symbol,
                                              NULL, NULL, &allocator);
        if (labels.table == NULL) {
            errno = ENOMEM;
            return -1;
        }
    }
    const _PyPerfSymbol *unknown = keep_symbol(&(_PyPerfSymbol){
        .name = unknown_name, .length = sizeof(unknown_name) - 1,
    });
    if (unknown == NULL) {
        return -1;
    }
    labels.unknown = offset_of(unknown);
    return 0;
}

/* Find or make the symbol.  Return the offset of its label, or 0 with errno.
 */
static _PyPerf_offset
find_or_keep(const _PyPerfSymbol *symbol, const _PyPerfSymbol **is_new)
{
    const _PyPerfSymbol *kept = _Py_hashtable_get(labels.table, symbol);
    if (kept == NULL) {
        kept = *is_new = keep_symbol(symbol);
    }
    return kept != NULL ? offset_of(kept) : 0;
}

/* The same for that of code, with lines or NULL.  0 without errno: there are
   too many lines. */
static _PyPerf_offset
offset_for(PyCodeObject *code, const _PyPerfLines *lines,
           const _PyPerfSymbol **is_new)
{
    char on_stack[512];
    char *name = on_stack;
    size_t length = _PyCode_Symbol(code, name, sizeof(on_stack));
    if (length >= sizeof(on_stack)) {
        name = length <= UINT32_MAX ? malloc(length + 1) : NULL;
        if (name == NULL) {
            errno = ENOMEM;
            return 0;
        }
        _PyCode_Symbol(code, name, length + 1);
    }
    if (lines != NULL && (uint64_t)length * lines->units > MAX_NAMES_SIZE) {
        if (name != on_stack) {
            free(name);
        }
        return 0;
    }
    const _PyPerfSymbol symbol = {
        .name = name, .length = (uint32_t)length, .lines = lines,
        .file_start = lines == NULL ? 0 : (uint32_t)_PyCode_SymbolFile(code),
    };
    const _PyPerf_offset offset = find_or_keep(&symbol, is_new);
    if (name != on_stack) {
        int error = errno;
        free(name);
        errno = error;
    }
    return offset;
}

int
_PyPerfLabels_Assign(PyCodeObject *code, bool with_lines,
                     const _PyPerfSymbol **is_new)
{
    const _PyPerf_offset before = _PyCode_Label(code);
    _PyPerf_offset offset = 0;
    int result = 0;
    *is_new = NULL;
    if (_PyPerfLabels_IsAssigned(before, with_lines)) {
        return 0;
    }
    const _PyPerfLines lines = _PyPerfLines_Of(code);
    if (with_lines && lines.units <= MAX_LINES_SIZE / sizeof(_Py_CODEUNIT)) {
        offset = offset_for(code, &lines, is_new);
    }
    if (offset == 0) {
        offset = before;
        if (offset == 0) {
            offset = offset_for(code, NULL, is_new);
        }
        if (offset == 0) {
            offset = labels.unknown;
            result = -1;
        }
        offset += with_lines * _PyPerfLabels_LACKS_LINES;
    }
    __atomic_store_n(_PyCode_LabelOffset(code), offset, __ATOMIC_RELAXED);
    return result;
}

int
_PyPerfLabels_OfTask(PyObject *name, _PyPerf_offset *offset,
                     const _PyPerfSymbol **is_new)
{
    const Py_hash_t hash = PyObject_Hash(name);
    const size_t place = (size_t)hash % Py_ARRAY_LENGTH(labels.recent_tasks);
    *is_new = NULL;
    *offset = labels.recent_tasks[place].offset;
    if (*offset != 0 && labels.recent_tasks[place].hash == hash) {
        return 0;
    }
    char text[_PyCode_TASK_SIZE];
    _PyPerfSymbol symbol = {.name = text};
    symbol.length = (uint32_t)_PyCode_TaskSymbol(name, text, sizeof(text));
    if (labels.task_kinds >= MAX_TASK_KINDS
        && _Py_hashtable_get(labels.table, &symbol) == NULL) {
        symbol.length = (uint32_t)_PyCode_TaskSymbol(NULL, text, sizeof(text));
    }
    *offset = find_or_keep(&symbol, is_new);
    if (*offset == 0) {
        *offset = labels.unknown;
        return -1;
    }
    labels.task_kinds += *is_new != NULL;
    labels.recent_tasks[place].hash = hash;
    labels.recent_tasks[place].offset = *offset;
    return 0;
}

const _PyPerfSymbol *
_PyPerfLabels_First(void)
{
    return labels.first;
}

const _PyPerfText *
_PyPerfLabels_Text(void)
{
    return labels.text;
}

void
_PyPerfLabels_Seal(bool is_sealed)
{
    labels.is_sealed = is_sealed;
}

void
_PyPerfLabels_AfterFork_Child(void)
{
    labels.is_inherited = labels.last_arena != 0;
}
