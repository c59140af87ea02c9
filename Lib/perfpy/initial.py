"""Where threads wait of whose stacks perf tells nothing, or not enough.

That is those that have stopped to run before the recording began, and those
with more on the stack than perf copies: select.select() alone takes 73 KiB.
But while a thread waits in a system call its stack lies still, and /proc has
all that a sample would have: the registers that count, and the stack.  That
takes the right to trace the process; without it, it is known that a thread
waits, but not where.

Called by wallrecorder.py and reduce.py.  Nothing is stopped or changed.
"""

import os
import struct
import typing

from perfpy import architecture

LONGEST = 1 << 18   # most bytes of a stack
COPY = 32768        # those that a record has room for

# What follows in a sample is the size of a word for each of these bits, ...
_WORDS = (16, 0, 1, 2, 3, 6, 9, 7, 8)
# ... then come the call chain, registers and the stack, and again words.
_CALLCHAIN, _REGISTERS, _STACK = 5, 12, 13
_MORE_WORDS = (14, 15, 17)
_TASK, _TIME = 1, 2
_SAMPLE = 9
_USER_MODE = 2
_ABI_64 = 2


class Waiting(typing.NamedTuple):
    """A thread that waits, with what a sample of it would tell, if known."""

    pid: int
    tid: int
    registers: dict     # by number; empty: unknown
    stack: bytes


def numbers(pid):
    """Return the numbers of a process's threads."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def threads(pids):
    """Yield (pid, tid, Waiting or None if it runs) of each thread."""
    for pid in pids:
        for tid in numbers(pid):
            try:
                yield pid, tid, look(pid, tid)
            except (OSError, ValueError):       # it ends
                continue


def look(pid, tid):
    """Return the Waiting, or None if the thread runs."""
    place = f"/proc/{pid}/task/{tid}"
    with open(f"{place}/stat", "rb") as file:
        if file.read().rpartition(b")")[2].split()[0] == b"R":
            return None
    machine = architecture.of_machine()
    try:
        before = _read(f"{place}/syscall")
        words = before.split()
        if len(words) != 9:         # it runs, or is not in a system call
            return Waiting(pid, tid, {}, b"")
        pointer, counter = int(words[7], 16), int(words[8], 16)
        stack = _read_memory(pid, pointer)
        if _read(f"{place}/syscall") != before:
            return None             # it has run meanwhile
    except PermissionError:
        return Waiting(pid, tid, {}, b"")
    return Waiting(pid, tid, {
        machine.stack_pointer: pointer, machine.program_counter: counter,
        machine.first_argument: int(words[1], 16)}, stack)


def _read(path):
    with open(path) as file:
        return file.read()


def _read_memory(pid, pointer):
    """Return what is on a stack, as far as it goes."""
    size = min(LONGEST, _end_of_mapping(pid, pointer) - pointer)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        data = b""
        while len(data) < size:
            try:
                piece = os.pread(file.fileno(), size - len(data),
                                 pointer + len(data))
            except OSError:
                break
            if not piece:
                break
            data += piece
    return data[:len(data) & ~7]


def _end_of_mapping(pid, address):
    """Return where the memory ends in which an address is."""
    with open(f"/proc/{pid}/maps", "rb") as maps:
        for line in maps:
            start, end = (int(word, 16)
                          for word in line.split(maxsplit=1)[0].split(b"-"))
            if start <= address < end:
                return end
    return address


def record_of(waiting, layout, time, identifier):
    """Return the record of a sample, or None if this perf's are unknown."""
    kind = layout.sample_type
    known = [*_WORDS, _CALLCHAIN, _REGISTERS, _STACK, *_MORE_WORDS]
    if kind & ~sum(1 << bit for bit in known):
        return None
    values = {16: identifier, 6: identifier, 8: 1, _TIME: time,
              _TASK: waiting.pid | waiting.tid << 32}
    body = b"".join(struct.pack("<Q", values.get(bit, 0))
                    for bit in _WORDS if kind >> bit & 1)
    body += struct.pack("<QQ", 0, _ABI_64)      # no call chain
    body += b"".join(struct.pack("<Q", waiting.registers.get(number, 0))
                     for number in range(64)
                     if layout.register_mask >> number & 1)
    stack = waiting.stack[:COPY]
    size = len(stack)
    body += struct.pack("<Q", size) + stack
    if size:
        body += struct.pack("<Q", size)
    body += bytes(8 * sum(kind >> bit & 1 for bit in _MORE_WORDS))
    return struct.pack("<IHH", _SAMPLE, _USER_MODE, 8 + len(body)) + body
