"""The lines in jitdumps, for the frames that `perf inject` has named.

perf makes a file of each function, whose name says in which jitdump it is:
DIRECTORY/jitted-PID-NUMBER.so is function NUMBER of DIRECTORY/jit-PID.dump.
There its lines can be looked up at once; perf would read them from its own
files, which takes minutes.  Called by perfscript.py.

Anybody can write a jitdump.  What makes no sense has no lines.
"""

import array
import bisect
import os
import re
import stat
import struct

_FRAME = re.compile(r".* \(((/.*/|/)jitted-([0-9]+)-([0-9]+)\.so)\)",
                    re.DOTALL)

_MAGIC = 0x4A695444
_LOAD, _DEBUG_INFO = 0, 2

_FILE_HEADER = struct.Struct("<III28x")
_RECORD_HEADER = struct.Struct("<IIQ")
_LOAD_FIELDS = struct.Struct("<IIQQQQ")
_HEAD_OF_LOAD = _RECORD_HEADER.size + _LOAD_FIELDS.size
_DEBUG_FIELDS = struct.Struct("<QQ")
_ENTRY = struct.Struct("<QII")

_ENTRY_POINT = 24           # where in an ELF file: of 8 bytes

_MOST_BYTES = 1 << 28       # that are read of a jitdump: 150,000 functions


def _open(path):
    """Open a regular file; what others put there must not keep us waiting."""
    file = open(path, "rb", opener=lambda name, flags: os.open(
        name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def _place_of_code(path):
    """Return where code begins in a file that perf has made."""
    try:
        with _open(path) as file:
            file.seek(_ENTRY_POINT)
            return int.from_bytes(file.read(8), "little")
    except OSError:
        return 0


class _Jitdump:
    """Which function has its lines where in a jitdump."""

    def __init__(self, path):
        self._place = {}        # function: offset and size of its debug info
        self._lines = {}        # function: addresses, and the line of each
        self._code = None       # where it begins in files that perf has made
        self._file = None
        try:
            self._file = _open(path)
            self._find_lines()
        except OSError:
            pass

    def close(self):
        if self._file is not None:
            self._file.close()

    def _find_lines(self):
        file = self._file
        header = file.read(_FILE_HEADER.size)
        if len(header) < _FILE_HEADER.size:
            return
        magic, _, place = _FILE_HEADER.unpack(header)
        if magic != _MAGIC:
            return
        lines = None
        while place < _MOST_BYTES:
            file.seek(place)
            header = file.read(_HEAD_OF_LOAD)
            if len(header) < _RECORD_HEADER.size:
                return
            kind, size, _ = _RECORD_HEADER.unpack_from(header)
            if size < _RECORD_HEADER.size:
                return
            if kind == _DEBUG_INFO:
                lines = place + _RECORD_HEADER.size, size - _RECORD_HEADER.size
            elif kind == _LOAD:
                if lines and _HEAD_OF_LOAD <= min(len(header), size):
                    number = _LOAD_FIELDS.unpack_from(
                        header, _RECORD_HEADER.size)[-1]
                    self._place[number] = lines
                lines = None
            place += size

    def line(self, number, address, library):
        """Return the line of a function at an address, or 0.

        Most versions of perf tell the place in the file that it has made.
        """
        known = self._lines.get(number)
        if known is None:
            known = self._lines[number] = self._read_lines(number)
        addresses, lines = known
        if not addresses:
            return 0
        if address < addresses[0]:
            if self._code is None:
                self._code = _place_of_code(library)
            address += addresses[0] - self._code
        index = bisect.bisect_right(addresses, address) - 1
        return lines[index] if index >= 0 else 0

    def _read_lines(self, number):
        addresses, lines = array.array("Q"), array.array("I")
        place, size = self._place.get(number, (0, 0))
        body = b""
        if size <= _MOST_BYTES and size >= _DEBUG_FIELDS.size:
            try:
                self._file.seek(place)
                body = self._file.read(size)
            except OSError:
                pass
        if len(body) < size or not body:
            return addresses, lines
        _, count = _DEBUG_FIELDS.unpack_from(body)
        start = _DEBUG_FIELDS.size
        for _ in range(min(count, size)):
            if start + _ENTRY.size > size:
                break
            address, line, _ = _ENTRY.unpack_from(body, start)
            end = body.find(b"\0", start + _ENTRY.size)
            if end < 0 or (addresses and address <= addresses[-1]):
                break
            addresses.append(address)
            lines.append(line if line < 1 << 31 else 0)
            start = end + 1
        else:
            return addresses, lines
        return array.array("Q"), array.array("I")


class Lines:
    """The lines in all jitdumps that frames come from."""

    def __init__(self):
        self._jitdumps = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for jitdump in self._jitdumps.values():
            jitdump.close()

    def line(self, frame, address):
        """Return the line of a frame, as perf names it, at an address in
        hexadecimal; 0 if there is none, or perf has not made its file."""
        match = _FRAME.fullmatch(frame)
        if not match:
            return 0
        library, directory, pid, number = match.groups()
        path = f"{directory}jit-{pid}.dump"
        jitdump = self._jitdumps.get(path)
        if jitdump is None:
            jitdump = self._jitdumps[path] = _Jitdump(path)
        try:
            return jitdump.line(int(number), int(address, 16), library)
        except ValueError:
            return 0
