"""The data model: the samples of one recording, in memory.

Made by perfscript.py, kept in files by recording.py, and read by all that
shows a profile.  Does no input or output.

Equal frames and equal stacks are stored once, so that memory grows by 24 bytes
for a sample, and otherwise with the number of different stacks.
"""

import array
import enum
import posixpath
import re
import typing


class Kind(enum.Enum):
    """What a frame's code is."""

    PYTHON = "python"
    NATIVE = "native"              # C and the like, in any library
    INTERPRETER = "interpreter"    # C of the Python interpreter itself
    KERNEL = "kernel"
    MARK = "mark"                  # no code: says what the time below is for


class Frame(typing.NamedTuple):
    """A function as the profiler saw it."""

    name: str     # a Python function's qualified name, or a symbol
    file: str     # its source file, or the library or program it is in
    kind: Kind


# A stack without any frame.
NO_STACK = -1


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


class Profile:
    """Threads with their samples, and the stacks and frames they refer to.

    frames   list of Frame, each once
    stacks   list of (parent, frame): the index of the stack without its
             innermost frame, or NO_STACK, and the index of that frame.  A
             parent precedes its children.
    threads  list of Thread
    meta     what is known about the recording, name to text: "command",
             "event", "frequency", "started" (ISO 8601), "duration" (seconds),
             "lost samples", "python", "perf", "unwinding"
    """

    def __init__(self):
        self.frames = []
        self.stacks = []
        self.threads = []
        self.meta = {}
        self._frame_index = {}
        self._stack_index = {}
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
        node = (parent, frame)
        index = self._stack_index.get(node)
        if index is None:
            index = self._stack_index[node] = len(self.stacks)
            self.stacks.append(node)
        return index

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
        seconds = self.stack_weights(threads)
        own = [0.0] * len(self.frames)
        total = [0.0] * len(self.frames)
        for (_, frame), weight in zip(self.stacks, seconds):
            own[frame] += weight
        for stack in range(len(self.stacks) - 1, -1, -1):
            parent = self.stacks[stack][0]
            if parent != NO_STACK:
                seconds[parent] += seconds[stack]
        for stack in self._outermost():
            total[self.stacks[stack][1]] += seconds[stack]
        return list(zip(own, total))

    def _outermost(self):
        """Yield the stacks whose innermost frame is in them only once."""
        children = {}
        for stack, (parent, _) in enumerate(self.stacks):
            children.setdefault(parent, []).append(stack)
        active = [0] * len(self.frames)     # times on the way to the stack
        pending = list(children.get(NO_STACK, ()))
        while pending:
            stack = pending.pop()
            if stack < 0:       # the complement of one whose children are done
                active[self.stacks[~stack][1]] -= 1
                continue
            frame = self.stacks[stack][1]
            if not active[frame]:
                yield stack
            active[frame] += 1
            pending.append(~stack)
            pending.extend(children.get(stack, ()))

    def folded(self):
        """Return a profile without the interpreter's internals.

        A stack that has a Python function loses its INTERPRETER frames, so
        that their time counts for the Python function around them, and C
        functions of other libraries stand directly below their Python caller.
        It also loses the way into the interpreter: all that is outside of the
        outermost Python function, if this is nothing but the interpreter, the
        C library, and functions without a name.

        A stack without Python functions stays as it is.  There the internals
        are all there is to see: start-up and the end of the process.
        """
        result = Profile()
        result.meta.update(self.meta)
        place = {NO_STACK: NO_STACK}        # index here: index in the result
        in_python = self.in_python()
        needed = self._needed_by_folded(in_python)
        for stack, (parent, frame) in enumerate(self.stacks):
            if not needed[stack]:
                continue
            frame = self.frames[frame]
            if in_python[stack] and frame.kind is Kind.INTERPRETER:
                place[stack] = place[parent]
                continue
            if in_python[stack] and (parent == NO_STACK
                                     or not in_python[parent]):
                parent = self._add_surroundings(result, parent)
            else:
                parent = place[parent]
            place[stack] = result.add_stack(parent, result.add_frame(frame))
        for thread in self.threads:
            copy = result.thread(thread.pid, thread.tid, thread.process_name,
                                 thread.name)
            copy.times.extend(thread.times)
            copy.weights.extend(thread.weights)
            copy.stacks.extend(map(place.__getitem__, thread.stacks))
        return result

    def in_python(self):
        """Return for each stack whether a Python function is in it."""
        answers = bytearray(len(self.stacks))
        is_python = [frame.kind is Kind.PYTHON for frame in self.frames]
        for stack, (parent, frame) in enumerate(self.stacks):
            answers[stack] = is_python[frame] or (
                parent != NO_STACK and answers[parent])
        return answers

    def _needed_by_folded(self, in_python):
        """Return for each stack whether a sample's stack is made from it."""
        needed = bytearray(len(self.stacks))
        for thread in self.threads:
            for stack in thread.stacks:
                if stack != NO_STACK:
                    needed[stack] = True
        for stack in range(len(self.stacks) - 1, -1, -1):
            parent = self.stacks[stack][0]
            if (needed[stack] and parent != NO_STACK
                    and in_python[parent] == in_python[stack]):
                needed[parent] = True
        return needed

    def _add_surroundings(self, result, stack):
        """Add what stays of a stack into which Python was entered."""
        frames = [self.frames[frame] for frame in self.frames_of(stack)]
        parent = NO_STACK
        if not all(map(_is_way_in, frames)):
            for frame in frames:
                if frame.kind is not Kind.INTERPRETER:
                    parent = result.add_stack(parent, result.add_frame(frame))
        return parent


UNKNOWN = "[unknown]"
_C_LIBRARY = re.compile(r"(libc|libpthread|ld-linux.*|ld-musl.*|ld)[.-].*")


def _is_way_in(frame):
    """Return whether a frame only tells how a program or thread starts."""
    return (frame.kind is Kind.INTERPRETER or frame.name == UNKNOWN
            or frame.kind is Kind.NATIVE
            and _C_LIBRARY.fullmatch(posixpath.basename(frame.file)))
