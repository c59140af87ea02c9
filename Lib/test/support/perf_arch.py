"""What the tests of the perf trampoline have to know of an architecture, as
Include/internal/pycore_perf_arch.h is for C.
"""

import os
import typing


class Arch(typing.NamedTuple):
    elf_machine: int            # EM_... of the ELF specification
    label_code: bytes           # stops who runs it; a label's first half
    cie_size: int               # a label's unwind information, as the
    fde_size: int               # assembler makes it
    frame_pointer: str          # readelf's name of the register
    cfa_offset: int             # from there to the DWARF frame address
    system_calls: dict          # names and numbers


def _system_calls(*numbers):
    names = ("write mmap mremap munmap brk madvise futex rt_sigreturn "
             "exit_group")
    return dict(zip(names.split(), numbers, strict=True))


# Architectures younger than most have these in common.
_GENERIC = _system_calls(64, 222, 216, 215, 214, 233, 98, 139, 94)

_ARCHES = {
    "x86_64": Arch(elf_machine=62, label_code=b"\x0f\x0b" + b"\x90" * 6,
                   cie_size=24, fde_size=24, frame_pointer="rbp",
                   cfa_offset=16,
                   system_calls=_system_calls(1, 9, 25, 11, 12, 28, 202, 15,
                                              231)),
    "aarch64": Arch(elf_machine=183, label_code=bytes(8),
                    cie_size=20, fde_size=24, frame_pointer="x29",
                    cfa_offset=16, system_calls=_GENERIC),
    "riscv64": Arch(elf_machine=243, label_code=bytes(8),
                    cie_size=20, fde_size=24, frame_pointer="s0",
                    cfa_offset=0, system_calls=_GENERIC),
}

# None where there is no perf trampoline.
HERE = _ARCHES.get(os.uname().machine)
