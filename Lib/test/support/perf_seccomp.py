"""Filters of system calls, such as sandboxes and containers have.

A filter is a list of instructions (code, lines to skip if true, if false,
operand), see <linux/filter.h>, which end in a RETURN.
"""

import ctypes
import os
import struct

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000   # REFUSE | errno

# What to LOAD: the number of the call, or one of ARGUMENTS.
NUMBER = 0
ARGUMENTS = range(16, 64, 8)

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_SECCOMP_MODE_FILTER = 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(instructions):
    """Filter the calls of this thread and of what it starts from now on.

    Raise OSError if the kernel cannot.
    """
    packed = b"".join(struct.pack("=HBBI", *line) for line in instructions)
    program = _Program(len(instructions), packed)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if (prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            or prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER,
                     ctypes.byref(program), 0, 0) != 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
