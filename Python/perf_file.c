/* Files that profilers read, in directories that strangers may write to.
 *
 * Used by the back ends, Python/perf_map.c and Python/perf_jitdump.c, under
 * their locks.  What happens on fork and on failure is up to them; the
 * contracts are in pycore_perf_file.h.
 */

#include "Python.h"
#include "pycore_perf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_MODE (S_IRUSR | S_IWUSR)

/* Out of the way of programs that expect the lowest descriptor to be free. */
#define LOWEST_DESCRIPTOR 100

/* Start-up may be a long program: a .pth file can start one. */
#define MAX_HOLD _PyTime_FromNanoseconds(20 * 1000 * 1000)


/* When did this process start?  Seconds of CLOCK_REALTIME; 0: cannot tell. */
static double
process_start_time(void)
{
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
    /* Field 22, the 20th after the parenthesised program name. */
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

static bool
is_private_file(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid()
           && st->st_nlink == 1;
}

static bool
is_left_from_earlier_process(const struct stat *st)
{
    /* File times lag by up to a clock tick of the kernel. */
    const double tick = 0.01;
    double modified = (double)st->st_mtim.tv_sec
                      + 1e-9 * (double)st->st_mtim.tv_nsec;
    return modified + tick < process_start_time();
}

static bool
is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool
was_opened_before(const _PyPerfFile *file, const struct stat *st)
{
    return st->st_dev == file->device && st->st_ino == file->inode;
}

/* Return a descriptor and the status of what it opened, or -1 with errno. */
static int
open_or_create(const _PyPerfFile *file, struct stat *opened)
{
    const char *path = file->path;
    const int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat st;

    /* Somebody may create or remove the file between two steps: try again. */
    for (int attempt = 0; attempt < 10; attempt++) {
        int fd = open(path, flags | O_CREAT | O_EXCL, FILE_MODE);
        if (fd >= 0) {
            (void)fchmod(fd, FILE_MODE);        /* whatever the umask is */
            if (fstat(fd, opened) == 0) {
                return fd;
            }
            int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        if (errno != EEXIST) {
            return -1;
        }
        if (lstat(path, &st) != 0) {
            continue;
        }
        if (!is_private_file(&st)) {
            break;
        }
        /* The clock may have been set since, so ours can look old. */
        if (!was_opened_before(file, &st)
            && is_left_from_earlier_process(&st)) {
            if (unlink(path) != 0 && errno != ENOENT) {
                return -1;
            }
            continue;
        }
        fd = open(path, flags);
        if (fd >= 0) {
            /* Between the two, a stranger may have put a link to a file of
               ours here, and have removed it again. */
            if (fstat(fd, opened) == 0 && is_same_file(opened, &st)
                && is_private_file(opened)) {
                return fd;
            }
            close(fd);
        }
        else if (errno != ENOENT) {
            return -1;
        }
    }
    errno = EEXIST;
    return -1;
}

/* Programs close descriptors that they do not know, and reuse the number. */
static bool
descriptor_is_ours(const _PyPerfFile *file)
{
    struct stat st;
    return file->fd >= 0
           && fstat(file->fd, &st) == 0
           && was_opened_before(file, &st);
}

bool
_PyPerfFile_IsOpen(const _PyPerfFile *file)
{
    /* What is held is written to the descriptor later, after a check. */
    return file->held.is_active ? file->fd >= 0 : descriptor_is_ours(file);
}

int
_PyPerfFile_Open(_PyPerfFile *file)
{
    if (_PyPerfFile_IsOpen(file)) {
        return 0;
    }
    file->fd = -1;
    struct stat st;
    int fd = open_or_create(file, &st);
    if (fd < 0) {
        return -1;
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    file->fd = fd;
    file->device = st.st_dev;
    file->inode = st.st_ino;
    file->is_empty = st.st_size == 0;
    file->torn = 0;
    return 0;
}

/* Remove what was written of something that could not be written whole, unless
   somebody has written after it. */
static int
remove_torn(_PyPerfFile *file)
{
    struct stat st;
    if (file->torn == 0) {
        return 0;
    }
    off_t end = lseek(file->fd, 0, SEEK_CUR);
    if (end < 0 || fstat(file->fd, &st) != 0
        || (end == st.st_size && ftruncate(file->fd, end - file->torn) != 0)) {
        return -1;
    }
    file->torn = 0;
    return 0;
}

static int
write_whole(_PyPerfFile *file, const char *bytes, size_t length)
{
    if (remove_torn(file) < 0) {
        return -1;
    }
    size_t done = 0;
    while (done < length) {
        ssize_t n = write(file->fd, bytes + done, length - done);
        if (n > 0) {
            done += (size_t)n;
        }
        else if (n == 0 || errno != EINTR) {
            int error = n == 0 ? EIO : errno;
            file->torn = (off_t)done;
            (void)remove_torn(file);
            errno = error;
            return -1;
        }
    }
    file->is_empty = false;
    return 0;
}

static int
write_held(_PyPerfFile *file)
{
    if (file->held.length == 0) {
        return 0;
    }
    if (!descriptor_is_ours(file)) {
        errno = EBADF;
        return -1;
    }
    if (write_whole(file, file->held.bytes, file->held.length) < 0) {
        return -1;
    }
    file->held.length = 0;
    return 0;
}

int
_PyPerfFile_Append(_PyPerfFile *file, const void *bytes, size_t length)
{
    if (file->held.is_active
        && _PyTime_GetMonotonicClock() - file->held.since > MAX_HOLD) {
        file->held.is_active = false;
    }
    if (!file->held.is_active
        || file->held.length + length > sizeof(file->held.bytes)) {
        if (write_held(file) < 0) {
            return -1;
        }
    }
    if (!file->held.is_active || length > sizeof(file->held.bytes)) {
        return write_whole(file, bytes, length);
    }
    memcpy(file->held.bytes + file->held.length, bytes, length);
    file->held.length += length;
    return 0;
}

void
_PyPerfFile_Hold(_PyPerfFile *file)
{
    file->held.is_active = true;
    file->held.since = _PyTime_GetMonotonicClock();
}

int
_PyPerfFile_Release(_PyPerfFile *file)
{
    file->held.is_active = false;
    return write_held(file);
}

void
_PyPerfFile_Close(_PyPerfFile *file)
{
    (void)_PyPerfFile_Release(file);
    if (descriptor_is_ours(file)) {
        (void)remove_torn(file);
        close(file->fd);
    }
    file->fd = -1;
}

void
_PyPerfFile_AfterFork_Child(_PyPerfFile *file)
{
    file->held.is_active = false;
    file->held.length = 0;
    file->torn = 0;
    _PyPerfFile_Close(file);
    file->device = 0;
    file->inode = 0;
}
