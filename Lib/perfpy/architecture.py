"""What perfpy has to know of an architecture.

Most of it is for reading a copy of a C stack, in stackcopy.py: numbers of
registers are those of perf's samples, <asm/perf_regs.h>, and places on the
stack those that Python/asm_trampoline_{ARCH}.S draws.
"""

import platform
import typing


class Architecture(typing.NamedTuple):
    stack_pointer: int
    frame_pointer: int
    program_counter: int
    first_argument: int         # of a system call
    return_address: int | None  # None: calls put it on the stack
    record: int     # from what a frame pointer says to the frame record
    own_record: int     # from a frame pointer R0 to X, the area's real record
    address_bits: int   # of a return address; the rest may be a signature
    perf_event_open: int        # the number of this system call
    sets_frame_pointer: bytes | None    # how functions do, if all alike


_BY_MACHINE = {
    "x86_64": Architecture(7, 6, 8, 5, None, 0, 24, 64,
                           298, b"\x48\x89\xe5"),
    "aarch64": Architecture(31, 29, 32, 0, 30, 0, 32, 48,
                            241, b"\xfd\x03\x00\x91"),
    "riscv64": Architecture(2, 8, 0, 10, 1, -16, 32, 64,
                            241, None),
}


def of_machine(machine=None):
    """Return the Architecture, or None if there is no support."""
    return _BY_MACHINE.get(machine or platform.machine())
