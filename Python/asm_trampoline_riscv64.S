/* Enter an evaluator below frame records (RISC-V, RV64 with the ABIs lp64*).

   PyObject *_PyPerf_EnterArea(PyThreadState *tstate,             a0
                               _PyInterpreterFrame *frame,        a1
                               _PyPerf_record *next,              a2
                               uintptr_t label,                   a3
                               size_t free_bytes_and_flags,       a4
                               _PyPerf_areaevalfunc evaluator)    a5

   PyObject *_PyPerf_ShareArea(PyThreadState *tstate,             a0
                               _PyInterpreterFrame *frame,        a1
                               int throwflag,                     a2
                               _PyPerf_record *lowest,            a3
                               _PyPerf_record *record,            a4
                               _PyPerf_areaevalfunc evaluator)    a5

   PyObject *_PyPerf_EnterWithoutArea(PyThreadState *tstate,      a0
                                      _PyInterpreterFrame *frame, a1
                                      int flags)                  a2

   asm_trampoline_x86_64.S explains the functions, who calls them, and the
   unwind information.  Here a frame pointer holds the address behind its
   record: "X" in a register or in memory is the address above X.  The stack
   while the evaluator runs below an area of its own, high addresses first:

        caller's ra
   X:   caller's s0                    the real frame record
        caller's s1, and padding
        label of the function entered
   R0:  next, or X if that is NULL     the area's first record
        free_bytes / 16 free slots, used from R0 downwards
   A:   the lowest slot                passed on as fourth argument
        return address into this code
        R0, or the newest slot in use  the evaluator's saved s0: the link

   s1 keeps the address of X.  _PyPerf_ShareArea has only the caller's s0 and
   ra on the stack.  */

#include "asm_trampoline_format.h"

/* The words {link, return address} that readers look for are in the
   evaluator's stack frame, whose size this code does not know: what is left
   there cannot be made invalid.  */
        .macro  CALL_EVALUATOR is_model
        jalr    a5                      # evaluator(tstate, frame, flag, A)
        .ifeq \is_model                 # a model never runs
        NOTE_RETURN
        .endif
        .endm

        .macro  ENTER_AREA name, through_records
        BEGIN_HIDDEN \name
        addi    sp, sp, -48             # X, s1, padding, R0
        .cfi_def_cfa_offset 48
        sd      ra, 40(sp)              # X: the return address
        .cfi_offset ra, -8
        sd      s0, 32(sp)              # X: the real record is complete
        .cfi_offset s0, -16
        addi    s0, sp, 48              # the chain starts at X
        .cfi_def_cfa s0, 0
        sd      s1, 24(sp)              # the caller's s1
        .cfi_offset s1, -24
        mv      s1, s0                  # X outlives the evaluator in s1
        .cfi_def_cfa_register s1
        bnez    a2, .Lnext\@            # is there a calling function?
        mv      a2, s0                  # no: the record after R0 is X
.Lnext\@:
        sd      a3, 8(sp)               # R0.label
        sd      a2, 0(sp)               # R0.next
        addi    s0, sp, 16              # the chain starts at R0
        .if \through_records
        .cfi_remember_state
        .cfi_def_cfa s0, 0              # s0: the newest record
        .cfi_same_value s1
        .endif
        andi    a2, a4, 15              # flags, the evaluator's throwflag
        andi    a4, a4, -16
        sub     sp, sp, a4              # the free slots
        addi    a3, sp, 16              # A: lowest slot, the 4th argument
        CALL_EVALUATOR \through_records
        .if \through_records
        .cfi_restore_state
        .endif
        addi    sp, s1, -48             # drop the area
        .cfi_def_cfa sp, 48
        ld      s1, 24(sp)              # the caller's s1
        .cfi_restore s1
        ld      ra, 40(sp)              # the return address
        .cfi_restore ra
        ld      s0, 32(sp)              # the caller's s0
        .cfi_restore s0
        addi    sp, sp, 48              # drop X and what is below it
        .cfi_def_cfa_offset 0
        ret                             # the evaluator's result is in a0
        END_HIDDEN \name
        .endm

        .macro  SHARE_AREA name, through_records
        BEGIN_HIDDEN \name
        addi    sp, sp, -16             # the caller's record
        .cfi_def_cfa_offset 16
        sd      ra, 8(sp)               # the return address
        .cfi_offset ra, -8
        sd      s0, 0(sp)               # the caller's s0
        .cfi_offset s0, -16
        mv      s0, a4                  # the chain starts at the record
        .if \through_records
        .cfi_remember_state
        .cfi_def_cfa s0, 0              # s0: the newest record
        .endif
        CALL_EVALUATOR \through_records
        .if \through_records
        .cfi_restore_state
        .endif
        ld      ra, 8(sp)               # the return address
        .cfi_restore ra
        ld      s0, 0(sp)               # the caller's s0
        .cfi_restore s0
        addi    sp, sp, 16              # drop the caller's record
        .cfi_def_cfa_offset 0
        ret                             # the evaluator's result is in a0
        END_HIDDEN \name
        .endm

/* Here profilers put unwind information; see the x86-64 file.  */
        .macro  ROOM
        .p2align 3
        .fill   48, 4, 0                # illegal
        .endm

        ENTER_AREA SYMBOL(_PyPerf_EnterArea), 0
        SHARE_AREA SYMBOL(_PyPerf_ShareArea), 0
        ENTER_AREA SYMBOL(_PyPerf_EnterAreaWithUnwindInfo), 0
        ROOM
        SHARE_AREA SYMBOL(_PyPerf_ShareAreaWithUnwindInfo), 0
        ROOM
        ENTER_AREA SYMBOL(_PyPerf_EnterAreaModel), 1
        SHARE_AREA SYMBOL(_PyPerf_ShareAreaModel), 1

/* What a label looks like in a jitdump, 16 bytes; see the x86-64 file.  */
        BEGIN_HIDDEN SYMBOL(_PyPerf_LabelModel)
        .cfi_def_cfa s0, 0              # s0: the record after the label's
        .cfi_offset s0, -16             # its next
        .cfi_offset ra, -8              # its label
        .word   0                       # illegal: stop whoever gets here
        .word   0                       # the label points behind this
        .quad   0                       # the jitdump numbers its labels here
        END_HIDDEN SYMBOL(_PyPerf_LabelModel)

        .macro  ENTER_WITHOUT_AREA name, evaluator
        BEGIN_HIDDEN \name
        mv      a3, s0                  # lowest slot: what the link will be
        tail    \evaluator
        REFER_HIDDEN \evaluator
        END_HIDDEN \name
        .endm

        ENTER_WITHOUT_AREA SYMBOL(_PyPerf_EnterWithoutArea), \
                           SYMBOL(_PyEval_EvalFrameDefault_labelled)
        ENTER_WITHOUT_AREA SYMBOL(_PyPerf_EnterLinesWithoutArea), \
                           SYMBOL(_PyEval_EvalFrameDefault_lines)

        END_FILE
