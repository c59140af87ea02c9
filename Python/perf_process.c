/* The process that is profiled: is it a forked child, when did it start, and
 * how does one write without doing it harm?
 *
 * Used by the perf trampoline, Python/perf_trampoline.c, and by the files that
 * it writes, Python/perf_file.c and the back ends.  Needs neither the GIL nor
 * a lock, but has one for them: what changes here is changed by single atomic
 * operations.
 *
 * Fork: a page that the kernel wipes in the child tells that there was one,
 * without a system call.  Failure: nothing here fails; without the page the
 * number of the process is asked for, without /proc the time of the start is
 * guessed, and a warning that might do harm is not given.
 */

#include "Python.h"
#include "pycore_perf_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What identifies an open file for as long as the computer runs.  A file
   system that does not tell when a file was made cannot be used for it. */
typedef struct {
    dev_t device;
    ino_t inode;
    mode_t mode;
    dev_t special;
    int64_t born_seconds;       /* files only: numbers of inodes are reused */
    uint32_t born_nanoseconds;
} Identity;

static struct {
    double started;             /* this interpreter; 0: not known */
    bool had_stderr;
    Identity stderr_identity;
    uint64_t *stamp;            /* wiped by a fork; NULL: there is no page */
    uint64_t last_stamp;
    uint64_t *family;           /* shared with parents and children, or NULL */
} process;

static void *
map_page(int flags)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE),
                      PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

/* --- Forks --------------------------------------------------------------- */

/* Let the kernel wipe page in a forked child.  Return whether it is going to:
   emulators take any advice, and follow little. */
static bool
wipe_on_fork(void *page)
{
#ifdef MADV_WIPEONFORK
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    const int nonsense = 0x7fff;
    return madvise(page, size, nonsense) < 0
           && madvise(page, size, MADV_WIPEONFORK) == 0;
#else
    (void)page;
    return false;
#endif
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* How often this thread has the lock: a signal handler of the program may fork
   while it does. */
static __thread __attribute__((tls_model("initial-exec"))) int lock_depth;

void
_PyPerfProcess_Lock(void)
{
    if (lock_depth++ == 0) {
        (void)pthread_mutex_lock(&lock);
    }
}

void
_PyPerfProcess_Unlock(void)
{
    if (--lock_depth == 0) {
        (void)pthread_mutex_unlock(&lock);
    }
}

void
_PyPerfProcess_Watch(void)
{
    static bool is_done;
    if (__atomic_exchange_n(&is_done, true, __ATOMIC_RELAXED)) {
        return;
    }
    (void)pthread_atfork(_PyPerfProcess_Lock, _PyPerfProcess_Unlock,
                         _PyPerfProcess_Unlock);
    process.family = map_page(MAP_SHARED);
    uint64_t *page = map_page(MAP_PRIVATE);
    if (page != NULL && !wipe_on_fork(page)) {
        munmap(page, (size_t)sysconf(_SC_PAGESIZE));
        page = NULL;
    }
    __atomic_store_n(&process.stamp, page, __ATOMIC_RELEASE);
}

void
_PyPerfProcess_AfterFork_Child(void)
{
    uint64_t stamp = __atomic_add_fetch(&process.last_stamp, 1,
                                        __ATOMIC_RELAXED);
    if (process.stamp != NULL) {
        __atomic_store_n(process.stamp, stamp, __ATOMIC_RELAXED);
    }
}

uint64_t
_PyPerfProcess_Stamp(void)
{
    uint64_t *page = __atomic_load_n(&process.stamp, __ATOMIC_ACQUIRE);
    if (page == NULL) {
        /* A child that was told of the fork may have its parent's number. */
        return ((uint64_t)getpid() << 32)
               + __atomic_load_n(&process.last_stamp, __ATOMIC_RELAXED);
    }
    uint64_t stamp = __atomic_load_n(page, __ATOMIC_RELAXED);
    if (stamp != 0) {
        return stamp;
    }
    const uint64_t next = __atomic_add_fetch(&process.last_stamp, 1,
                                             __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(page, &stamp, next, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return next;
    }
    return stamp;
}

/* --- Times --------------------------------------------------------------- */

static double
clock_seconds(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) {
        return 0;
    }
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Return the text of /proc/self/stat, or NULL. */
static const char *
read_stat(char *text, size_t size)
{
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length <= 0) {
        return NULL;
    }
    text[length] = '\0';
    return text;
}

double
_PyPerfProcess_StartTime(void)
{
#ifdef CLOCK_BOOTTIME
    char text[1024];
    const char *stat = read_stat(text, sizeof(text));
    /* Field 22, the 20th after the parenthesised program name. */
    const char *field = stat != NULL ? strrchr(stat, ')') : NULL;
    for (int i = 0; field != NULL && i < 20; i++) {
        field = strchr(field + 1, ' ');
    }
    const double now = clock_seconds(CLOCK_REALTIME);
    const double running = clock_seconds(CLOCK_BOOTTIME);
    if (field != NULL && now != 0 && running != 0) {
        double ticks = (double)strtoull(field, NULL, 10);
        return now - running + ticks / (double)sysconf(_SC_CLK_TCK);
    }
#endif
    return process.started;
}

uint64_t
_PyPerfProcess_CPUTime(void)
{
    return (uint64_t)(1e9 * clock_seconds(CLOCK_PROCESS_CPUTIME_ID));
}

/* --- The C stack --------------------------------------------------------- */

size_t
_PyPerfProcess_StackBelow(uintptr_t address, uintptr_t *end)
{
    size_t below = 0;
#ifdef __linux__
    const int error = errno;
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &lowest, &size) == 0
            && address - (uintptr_t)lowest < size) {
            below = address - (uintptr_t)lowest;
            *end = (uintptr_t)lowest + size;
        }
        pthread_attr_destroy(&attributes);
    }
    errno = error;
