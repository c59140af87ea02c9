/* Labels: which address stands for which Python function.
 *
 * Called by Python/perf_trampoline.c with the GIL held.  The table of symbols
 * is shared by all interpreters of the process and only grows.
 *
 * An arena is address space, not memory: pages that are mapped readable and
 * executable once, never touched, and so never backed by anything.  Nothing
 * jumps there.  The mapping exists because profilers look up only addresses
 * that they know to be executable.  They hear of an arena when it is mapped,
 * before any of its symbols is announced; guard pages keep the kernel from
 * merging it with a neighbour, which would be reported as a new mapping.
 *
 * Fork: the child inherits symbols and arenas, and opens a new arena for what
 * it adds.  Failure: no memory for a symbol means the label "py::<unknown>".
 */

#include "Python.h"
#include "pycore_hashtable.h"     // _Py_hashtable_new_full()
#include "pycore_perf_labels.h"

#include <errno.h>
#include <sys/mman.h>

#define ARENA_SIZE ((size_t)1 << 20)
#define GUARD_SIZE ((size_t)1 << 16)    /* the largest page size there is */
#define RESERVED_SIZE (ARENA_SIZE + 2 * GUARD_SIZE)

/* Profilers look up the byte before a return address: stay off the first. */
#define LABEL_POSITION (_PyPerfLabels_SIZE / 2)

/* Offsets reach as far to both sides of the first arena. */
#define REACH ((uintptr_t)1 << 31)

uintptr_t _PyPerfLabels_base;

static struct {
    _Py_hashtable_t *symbols;   /* symbol -> itself */
    uintptr_t next_free;        /* in the current arena */
    uintptr_t end;
    uintptr_t last_arena;
    uint32_t room;              /* for each new symbol */
    _PyPerf_offset unknown;     /* label of "py::<unknown>" */
} labels;


static Py_uhash_t
hash_symbol(const void *key)
{
    const _PyPerfSymbol *symbol = key;
    return (Py_uhash_t)_Py_HashBytes(symbol->name, symbol->length);
}

static int
same_symbol(const void *key1, const void *key2)
{
    const _PyPerfSymbol *a = key1, *b = key2;
    return a->length == b->length && memcmp(a->name, b->name, a->length) == 0;
}

static int
is_within_reach(uintptr_t arena)
{
    return arena - _PyPerfLabels_base < 2 * REACH - RESERVED_SIZE;
}

