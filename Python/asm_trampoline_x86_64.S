/* Enter an evaluator below frame records (x86-64, System V ABI).

   Called by the frame evaluation hook (Python/perf_hook.c) when C enters a
   Python function, with the GIL held.  The functions cannot fail, touch no
   state but the stack, and are therefore indifferent to fork.

   PyObject *_PyPerf_EnterArea(PyThreadState *tstate,             %rdi
                               _PyInterpreterFrame *frame,        %rsi
                               _PyPerf_record *next,              %rdx
                               uintptr_t label,                   %rcx
                               size_t free_bytes_and_flags,       %r8
                               _PyPerf_areaevalfunc evaluator)    %r9

   makes an area of its own.  The stack while the evaluator runs, high
   addresses first:

        return address into C
   X:   caller's %rbp                  the real frame record
        caller's %rbx
        label of the function entered
   R0:  next, or X if that is NULL     the area's first record
        free_bytes / 16 free slots, used from R0 downwards
   A:   the lowest slot                passed on as fourth argument
        8 bytes of padding
        return address into this code
        R0, or the newest slot in use  the evaluator's saved %rbp: the link

   A profiler that walks frame pointers goes evaluator, this code, newest slot,
   ..., R0, and from there to the Python function that has called C, whose
   newest record is next, or to X.  The evaluator pushes a label by filling the
   next slot and storing its address in the link; see pycore_ceval_labels.h.

   PyObject *_PyPerf_ShareArea(PyThreadState *tstate,             %rdi
                               _PyInterpreterFrame *frame,        %rsi
                               int throwflag,                     %edx
                               _PyPerf_record *lowest,            %rcx
                               _PyPerf_record *record,            %r8
                               _PyPerf_areaevalfunc evaluator)    %r9

   goes on in the area of the evaluator that has called C, in a slot that the
   hook has filled:

        return address into C
        caller's %rbp
        return address into this code
        record, or a newer one         the link

   The way back does not depend on the link: %rbx keeps the address of X, the
   stack pointer that of the caller's %rbp.  By them the unwind information
   leads straight to the caller, so that debuggers, C++ exceptions and
   pthread_exit() see the C stack as the CPU does.  For the functions
   WithUnwindInfo, otherwise the same, the jitdump tells profilers to go
   through the records, like the frame pointers.  What it says is taken from
   the Models, the same once more, which never run.

   PyObject *_PyPerf_EnterWithoutArea(PyThreadState *tstate,      %rdi
                                      _PyInterpreterFrame *frame, %rsi
                                      int flags)                  %edx

   enters the labelled evaluator as if it had been called directly.  It takes
   no stack, and has no label: an evaluator whose lowest slot is its link never
   writes to it.  _PyPerf_EnterLinesWithoutArea enters the one for lines.  */

#ifdef __CET__
#  include <cet.h>                      /* property note for IBT and SHSTK */
#else
#  define _CET_ENDBR
#endif

#include "asm_trampoline_format.h"

/* Call the evaluator, and leave nothing on the stack that looks as if it were
   still running.  */
        .macro  CALL_EVALUATOR is_model
        call    *%r9                    /* evaluator(tstate, frame, flag, A) */
        .ifeq \is_model                 /* a model never runs */
        NOTE_RETURN
        .endif
        movq    $0, -8(%rsp)            /* the return address is used up */
        .endm

        .macro  BEGIN_FUNCTION name
        BEGIN_HIDDEN \name
        _CET_ENDBR                      /* reached by an indirect call */
        .endm

        .macro  ENTER_AREA name, through_records
        BEGIN_FUNCTION \name
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
        testq   %rdx, %rdx              /* is there a calling function? */
        cmovz   %rbp, %rdx              /* no: the record after R0 is X */
        pushq   %rdx                    /* R0.next */
        movq    %rsp, %rbp              /* the chain starts at R0 */
        .if \through_records
        .cfi_remember_state
        .cfi_def_cfa %rbp, 16           /* %rbp: the newest record */
        .cfi_same_value %rbx
        .endif
        movl    %r8d, %edx
        andl    $15, %edx               /* flags, the evaluator's throwflag */
        andq    $-16, %r8
        subq    %r8, %rsp               /* the free slots */
        movq    %rsp, %rcx              /* A: lowest slot, the 4th argument */
        subq    $8, %rsp                /* align the stack for the call */
        CALL_EVALUATOR \through_records
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
        END_HIDDEN \name
        .endm

        .macro  SHARE_AREA name, through_records
        BEGIN_FUNCTION \name
        pushq   %rbp                    /* the caller's %rbp */
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %r8, %rbp               /* the chain starts at the record */
        .if \through_records
        .cfi_remember_state
        .cfi_def_cfa %rbp, 16           /* %rbp: the newest record */
        .endif
        CALL_EVALUATOR \through_records
        .if \through_records
        .cfi_restore_state
        .endif
        popq    %rbp                    /* the caller's %rbp */
        .cfi_def_cfa_offset 8
        .cfi_restore %rbp
        ret                             /* the evaluator's result is in %rax */
        END_HIDDEN \name
        .endm

/* perf takes what follows code for the unwind information that the jitdump has
   for it: _PyPerfJitdump_AREA_ROOM bytes from a multiple of 8 on.  */
        .macro  ROOM
        .p2align 3, 0xcc
        .fill   192, 1, 0xcc
        .endm

        ENTER_AREA SYMBOL(_PyPerf_EnterArea), 0
        SHARE_AREA SYMBOL(_PyPerf_ShareArea), 0
        ENTER_AREA SYMBOL(_PyPerf_EnterAreaWithUnwindInfo), 0
        ROOM
        SHARE_AREA SYMBOL(_PyPerf_ShareAreaWithUnwindInfo), 0
        ROOM
        ENTER_AREA SYMBOL(_PyPerf_EnterAreaModel), 1
        SHARE_AREA SYMBOL(_PyPerf_ShareAreaModel), 1

/* What a label looks like in a jitdump, 16 bytes.  Nothing ever runs it:
   labels only return, in the eyes of a profiler, by the rule written here.  It
   is not the last here, as linkers pad the last entry of an .eh_frame.  */
        BEGIN_HIDDEN SYMBOL(_PyPerf_LabelModel)
        .cfi_def_cfa %rbp, 16           /* %rbp: record after the label's */
        .cfi_offset %rbp, -16           /* its next */
        ud2                             /* stop whoever gets here */
        .fill   6, 1, 0x90              /* the label points behind this */
        .quad   0                       /* the jitdump numbers labels here */
        END_HIDDEN SYMBOL(_PyPerf_LabelModel)

        .macro  ENTER_WITHOUT_AREA name, evaluator
        BEGIN_FUNCTION \name
        movq    %rbp, %rcx              /* lowest slot: what is the link */
        jmp     \evaluator
        REFER_HIDDEN \evaluator
        END_HIDDEN \name
        .endm

        ENTER_WITHOUT_AREA SYMBOL(_PyPerf_EnterWithoutArea), \
                           SYMBOL(_PyEval_EvalFrameDefault_labelled)
        ENTER_WITHOUT_AREA SYMBOL(_PyPerf_EnterLinesWithoutArea), \
                           SYMBOL(_PyEval_EvalFrameDefault_lines)

        END_FILE
