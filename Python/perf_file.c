/* Files that profilers read, in directories that strangers may write to.
 *
 * Used by the back ends, Python/perf_map.c and Python/perf_jitdump.c, under
 * their locks.  What happens on fork and on failure is up to them; the
 * contracts are in pycore_perf_file.h.
 *
 * A descriptor of ours may be closed by the program, and its number be used
 * again for a file of the program's.  So before each use the descriptor is
 * compared with the file that was opened, by device and inode; a mapping keeps
 * that inode from being used again.
 *
 * Processes in different namespaces can have one number and one directory, and
 * so the same file.  Each keeps a shared lock on it (flock), which ends with
 * the process: a file that is locked is nobody's leftover.
 */

#include "Python.h"
#include "pycore_perf_file.h"
#include "pycore_perf_process.h"
#include "pycore_perf_system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>             // flock()
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE (S_IRUSR | S_IWUSR)

/* Out of the way of programs that expect the lowest descriptor to be free. */
#define LOWEST_DESCRIPTOR 100

/* Write so many bytes at once if there are many small pieces. */
#define LARGEST_WRITE ((size_t)1 << 20)

static size_t
page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void
close_keeping_errno(int fd)
{
    int error = errno;
    close(fd);
    errno = error;
}

/* --- Whose file is it? --------------------------------------------------- */

static bool
is_private_file(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid()
           && st->st_nlink == 1;
}

static bool
is_older_than_process(const struct stat *st)
{
    /* File times lag by up to a clock tick of the kernel. */
    const double tick = 0.01;
    const struct timespec modified = _PyPerfSystem_MODIFIED(st);
    return (double)modified.tv_sec + 1e-9 * (double)modified.tv_nsec + tick
           < _PyPerfProcess_StartTime();
}

static bool
is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool
was_opened_before(const _PyPerfFile *file, const struct stat *st)
{
    return file->pin != NULL
           && st->st_dev == file->device && st->st_ino == file->inode;
}

/* Does a living process write to the file?  If not, nobody else can take it
   for his as long as fd is open.  Some file systems cannot tell. */
static bool
has_other_writer(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Remove what an earlier process left at path, where st was found.  Return 1,
   0 if a living process writes to it, or -1 with errno. */
static int
remove_leftover(const char *path, const struct stat *st)
{
    struct stat opened;
    /* NFS locks for writing what is open for writing. */
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &opened) == 0 && is_same_file(&opened, st)
        && has_other_writer(fd)) {
        close(fd);
        return 0;
    }
    int result = unlink(path) == 0 || errno == ENOENT ? 1 : -1;
    if (fd >= 0) {
        close_keeping_errno(fd);
    }
    return result;
}

/* --- Opening ------------------------------------------------------------- */

/* Say to other processes of our number that this one writes to fd.  Return
   false if one of them is about to remove the file. */
