"""The format of what `perf record -o -` writes, as far as it is needed here.

A stream is a head and records, each with a head of its own: type, flags, size.
The kernel's records are described at perf_event_open(2), perf's own in
tools/perf/Documentation/perf.data-file-format.txt.  Used by reduce.py.
"""

import struct
import typing

HEAD = b"PERFILE2" + struct.pack("<Q", 16)

# Types of records.
MMAP, LOST, COMM, EXIT, FORK, SAMPLE, MMAP2 = 1, 2, 3, 4, 7, 9, 10
SWITCH = 14
ATTRIBUTES, TRACING_DATA, FINISHED_ROUND = 64, 66, 68

# Flags.
COMM_IS_EXEC = 1 << 13
SWITCH_IS_OUT, SWITCH_IS_PREEMPTION = 1 << 13, 1 << 14

# What follows in a call chain is the user's.
CONTEXT_USER = (1 << 64) - 512

# Bits of an event's sample_type: eight bytes each, in this order, ...
_IDENTIFIER = 1 << 16
_BEFORE_CALLCHAIN = (_IDENTIFIER, 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 6,
                     1 << 9, 1 << 7, 1 << 8)
_TASK, _TIME = 1 << 1, 1 << 2
_READ, _CALLCHAIN, _RAW, _BRANCHES = 1 << 4, 1 << 5, 1 << 10, 1 << 11
_REGISTERS, _STACK = 1 << 12, 1 << 13

# What other records end with; the task is before them.
_AT_END = (_TIME, 1 << 6, 1 << 9, 1 << 7, _IDENTIFIER)
_SAMPLE_ID_ALL = 1 << 18    # a flag of an event

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_TASK_AND_TIME = struct.Struct("<IIQ")


class Sample(typing.NamedTuple):
    """Where the parts of a sample are: offsets in the buffer."""

    pid: int
    tid: int
    time: int           # 0 if it is not told
    callchain: int      # its length, then the addresses
    after_callchain: int
    registers: int      # 0 if there are none, as of a kernel's thread
    stack_size: int     # the length, then the bytes
    stack: int
    copied: int         # how many of the bytes are the stack's
    end_of_stack: int


class Layout:
    """How the samples of an event are laid out."""

    def __init__(self, attributes):
        """attributes: a perf_event_attr."""
        (self.sample_type,) = struct.unpack_from("<Q", attributes, 24)
        (self.register_mask,) = struct.unpack_from("<Q", attributes, 80)
        wanted = _CALLCHAIN | _REGISTERS | _STACK | _TASK
        self.is_known = (self.sample_type & wanted == wanted
                         and not self.sample_type & (_READ | _BRANCHES))
        self._task = 8
        self._time = None
        self._callchain = 8
        for bit in _BEFORE_CALLCHAIN:
            if bit == _TASK:
                self._task = self._callchain
            if bit == _TIME and self.sample_type & bit:
                self._time = self._callchain
            if self.sample_type & bit:
                self._callchain += 8
        # Other records have the time near their end.
        self._time_at_end = None
        (flags,) = struct.unpack_from("<Q", attributes, 40)
        if flags & _SAMPLE_ID_ALL and self.sample_type & _TIME:
            self._time_at_end = 8 * sum(
                bool(self.sample_type & bit) for bit in _AT_END)
        self._register_bytes = 8 * self.register_mask.bit_count()

    @property
    def has_identifier(self):
        return bool(self.sample_type & _IDENTIFIER)

    def register(self, number):
        """Return the offset of a register behind the first one."""
        before = self.register_mask & (1 << number) - 1
        return 8 * before.bit_count()

    def time_of(self, record):
        """Return the time of a record that is no sample, or 0."""
        if self._time_at_end is None:
            return 0
        return _U64.unpack_from(record, len(record) - self._time_at_end)[0]

    def task_and_time(self, buffer, end):
        """Return (pid, tid, time) of a record that ends at a place."""
        return _TASK_AND_TIME.unpack_from(buffer,
                                          end - self._time_at_end - 8)

    def time_and_raw(self, buffer, place):
        """Return the time of a tracepoint's sample, and where its data are.

        It has no call chain.
        """
        return (_U64.unpack_from(buffer, place + self._time)[0],
                place + self._callchain + 4)

    def find(self, buffer, place):
        """Return the Sample that begins at a place."""
        pid, tid = struct.unpack_from("<II", buffer, place + self._task)
        time = (0 if self._time is None
                else _U64.unpack_from(buffer, place + self._time)[0])
        callchain = place + self._callchain
        here = after = (callchain + 8
                        + 8 * _U64.unpack_from(buffer, callchain)[0])
        if self.sample_type & _RAW:
            here += 4 + _U32.unpack_from(buffer, here)[0]
        registers = 0
        if _U64.unpack_from(buffer, here)[0]:
            registers = here + 8
            here += self._register_bytes
        here += 8
        size = _U64.unpack_from(buffer, here)[0]
        stack = here + 8
        copied, end = 0, stack
        if size:
            end = stack + size + 8
            copied = _U64.unpack_from(buffer, stack + size)[0]
        return Sample(pid, tid, time, callchain, after, registers, here, stack,
                      copied, end)


def layout_of(record):
    """Return the Layout that an ATTRIBUTES record tells, and its events."""
    (size,) = _U32.unpack_from(record, 12)
    identifiers = struct.unpack_from(f"<{(len(record) - 8 - size) // 8}Q",
                                     record, 8 + size)
    return Layout(record[8:8 + size]), identifiers


def mapping(kind, record):
    """Return (pid, address, size, offset, is executable, path)."""
    pid, _, address, size, offset = struct.unpack_from("<IIQQQ", record, 8)
    if kind == MMAP:
        # Without rights: perf asks for data as MMAP2 only.
        return pid, address, size, offset, True, text(record[40:])
    (rights,) = _U32.unpack_from(record, 64)
    return pid, address, size, offset, bool(rights & 4), text(record[72:])


def text(data):
    return data.partition(b"\0")[0].decode(errors="surrogateescape")
