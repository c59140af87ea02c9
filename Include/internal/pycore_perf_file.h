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
    dev_t device;               /* fd's file, to know it again */
    ino_t inode;
    bool is_empty;              /* as far as we know */
    off_t torn;                 /* bytes at its end that must not be there */
    char path[PATH_MAX];
    struct {
        bool is_active;
        _PyTime_t since;
        size_t length;
        char bytes[16 * 1024];
    } held;                     /* see _PyPerfFile_Hold() */
} _PyPerfFile;

#define _PyPerfFile_INIT {.fd = -1}

/* Open file->path for appending.  The file is created with mode 0600, never
 * through a link.  One that exists is replaced if an earlier process with our
 * pid left it, else appended to; only ever if it is a regular file of this
 * user with a single name.  Return 0, or -1 with errno: EEXIST if the existing
 * file must not be used.  Does nothing if the file is open. */
extern int _PyPerfFile_Open(_PyPerfFile *file);

extern bool _PyPerfFile_IsOpen(const _PyPerfFile *file);

/* Append all the bytes or, on failure, none.  The file must be open.
 * Return 0, or -1 with errno.  0 may mean that they are held. */
extern int _PyPerfFile_Append(_PyPerfFile *file, const void *bytes,
                              size_t length);

/* Collect what is appended in memory, for a few milliseconds at most, until
 * the release, which writes it.  What cannot be written stays held, and is
 * written before anything else later.  Return 0, or -1 with errno. */
extern void _PyPerfFile_Hold(_PyPerfFile *file);
extern int _PyPerfFile_Release(_PyPerfFile *file);

/* Release and close the file, which stays in place. */
extern void _PyPerfFile_Close(_PyPerfFile *file);

/* Drop what is held and close the descriptor: the file is the parent's. */
extern void _PyPerfFile_AfterFork_Child(_PyPerfFile *file);

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_FILE_H */
