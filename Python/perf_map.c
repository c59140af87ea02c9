/* The perf map: /tmp/perf-PID.map, one line "START SIZE name" per symbol.
 *
 * perf, samply and others read it to name addresses in anonymous executable
 * memory.  Written by the perf trampoline and, through the PyUnstable_*
 * functions, by extension modules that generate code.
 *
 * Lock: a mutex of its own, so no function here needs the GIL.
 * Fork: the child must not write to its parent's file.  The trampoline calls
 * _PyPerfMap_AfterFork_Child(), which forgets the inherited file and lock.
 * Failure: functions return -1 with errno; no Python exception is involved.
 * A line is written whole or not at all.
 *
 * /tmp is shared with strangers: the file is created with O_EXCL, never
 * through a link, and an existing one is used only when it is a regular file
 * of this user with a single name.  A file older than this process is left
 * from an earlier one with the same pid and is replaced; a younger one is
 * another writer's in this process (a JIT compiler's, say) and is appended to.
 */

#include "Python.h"
#include "pycore_perf_trampoline.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAP_MODE (S_IRUSR | S_IWUSR)

/* Out of the way of programs that expect the lowest descriptor to be free. */
#define LOWEST_DESCRIPTOR 100

/* Room for two hexadecimal numbers, two spaces, a newline. */
#define NUMBERS_SIZE (2 * (16 + 1) + 1)

static struct {
    pthread_mutex_t lock;
    int fd;                     /* -1: not open */
    dev_t device;               /* fd's file: programs close descriptors that */
    ino_t inode;                /*   they do not know, and reuse the number */
    char path[sizeof("/tmp/perf-.map") + 20];
} map = {PTHREAD_MUTEX_INITIALIZER, -1, 0, 0, ""};


