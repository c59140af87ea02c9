/* Calls of the perf trampoline to the C library fail one by one.
 *
 * A library for LD_PRELOAD, used by Lib/test/test_perf_faults.py and built
 * with _testperf.  It stands between the interpreter and the C library; a
 * call that returns into one of our object files can be made to fail.  So the
 * interpreter under test is the one that users get.  The environment says
 * what to do:
 *
 * PERF_TEST_FAULTS_CODE    a file of lines "START END OBJECT": where the code
 *                          of our object files is, as nm shows it
 * PERF_TEST_FAULTS         the calls that fail, as in "m1,o3,w*": the first
 *                          malloc(), the third open() and every write().  The
 *                          letters are below.
 * PERF_TEST_FAULTS_TRACE   a file to which a line "LETTER NUMBER FUNCTION
 *                          OBJECT SITE FAILED" is appended for each call; SITE
 *                          tells calls in the source from one another
 * PERF_TEST_BEFORE_o3      a shell command that runs before the third open(),
 *                          and so on
 *
 * A forked child goes on counting where its parent was.
 */

#include "pyconfig.h"             // _GNU_SOURCE, _FILE_OFFSET_BITS: with the
                                  // latter, open() is linked as open64()
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>                 // dl_iterate_phdr()
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>             // flock()
#include <sys/mman.h>
#include <sys/random.h>           // getrandom()
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* --- Which calls fail ---------------------------------------------------- */

static struct {
    bool is_on;
    bool has_begun;                     /* the trampoline, to make calls */
    uintptr_t load_address;
    struct {
        uintptr_t start, end;
        char object[32];
    } code[512];
    size_t code_length;
    struct {
        char letter;
        unsigned long number;           /* 0: all */
    } faults[64];
    size_t faults_length;
    unsigned long counts[128];          /* of calls, by letter */
    int trace;                          /* -1: none */
} state = {.trace = -1};

/* Return the object file that the code at address comes from, or NULL. */
static const char *
object_at(uintptr_t address)
{
    address -= state.load_address;
    for (size_t i = 0; i < state.code_length; i++) {
        if (address - state.code[i].start
            < state.code[i].end - state.code[i].start) {
            return state.code[i].object;
        }
    }
    return NULL;
}

static bool
is_in_script(char letter, unsigned long number)
{
    for (size_t i = 0; i < state.faults_length; i++) {
        if (state.faults[i].letter == letter
            && (state.faults[i].number == 0
                || state.faults[i].number == number)) {
            return true;
        }
    }
    return false;
}

static void
run_command_before(char letter, unsigned long number)
{
    char name[64];
    snprintf(name, sizeof(name), "PERF_TEST_BEFORE_%c%lu", letter, number);
    const char *command = getenv(name);
    if (command != NULL && system(command) != 0) {
        abort();
    }
}

/* Count the call, and return whether it has to fail. */
static bool
fails(char letter, const char *function, void *return_address)
{
    if (!state.is_on) {
        return false;
    }
    const char *object = object_at((uintptr_t)return_address);
    if (object == NULL) {
        return false;
    }
    /* Others use hash tables, too, but earlier. */
    state.has_begun |= strcmp(object, "hashtable") != 0;
    if (!state.has_begun) {
        return false;
    }
    unsigned long number = ++state.counts[(int)letter];
    bool is_fault = is_in_script(letter, number);
    run_command_before(letter, number);
    if (state.trace >= 0) {
        char line[200];
        int error = errno;
        int length = snprintf(line, sizeof(line), "%c %lu %s %s %lx %d\n",
                              letter, number, function, object,
                              (unsigned long)((uintptr_t)return_address
                                              - state.load_address), is_fault);
        (void)syscall(SYS_write, state.trace, line, (size_t)length);
        errno = error;
    }
    return is_fault;
}

/* For a test that wants peace afterwards. */
void
testperf_faults_stop(void)
{
    state.is_on = false;
}

static void
read_code(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        abort();
    }
    unsigned long start, end;
    size_t i = 0;
    while (fscanf(file, "%lx %lx %31s", &start, &end, state.code[i].object)
           == 3) {
        state.code[i].start = start;
        state.code[i].end = end;
        if (++i == sizeof(state.code) / sizeof(state.code[0])) {
            abort();
        }
    }
    state.code_length = i;
    fclose(file);
}

static void
read_script(const char *script)
{
    while (*script) {
        size_t i = state.faults_length++;
        if (i == sizeof(state.faults) / sizeof(state.faults[0])) {
            abort();
        }
        state.faults[i].letter = *script++;
        if (*script == '*') {
            script++;
        }
        else {
            state.faults[i].number = strtoul(script, (char **)&script, 10);
        }
        if (*script == ',') {
            script++;
        }
    }
}

__attribute__((constructor)) static void
start(void)
{
    const char *code = getenv("PERF_TEST_FAULTS_CODE");
    const char *script = getenv("PERF_TEST_FAULTS");
    const char *trace = getenv("PERF_TEST_FAULTS_TRACE");
    Dl_info info;
    /* Programs that the interpreter starts are left alone. */
    void *here = dlsym(RTLD_DEFAULT, "PyUnstable_PerfMapState_Init");
    if (code == NULL || here == NULL || dladdr(here, &info) == 0) {
        return;
    }
    ElfW(Ehdr) *header = info.dli_fbase;
    state.load_address = header->e_type == ET_DYN ? (uintptr_t)header : 0;
    read_code(code);
    read_script(script ? script : "");
    if (trace != NULL) {
        state.trace = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                           0600);
        int high = fcntl(state.trace, F_DUPFD_CLOEXEC, 200);
        close(state.trace);
        state.trace = high;
    }
    state.is_on = true;
}

/* --- The calls ----------------------------------------------------------- */

