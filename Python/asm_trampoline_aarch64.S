/* Enter an evaluator below frame records (AArch64, AAPCS64).

   PyObject *_PyPerf_EnterArea(PyThreadState *tstate,             x0
                               _PyInterpreterFrame *frame,        x1
                               _PyPerf_record *next,              x2
                               uintptr_t label,                   x3
                               size_t free_bytes_and_flags,       x4
                               _PyPerf_areaevalfunc evaluator)    x5

   PyObject *_PyPerf_ShareArea(PyThreadState *tstate,             x0
                               _PyInterpreterFrame *frame,        x1
                               int throwflag,                     w2
                               _PyPerf_record *lowest,            x3
                               _PyPerf_record *record,            x4
                               _PyPerf_areaevalfunc evaluator)    x5

   PyObject *_PyPerf_EnterWithoutArea(PyThreadState *tstate,      x0
                                      _PyInterpreterFrame *frame, x1
                                      int flags)                  w2

   asm_trampoline_x86_64.S explains the functions, who calls them, and
   the unwind information.  The stack while the evaluator runs below an area of
   its own, high addresses first:

        caller's lr (signed, with PAC)
   X:   caller's x29                   the real frame record
        caller's x19, and padding
        label of the function entered
   R0:  next, or X if that is NULL     the area's first record
        free_bytes / 16 free slots, used from R0 downwards
   A:   the lowest slot                passed on as fourth argument
        the evaluator's registers and locals
        return address into this code
        R0, or the newest slot in use  the evaluator's saved x29: the link

   x19 keeps the address of X.  _PyPerf_ShareArea has only the caller's x29 and
   lr on the stack.  */

        /* What a label or a bti landing pad needs to be told to the linker. */
#if defined(__ARM_FEATURE_BTI_DEFAULT)
#  define BTI_C hint #34                /* bti c */
#  define PROPERTY_BTI 1
#else
#  define BTI_C
#  define PROPERTY_BTI 0
#endif
#if defined(__ARM_FEATURE_PAC_DEFAULT)
#  define SIGN_LR hint #25              /* paciasp */
#  define CHECK_LR hint #29             /* autiasp */
#  define CFI_SIGNED .cfi_negate_ra_state
#  define PROPERTY_PAC 2
#else
#  define SIGN_LR
#  define CHECK_LR
#  define CFI_SIGNED
#  define PROPERTY_PAC 0
#endif

#include "asm_trampoline_format.h"

/* The words {link, return address} that readers look for are in the
   evaluator's stack frame, whose size this code does not know: what is left
   there cannot be made invalid.  */
        .macro  CALL_EVALUATOR is_model
        blr     x5                      // evaluator(tstate, frame, flag, A)
        .ifeq \is_model                 // a model never runs
        NOTE_RETURN
        .endif
        .endm

        .macro  ENTER_AREA name, through_records
        BEGIN_HIDDEN \name
        BTI_C                           // may be reached by an indirect call
        SIGN_LR                         // protect the return address
        CFI_SIGNED
        stp     x29, x30, [sp, #-16]!   // X: the real record is complete
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov     x29, sp                 // the chain starts at X
        .cfi_def_cfa_register x29
        stp     x19, xzr, [sp, #-16]!   // the caller's x19
        .cfi_offset x19, -32
        mov     x19, x29                // X outlives the evaluator in x19
        .cfi_def_cfa_register x19
        cmp     x2, #0                  // is there a calling function?
        csel    x2, x2, x29, ne         // no: the record after R0 is X
        stp     x2, x3, [sp, #-16]!     // R0 = {next or X, label}
        mov     x29, sp                 // the chain starts at R0
        .if \through_records
        .cfi_remember_state
        CFI_SIGNED                      // labels are not signed
        .cfi_def_cfa x29, 16            // x29: the newest record
        .cfi_same_value x19
        .endif
        and     w2, w4, #15             // flags, the evaluator's throwflag
        and     x4, x4, #~15
        sub     sp, sp, x4              // the free slots
        mov     x3, sp                  // A: lowest slot, the 4th argument
        CALL_EVALUATOR \through_records
        .if \through_records
        .cfi_restore_state
        .endif
        sub     sp, x19, #16            // drop the area
        .cfi_def_cfa sp, 32
        ldp     x19, xzr, [sp], #16     // the caller's x19
        .cfi_def_cfa_offset 16
        .cfi_restore x19
        ldp     x29, x30, [sp], #16     // the caller's x29, the return address
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        CHECK_LR                        // the return address must be ours
        CFI_SIGNED
        ret                             // the evaluator's result is in x0
        END_HIDDEN \name
        .endm

        .macro  SHARE_AREA name, through_records
        BEGIN_HIDDEN \name
        BTI_C                           // may be reached by an indirect call
        SIGN_LR                         // protect the return address
        CFI_SIGNED
        stp     x29, x30, [sp, #-16]!   // the caller's x29 and lr
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov     x29, x4                 // the chain starts at the record
        .if \through_records
        .cfi_remember_state
        CFI_SIGNED                      // labels are not signed
        .cfi_def_cfa x29, 16            // x29: the newest record
        .endif
        CALL_EVALUATOR \through_records
        .if \through_records
        .cfi_restore_state
        .endif
        ldp     x29, x30, [sp], #16     // the caller's x29, the return address
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        CHECK_LR                        // the return address must be ours
        CFI_SIGNED
        ret                             // the evaluator's result is in x0
        END_HIDDEN \name
        .endm

/* Here profilers put unwind information; see the x86-64 file.  */
        .macro  ROOM
        .p2align 3
        .fill   48, 4, 0                // udf #0
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
        .cfi_def_cfa x29, 16            // x29: the record after the label's
        .cfi_offset x29, -16            // its next
        .cfi_offset x30, -8             // its label
        .inst   0                       // udf #0: stop whoever gets here
        .inst   0                       // the label points behind this
        .quad   0                       // the jitdump numbers its labels here
        END_HIDDEN SYMBOL(_PyPerf_LabelModel)

        .macro  ENTER_WITHOUT_AREA name, evaluator
        BEGIN_HIDDEN \name
        BTI_C                           // may be reached by an indirect call
        mov     x3, x29                 // lowest slot: what the link will be
        b       \evaluator
        REFER_HIDDEN \evaluator
        END_HIDDEN \name
        .endm

        ENTER_WITHOUT_AREA SYMBOL(_PyPerf_EnterWithoutArea), \
                           SYMBOL(_PyEval_EvalFrameDefault_labelled)
        ENTER_WITHOUT_AREA SYMBOL(_PyPerf_EnterLinesWithoutArea), \
                           SYMBOL(_PyEval_EvalFrameDefault_lines)

#if PROPERTY_BTI | PROPERTY_PAC
        .section .note.gnu.property, "a", %note
        .p2align 3
        .word   4                       // size of the name
        .word   16                      // size of the description
        .word   5                       // NT_GNU_PROPERTY_TYPE_0
        .asciz  "GNU"
        .word   0xc0000000              // GNU_PROPERTY_AARCH64_FEATURE_1_AND
        .word   4                       // size of its value
        .word   PROPERTY_BTI | PROPERTY_PAC
        .word   0                       // padding
#endif

        END_FILE
