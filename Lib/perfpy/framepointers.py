"""Which compiled files keep frame pointers, and which packages do not.

Their machine code tells: functions that keep the frame pointer begin by
setting it, and unwind information says how many functions there are.  Called
by doctor.py.
"""

import os
import struct

from perfpy import architecture

_LOAD, _UNWIND = 1, 0x6474E550
_IS_CODE = 1
_UDATA4 = 3

FEWEST = 20         # functions that tell anything
ENOUGH = 0.15       # of them; small ones do without


def are_kept(path):
    """Return whether most functions of an ELF file keep frame pointers.

    Return None if that cannot be told.
    """
    machine = architecture.of_machine()
    if not machine or not machine.sets_frame_pointer:
        return None
    try:
        with open(path, "rb") as file:
            functions, found = _count(file.read(), machine.sets_frame_pointer)
    except (OSError, struct.error, ValueError):
        return None
    if functions < FEWEST:
        return None
    return found > ENOUGH * functions


def _count(data, sets):
    """Return how many functions there are, and how many set the pointer."""
    if data[:6] != b"\x7fELF\2\1":
        raise ValueError("not an ELF file of 64 bits")
    (place,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    functions = found = 0
    for number in range(count):
        kind, flags, offset, _, _, length = struct.unpack_from(
            "<IIQQQQ", data, place + number * size)
        if kind == _LOAD and flags & _IS_CODE:
            found += data.count(sets, offset, offset + length)
        elif kind == _UNWIND and data[offset + 2] == _UDATA4:
            (functions,) = struct.unpack_from("<I", data, offset + 8)
    return functions, found


def packages_without(directories):
    """Return the names of packages there whose code has no frame pointers.

    The largest extension module stands for a package.
    """
    names = []
    for directory in directories:
        for name in _listed(directory):
            path = os.path.join(directory, name)
            module = (path if path.endswith(".so")
                      else _largest_module(path))
            if module and are_kept(module) is False:
                names.append(name.partition(".")[0])
    return sorted(set(names))


def _listed(directory):
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _largest_module(directory):
    modules = (os.path.join(path, name) for path, _, names
               in os.walk(directory) for name in names
               if name.endswith(".so"))
    return max(filter(os.path.isfile, modules), key=os.path.getsize,
               default=None)
