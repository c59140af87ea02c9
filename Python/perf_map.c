/* The perf map: /tmp/perf-PID.map, one line "START SIZE name" per symbol.
 *
 * perf, samply and others read it to name addresses in anonymous executable
 * memory.  Written by the perf trampoline and, through the PyUnstable_*
 * functions, by extension modules that generate code.
 *
 * Lock: a mutex of its own, so no function here needs the GIL.
 * Fork: the child must not write to its parent's file.  The trampoline calls
 * _PyPerfMap_AfterFork_Child(), which forgets the inherited file and lock; a
 * child that nobody told of the fork finds out before it writes.
 * Failure: functions return -1 with errno; no Python exception is involved.
 * A line is written whole or not at all.
 *
 * A map of this process that is there already is another writer's, a JIT
 * compiler's, say: lines are appended to it.
 */

#include "Python.h"
#include "pycore_perf_base.h"
#include "pycore_perf_file.h"
#include "pycore_perf_labels.h"
#include "pycore_perf_lines.h"
#include "pycore_perf_process.h"
#include "pycore_perf_trampoline.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>             // PROT_NONE
#include <sys/stat.h>
#include <unistd.h>

/* Room for two hexadecimal numbers, two spaces, a newline. */
#define NUMBERS_SIZE (2 * (16 + 1) + 1)

static struct {
    pthread_mutex_t lock;
    _PyPerfFile file;
    uint64_t process;           /* the stamp of the one that opened it */
    struct {
        const _PyPerfText *text;        /* NULL: nothing */
        size_t length;                  /* of that */
    } written, piece;           /* lines of symbols, see WriteText() */
    struct {
        const _PyPerfSymbol *first;     /* of all that there are */
        const _PyPerfSymbol *written;   /* the last one, or NULL */
        const _PyPerfSymbol *piece;
        char *on_heap;                  /* entries too large for the buffer */
    } source;                   /* lines of source, see WriteLines() */
} map = {PTHREAD_MUTEX_INITIALIZER, _PyPerfFile_INIT};

/* The caller holds the lock. */
static void
forget(void)
{
    _PyPerfFile_Forget(&map.file);
    map.written.text = NULL;
    map.source.written = NULL;
    map.process = _PyPerfProcess_Stamp();
}

/* The caller holds the lock. */
static int
ensure_open(void)
{
    _PyPerfProcess_Watch();
    if (map.process != _PyPerfProcess_Stamp()) {
        forget();
    }
    if (_PyPerfFile_IsOpen(&map.file)) {
        return 0;
    }
    PyOS_snprintf(map.file.path, sizeof(map.file.path), "/tmp/perf-%ld.map",
                  (long)getpid());
    if (_PyPerfFile_Open(&map.file) < 0) {
        return -1;
    }
    if (map.file.is_new) {
        map.written.text = NULL;
        map.source.written = NULL;
    }
    if (_PyPerfFile_Pin(&map.file, PROT_NONE) < 0) {
        int error = errno;
        _PyPerfFile_Close(&map.file);
        errno = error;
        return -1;
    }
    return 0;
}

/* Add one line; the name is printable.  The caller holds the lock, and the map
   is open. */
static int
append_line(uintptr_t start, size_t size, const char *name,
            size_t name_length)
{
    char on_stack[512];
    size_t room = NUMBERS_SIZE + name_length;
    char *line = on_stack;
    if (room > sizeof(on_stack)) {
        line = malloc(room);
        if (line == NULL) {
            errno = ENOMEM;
            return -1;
        }
    }
    size_t length = (size_t)sprintf(line, "%lx %zx ", (unsigned long)start,
                                    size);
    memcpy(line + length, name, name_length);
    length += name_length;
    line[length++] = '\n';
    int result = _PyPerfFile_Append(&map.file, line, length);
    if (line != on_stack) {
        int error = errno;
        free(line);
        errno = error;
    }
    return result;
}

/* Return a copy of name as it may stand in a line, to be freed, or NULL. */
static char *
printable(const char *name)
{
    size_t size = _PyCode_PrintableName(name, NULL, 0) + 1;
    char *copy = malloc(size);
    if (copy != NULL) {
        _PyCode_PrintableName(name, copy, size);
    }
    return copy;
}


/* --- Symbols ------------------------------------------------------------- */

/* See _PyPerfFile_Pieces. */
static ssize_t
next_lines(size_t limit, const char **lines)
{
    const _PyPerfText *text = map.written.text;
    size_t done = map.written.length;
    while (done == text->length) {
        if (text->next == NULL) {
            return 0;
        }
        text = text->next;
        done = 0;
    }
    const char *const start = text->bytes + done;
    size_t length = text->length - done;
    if (length > limit) {
        size_t whole = limit;
        while (whole > 0 && start[whole - 1] != '\n') {
            whole--;
        }
        length = whole > 0 ? whole
                 : (size_t)((char *)memchr(start, '\n', length) + 1 - start);
    }
    map.piece.text = text;
    map.piece.length = done + length;
    *lines = start;
    return (ssize_t)length;
}

static void
lines_are_written(void)
{
    map.written = map.piece;
}

