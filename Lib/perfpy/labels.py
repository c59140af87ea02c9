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


def names(image):
    """Return a function that names the labels of a process, or gives None."""
    found = {}
    while image:
        for path in _files(image):
            data = _content(path)
            if data is None:
                continue
            read = _of_jitdump if data.startswith(_JITDUMP_HEAD) else _of_map
            for start, end, name in read(data):
                found.setdefault(start, (end, name))
        # A child that C code has forked runs functions its parent named.
        image = image.parent
    starts = sorted(found)

    def name_of(label):
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
    """Yield (start, end, name), the newest first."""
    for line in reversed(data.split(b"\n")):
        start, _, rest = line.partition(b" ")
        size, _, name = rest.partition(b" ")
        try:
            start = int(start, 16)
            yield start, start + int(size, 16), _text(name)
        except ValueError:
            pass


def _of_jitdump(data):
    """The same, of the format that perf's jitdump-specification.txt tells."""
    found = []
    try:
        (place,) = struct.unpack_from("<I", data, 8)
        while True:
            kind, size = struct.unpack_from("<II", data, place)
            if kind == _CODE_LOAD:
                start, length = struct.unpack_from("<QQ", data, place + 32)
                name = data[place + 56:data.index(b"\0", place + 56)]
                found.append((start, start + length, _text(name)))
            place += max(size, 16)
    except (struct.error, ValueError):
        pass            # the end
    return reversed(found)


def _text(name):
    return name.decode(errors="backslashreplace")