#define CALLER __builtin_return_address(0)

/* The C library's function of that name. */
#define REAL(name) \
    (*(__typeof__(&name))next_function(&real_##name, REAL_NAME(name)))
#define REAL_NAME(name) #name
#define DEFINE_REAL(name) static void *real_##name

static void *
next_function(void **pointer, const char *name)
{
    if (*pointer == NULL) {
        char name_64[64];
        snprintf(name_64, sizeof(name_64), "%s64", name);
        *pointer = dlsym(RTLD_NEXT, name_64);
        if (*pointer == NULL) {
            *pointer = dlsym(RTLD_NEXT, name);
        }
        if (*pointer == NULL) {
            abort();
        }
    }
    return *pointer;
}

/* A function that returns failure, with errno, when the script says so. */
#define CALL(letter, error, failure, type, name, parameters, arguments)       \
    DEFINE_REAL(name);                                                        \
    type                                                                      \
    name parameters                                                           \
    {                                                                         \
        if (fails(letter, #name, CALLER)) {                                   \
            errno = error;                                                    \
            return failure;                                                   \
        }                                                                     \
        return REAL(name) arguments;                                          \
    }

CALL('M', ENOMEM, MAP_FAILED, void *, mmap,
     (void *address, size_t length, int prot, int flags, int fd, off_t offset),
     (address, length, prot, flags, fd, offset))
CALL('U', ENOMEM, -1, int, munmap, (void *address, size_t length),
     (address, length))
CALL('r', EIO, -1, ssize_t, read, (int fd, void *buffer, size_t length),
     (fd, buffer, length))
CALL('R', EIO, -1, ssize_t, pread,
     (int fd, void *buffer, size_t length, off_t offset),
     (fd, buffer, length, offset))
CALL('s', ENOMEM, -1, int, fstat, (int fd, struct stat *st), (fd, st))
CALL('l', ENOMEM, -1, int, lstat, (const char *path, struct stat *st),
     (path, st))
CALL('t', EIO, -1, int, ftruncate, (int fd, off_t length), (fd, length))
CALL('k', EINVAL, -1, off_t, lseek, (int fd, off_t offset, int whence),
     (fd, offset, whence))
CALL('u', EACCES, -1, int, unlink, (const char *path), (path))
CALL('h', EPERM, -1, int, fchmod, (int fd, mode_t mode), (fd, mode))
CALL('g', EINVAL, -1, int, getrlimit,
     (__rlimit_resource_t resource, struct rlimit *limit), (resource, limit))
CALL('T', EINVAL, -1, int, clock_gettime,
     (clockid_t clock, struct timespec *time), (clock, time))

CALL('f', ENOLCK, -1, int, flock, (int fd, int operation), (fd, operation))
CALL('a', EINVAL, -1, int, madvise, (void *address, size_t length, int advice),
     (address, length, advice))
CALL('n', ENOSYS, -1, ssize_t, getrandom,
     (void *buffer, size_t length, unsigned int flags),
     (buffer, length, flags))
CALL('X', ENOSYS, -1, int, statx,
     (int directory, const char *path, int flags, unsigned int mask,
      struct statx *st), (directory, path, flags, mask, st))
CALL('P', ENOMEM, -1, int, poll,
     (struct pollfd *fds, nfds_t count, int timeout), (fds, count, timeout))

/* These tell what went wrong by what they return. */
CALL('G', errno, ENOMEM, int, pthread_getattr_np,
     (pthread_t thread, pthread_attr_t *attributes), (thread, attributes))
CALL('S', errno, EINVAL, int, pthread_attr_getstack,
     (const pthread_attr_t *attributes, void **lowest, size_t *size),
     (attributes, lowest, size))

/* Finds nothing. */
CALL('i', errno, 0, int, dl_iterate_phdr,
     (int (*callback)(struct dl_phdr_info *, size_t, void *), void *data),
     (callback, data))

DEFINE_REAL(open);
int
open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (fails('o', "open", CALLER)) {
        errno = EACCES;
        return -1;
    }
    return REAL(open)(path, flags, mode);
}

DEFINE_REAL(fcntl);
int
fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (fails('d', "fcntl", CALLER)) {
        errno = EMFILE;
        return -1;
    }
    return REAL(fcntl)(fd, command, argument);
}

/* The descriptor is gone in any case, as on Linux. */
DEFINE_REAL(close);
int
close(int fd)
{
    bool is_fault = fails('x', "close", CALLER);
    int result = REAL(close)(fd);
    if (is_fault) {
        errno = EIO;
        return -1;
    }
    return result;
}

/* w: the disk is full.  p: it is after half of the bytes, as the next call is
   told.  e, b: a signal comes, before the first or after half of the bytes. */
DEFINE_REAL(write);
ssize_t
write(int fd, const void *bytes, size_t length)
{
    static bool was_full;
    bool is_full = fails('w', "write", CALLER) || was_full;
    bool is_soon_full = fails('p', "write", CALLER);
    bool is_interrupted = fails('e', "write", CALLER);
    bool is_cut = fails('b', "write", CALLER) || is_soon_full;
    if (is_full || is_interrupted) {
        was_full = false;
        errno = is_full ? ENOSPC : EINTR;
        return -1;
    }
    was_full = is_soon_full;
    return REAL(write)(fd, bytes, is_cut ? (length + 1) / 2 : length);
}

/* dlsym() may call these. */
extern void *__libc_malloc(size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_calloc(size_t count, size_t size);

void *
malloc(size_t size)
{
    if (fails('m', "malloc", CALLER)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
    if (fails('c', "calloc", CALLER)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, size);
}

void *
realloc(void *memory, size_t size)
{
    if (fails('q', "realloc", CALLER)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(memory, size);
}
