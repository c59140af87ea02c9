"""Read what `perf script` prints into a Profile.

Called by collect.py with the output that OPTIONS ask for, line by line, so
that only the Profile is in memory.  A sample, its innermost function first:

    python   2543/2551   118.803814384:    1001001 cpu-clock:
            ffffffff821f23e7 exc_page_fault ([kernel.kallsyms])
                556c284cb486 long_div (/usr/bin/python3.11)
                7f3801230018 py::halve:/srv/collatz.py (/tmp/perf-2543.map)

What is between the pieces may be in them as well: anybody chooses names of
threads, functions and files.  Lines that make no sense are left out.
"""

import posixpath
import re

from perfpy import (jitdump, marks, processes, units, walltime,
                    wholestacks)
from perfpy.profile import NO_STACK, UNKNOWN, Frame, Kind, Profile

FIELDS = "comm,tid,pid,time,period,event,ip,sym,dso"
OPTIONS = ["--ns", "--show-task-events", "--show-lost-events",
           "--max-stack", "1024", "-F", FIELDS]

_HEADER = re.compile(
    r"(.*?)\s*\b(\d+)/(\d+)\s+(\d+)\.(\d+):\s+(\d+)\s+(\S+?):\s*")
_FORK = re.compile(r".* PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\).*",
                   re.DOTALL)
_LOST = re.compile(r".* PERF_RECORD_LOST\w* .*?lost (\d+).*", re.DOTALL)

# The library's path is at the end, in parentheses; it is absolute, or a word
# in brackets.  A greedy match finds the last such beginning.
_SYMBOL = re.compile(r"(.*) \(((?:/|\[|inlined\b).*)\)|(.*) \((.*)\)",
                     re.DOTALL)
_PYTHON_SYMBOL = re.compile(r"py::((?:<[^>]*>|[^:<])*):(.*)", re.DOTALL)
_TASK = "<task>"            # in the place of a function
_LINE = re.compile(r"(.+):([0-9]{1,10})", re.DOTALL)
_INTERPRETER = re.compile(r"(python|libpython)[0-9.]*d?(\.so[0-9.]*)?")
_EVALUATOR = re.compile(
    r"_PyEval_EvalFrameDefault|_PyPerf_(Enter|Continue)Area")

_KERNEL = "ffff"            # so begin the kernel's addresses
_NOWHERE = "f" * 16         # where perf finds no further callers

PROGRESS_EVERY = 10_000     # samples
LINES_KNOWN = 100_000       # most lines to remember, for speed


def make_frame(address, symbol, library, interpreters=frozenset()):
    """Make the frame of a function, given as perf names it."""
    if symbol.startswith("py::"):
        match = _PYTHON_SYMBOL.fullmatch(symbol)
        name, file = match.groups() if match else (symbol[4:], "")
        if name == _TASK:
            return marks.task(file)
        return Frame(name, file, Kind.PYTHON)
    if len(address) == 16 and address.startswith(_KERNEL):
        kind = Kind.KERNEL
    elif (library in interpreters or _EVALUATOR.match(symbol)
            or _INTERPRETER.fullmatch(posixpath.basename(library))):
        kind = Kind.INTERPRETER
    else:
        kind = Kind.NATIVE
    return Frame(symbol, library, kind)


def with_line(frame):
    """Take the line, which perf knows as a part of the symbol only."""
    if frame.kind is Kind.PYTHON and (match := _LINE.fullmatch(frame.file)):
        return frame._replace(file=match[1], line=int(match[2]))
    return frame


