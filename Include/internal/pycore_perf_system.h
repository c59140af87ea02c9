#ifndef Py_INTERNAL_PERF_SYSTEM_H
#define Py_INTERNAL_PERF_SYSTEM_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* What the perf trampoline has to know of the operating system, besides what
 * Python/perf_process.c asks of it.  macOS is compiled and never run: see
 * Tools/check/check-macos.sh.
 *
 * _PyPerfSystem_ARENA     how arenas are protected.  Linux tells profilers of
 *     executable memory only.  Profilers of macOS are told of none, and its
 *     hardened runtime has rules for what is executable and for nothing else.
 * _PyPerfSystem_RANDOM(buffer, size)   fill a small buffer without waiting,
 *     and say whether that was possible
 * _PyPerfSystem_MODIFIED(st)   the time in a struct stat
 * _PyPerfSystem_ALIAS(name, function)   name is another symbol of a static
 *     function, for other files of this program */

#if defined(__APPLE__)

#  include <sys/random.h>         // getentropy()
#  define _PyPerfSystem_ARENA PROT_READ
#  define _PyPerfSystem_RANDOM(buffer, size) (getentropy(buffer, size) == 0)
#  define _PyPerfSystem_MODIFIED(st) ((st)->st_mtimespec)
/* There are no aliases in C: the assembler makes one, and C hears of a use. */
#  define _PyPerfSystem_ALIAS(name, function)                                 \
    static __typeof__(function) *const function##_is_used                     \
        __attribute__((used)) = function;                                     \
    _PyPerfSystem_ASSEMBLE(name, function)
#  define _PyPerfSystem_ASSEMBLE(name, function)                              \
    __asm__(".globl _" #name "\n.private_extern _" #name                      \
            "\n.set _" #name ", _" #function)

#else

#  include <sys/random.h>         // getrandom()
#  define _PyPerfSystem_ARENA (PROT_READ | PROT_EXEC)
#  define _PyPerfSystem_RANDOM(buffer, size) \
    (getrandom(buffer, size, GRND_NONBLOCK) == (ssize_t)(size))
#  define _PyPerfSystem_MODIFIED(st) ((st)->st_mtim)
#  define _PyPerfSystem_ALIAS(name, function) \
    extern __typeof__(function) name          \
        _Py_HOT_FUNCTION __attribute__((alias(#function)))

#endif

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_SYSTEM_H */
