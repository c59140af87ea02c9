#ifndef Py_INTERNAL_PERF_PROCESS_H
#define Py_INTERNAL_PERF_PROCESS_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

#include <stdbool.h>
#include <sys/types.h>            // ssize_t

/* The process that is profiled: it belongs to somebody else.  No function
 * needs the GIL or raises an exception. */

/* Remember what standard error is, and the time.  Call it when the first
 * interpreter starts, before the program runs. */
extern void _PyPerfProcess_Init(void);

/* Prepare for forks.  Call it before the other functions; the second time it
 * does nothing. */
extern void _PyPerfProcess_Watch(void);

/* For what all interpreters share, since each can have a GIL of its own.  The
 * thread that has it must neither let go of its GIL nor run Python code.  A
 * fork waits for it, so that the child finds everything whole. */
extern void _PyPerfProcess_Lock(void);
extern void _PyPerfProcess_Unlock(void);

/* A number that a process has not in common with the one that forked it.
 * Makes no system call if the kernel has MADV_WIPEONFORK. */
extern uint64_t _PyPerfProcess_Stamp(void);

/* Change the stamp: this is a forked child. */
extern void _PyPerfProcess_AfterFork_Child(void);

/* When did the process start?  Seconds of CLOCK_REALTIME.  Without /proc, when
 * the interpreter started. */
extern double _PyPerfProcess_StartTime(void);

/* Nanoseconds of CPU time that the process has used. */
extern uint64_t _PyPerfProcess_CPUTime(void);

/* How many bytes of this thread's C stack are below the address, and where
 * does it end?  0: nobody knows, or the address is on another stack. */
extern size_t _PyPerfProcess_StackBelow(uintptr_t address, uintptr_t *end);

/* write(), but the process gets no signal for it: not if the file is as large
 * as it may be, nobody reads the pipe, or it must not write to the terminal.
 * The call fails, or writes, as if the signal were ignored. */
extern ssize_t _PyPerfProcess_Write(int fd, const void *bytes, size_t length);

/* Write a line to standard error unless it is closed, is another file than it
 * was at the start, or would make us wait. */
extern void _PyPerfProcess_Warn(const char *line);

/* Is this the first time that the process, those that it was forked from since
 * Watch(), or those that they have forked, ask about this error? */
extern bool _PyPerfProcess_IsFirstInFamily(int error);

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_PROCESS_H */
