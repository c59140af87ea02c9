"""The names of labels: from /tmp/perf-PID.map, or from a jitdump.

Read when a recording ends, as anybody may remove the files of a process that
is gone.  Used by wholestacks.py.
"""

import bisect
import os
import stat
import struct

_JITDUMP_HEAD = b"DTiJ"     # of a little-endian machine
_CODE_LOAD = 0
_DEBUG_INFO = 2

# As pycore_perf_lines.h has it: less than that of one without lines.
_FUNCTION_WITH_LINES = 14


def names(image):
    """Return a function that names the labels of a process.

    It gives a name and a line, which is 0 if it is not told, or None.
    """
    files = []                  # (sorted starts, what is there)
    while image:
        for path in _files(image):
            data = _content(path)
            if data is None:
                continue
            read = _of_jitdump if data.startswith(_JITDUMP_HEAD) else _of_map
            found = {}
            for start, end, *name in read(data):
                found.setdefault(start, (end, tuple(name)))
            files.append((sorted(found), found))
        # A child that C code has forked runs functions its parent named.  But
        # what a child names itself may be something else in its parent.
        image = image.parent

    def name_of(label):
        for starts, found in files:
            place = bisect.bisect_left(starts, label) - 1
            if place >= 0:
                end, name = found[starts[place]]
                if label <= end:
                    return name
        return None
    return name_of


def _files(image):
    for path in (f"/tmp/perf-{image.own_pid}.map", image.jitdump):
        if path:
            inside = f"/proc/{image.pid}/root{path}"
            yield inside if os.path.exists(inside) else path


def _content(path):
    """Return what is in a file, or None if it is not there, or no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read()
    except OSError:
        pass
    return None


def _of_map(data):
    """Return (start, end, name, line) of each entry, the newest first.

    A function that shows its lines has an entry of a special size for itself,
    which those of the lines follow; they have its name and, behind a colon,
    the line.
    """
    found = []
    function_before = {}        # address: name of the function up to there
    for entry in data.split(b"\n"):
        start, _, rest = entry.partition(b" ")
        size, _, name = rest.partition(b" ")
        try:
            start = int(start, 16)
            end = start + int(size, 16)
        except ValueError:
            continue
        line = 0
        function = function_before.pop(start, None)
        if function is not None and name.startswith(function + b":"):
            text = name[len(function) + 1:]
            if text.isdigit():
                name, line = function, int(text)
        if name == function or end - start == _FUNCTION_WITH_LINES:
            function_before[end] = name
        found.append((start, end, _text(name), line))
    return reversed(found)


def _of_jitdump(data):
    """The same, of the format that perf's jitdump-specification.txt tells."""
    found = []
    lines = {}                  # address of a function: (start, line) of each
    try:
        (place,) = struct.unpack_from("<I", data, 8)
        while True:
            kind, size = struct.unpack_from("<II", data, place)
            if kind == _CODE_LOAD:
                start, length = struct.unpack_from("<QQ", data, place + 32)
                name = data[place + 56:data.index(b"\0", place + 56)]
                found += _with_lines(start, start + length, _text(name),
                                     lines.pop(start, ()))
            elif kind == _DEBUG_INFO:
                start, entries = _debug_info(data, place + 16)
                lines[start] = entries
            place += max(size, 16)
    except (struct.error, ValueError):
        pass            # the end
    return reversed(found)


def _debug_info(data, place):
    """Return for which function it is, and (start, line) of each entry."""
    function, count = struct.unpack_from("<QQ", data, place)
    place += 16
    entries = []
    for _ in range(count):
        start, line = struct.unpack_from("<QI", data, place)
        entries.append((start, line))
        place = data.index(b"\0", place + 16) + 1
    return function, entries


def _with_lines(start, end, name, entries):
    """Yield (start, end, name, line), as the entries divide the function."""
    if not entries:
        yield start, end, name, 0
    for (first, line), (following, _) in zip(entries, entries[1:]):
        yield first, following, name, line


def _text(name):
    return name.decode(errors="backslashreplace")
