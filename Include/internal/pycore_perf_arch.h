#ifndef Py_INTERNAL_PERF_ARCH_H
#define Py_INTERNAL_PERF_ARCH_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* What the perf trampoline has to know of a processor architecture besides
 * Python/asm_trampoline_*.S.  No other file of C names one.
 *
 * _PyPerfArch_PC(ucontext)   what a signal handler's ucontext_t says of the
 * _PyPerfArch_FP(ucontext)   interrupted code: program counter, frame pointer
 *
 * _PyPerfArch_ReturnAddress(ucontext)   where the interrupted function returns
 *     to, if it has not made its frame record; otherwise anything
 *
 * _PyPerfArch_PlainAddress(address)   a return address as it stands in a frame
 *     record, without a signature that was put into its unused bits
 *
 * _PyPerfArch_StackPointer()   about where the stack of the caller ends; in
 *     contrast to a frame's address, it does not ask for a frame record
 *
 * _PyPerfArch_RECORD(pointer)   where the frame record is that a frame pointer
 *     stands for; pointer is a pointer to the type of the record, 16 bytes
 *
 * _PyPerfArch_LEAVES_LACK_RECORDS   defined if functions that call
 *     nothing keep the caller's frame pointer only, where records have the
 *     return address */

#if defined(__x86_64__)

#  define _PyPerfArch_PC(ucontext) ((ucontext)->uc_mcontext.gregs[REG_RIP])
#  define _PyPerfArch_FP(ucontext) ((ucontext)->uc_mcontext.gregs[REG_RBP])
#  define _PyPerfArch_PlainAddress(address) (address)
#  define _PyPerfArch_RECORD(pointer) (pointer)
#  define _PyPerfArch_GET_STACK_POINTER "movq %%rsp, %0"

/* On top of the stack, or below the frame pointer that was just pushed. */
#  define _PyPerfArch_ReturnAddress(ucontext) \
    _PyPerfArch_TopOfStack((const uintptr_t *) \
                           (ucontext)->uc_mcontext.gregs[REG_RSP], \
                           (uintptr_t)_PyPerfArch_FP(ucontext))

static inline uintptr_t
_PyPerfArch_TopOfStack(const uintptr_t *top, uintptr_t frame_pointer)
{
    return top[top[0] == frame_pointer];
}

#elif defined(__aarch64__)

#  define _PyPerfArch_PC(ucontext) ((ucontext)->uc_mcontext.pc)
#  define _PyPerfArch_FP(ucontext) ((ucontext)->uc_mcontext.regs[29])
#  define _PyPerfArch_ReturnAddress(ucontext) \
    _PyPerfArch_PlainAddress((ucontext)->uc_mcontext.regs[30])
#  define _PyPerfArch_RECORD(pointer) (pointer)
#  define _PyPerfArch_GET_STACK_POINTER "mov %0, sp"

/* The instruction xpaclri, spelled for any assembler.  A processor that does
 * not sign return addresses ignores it. */
static inline uintptr_t
_PyPerfArch_PlainAddress(uintptr_t address)
{
    register uintptr_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

#elif defined(__riscv) && __riscv_xlen == 64

#  define _PyPerfArch_PC(ucontext) ((ucontext)->uc_mcontext.__gregs[REG_PC])
#  define _PyPerfArch_FP(ucontext) ((ucontext)->uc_mcontext.__gregs[REG_S0])
#  define _PyPerfArch_ReturnAddress(ucontext) \
    ((ucontext)->uc_mcontext.__gregs[REG_RA])
#  define _PyPerfArch_PlainAddress(address) (address)
#  define _PyPerfArch_GET_STACK_POINTER "mv %0, sp"
/* A frame pointer is what the stack pointer was before the call. */
#  define _PyPerfArch_RECORD(pointer) ((pointer) - 1)
#  if !defined(__clang__) && __GNUC__ < 14
#    define _PyPerfArch_LEAVES_LACK_RECORDS
#  endif

#endif

#ifdef _PyPerfArch_GET_STACK_POINTER
static inline uintptr_t
_PyPerfArch_StackPointer(void)
{
    uintptr_t pointer;
    __asm__(_PyPerfArch_GET_STACK_POINTER : "=r"(pointer));
    return pointer;
}
#endif

#ifdef __cplusplus
}
#endif
#endif /* !Py_INTERNAL_PERF_ARCH_H */
