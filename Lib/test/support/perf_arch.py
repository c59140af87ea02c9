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


_ARCHES = {
    "x86_64": Arch(elf_machine=62, label_code=b"\x0f\x0b" + b"\x90" * 6,
                   cie_size=24, fde_size=24, frame_pointer="rbp",
                   cfa_offset=16),
    "aarch64": Arch(elf_machine=183, label_code=bytes(8),
                    cie_size=20, fde_size=24, frame_pointer="x29",
                    cfa_offset=16),
    "riscv64": Arch(elf_machine=243, label_code=bytes(8),
                    cie_size=20, fde_size=24, frame_pointer="s0",
                    cfa_offset=0),
}

# None where there is no perf trampoline.
HERE = _ARCHES.get(os.uname().machine)
