/* Enter an evaluator below a frame area (x86-64, System V ABI).

   PyObject *_PyPerf_EnterArea(PyThreadState *tstate,             %rdi
                               _PyInterpreterFrame *frame,        %rsi
                               int throwflag,                     %edx
                               uintptr_t label,                   %rcx
                               size_t free_bytes,                 %r8
                               _PyPerf_areaevalfunc evaluator)    %r9

   Called by the frame evaluation hook (Python/perf_trampoline.c) whenever C
   enters a Python function, with the GIL held.  It cannot fail, touches no
   state but its own stack frame, and is therefore indifferent to fork.

   The stack while the evaluator runs, high addresses first:

        return address into C
   X:   caller's %rbp                  the real frame record
        caller's %rbx
        label of the function entered
   R0:  X                              the area's first record
        free_bytes / 16 free slots, used from R0 downwards
   A:   the lowest slot                passed on as fourth argument
        8 bytes of padding
        return address into this code
        R0, or the newest slot in use  the evaluator's saved %rbp: the link

   A profiler that walks frame pointers goes evaluator, this code, newest slot,
   ..., R0, X, caller.  The evaluator pushes a label by filling the next slot
   and storing its address in the link; see pycore_ceval_labels.h.

   The unwind information does not follow the labels: %rbx keeps the address
   of X, so debuggers, C++ exceptions and pthread_exit() see the C stack as the
   CPU does.  For the same reason the way back does not depend on the link.  */

#ifdef __CET__
#  include <cet.h>                      /* the property note for IBT and SHSTK */
#else
#  define _CET_ENDBR
#endif

        .text
        .globl  _PyPerf_EnterArea
        .hidden _PyPerf_EnterArea
        .type   _PyPerf_EnterArea, @function
        .p2align 4
_PyPerf_EnterArea:
        .cfi_startproc
        _CET_ENDBR                      /* may be reached by an indirect call */
        pushq   %rbp                    /* X: the real record is complete */
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp              /* the chain starts at X */
        .cfi_def_cfa_register %rbp
        pushq   %rbx                    /* the caller's %rbx */
        .cfi_offset %rbx, -24
        movq    %rbp, %rbx              /* X outlives the evaluator in %rbx */
        .cfi_def_cfa_register %rbx
        pushq   %rcx                    /* R0.label */
        pushq   %rbp                    /* R0.next = X */
        movq    %rsp, %rbp              /* the chain starts at R0 */
        subq    %r8, %rsp               /* the free slots */
        movq    %rsp, %rcx              /* A: lowest slot, the 4th argument */
        subq    $8, %rsp                /* align the stack for the call */
        call    *%r9                    /* evaluator(tstate, frame, throwflag, A) */
        leaq    -8(%rbx), %rsp          /* drop the area */
        .cfi_def_cfa %rsp, 24
        popq    %rbx                    /* the caller's %rbx */
        .cfi_def_cfa_offset 16
        .cfi_restore %rbx
        popq    %rbp                    /* the caller's %rbp */
        .cfi_def_cfa_offset 8
        .cfi_restore %rbp
        ret                             /* the evaluator's result is in %rax */
        .cfi_endproc
        .size   _PyPerf_EnterArea, . - _PyPerf_EnterArea

        .section .note.GNU-stack, "", @progbits
