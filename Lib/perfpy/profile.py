"""The data model: the samples of one recording, in memory.

Made by perfscript.py, kept in files by recording.py, and read by all that
shows a profile.  Does no input or output.

Equal frames and equal stacks are stored once, so that memory grows by 24 bytes
for a sample, and otherwise with the number of different stacks, by 8 bytes for
each, and more while stacks are added.
"""

import array
import collections.abc
import enum
import typing


class Kind(enum.Enum):
    """What a frame's code is."""

    PYTHON = "python"
    NATIVE = "native"              # C and the like, in any library
    INTERPRETER = "interpreter"    # C of the Python interpreter itself
    KERNEL = "kernel"
    MARK = "mark"                  # no code: says what the time below is for
    WAIT = "wait"                  # no code: innermost, what is waited for


class Frame(typing.NamedTuple):
    """A function as the profiler saw it, or one of its lines."""

    name: str     # a Python function's qualified name, or a symbol
    file: str     # its source file, or the library or program it is in
    kind: Kind
    line: int = 0       # that it was executing; 0: not known

    @property
    def function(self):
        """The same without the line."""
        return self._replace(line=0) if self.line else self


# A stack without any frame.
NO_STACK = -1

UNKNOWN = "[unknown]"       # the name of a function without one


class Thread:
    """The samples of one thread, in three parallel arrays."""

    def __init__(self, pid, tid, process_name, name):
        self.pid = pid
        self.tid = tid
        self.process_name = process_name
        self.name = name
        self.times = array.array("d")     # seconds since the first sample
        self.stacks = array.array("l")    # index in Profile.stacks
        self.weights = array.array("d")   # seconds that the sample stands for

    def __repr__(self):
        return (f"<Thread {self.tid} of process {self.pid}: "
                f"{len(self.times)} samples>")

    def add_sample(self, time, stack, weight):
        self.times.append(time)
        self.stacks.append(stack)
        self.weights.append(weight)


class _Stacks(collections.abc.Sequence):
    """The two arrays of a Profile as one sequence of (parent, frame)."""

    def __init__(self, parents, frames):
        self._parents = parents
        self._frames = frames

    def __len__(self):
        return len(self._parents)

    def __getitem__(self, stack):
        return self._parents[stack], self._frames[stack]

    def __iter__(self):
        return zip(self._parents, self._frames)

    def __eq__(self, other):
        return list(self) == list(other)


class Profile:
    """Threads with their samples, and the stacks and frames they refer to.

    frames   list of Frame, each once
    stacks   sequence of (parent, frame): the index of the stack without its
             innermost frame, or NO_STACK, and the index of that frame.  A
             parent precedes its children.
    parents, stack_frames
             the same as two arrays, which are faster
    threads  list of Thread
    start    the clock's time of the first sample in nanoseconds, or None if
             that is not known; only while perf's data is read
    meta     what is known about the recording, name to text: "command",
             "directory", "event", "frequency" or "period", "started" (ISO
             8601), "duration" (seconds), "queued" (seconds of waiting for a
             processor), "lost samples", "python", "stdlib", "packages",
             "perf", "unwinding"; "unit", if weights are not seconds but
             numbers of an event (units.py); and "clock": "wall", if they are
             seconds of the wall clock, with "gil", "estimated waits"
             (walltime.py), and "lost wake-ups" or "run delay" (rundelay.py)
    """

    def __init__(self):
        self.frames = []
        self.parents = array.array("i")
        self.stack_frames = array.array("i")
        self.stacks = _Stacks(self.parents, self.stack_frames)
        self.threads = []
        self.start = None
        self.meta = {}
        self._frame_index = {}
        self._stack_index = {}      # or None, if it must be made anew
        self._thread_index = {}

    def add_frame(self, frame):
        """Return the frame's index."""
        index = self._frame_index.get(frame)
        if index is None:
            index = self._frame_index[frame] = len(self.frames)
            self.frames.append(frame)
        return index

    def add_stack(self, parent, frame):
        """Return the index of the stack that calls the frame from parent."""
        known = self._stack_index
        if known is None:
            known = self._stack_index = {
                stack << 32 | frame: index for index, (stack, frame)
                in enumerate(self.stacks)}
        key = parent << 32 | frame      # takes half of a tuple's memory
        index = known.get(key)
        if index is None:
            index = known[key] = len(self.parents)
            self.parents.append(parent)
            self.stack_frames.append(frame)
        return index

    def extend_stacks(self, parents, frames):
        """Add stacks that are all different, and different from all here."""
        self._stack_index = None
        self.parents.extend(parents)
        self.stack_frames.extend(frames)

    def end_of_stacks(self):
        """Release the memory that adding stacks takes, until one is added."""
        self._stack_index = None

    def thread(self, pid, tid, process_name="", name=""):
        """Return the thread with these numbers, a new one if there is none.

        Names that are given replace those it has: programs set them late.
        """
        thread = self._thread_index.get((pid, tid))
        if thread is None:
            thread = Thread(pid, tid, process_name, name)
            self._thread_index[pid, tid] = thread
            self.threads.append(thread)
        thread.process_name = process_name or thread.process_name
        thread.name = name or thread.name
        return thread

    def copy_threads(self, other, place):
        """Take over the threads of a Profile; place[STACK] is STACK here."""
        for thread in other.threads:
            copy = self.thread(thread.pid, thread.tid, thread.process_name,
                               thread.name)
            copy.times.extend(thread.times)
            copy.weights.extend(thread.weights)
            copy.stacks.extend(NO_STACK if stack == NO_STACK else place[stack]
                               for stack in thread.stacks)

    def frames_of(self, stack):
        """Return the indices of a stack's frames, outermost first."""
        frames = []
        while stack != NO_STACK:
            stack, frame = self.stacks[stack]
            frames.append(frame)
        frames.reverse()
        return frames

    def stack_weights(self, threads=None):
        """Return the seconds spent in exactly each stack, by its index."""
        seconds = array.array("d", bytes(8 * len(self.stacks)))
        for thread in self.threads if threads is None else threads:
            for stack, weight in zip(thread.stacks, thread.weights):
                if stack != NO_STACK:
                    seconds[stack] += weight
        return seconds

    def duration(self):
        """Return the seconds that all samples stand for."""
        return sum(sum(thread.weights) for thread in self.threads)

    def totals(self, threads=None):
        """Return (self, total) seconds of each frame, by its index.

        Self is the time in the function's own code, total includes what it
        calls.  A function that is in a stack several times counts once.
        """
        from perfpy import totals       # it imports this module
        return totals.of_rows(self, range(len(self.frames)), threads=threads)

    def folded(self):
        """Return a profile without the interpreter's internals: fold.py."""
        from perfpy import fold         # it imports this module
        return fold.folded(self)

    def functions(self):
        """Return a profile of functions, whatever their lines: lines.py."""
        from perfpy import lines        # it imports this module
        return lines.functions(self)

    def in_python(self):
        """Return for each stack whether a Python function is in it."""
        answers = bytearray()
        add = answers.append
        is_python = [frame.kind is Kind.PYTHON for frame in self.frames]
        for parent, frame in self.stacks:
            add(is_python[frame] or parent != NO_STACK and answers[parent])
        return answers
