"""Which functions run right now: samples, counted as they come.

perf's stream is read as for a recording (reduce.py), but nothing is written.
Of each sample it is only kept in which thread and with which Python functions
it was, and how often.  Used by top.py.
"""

import collections
import os
import threading
import typing

from perfpy import labels, perfscript
from perfpy.profile import UNKNOWN, Frame, Kind
from perfpy.reduce import Reducer
from perfpy.stackcopy import End, Functions

OUTSIDE = Frame("(no Python function)", "", Kind.MARK)
CHAINS_KNOWN = 100_000      # most to remember, for speed


class LiveReducer(Reducer):
    """Counts samples by (pid, tid, chain)."""

    def __init__(self, source):
        super().__init__(source, os.devnull)
        self._counts = collections.Counter()
        self._lock = threading.Lock()

    def _reduce(self, layout, buffer, place, size, is_last_time):
        sample = layout.find(buffer, place)
        image = self._places.image(sample.pid, sample.time)
        end, chain = End.NONE, Functions.NOTHING
        if image and image.has_python and sample.copied:
            end, chain, _ = self._find(layout, buffer, sample, image)
        if end is End.NONE and not is_last_time:
            return None
        with self._lock:
            self._counts[sample.pid, sample.tid, chain] += 1
        return b""

    def take(self):
        """Return {(pid, tid, chain): samples} since the last time."""
        with self._lock:
            counts, self._counts = self._counts, collections.Counter()
        return counts


class Row(typing.NamedTuple):
    """A function, and the samples in it alone, and with what it calls."""

    frame: Frame
    own: int
    total: int


class Names:
    """The functions of chains, named by the files that processes write."""

    def __init__(self, functions):
        self._functions = functions
        self._frames = {}           # number of a label: frame
        self._chains = {}           # chain: frames, innermost first

    def refresh(self):
        """Read again what has no name yet: processes go on naming."""
        unknown = [number for number, frame in self._frames.items()
                   if frame.name == UNKNOWN]
        for number in unknown:
            del self._frames[number]
        if unknown:
            self._chains.clear()
        self._name_of = {}          # image: function that names its labels

    def frames_of(self, chain):
        frames = self._chains.get(chain)
        if frames is None:
            frames, here = [], chain
            while here != Functions.NOTHING:
                frames.append(self._frame(self._functions.innermost[here]))
                here = self._functions.callers[here]
            if len(self._chains) >= CHAINS_KNOWN:
                self._chains.clear()
            frames = self._chains[chain] = tuple(frames) or (OUTSIDE,)
        return frames

    def _frame(self, label):
        frame = self._frames.get(label)
        if frame is None:
            image, address = self._functions.labels[label]
            if image not in self._name_of:
                self._name_of[image] = labels.names(image)
            symbol, line = self._name_of[image](address) or (
                "py::" + UNKNOWN, 0)
            frame = self._frames[label] = perfscript.make_frame(
                "", symbol, "")._replace(line=line)
        return frame


def rows_of(counts, names, thread=None, by_line=False):
    """Return a Row for each function that is in the counts.

    thread is a (pid, tid), or None for all; by_line asks for a Row for each
    line of a function.
    """
    own, total = collections.Counter(), collections.Counter()
    for (pid, tid, chain), count in counts.items():
        if thread in (None, (pid, tid)):
            frames = names.frames_of(chain)
            if not by_line:
                frames = [frame.function for frame in frames]
            own[frames[0]] += count
            for frame in set(frames):
                total[frame] += count
    return [Row(frame, own[frame], count) for frame, count in total.items()]
