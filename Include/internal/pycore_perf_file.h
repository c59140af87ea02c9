#ifndef Py_INTERNAL_PERF_FILE_H
#define Py_INTERNAL_PERF_FILE_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include <limits.h>               // PATH_MAX
#include <stdbool.h>
#include <sys/types.h>            // dev_t, ino_t

/* A file that profilers read, in a directory that strangers may write to.
 * The caller sees to it that one thread at a time uses a file.  No function
 * needs the GIL or raises an exception. */
typedef struct {
    int fd;                     /* -1: not open */
    void *pin;                  /* a mapping of the file, or NULL: as long as
                                   it exists, no other file has its inode */
    dev_t device;               /* the file last opened, to know it again */
    ino_t inode;
    bool is_new;                /* it had to be made */
    bool is_shared;             /* with a process that has our number */
    bool is_full;               /* the last attempt to write has failed */
    off_t size;                 /* at least, if nobody has cut it */
    off_t torn;                 /* bytes at its end that must not be there */
    char path[PATH_MAX];
} _PyPerfFile;

#define _PyPerfFile_INIT {.fd = -1}

/* Open file->path for appending, unless the file is open.  It is created with
 * mode 0600, never through a link.  One that exists is replaced if an earlier
 * process with our number left it, else appended to; only ever if it is a
 * regular file of this user with a single name.  Set is_new unless it is the
 * file that was open before.  Return 0, or -1 with errno: EEXIST if the
 * existing file must not be used. */
extern int _PyPerfFile_Open(_PyPerfFile *file);

/* Map the first page of the open file, so that it can be told from all others
 * even when it is removed or our descriptor is closed.  Return 0, or -1 with
 * errno. */
extern int _PyPerfFile_Pin(_PyPerfFile *file, int protection);

/* Is the descriptor still ours, and the file not removed? */
extern bool _PyPerfFile_IsOpen(const _PyPerfFile *file);

/* Has the file its name and all that was written?  If not, forget it: the next
 * file is a new one. */
extern void _PyPerfFile_Check(_PyPerfFile *file);

/* Append all the bytes or, on failure, none.  The file must be open.
 * Return 0, or -1 with errno. */
extern int _PyPerfFile_Append(_PyPerfFile *file, const void *bytes,
                              size_t length);

/* Something to append in pieces. */
typedef struct {
    /* Set *bytes to what comes next: pieces that take at most limit bytes, or
     * a single one that takes more.  Return their length, 0 if nothing is
     * left, or -1 with errno. */
    ssize_t (*next)(size_t limit, const char **bytes);
    /* These have been written. */
    void (*written)(void);
} _PyPerfFile_Pieces;

/* Append as many of the pieces as fit.  Return 0 if these were all, or -1 with
 * errno. */
extern int _PyPerfFile_AppendAll(_PyPerfFile *file,
                                 const _PyPerfFile_Pieces *pieces);

/* Close the descriptor; the file stays in place, and pinned. */
extern void _PyPerfFile_Close(_PyPerfFile *file);

/* Close the descriptor and forget the file. */
extern void _PyPerfFile_Forget(_PyPerfFile *file);

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_FILE_H */
