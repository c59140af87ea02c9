"""The processes of a recording, as perf tells of them while it runs.

Of each process it is kept where evaluators return to, and where labels are.
A process that executes a program is another one from then on, with the same
number.  Used by reduce.py.
"""

import os
import re

from perfpy import returnpoints

_JITDUMP = re.compile(r".*/jit-\d+\.dump")
_ANONYMOUS = "//anon"


class Image:
    """A process, from its start or an exec() on to the next."""

    def __init__(self, number, pid, parent=None):
        self.number = number
        self.pid = pid
        self.parent = parent            # forked from it, and has its labels
        self.points = []                # return addresses of evaluators
        self.needles = ()               # the same as they lie in memory
        self.arenas = []                # (start, end) of memory for labels
        self.labels = {}                # label: its number
        self.first = self.last = None   # times of Python functions
        self.threads = set()            # those that have had one
        self.jitdump = None
        self._own_pid = None
        if parent:
            self.arenas += parent.arenas
            self.points += parent.points
            self.needles = parent.needles

    @property
    def has_python(self):
        """Whether it has an interpreter with labels."""
        return bool(self.points)

    def add_points(self, points):
        self.points += [point for point in points if point not in self.points]
        self.needles = tuple(point.to_bytes(8, "little")
                             for point in self.points)
        self.look_up()

    def look_up(self):
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
        if self._own_pid is None and self.parent:
            self.look_up()
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
        self.images = {}        # pid: the present one
        self.all = []
        self._files = {}        # identity of a file: offsets of points

    def image(self, pid):
        image = self.images.get(pid)
        if image is None:
            image = self._add(pid)
        return image

    def _add(self, pid, parent=None):
        image = self.images[pid] = Image(len(self.all), pid, parent)
        self.all.append(image)
        return image

    def fork(self, pid, parent):
        if pid != parent:
            self._add(pid, self.image(parent))

    def execute(self, pid):
        self._add(pid)

    def map(self, pid, address, size, offset, path):
        """Note executable memory of a process."""
        image = self.image(pid)
        if _JITDUMP.fullmatch(path):
            image.jitdump = path
        elif path == _ANONYMOUS:
            image.arenas.append((address, address + size))
        elif path.startswith("/"):
            points = self._points(pid, path)
            if points:
                image.add_points([address + point - offset for point in points
                                  if offset <= point < offset + size])

    def _points(self, pid, path):
        """Return the offsets of points in a file of a process."""
        for name in f"/proc/{pid}/root{path}", path:
            try:
                status = os.stat(name)
            except OSError:
                continue
            identity = (status.st_dev, status.st_ino, status.st_mtime_ns)
            if identity not in self._files:
                self._files[identity] = returnpoints.of_file(name)
            return self._files[identity]
        return ()
