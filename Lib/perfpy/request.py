"""Ask a running process of Python 3.11 or 3.13 of ours to name its functions.

Such an interpreter has a structure, _PyPerfRequest, into which another process
writes what it wants; threads of it look there when they handle signals and
pending calls.  Python/perf_request.c tells how they are made to, and why each
write below is safe at any time.  /proc/PID/mem is opened once: it stays that
of the same program, whoever gets the number of the process later, and is open
only for those who may trace the process.

Called by activate.py.
"""

import contextlib
import fcntl
import os
import struct
import time
import typing

from perfpy import elfsymbols

_NAME = "_PyPerfRequest"
_MAGIC, _VERSION = b"cpython-perf rq\0", 1

NOTHING, OFF, ON = range(3)
LINES = 2               # what to show besides names; added to ON

# As pycore_perf_request.h has them.
_HEAD = struct.Struct("<16sIIQIII6I")
_STATE = struct.Struct("<BBBBIIII")
_WANTED = _HEAD.size
_IS_POKING = _WANTED + 1
_SERVED = _WANTED + 4
_TEXT = _WANTED + _STATE.size

_SETTLE = 0.001         # seconds in which each processor sees what is written
_POKE = 0.1             # most seconds to poke: half of what the process waits
_MOST = 100_000         # most threads


class RequestError(Exception):
    """The process cannot be asked.  The text is for the user."""


class _State(typing.NamedTuple):

    wanted: int
    is_poking: int
    is_refused: int
    is_serving: int
    served: int
    has_failed: int
    length: int
    left_out: int


class Request:
    """The structure in a running process; to be closed."""

    def __init__(self, pid, address, memory):
        self.pid = pid
        self._address = address
        self._memory = memory
        (magic, version, _, self._interpreters, self._next_interpreter,
         self._first_thread, self._next_thread, *pokes) = _HEAD.unpack(
             self._read(address, _HEAD.size))
        if (magic, version) != (_MAGIC, _VERSION):
            raise RequestError(f"process {pid} runs another version of "
                               "cpython-perf than this perfpy is of")
        pairs = list(zip(pokes[::2], pokes[1::2]))
        self._of_thread = [pair for pair in pairs[:1] if pair[0]]
        self._of_interpreter = [pair for pair in pairs[1:] if pair[0]]

    def close(self):
        os.close(self._memory)

    def _read(self, address, size):
        data = os.pread(self._memory, size, address)
        if len(data) < size:
            raise OSError("the process has ended")
        return data

    def _write(self, place, data):
        if os.pwrite(self._memory, data, self._address + place) < len(data):
            raise OSError("the process has ended")

    def _pointer(self, address):
        return int.from_bytes(self._read(address, 8), "little")

    def state(self):
        return _State(*_STATE.unpack(self._read(self._address + _WANTED,
                                                _STATE.size)))

    @property
    def is_on(self):
        """Whether somebody has asked the process to switch on."""
        return self.state().wanted >= ON

    @property
    def is_served(self):
        return self.state().served > 0

    def begin(self, wanted):
        """Ask for it; what was asked for before is forgotten."""
        self.withdraw()
        if self.state().is_refused:
            raise RequestError(
                f"process {self.pid} lets nobody switch anything on in it: "
                "-X disable-remote-debug or PYTHON_DISABLE_REMOTE_DEBUG")
        self._write(_SERVED, bytes(_TEXT - _SERVED))
        self._write(_WANTED, bytes([wanted]))

    def withdraw(self):
        """Ask for nothing, and wait until nobody obeys any more."""
        self._write(_WANTED, bytes([NOTHING]))
        deadline = time.monotonic() + 1
        time.sleep(_SETTLE)
        while self.state().is_serving and time.monotonic() < deadline:
            time.sleep(_SETTLE)

    def answer(self):
        """Return the symbols of the functions that ran when it was served,
        and how many more there were; raise RequestError.
        """
        state = self.state()
        text = self._read(self._address + _TEXT, state.length).decode(
            errors="replace")
        if state.has_failed:
            raise RequestError(f"process {self.pid} cannot name its Python "
                               f"functions: {text.strip()}")
        return text.splitlines(), state.left_out

    def poke(self):
        """Let evaluators look for what is asked."""
        end = time.monotonic() + _POKE
        self._write(_IS_POKING, b"\1")
        try:
            time.sleep(_SETTLE)
            for address, value in self._places():
                if time.monotonic() > end:
                    return
                # Between this and the line before are microseconds.
                self._write(address - self._address, bytes([value]))
        finally:
            self._write(_IS_POKING, b"\0")

    def _places(self):
        """Yield (address, value) of the bytes to write."""
        count = 0
        interpreter = self._pointer(self._interpreters)
        while interpreter and count < _MOST:
            for place, value in self._of_interpreter:
                yield interpreter + place, value
            thread = self._pointer(interpreter + self._first_thread)
            while thread and self._of_thread and count < _MOST:
                for place, value in self._of_thread:
                    yield thread + place, value
                thread = self._pointer(thread + self._next_thread)
                count += 1
            interpreter = self._pointer(interpreter + self._next_interpreter)
            count += 1


def _address(pid):
    """Return where the structure is, or None."""
    program = os.readlink(f"/proc/{pid}/exe")
    with open(f"/proc/{pid}/maps", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) < 6 or "x" not in fields[1]:
                continue
            path = fields[5]
            if path == program:
                name = f"/proc/{pid}/exe"       # also if it was replaced
            elif "python" in os.path.basename(path):
                name = f"/proc/{pid}/root{path}"
            else:
                continue
            symbol = elfsymbols.find(name, _NAME)
            place = symbol and elfsymbols.in_memory(
                symbol, int(fields[0].partition("-")[0], 16),
                int(fields[2], 16))
            if place:
                return place.start
    return None


def find(pid):
    """Return the Request of a process, or None if it has none.

    Raise RequestError if the process may not be asked.
    """
    try:
        address = _address(pid)
        if address is None:
            return None
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None                     # it has ended
    except PermissionError as error:
        raise RequestError(
            f"process {pid} may not be traced by you, so it cannot be asked "
            "to name its Python functions: become root, for instance by sudo, "
            "or see kernel.yama.ptrace_scope") from error
    try:
        fcntl.flock(memory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Request(pid, address, memory)
    except BaseException as error:
        os.close(memory)
        if isinstance(error, BlockingIOError):
            raise RequestError(f"another perfpy is asking process {pid} to "
                               "name its functions") from error
        if isinstance(error, OSError):
            return None
        raise


def ask(requests, wanted, patience):
    """Ask several processes at once; return those that have not obeyed.

    They do as soon as they come to a safe point.  Raise RequestError if one
    refuses.
    """
    for request in requests:
        request.begin(wanted)
    waiting = list(requests)
    deadline = time.monotonic() + patience
    while waiting:
        for request in list(waiting):
            try:
                request.poke()
                time.sleep(0.005)
                if request.is_served:
                    waiting.remove(request)
            except OSError:             # it has ended
                waiting.remove(request)
        if time.monotonic() > deadline:
            break
    for request in requests:            # other interpreters of theirs
        with contextlib.suppress(OSError):
            request.poke()
    return waiting