class _Reader:

    def __init__(self, profile, interpreters, progress, reduced, waits=None):
        self.profile = profile
        self.events = set()
        self.processes = set()
        self.parents = {}           # process: the one that forked it
        self.lost = 0
        self._interpreters = interpreters
        self._progress = progress
        self._samples = 0
        self.start = None
        self._assembler = reduced and wholestacks.Assembler(
            self.profile, reduced.functions, reduced.images, make_frame)
        self._waits = waits         # whose sites are read, if any are
        self.sites = {}             # the stack of each, and for what it waits
        self._lines = jitdump.Lines()
        self._frame_of_line = {}    # with its address; some of them
        self._frame_of = {}         # the same without: index of the frame

    def read(self, lines):
        sample, frames = None, []
        with self._lines:
            for line in lines:
                if sample is not None and line[:1] in "\t ":
                    frames.append(line)
                    continue
                self._add(sample, frames)
                sample, frames = self._header(line), []
            self._add(sample, frames)

    def _header(self, line):
        """Return the parts of the line that begins a sample, or None."""
        if match := _HEADER.fullmatch(line):
            return match.groups()
        if match := _FORK.fullmatch(line):
            child, parent = int(match[1]), int(match[2])
            self.processes.add(child)
            if child != parent:     # no thread
                self.parents[child] = parent
        elif match := _LOST.fullmatch(line):
            self.lost += int(match[1])
        return None

    def _add(self, sample, lines):
        if sample is None:
            return
        name, pid, tid, seconds, fraction, period, event = sample
        name = name.strip()
        if name == ":" + tid:       # perf does not know it
            name = ""
        # Differences of large numbers: do them in integers.
        time = int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])
        if self._waits:
            self._add_site(int(tid), time, lines)
            return
        stack = self._stack(lines, int(tid), time)
        if self.start is None:
            self.start = time
        self.events.add(event)
        thread = self.profile.thread(int(pid), int(tid), name=name)
        thread.add_sample((time - self.start) / 1e9, stack,
                          int(period) / 1e9)
        self._samples += 1
        if self._progress and self._samples % PROGRESS_EVERY == 0:
            self._progress(self._samples)

    def _add_site(self, tid, time, lines):
        """Note where threads wait, without what the kernel does then."""
        site = self._waits.first_of_site.get((tid, time))
        if site is None:
            return
        names = [line.split(maxsplit=1)[-1].rpartition(" (")[0]
                 for line in lines]
        count = 0
        while count < len(lines) and lines[count].startswith(_KERNEL, 1):
            count += 1
        self.sites[site] = (
            self._stack(lines[count:], tid, time),
            walltime.reason(names[:count], names[count:]))

    def _stack(self, lines, tid, time):
        """Return the stack in the lines of a call chain, innermost first."""
        stack = NO_STACK
        if self._assembler:
            for place, line in enumerate(lines):
                token = wholestacks.token_of(line)
                if token is not None:
                    stack = self._assembler.assemble(
                        token, tid, time, self._frames(lines[place + 1:]))
                    lines = lines[:place]
                    break
                if not line.startswith(_KERNEL, 1):
                    break
        for frame in self._frames(lines):
            stack = self.profile.add_stack(stack, frame)
        return stack

    def _frames(self, lines):
        """Return the indices of the frames in lines, outermost first."""
        frames, known = [], self._frame_of_line
        for line in reversed(lines):
            frame = known.get(line)
            if frame is None:
                frame = self._frame(line)
                if frame is None:
                    continue
                if len(known) == LINES_KNOWN:
                    known.clear()
                known[line] = frame
            frames.append(frame)
        return frames

    def _frame(self, line):
        """Return the index of the frame in a line, or None."""
        address, _, rest = line.lstrip().rstrip("\n").partition(" ")
        if address == _NOWHERE:
            return None
        number = self._lines.line(rest, address)
        key = (rest, address.startswith(_KERNEL), number)
        index = self._frame_of.get(key)
        if index is None:
            match = _SYMBOL.fullmatch(rest)
            if not match:
                return None
            symbol, library = (match[1], match[2]) if match[2] else (
                match[3], match[4])
            if library == "inlined":
                library = ""
            frame = make_frame(address, symbol or UNKNOWN, library,
                               self._interpreters)
            index = self._frame_of[key] = self.profile.add_frame(
                frame._replace(line=number) if number else with_line(frame))
        return index


def read(lines, *, frequency, interpreters=(), progress=None, reduced=None):
    """Return the Profile that the lines tell, and the pids of its processes.

    frequency      samples a second, as recorded
    interpreters   paths of files whose functions are the interpreter's own,
                   besides those that are called like python3.11
    progress       a function to call with the number of samples so far
    reduced        the Reducer that has written the samples, if one has
    """
    reader = _Reader(Profile(), frozenset(interpreters), progress, reduced)
    reader.read(lines)
    profile = reader.profile
    names = {thread.pid: thread.name for thread in profile.threads
             if thread.tid == thread.pid}
    for thread in profile.threads:
        thread.process_name = names.get(thread.pid, thread.name)
    processes.name_children(profile, reader.parents)
    if not all(map(units.is_time, reader.events)):
        profile.meta["unit"] = " ".join(sorted(reader.events))
        _scale(profile, 1e9)
    elif not all(map(units.is_clock, reader.events)):
        _scale_to_seconds(profile, frequency)
    profile.meta["event"] = " ".join(sorted(reader.events))
    profile.meta["lost samples"] = str(reader.lost)
    reader.processes.update(thread.pid for thread in profile.threads)
    profile.start = reader.start
    return profile, reader.processes


def read_sites(lines, profile, waits, *, interpreters=(), reduced):
    """Return where threads have waited: by site (stack, mark).

    The arguments are those of read(), but that the samples are those of
    threads that stop to run.  The stacks are added to the profile.
    """
    reader = _Reader(profile, frozenset(interpreters), None, reduced, waits)
    reader.read(lines)
    return reader.sites


def _scale_to_seconds(profile, frequency):
    """Make seconds of the weights of an event that does not count time.

    perf adapts the period so that the samples of a busy thread come at the
    frequency asked for.  So the usual period stands for their distance.
    """
    weights = []
    for thread in profile.threads:
        weights.extend(thread.weights[::1 + len(thread.weights) // 1000])
    if not weights:
        return
    usual = sorted(weights)[len(weights) // 2] or 1
    _scale(profile, 1 / (frequency * usual))


def _scale(profile, factor):
    for thread in profile.threads:
        for index, weight in enumerate(thread.weights):
            thread.weights[index] = weight * factor