int
_PyPerfMap_WriteText(const _PyPerfText *text)
{
    static const _PyPerfFile_Pieces pieces = {next_lines, lines_are_written};
    pthread_mutex_lock(&map.lock);
    int result = ensure_open();
    if (result == 0) {
        if (map.written.text == NULL) {
            map.written.text = text;
            map.written.length = 0;
        }
        result = _PyPerfFile_AppendAll(&map.file, &pieces);
    }
    pthread_mutex_unlock(&map.lock);
    return result;
}

/* See _PyPerfFile_Pieces. */
static ssize_t
next_entries(size_t limit, const char **entries)
{
    static char buffer[1 << 14];
    const size_t room = Py_MIN(limit, sizeof(buffer));
    size_t length = 0;
    const _PyPerfSymbol *symbol = map.source.first;
    if (map.source.written != NULL) {
        symbol = map.source.written->next;
    }
    for (; symbol != NULL; symbol = symbol->next) {
        if (symbol->lines != NULL) {
            const size_t size = _PyPerfLines_WriteEntries(
                symbol, buffer + length, room > length ? room - length : 0);
            if (length + size > room) {
                break;
            }
            length += size;
        }
        map.source.piece = symbol;
    }
    *entries = buffer;
    if (length > 0 || symbol == NULL) {
        return (ssize_t)length;
    }
    /* Those of the first symbol are too long. */
    length = _PyPerfLines_WriteEntries(symbol, NULL, 0);
    char *on_heap = realloc(map.source.on_heap, length);
    if (on_heap == NULL) {
        errno = ENOMEM;
        return -1;
    }
    map.source.on_heap = on_heap;
    map.source.piece = symbol;
    *entries = on_heap;
    return (ssize_t)_PyPerfLines_WriteEntries(symbol, on_heap, length);
}

static void
entries_are_written(void)
{
    map.source.written = map.source.piece;
}

int
_PyPerfMap_WriteLines(const _PyPerfSymbol *first)
{
    static const _PyPerfFile_Pieces pieces = {
        next_entries, entries_are_written
    };
    pthread_mutex_lock(&map.lock);
    map.source.first = first;
    map.source.piece = map.source.written;
    int result = ensure_open();
    if (result == 0) {
        result = _PyPerfFile_AppendAll(&map.file, &pieces);
    }
    int error = errno;
    if (result == 0) {
        map.source.written = map.source.piece;  /* also those without lines */
    }
    free(map.source.on_heap);
    map.source.on_heap = NULL;
    errno = error;
    pthread_mutex_unlock(&map.lock);
    return result;
}

int
_PyPerfMap_Open(void)
{
    pthread_mutex_lock(&map.lock);
    _PyPerfFile_Check(&map.file);
    int result = ensure_open();
    pthread_mutex_unlock(&map.lock);
    return result;
}

bool
_PyPerfMap_IsShared(void)
{
    pthread_mutex_lock(&map.lock);
    bool result = map.file.is_shared;
    pthread_mutex_unlock(&map.lock);
    return result;
}

const char *
_PyPerfMap_Path(void)
{
    return map.file.path;
}

void
_PyPerfMap_AfterFork_Child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    map.lock = unlocked;
    forget();
}


/* --- Public functions; see Include/cpython/perf_trampoline.h ------------- */

int
PyUnstable_PerfMapState_Init(void)
{
    pthread_mutex_lock(&map.lock);
    int result = ensure_open();
    pthread_mutex_unlock(&map.lock);
    return result;
}

int
PyUnstable_WritePerfMapEntry(const void *code_addr,
                             _PyPerfBase_CODE_SIZE code_size,
                             const char *entry_name)
{
    char *name = printable(entry_name);
    if (name == NULL) {
        errno = ENOMEM;
        return -1;
    }
    pthread_mutex_lock(&map.lock);
    int result = ensure_open();
    if (result == 0) {
        result = append_line((uintptr_t)code_addr, code_size, name,
                             strlen(name));
    }
    pthread_mutex_unlock(&map.lock);
    int error = errno;
    free(name);
    errno = error;
    return result;
}

void
PyUnstable_PerfMapState_Fini(void)
{
    pthread_mutex_lock(&map.lock);
    _PyPerfFile_Close(&map.file);
    pthread_mutex_unlock(&map.lock);
}

/* Append length bytes of another map, all or none, with the lock held. */
static int
append_from(int other, size_t length)
{
    char *text = malloc(length);
    if (text == NULL) {
        errno = ENOMEM;
        return -1;
    }
    ssize_t n = pread(other, text, length, 0);
    int result = n < 0 ? -1 : _PyPerfFile_Append(&map.file, text, (size_t)n);
    int error = errno;
    free(text);
    errno = error;
    return result;
}

int
PyUnstable_CopyPerfMapFile(const char *parent_filename)
{
    struct stat st;
    int parent = open(parent_filename, O_RDONLY | O_NOFOLLOW | O_NONBLOCK
                                       | O_CLOEXEC);
    if (parent < 0) {
        return -1;
    }
    pthread_mutex_lock(&map.lock);
    int result = ensure_open();
    if (result == 0) {
        result = fstat(parent, &st);
    }
    const bool is_own_map = result == 0 && st.st_dev == map.file.device
                            && st.st_ino == map.file.inode;
    if (result == 0 && !is_own_map && st.st_size > 0) {
        result = append_from(parent, (size_t)st.st_size);
    }
    pthread_mutex_unlock(&map.lock);
    int error = errno;
    close(parent);
    errno = error;
    return result;
}