static bool
lock(int fd)
{
    return flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

#define OPEN_FLAGS \
    (O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* Open what stands at the path, and tell its status.  Return a descriptor, or
   -1 with errno: EAGAIN if nothing stands there any more. */
static int
open_existing(_PyPerfFile *file, struct stat *found)
{
    if (lstat(file->path, found) != 0) {
        errno = EAGAIN;
        return -1;
    }
    if (!is_private_file(found)) {
        errno = EEXIST;
        return -1;
    }
    /* The clock may have been set since, so ours can look old. */
    if (!was_opened_before(file, found) && is_older_than_process(found)) {
        int is_removed = remove_leftover(file->path, found);
        if (is_removed != 0) {
            errno = is_removed > 0 ? EAGAIN : errno;
            return -1;
        }
    }
    int fd = open(file->path, OPEN_FLAGS);
    if (fd >= 0) {
        file->is_shared = has_other_writer(fd);
    }
    else if (errno == ENOENT) {
        errno = EAGAIN;
    }
    return fd;
}

/* Return a descriptor and the status of what it opened, or -1 with errno. */
static int
open_or_create(_PyPerfFile *file, struct stat *opened)
{
    /* Somebody may create or remove the file between two steps: try again. */
    for (int attempt = 0; attempt < 10; attempt++) {
        struct stat found;
        int fd = open(file->path, OPEN_FLAGS | O_CREAT | O_EXCL, FILE_MODE);
        const bool is_created = fd >= 0;
        if (is_created) {
            (void)fchmod(fd, FILE_MODE);        /* whatever the umask is */
            file->is_shared = false;
        }
        else if (errno == EEXIST) {
            fd = open_existing(file, &found);
        }
        if (fd < 0) {
            if (errno != EAGAIN) {
                return -1;
            }
            continue;
        }
        /* Between the two, a stranger may have put a link to a file of ours
           here, and have removed it again. */
        if (lock(fd) && fstat(fd, opened) == 0 && is_private_file(opened)
            && (is_created || is_same_file(opened, &found))) {
            return fd;
        }
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* Open the file by a descriptor that nobody expects to be something else: not
   as one of the standard streams, should they be closed, even for a moment. */
static int
open_out_of_the_way(_PyPerfFile *file, struct stat *st)
{
    int placeholders[STDERR_FILENO + 1];
    int count = 0, result = -1;
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO) {
        placeholders[count++] = fd;
        fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd >= 0) {
        close(fd);
        result = open_or_create(file, st);
    }
    if (result >= 0) {
        int high = fcntl(result, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
        if (high >= 0) {
            close(result);
            result = high;
        }
    }
    while (count > 0) {
        close_keeping_errno(placeholders[--count]);
    }
    return result;
}

static bool
is_ours(const _PyPerfFile *file, struct stat *st)
{
    return file->fd >= 0 && fstat(file->fd, st) == 0
           && st->st_dev == file->device && st->st_ino == file->inode;
}

bool
_PyPerfFile_IsOpen(const _PyPerfFile *file)
{
    struct stat st;
    return is_ours(file, &st) && st.st_nlink > 0;
}

int
_PyPerfFile_Open(_PyPerfFile *file)
{
    if (_PyPerfFile_IsOpen(file)) {
        return 0;
    }
    _PyPerfFile_Close(file);
    struct stat st;
    int fd = open_out_of_the_way(file, &st);
    if (fd < 0) {
        return -1;
    }
    const bool is_known = was_opened_before(file, &st);
    if (!is_known) {
        _PyPerfFile_Forget(file);
    }
    file->fd = fd;
    file->device = st.st_dev;
    file->inode = st.st_ino;
    file->is_new = !is_known;
    file->size = st.st_size;
    return 0;
}

int
_PyPerfFile_Pin(_PyPerfFile *file, int protection)
{
    if (file->pin == NULL) {
        void *pin = mmap(NULL, page_size(), protection, MAP_PRIVATE, file->fd,
                         0);
        if (pin == MAP_FAILED) {
            return -1;
        }
        file->pin = pin;
    }
    return 0;
}

void
_PyPerfFile_Check(_PyPerfFile *file)
{
    struct stat named;
    if (file->pin == NULL) {
        return;
    }
    const bool has_name = lstat(file->path, &named) == 0
                          && was_opened_before(file, &named);
    if (has_name && named.st_size >= file->size) {
        return;
    }
    if (has_name) {
        unlink(file->path);
    }
    _PyPerfFile_Forget(file);
}

/* --- Writing ------------------------------------------------------------- */

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

int
_PyPerfFile_Append(_PyPerfFile *file, const void *bytes, size_t length)
{
    if (remove_torn(file) < 0) {
        return -1;
    }
    size_t done = 0;
    while (done < length) {
        ssize_t n = _PyPerfProcess_Write(file->fd, (const char *)bytes + done,
                                         length - done);
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
    file->size += (off_t)length;
    return 0;
}

int
_PyPerfFile_AppendAll(_PyPerfFile *file, const _PyPerfFile_Pieces *pieces)
{
    /* If something does not fit, a single piece still may. */
    size_t limit = file->is_full ? 0 : LARGEST_WRITE;
    const char *bytes;
    ssize_t length;
    while ((length = pieces->next(limit, &bytes)) > 0) {
        if (_PyPerfFile_Append(file, bytes, (size_t)length) == 0) {
            pieces->written();
            file->is_full = false;
            limit = Py_MIN(2 * limit + (size_t)length, LARGEST_WRITE);
        }
        else if (limit == 0) {
            file->is_full = true;
            return -1;
        }
        else {
            limit = 0;
        }
    }
    return length < 0 ? -1 : 0;
}

/* --- Closing ------------------------------------------------------------- */

void
_PyPerfFile_Close(_PyPerfFile *file)
{
    struct stat st;
    /* A program could have opened the file for itself. */
    if (is_ours(file, &st)
        && (fcntl(file->fd, F_GETFL) & (O_ACCMODE | O_APPEND))
               == (O_RDWR | O_APPEND)) {
        (void)remove_torn(file);
        close(file->fd);
    }
    file->fd = -1;
}

void
_PyPerfFile_Forget(_PyPerfFile *file)
{
    file->torn = 0;             /* in a forked child, the file is another's */
    _PyPerfFile_Close(file);
    if (file->pin != NULL) {
        munmap(file->pin, page_size());
        file->pin = NULL;
    }
    file->is_full = false;
    file->size = 0;
}