#else
    (void)address, (void)end;
#endif
    return below;
}

/* --- Writing ------------------------------------------------------------- */

/* The signals that write() may send to its own thread. */
static const int signals_of_write[] = {SIGXFSZ, SIGPIPE, SIGTTOU};

/* They were blocked, but are pending now, and were not before: take them. */
static void
take_signals(const sigset_t *pending_before)
{
#ifdef HAVE_SIGTIMEDWAIT
    const struct timespec now = {0, 0};
    sigset_t ours;
    sigemptyset(&ours);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(signals_of_write); i++) {
        if (!sigismember(pending_before, signals_of_write[i])) {
            sigaddset(&ours, signals_of_write[i]);
        }
    }
    (void)sigtimedwait(&ours, NULL, &now);
#else
    (void)pending_before;
#endif
}

ssize_t
_PyPerfProcess_Write(int fd, const void *bytes, size_t length)
{
    sigset_t ours, blocked, pending;
    bool may_be_pending = false;
    sigemptyset(&ours);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(signals_of_write); i++) {
        sigaddset(&ours, signals_of_write[i]);
    }
    sigemptyset(&pending);
    if (pthread_sigmask(SIG_BLOCK, &ours, &blocked) != 0) {
        return -1;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(signals_of_write); i++) {
        may_be_pending |= sigismember(&blocked, signals_of_write[i]) == 1;
    }
    if (may_be_pending) {
        (void)sigpending(&pending);
    }
    ssize_t result = write(fd, bytes, length);
    int error = errno;
    if (result < 0 && (error == EFBIG || error == EPIPE)) {
        take_signals(&pending);
    }
    (void)pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    errno = error;
    return result;
}

/* --- Warnings ------------------------------------------------------------ */

static bool
identify(int fd, Identity *identity)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return false;
    }
    *identity = (Identity){
        .device = st.st_dev, .inode = st.st_ino, .mode = st.st_mode & S_IFMT,
        .special = st.st_rdev,
    };
    if (!S_ISREG(st.st_mode)) {
        return true;
    }
#ifdef STATX_BTIME
    struct statx extended;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &extended) == 0
        && extended.stx_mask & STATX_BTIME) {
        identity->born_seconds = extended.stx_btime.tv_sec;
        identity->born_nanoseconds = extended.stx_btime.tv_nsec;
        return true;
    }
#endif
    return false;
}

static bool
is_same(const Identity *a, const Identity *b)
{
    return a->device == b->device && a->inode == b->inode
           && a->mode == b->mode && a->special == b->special
           && a->born_seconds == b->born_seconds
           && a->born_nanoseconds == b->born_nanoseconds;
}

void
_PyPerfProcess_Init(void)
{
    if (process.started == 0) {
        process.started = clock_seconds(CLOCK_REALTIME);
        process.had_stderr = identify(STDERR_FILENO,
                                      &process.stderr_identity);
    }
}

void
_PyPerfProcess_Warn(const char *line)
{
    Identity identity;
    struct pollfd reader = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (process.had_stderr && identify(STDERR_FILENO, &identity)
        && is_same(&identity, &process.stderr_identity)
        && poll(&reader, 1, 0) == 1) {
        (void)_PyPerfProcess_Write(STDERR_FILENO, line, strlen(line));
    }
}

bool
_PyPerfProcess_IsFirstInFamily(int error)
{
    if (process.family == NULL) {
        return true;
    }
    uint64_t *word = process.family + (unsigned)error / 64 % 8;
    const uint64_t bit = (uint64_t)1 << (unsigned)error % 64;
    return !(__atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit);
}
