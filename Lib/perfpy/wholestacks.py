"""Put stacks together: Python functions, and around them what perf found.

reduce.py has left a token in each sample of a process that runs Python.  Used
by perfscript.py, which reads the samples after the recording.
"""

from perfpy import labels
from perfpy.marks import (CUT, GARBAGE_COLLECTION, NO_CALLERS, SHUTDOWN,
                          SINCE_BEFORE, START_UP)
from perfpy.profile import NO_STACK, UNKNOWN, Kind
from perfpy.reduce import TOKEN
from perfpy.stackcopy import End, Functions

AREA_CODE = "_PyPerf_"      # so begin the functions that call evaluators

# Where the threads of a program start that are not the interpreter's.
_THREAD_STARTS = {"clone", "clone3", "__clone", "__clone3", "start_thread",
                  "thread_start", "_start"}
# What the interpreter's main thread starts with.
_MAIN = {"Py_BytesMain", "Py_Main", "Py_RunMain", "pymain_main"}
# What it ends with.
_END = {"Py_FinalizeEx", "Py_Finalize", "_Py_Finalize"}
_COLLECTORS = {"gc_collect_main", "gc_collect_with_callback",
               "gc_collect_generations", "_PyGC_CollectNoFail",
               "PyGC_Collect"}


def token_of(line):
    """Return the token in a line of a call chain, or None."""
    address = line.lstrip(" \t")[:16]
    if address[0] == "5" and " " not in address and len(address) == 16:
        return int(address, 16)
    return None


class Assembler:

    def __init__(self, profile, functions, images, make_frame):
        """make_frame makes a Frame of (address, symbol, file)."""
        self._profile = profile
        self._functions = functions
        self._images = images
        self._make_frame = make_frame
        self._names = {}            # image: function that names labels
        self._frames = {}           # label: frame
        self._stacks = {}           # (chain, end): stack
        self._marks = {}

    def assemble(self, token, tid, time, native):
        """Return the stack of a sample, but for the kernel's functions.

        native are the frames that perf has found, outermost first.
        """
        profile = self._profile
        end = End(token & 3)
        number = (token - TOKEN) >> 2
        if end is not End.NONE:
            stack = self._python(number, end)
            if native and profile.frames[native[0]].name.startswith(
                    AREA_CODE):
                native = native[1:]
        else:
            stack = self._outside(self._images[number], tid, time, native)
        collecting = False
        for frame in native:
            if not collecting and self._collects(profile.frames[frame]):
                collecting = True
                stack = profile.add_stack(stack, self._mark(
                    GARBAGE_COLLECTION))
            stack = profile.add_stack(stack, frame)
        return stack

    def _python(self, chain, end):
        """Return the stack of a chain of Python functions."""
        stacks, functions = self._stacks, self._functions
        pending = []
        while (stack := stacks.get((chain, end))) is None:
            if chain == Functions.NOTHING:
                stack = (NO_STACK if end is End.COMPLETE else
                         self._profile.add_stack(NO_STACK, self._mark(CUT)))
                stacks[chain, end] = stack
                break
            pending.append(chain)
            chain = functions.callers[chain]
        for chain in reversed(pending):
            stack = self._profile.add_stack(
                stack, self._frame(functions.innermost[chain]))
            stacks[chain, end] = stack
        return stack

    def _frame(self, label):
        """Return the frame of a label's number."""
        frame = self._frames.get(label)
        if frame is None:
            image, address = self._functions.labels[label]
            name_of = self._names.get(image)
            if name_of is None:
                name_of = self._names[image] = labels.names(image)
            symbol, line = name_of(address) or ("py::" + UNKNOWN, 0)
            frame = self._frames[label] = self._profile.add_frame(
                self._make_frame("", symbol, "")._replace(line=line))
        return frame

    def _outside(self, image, tid, time, native):
        """Return what to show native functions below, without Python ones."""
        if image.is_older:
            if self._is_whole(native) and not any(
                    self._profile.frames[frame].kind is Kind.INTERPRETER
                    for frame in native):
                return NO_STACK
            mark = SHUTDOWN if self._is_in(_END, native) else SINCE_BEFORE
        elif image.first is None or time < image.first:
            mark = START_UP
        elif time > image.last:
            mark = SHUTDOWN
        elif self._is_in(_MAIN, native):
            mark = START_UP     # the script is compiled
        elif tid not in image.threads and self._is_whole(native):
            return NO_STACK     # a thread that is not the interpreter's
        else:
            mark = NO_CALLERS
        return self._profile.add_stack(NO_STACK, self._mark(mark))

    def _is_whole(self, native):
        return bool(native) and (self._profile.frames[native[0]].name
                                 in _THREAD_STARTS)

    def _is_in(self, names, native):
        return any(self._profile.frames[frame].name.partition(".")[0] in names
                   for frame in native)

    def _collects(self, frame):
        return frame.kind is Kind.INTERPRETER and frame.name in _COLLECTORS

    def _mark(self, mark):
        index = self._marks.get(mark)
        if index is None:
            index = self._marks[mark] = self._profile.add_frame(mark)
        return index
