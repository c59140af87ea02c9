/* What the object format, ELF or Mach-O, asks of assembly.

   Included by Python/asm_trampoline_*.S, which depend on the architecture
   alone.  Comments are C's here: assemblers agree on no other.

        SYMBOL(name)        a name of C, as linkers know it
        LOCAL(name)         one that linkers do not get to know
        BEGIN_HIDDEN, END_HIDDEN     around a function for other files of the
                            same program or library
        REFER_HIDDEN        such a function of another file
        NOTE_RETURN         right behind a call: here it returns to
        END_FILE            behind everything  */

#if defined(__APPLE__)
#  define SYMBOL(name) _##name
#  define LOCAL(name) L##name
#  define RETURNS_SECTION __TEXT, __cpython_perf
#else
#  define SYMBOL(name) name
#  define LOCAL(name) .L##name
#  define RETURNS_SECTION .note.cpython-perf, "a", %note
#endif

        .macro  BEGIN_HIDDEN name
        .globl  \name
#if defined(__APPLE__)
        .private_extern \name
#else
        .hidden \name
        .type   \name, %function
#endif
        .p2align 4
\name:
        .cfi_startproc
        .endm

        .macro  END_HIDDEN name
        .cfi_endproc
#if !defined(__APPLE__)
        .size   \name, . - \name
#endif
        .endm

        .macro  REFER_HIDDEN name
#if !defined(__APPLE__)
        .hidden \name
#endif
        .endm

/* The words {link, return address} on a C stack show readers of its memory
   where records begin.  They find the return addresses in a note of ELF, also
   in a program that was stripped: each is a distance from the place where it
   stands.  Mach-O has a section instead, with the same contents.  */
        .section RETURNS_SECTION
        .p2align 2
#if defined(__APPLE__)
_PyPerf_returns:                        /* its linker counts from a symbol */
#endif
        .long   LOCAL(owner_end) - LOCAL(owner)
        .long   LOCAL(returns_end) - LOCAL(returns)
        .long   1                       /* type: return points */
LOCAL(owner):
        .asciz  "cpython-perf"
LOCAL(owner_end):
        .p2align 2
LOCAL(returns):
        .text

        .macro  NOTE_RETURN
LOCAL(return)\@:
        .pushsection RETURNS_SECTION
        .long   LOCAL(return)\@ - .
        .popsection
        .endm

        .macro  END_FILE
        .section RETURNS_SECTION
LOCAL(returns_end):
#if !defined(__APPLE__)
        .section .note.GNU-stack, "", %progbits
#endif
        .endm
