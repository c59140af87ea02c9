/* Enter an evaluator below a frame area (AArch64, AAPCS64).

   PyObject *_PyPerf_EnterArea(PyThreadState *tstate,             x0
                               _PyInterpreterFrame *frame,        x1
                               int throwflag,                     w2
                               uintptr_t label,                   x3
                               size_t free_bytes,                 x4
                               _PyPerf_areaevalfunc evaluator)    x5

   asm_trampoline_x86_64.S explains the functions, who calls them, and
   the unwind information.  The stack while the evaluator runs, high
   addresses first:

        caller's lr (signed, with PAC)
   X:   caller's x29                   the real frame record
        caller's x19, and padding
        label of the function entered
   R0:  X, or the record to go on with the area's first record
        free_bytes / 16 free slots, used from R0 downwards
   A:   the lowest slot                passed on as fourth argument
        the evaluator's registers and locals
        return address into this code
        R0, or the newest slot in use  the evaluator's saved x29: the link

   x19 keeps the address of X.  */

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

        .macro  ENTER_AREA name, continues, through_records
        .globl  \name
        .hidden \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
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
        .if \continues
        stp     x2, x3, [sp, #-16]!     // R0 = {the record given, label}
        mov     w2, wzr                 // throwflag
        .else
        stp     x29, x3, [sp, #-16]!    // R0 = {X, label}
        .endif
        mov     x29, sp                 // the chain starts at R0
        .if \through_records
        .cfi_remember_state
        CFI_SIGNED                      // labels are not signed
        .cfi_def_cfa x29, 16            // x29: the newest record
        .cfi_same_value x19
        .endif
        sub     sp, sp, x4              // the free slots
        mov     x3, sp                  // A: lowest slot, the 4th argument
        blr     x5                      // evaluator(tstate, frame, flag, A)
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
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .text
        ENTER_AREA _PyPerf_EnterArea, 0, 0
        ENTER_AREA _PyPerf_ContinueArea, 1, 0
        ENTER_AREA _PyPerf_EnterAreaWithUnwindInfo, 0, 1
        ENTER_AREA _PyPerf_ContinueAreaWithUnwindInfo, 1, 1

/* What a label looks like in a jitdump, 16 bytes; see the x86-64 file.  */
        .globl  _PyPerf_LabelModel
        .hidden _PyPerf_LabelModel
        .type   _PyPerf_LabelModel, %function
        .p2align 4
_PyPerf_LabelModel:
        .cfi_startproc
        .cfi_def_cfa x29, 16            // x29: the record after the label's
        .cfi_offset x29, -16            // its next
        .cfi_offset x30, -8             // its label
        .inst   0                       // udf #0: stop whoever gets here
        .inst   0                       // the label points behind this
        .quad   0                       // the jitdump numbers its labels here
        .cfi_endproc
        .size   _PyPerf_LabelModel, . - _PyPerf_LabelModel

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

        .section .note.GNU-stack, "", %progbits
