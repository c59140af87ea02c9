"""The processes of a recording, as perf tells of them while it runs.

Of each process it is kept where evaluators return to, and where labels are.
A process that executes a program is another one from then on, with the same
number.  What happens on different processors is told in any order, so all of
it has a time, and is put where it belongs.  Used by reduce.py.
"""

import os
import re
import typing

from perfpy import elfsymbols, returnpoints

_JITDUMP = re.compile(r".*/jit-\d+\.dump")
_ANONYMOUS = "//anon"

_STATE = "_PyRuntime"       # what CPython calls it
_NO_PROGRAM = (), None


class Mapping(typing.NamedTuple):
    """Executable memory of a process in which something is of interest."""

    time: int
    start: int
    end: int
    points: tuple       # where evaluators return to; none: labels
    jitdump: str | None
    runtime: range | None = None    # the interpreter's state, with its GIL


class Image:
    """A process, from its start or an exec() on to the next."""

    def __init__(self, number, pid, start=0, parent=None):
        self.number = number
        self.pid = pid
        self.start = start
        self.parent = parent            # forked from it, and has its labels
        self.points = []                # return addresses of evaluators
        self.needles = ()               # the same as they lie in memory
        self.arenas = []                # (start, end) of memory for labels
        self.jitdump = None
        self.runtime = None             # addresses of the interpreter's state
        self.labels = {}                # label: its number
        self.first = self.last = None   # times of Python functions
        self.threads = set()            # those that have had one
        self._mappings = []
        self._own_pid = None

    @property
    def has_python(self):
        """Whether it has an interpreter with labels."""
        return bool(self.points)

    @property
    def is_older(self):
        """Whether it runs what may be older than the recording."""
        return self.start == 0 or bool(self.parent and self.parent.is_older)

    def add(self, mappings):
        self._mappings += mappings
        self._sort_out()

    def _sort_out(self):
        found = self._mappings
        self.points = list(dict.fromkeys(
            point for mapping in found for point in mapping.points))
        self.needles = tuple(point.to_bytes(8, "little")
                             for point in self.points)
        self.arenas = [(mapping.start, mapping.end) for mapping in found
                       if not (mapping.points or mapping.jitdump)]
        self.jitdump = next((mapping.jitdump for mapping in found
                             if mapping.jitdump), None)
        self.runtime = next((mapping.runtime for mapping in found
                             if mapping.runtime), None)
        if self.points and self._own_pid is None:
            self._look_up()

    def mappings(self, before):
        """Return those that were made before a time."""
        return [mapping for mapping in self._mappings if mapping.time < before]

    def give(self, time):
        """Return those that were made from a time on, which are not its."""
        given = [mapping for mapping in self._mappings if mapping.time >= time]
        self._mappings = self.mappings(time)
        self._sort_out()
        return given

    def _look_up(self):
        """Find out, while it lives, what the process calls itself."""
        try:
            with open(f"/proc/{self.pid}/status") as status:
                for line in status:
                    if line.startswith("NSpid:"):
                        self._own_pid = int(line.split()[-1])
        except (OSError, ValueError):
            pass

    @property
    def own_pid(self):
        """The number of the process in its own namespace."""
        return self._own_pid or self.pid

    def note_functions(self, tid, time):
        """Note that a thread runs Python functions at this time."""
        self.threads.add(tid)
        if self.first is None:
            self.first = self.last = time
        self.first = min(self.first, time)
        self.last = max(self.last, time)

    def is_label(self, address):
        return any(start < address < end for start, end in self.arenas)


class Places:

    def __init__(self):
        self.all = []
        self._images = {}       # pid: its images, the last first
        self._files = {}        # identity of a file: what it has

    def image(self, pid, time):
        """Return the image of a process at a time, or None."""
        for image in self._images.get(pid, ()):
            if image.start <= time:
                return image
        return None

    def _begin(self, pid, time, parent=None):
        """Add an image, to which belongs what is known of its time."""
        before = self.image(pid, time)
        image = Image(len(self.all), pid, time, parent)
        self.all.append(image)
        images = self._images.setdefault(pid, [])
        images.append(image)
        images.sort(key=lambda image: image.start, reverse=True)
        if before:
            image.add(before.give(time))
        return image

    def fork(self, pid, parent, time):
        if pid != parent:
            parent = self.image(parent, time) or self._begin(parent, 0)
            child = self._begin(pid, time, parent)
            child.add(parent.mappings(time))

    def execute(self, pid, time):
        self._begin(pid, time)

    def map(self, pid, time, start, size, offset, path):
        """Note executable memory of a process."""
        points, jitdump, runtime = (), None, None
        if _JITDUMP.fullmatch(path):
            jitdump = path
        elif path != _ANONYMOUS:
            points, state = (self._program(pid, path) if path.startswith("/")
                             else _NO_PROGRAM)
            points = tuple(start + point - offset for point in points
                           if offset <= point < offset + size)
            if not points:
                return
            runtime = state and elfsymbols.in_memory(state, start, offset)
        image = self.image(pid, time) or self._begin(pid, 0)
        self._add(image, Mapping(time, start, start + size, points, jitdump,
                                 runtime))

    def _add(self, image, mapping):
        image.add([mapping])
        for child in self.all:
            if child.parent is image and child.start > mapping.time:
                self._add(child, mapping)

    def _program(self, pid, path):
        """Return the offsets of points in a file of a process, and its state.
        """
        for name in f"/proc/{pid}/root{path}", path:
            try:
                status = os.stat(name)
            except OSError:
                continue
            identity = (status.st_dev, status.st_ino, status.st_mtime_ns)
            if identity not in self._files:
                points = returnpoints.of_file(name)
                self._files[identity] = points, (
                    points and elfsymbols.find(name, _STATE) or None)
            return self._files[identity]
        return _NO_PROGRAM