/* Reserve address space, anywhere for the first arena, else within reach. */
static void *
reserve(void)
{
    const int prot = PROT_NONE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    if (labels.last_arena == 0) {
        return mmap(NULL, RESERVED_SIZE, prot, flags, -1, 0);
    }
    /* The kernel follows a hint if there is room; look further and further. */
    for (uintptr_t distance = RESERVED_SIZE; distance < REACH; distance *= 2) {
        const uintptr_t hints[] = {labels.last_arena - distance,
                                   labels.last_arena + distance};
        for (int i = 0; i < 2; i++) {
            void *memory = mmap((void *)hints[i], RESERVED_SIZE, prot, flags,
                                -1, 0);
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

static int
new_arena(void)
{
    char *memory = reserve();
    if (memory == MAP_FAILED) {
        return -1;
    }
    char *arena = mmap(memory + GUARD_SIZE, ARENA_SIZE, PROT_READ | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                       -1, 0);
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
    labels.end = labels.next_free + ARENA_SIZE;
    return 0;
}

/* Give symbol its address and enter it into the table. */
static int
add_symbol(_PyPerfSymbol *symbol)
{
    if (labels.end - labels.next_free < labels.room && new_arena() < 0) {
        return -1;
    }
    symbol->start = labels.next_free;
    symbol->room = labels.room;
    if (_Py_hashtable_set(labels.symbols, symbol, symbol) < 0) {
        errno = ENOMEM;
        return -1;
    }
    labels.next_free += labels.room;
    return 0;
}

static _PyPerf_offset
offset_of(const _PyPerfSymbol *symbol)
{
    return (_PyPerf_offset)(symbol->start + LABEL_POSITION
                            - _PyPerfLabels_base);
}

/* Enter a copy of symbol into the table, with an address of its own.
   Return it, or NULL with errno set. */
static _PyPerfSymbol *
keep_symbol(const _PyPerfSymbol *symbol)
{
    size_t size = offsetof(_PyPerfSymbol, name) + symbol->length + 1;
    _PyPerfSymbol *copy = malloc(size);
    if (copy == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(copy, symbol, size);
    copy->announced = 0;
    if (add_symbol(copy) < 0) {
        free(copy);
        return NULL;
    }
    return copy;
}

/* A symbol with room for a name, for a look-up. */
typedef union {
    _PyPerfSymbol symbol;
    char bytes[512];
} ScratchSymbol;

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
    if (labels.symbols == NULL) {
        /* The table outlives the runtime, whose allocators may change. */
        _Py_hashtable_allocator_t allocator = {malloc, free};
        labels.symbols = _Py_hashtable_new_full(hash_symbol, same_symbol,
                                                NULL, NULL, &allocator);
        if (labels.symbols == NULL) {
            errno = ENOMEM;
            return -1;
        }
    }
    ScratchSymbol scratch;
    scratch.symbol.length = (uint32_t)strlen(unknown_name);
    strcpy(scratch.symbol.name, unknown_name);
    const _PyPerfSymbol *unknown = keep_symbol(&scratch.symbol);
    if (unknown == NULL) {
        return -1;
    }
    labels.unknown = offset_of(unknown);
    return 0;
}

/* Write code's symbol into scratch, or into memory that the caller must free
   if it is too long for that.  Return where it is, or NULL. */
static _PyPerfSymbol *
make_symbol(PyCodeObject *code, ScratchSymbol *scratch)
{
    const size_t head = offsetof(_PyPerfSymbol, name);
    _PyPerfSymbol *symbol = &scratch->symbol;
    size_t room = sizeof(*scratch) - head;
    size_t length = _PyCode_Symbol(code, symbol->name, room);
    if (length > UINT32_MAX) {
        return NULL;
    }
    if (length >= room) {
        symbol = malloc(head + length + 1);
        if (symbol == NULL) {
            return NULL;
        }
        _PyCode_Symbol(code, symbol->name, length + 1);
    }
    symbol->length = (uint32_t)length;
    return symbol;
}

int
_PyPerfLabels_Assign(PyCodeObject *code, _PyPerfSymbol **is_new)
{
    _PyPerf_offset *offset = _PyCode_LabelOffset(code);
    *is_new = NULL;
    if (*offset != 0) {
        return 0;
    }
    *offset = labels.unknown;
    ScratchSymbol scratch;
    _PyPerfSymbol *symbol = make_symbol(code, &scratch);
    if (symbol == NULL) {
        errno = ENOMEM;
        return -1;
    }
    const _PyPerfSymbol *kept = _Py_hashtable_get(labels.symbols, symbol);
    if (kept == NULL) {
        kept = *is_new = keep_symbol(symbol);
    }
    if (kept != NULL) {
        *offset = offset_of(kept);
    }
    if (symbol != &scratch.symbol) {
        int error = errno;
        free(symbol);
        errno = error;
    }
    return kept != NULL ? 0 : -1;
}

typedef struct {
    int (*visit)(_PyPerfSymbol *, void *);
    void *arg;
} Visitor;

static int
visit_entry(_Py_hashtable_t *Py_UNUSED(table), const void *Py_UNUSED(key),
            const void *value, void *user_data)
{
    Visitor *visitor = user_data;
    return visitor->visit((_PyPerfSymbol *)value, visitor->arg);
}

int
_PyPerfLabels_ForEach(int (*visit)(_PyPerfSymbol *, void *), void *arg)
{
    Visitor visitor = {visit, arg};
    if (labels.symbols == NULL) {
        return 0;
    }
    return _Py_hashtable_foreach(labels.symbols, visit_entry, &visitor);
}

static int
forget_announcements(_PyPerfSymbol *symbol, void *Py_UNUSED(arg))
{
    symbol->announced = 0;
    return 0;
}

void
_PyPerfLabels_AfterFork_Child(void)
{
    (void)_PyPerfLabels_ForEach(forget_announcements, NULL);
    labels.end = labels.next_free;
}