/* When did this process start?  Seconds of CLOCK_REALTIME; 0: cannot tell. */
static double
process_start_time(void)
{
    /* Field 22 of the file, the 20th after the parenthesised program name. */
    char stat[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t length = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    if (length <= 0) {
        return 0;
    }
    stat[length] = '\0';
    const char *field = strrchr(stat, ')');
    for (int i = 0; field != NULL && i < 20; i++) {
        field = strchr(field + 1, ' ');
    }
    if (field == NULL) {
        return 0;
    }
    double ticks = (double)strtoull(field, NULL, 10);
    struct timespec wall, boot;
    if (clock_gettime(CLOCK_REALTIME, &wall) != 0
        || clock_gettime(CLOCK_BOOTTIME, &boot) != 0) {
        return 0;
    }
    double booted = (double)(wall.tv_sec - boot.tv_sec)
                    + 1e-9 * (double)(wall.tv_nsec - boot.tv_nsec);
    return booted + ticks / (double)sysconf(_SC_CLK_TCK);
}

static int
is_private_file(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1;
}

static int
is_left_from_earlier_process(const struct stat *st)
{
    /* File times lag by up to a clock tick of the kernel. */
    const double tick = 0.01;
    double modified = (double)st->st_mtim.tv_sec
                      + 1e-9 * (double)st->st_mtim.tv_nsec;
    return modified + tick < process_start_time();
}

/* Open the file at map.path.  Return a descriptor, or -1 with errno. */
static int
open_map_file(void)
{
    const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat st;

    /* Somebody may create or remove the file between two steps: try again. */
    for (int attempt = 0; attempt < 10; attempt++) {
        int fd = open(map.path, flags | O_CREAT | O_EXCL, MAP_MODE);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
        if (lstat(map.path, &st) != 0) {
            continue;
        }
        if (!is_private_file(&st)) {
            errno = EEXIST;
            return -1;
        }
        if (is_left_from_earlier_process(&st)) {
            if (unlink(map.path) != 0 && errno != ENOENT) {
                return -1;
            }
            continue;
        }
        fd = open(map.path, flags);
        if (fd < 0) {
            if (errno == ENOENT) {
                continue;
            }
            return -1;
        }
        if (fstat(fd, &st) == 0 && is_private_file(&st)) {
            return fd;
        }
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

static int
map_is_open(void)
{
    struct stat st;
    return map.fd >= 0
           && fstat(map.fd, &st) == 0
           && st.st_dev == map.device && st.st_ino == map.inode;
}

/* The caller holds the lock. */
static int
ensure_open(void)
{
    if (map_is_open()) {
        return 0;
    }
    map.fd = -1;
    PyOS_snprintf(map.path, sizeof(map.path), "/tmp/perf-%ld.map",
                  (long)getpid());
    int fd = open_map_file();
    if (fd < 0) {
        return -1;
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    struct stat st;
    if (fstat(fd, &st) != 0) {
        close(fd);
        return -1;
    }
    map.fd = fd;
    map.device = st.st_dev;
    map.inode = st.st_ino;
    return 0;
}

/* The caller holds the lock, and the map is open. */
static int
append(const char *text, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = write(map.fd, text + done, length - done);
        if (n > 0) {
            done += (size_t)n;
        }
        else if (n < 0 && errno != EINTR) {
            int error = errno;
            struct stat st;
            /* Take a torn line back, unless somebody has written after it. */
            if (done > 0 && fstat(map.fd, &st) == 0
                && lseek(map.fd, 0, SEEK_CUR) == st.st_size
                && ftruncate(map.fd, st.st_size - (off_t)done) != 0) {
                /* The torn line stays: readers skip what they cannot parse. */
            }
            errno = error;
            return -1;
        }
    }
    return 0;
}

/* Lines collected between hold and release: one write for a hundred. */
static struct {
    bool is_active;
    _PyTime_t since;
    size_t length;
    char lines[16 * 1024];
} held;

/* Start-up may be a long program: a .pth file can start one. */
#define MAX_HOLD _PyTime_FromNanoseconds(20 * 1000 * 1000)

/* The caller holds the lock. */
static int
write_held_lines(void)
{
    size_t length = held.length;
    held.length = 0;
    if (length == 0) {
        return 0;
    }
    return ensure_open() < 0 ? -1 : append(held.lines, length);
}

/* Collect line if lines are held at the moment, else write it now.
   The caller holds the lock. */
static int
hold_or_append(const char *line, size_t length)
{
    if (held.is_active
        && _PyTime_GetMonotonicClock() - held.since > MAX_HOLD) {
        held.is_active = false;
    }
    if (!held.is_active || held.length + length > sizeof(held.lines)) {
        if (write_held_lines() < 0) {
            return -1;
        }
    }
    if (!held.is_active || length > sizeof(held.lines)) {
        return ensure_open() < 0 ? -1 : append(line, length);
    }
    memcpy(held.lines + held.length, line, length);
    held.length += length;
    return 0;
}

/* Add one line; the name is printable.  The caller holds the lock. */
static int
append_line(const void *start, unsigned int size, const char *name,
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
    size_t length = (size_t)sprintf(line, "%lx %x ",
                                    (unsigned long)(uintptr_t)start, size);
    memcpy(line + length, name, name_length);
    length += name_length;
    line[length++] = '\n';
    int result = hold_or_append(line, length);
    if (line != on_stack) {
        free(line);
    }
    return result;
}

/* Return a copy of name without control characters, to be freed, or NULL. */
static char *
printable(const char *name)
{
    char *copy = malloc(4 * strlen(name) + 1);
    if (copy == NULL) {
        return NULL;
    }
    char *end = copy;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        if (*p < ' ' || *p == 0x7f) {
            end += sprintf(end, "\\x%02x", *p);
        }
        else {
            *end++ = (char)*p;
        }
    }
    *end = '\0';
    return copy;
}


int
_PyPerfMap_WriteSymbol(const void *start, unsigned int size, const char *name,
                       size_t name_length)
{
    pthread_mutex_lock(&map.lock);
    int result = append_line(start, size, name, name_length);
    pthread_mutex_unlock(&map.lock);
    return result;
}

void
_PyPerfMap_Hold(void)
{
    pthread_mutex_lock(&map.lock);
    held.is_active = true;
    held.since = _PyTime_GetMonotonicClock();
    pthread_mutex_unlock(&map.lock);
}

int
_PyPerfMap_Release(void)
{
    pthread_mutex_lock(&map.lock);
    held.is_active = false;
    int result = write_held_lines();
    pthread_mutex_unlock(&map.lock);
    return result;
}

const char *
_PyPerfMap_Path(void)
{
    return map.path;
}

void
_PyPerfMap_AfterFork_Child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    map.lock = unlocked;
    held.is_active = false;
    held.length = 0;
    PyUnstable_PerfMapState_Fini();
}


/* --- Public functions; see Include/cpython/perf_trampoline.h -------------- */

int
PyUnstable_PerfMapState_Init(void)
{
    pthread_mutex_lock(&map.lock);
    int result = ensure_open();
    pthread_mutex_unlock(&map.lock);
    return result;
}

int
PyUnstable_WritePerfMapEntry(const void *code_addr, unsigned int code_size,
                             const char *entry_name)
{
    char *name = printable(entry_name);
    if (name == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int result = _PyPerfMap_WriteSymbol(code_addr, code_size, name,
                                        strlen(name));
    free(name);
    return result;
}

void
PyUnstable_PerfMapState_Fini(void)
{
    pthread_mutex_lock(&map.lock);
    (void)write_held_lines();
    if (map_is_open()) {
        close(map.fd);
    }
    map.fd = -1;
    pthread_mutex_unlock(&map.lock);
}

int
PyUnstable_CopyPerfMapFile(const char *parent_filename)
{
    char block[8192];
    ssize_t length = 0;
    int parent = open(parent_filename, O_RDONLY | O_NOFOLLOW | O_NONBLOCK
                                       | O_CLOEXEC);
    if (parent < 0) {
        return -1;
    }
    pthread_mutex_lock(&map.lock);
    int result = write_held_lines();
    if (result == 0) {
        result = ensure_open();
    }
    while (result == 0 && (length = read(parent, block, sizeof(block))) != 0) {
        if (length > 0) {
            result = append(block, (size_t)length);
        }
        else if (errno != EINTR) {
            result = -1;
        }
    }
    pthread_mutex_unlock(&map.lock);
    int error = errno;
    close(parent);
    errno = error;
    return result;
}
