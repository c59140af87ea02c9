/* Enter an evaluator below a frame area (x86-64, System V ABI).

   PyObject *_PyPerf_EnterArea(PyThreadState *tstate,             %rdi
                               _PyInterpreterFrame *frame,        %rsi
                               int throwflag,                     %edx
                               uintptr_t label,                   %rcx
                               size_t free_bytes,                 %r8
                               _PyPerf_areaevalfunc evaluator)    %r9

   Called by the frame evaluation hook (Python/perf_hook.c) whenever C
   enters a Python function, with the GIL held.  It cannot fail, touches no
   state but its own stack frame, and is therefore indifferent to fork.

   _PyPerf_ContinueArea takes a record instead of throwflag, which is 0 then.
   It is for a Python function that a Python function has called when its area
   was full: there the records go on, without the C frames in between.

   The stack while the evaluator runs, high addresses first:

        return address into C
   X:   caller's %rbp                  the real frame record
        caller's %rbx
        label of the function entered
   R0:  X, or the record to go on with the area's first record
        free_bytes / 16 free slots, used from R0 downwards
   A:   the lowest slot                passed on as fourth argument
        8 bytes of padding
        return address into this code
        R0, or the newest slot in use  the evaluator's saved %rbp: the link

   A profiler that walks frame pointers goes evaluator, this code, newest slot,
   ..., R0, X, caller.  The evaluator pushes a label by filling the next slot
   and storing its address in the link; see pycore_ceval_labels.h.

   The way back does not depend on the link: %rbx keeps the address of X.  The
   unwind information of _PyPerf_EnterArea leads from there straight to the
   caller, so that debuggers, C++ exceptions and pthread_exit() see the C stack
   as the CPU does.  That of the functions WithUnwindInfo, otherwise the same,
   leads through the records, like the frame pointers, for profilers that have
   unwind information for labels from the jitdump.  */

#ifdef __CET__
#  include <cet.h>                      /* property note for IBT and SHSTK */
#else
#  define _CET_ENDBR
#endif

        .macro  ENTER_AREA name, continues, through_records
        .globl  \name
        .hidden \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        _CET_ENDBR                      /* reached by an indirect call */
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
        .if \continues
        pushq   %rdx                    /* R0.next = the record given */
        xorl    %edx, %edx              /* throwflag */
        .else
        pushq   %rbp                    /* R0.next = X */
        .endif
        movq    %rsp, %rbp              /* the chain starts at R0 */
        .if \through_records
        .cfi_remember_state
        .cfi_def_cfa %rbp, 16           /* %rbp: the newest record */
        .cfi_same_value %rbx
        .endif
        subq    %r8, %rsp               /* the free slots */
        movq    %rsp, %rcx              /* A: lowest slot, the 4th argument */
        subq    $8, %rsp                /* align the stack for the call */
        call    *%r9                    /* evaluator(tstate, frame, flag, A) */
        .if \through_records
        .cfi_restore_state
        .endif
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
        .size   \name, . - \name
        .endm

        .text
        ENTER_AREA _PyPerf_EnterArea, 0, 0
        ENTER_AREA _PyPerf_ContinueArea, 1, 0
        ENTER_AREA _PyPerf_EnterAreaWithUnwindInfo, 0, 1
        ENTER_AREA _PyPerf_ContinueAreaWithUnwindInfo, 1, 1

/* What a label looks like in a jitdump, 16 bytes.  Nothing ever runs it:
   labels only return, in the eyes of a profiler, by the rule written here.  */
        .globl  _PyPerf_LabelModel
        .hidden _PyPerf_LabelModel
        .type   _PyPerf_LabelModel, @function
        .p2align 4
_PyPerf_LabelModel:
        .cfi_startproc
        .cfi_def_cfa %rbp, 16           /* %rbp: record after the label's */
        .cfi_offset %rbp, -16           /* its next */
        ud2                             /* stop whoever gets here */
        .fill   6, 1, 0x90              /* the label points behind this */
        .quad   0                       /* the jitdump numbers labels here */
        .cfi_endproc
        .size   _PyPerf_LabelModel, . - _PyPerf_LabelModel

        .section .note.GNU-stack, "", @progbits
