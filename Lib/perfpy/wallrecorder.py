"""Record wall-clock time: one perf for samples and times, one for stacks.

Both write streams that reduce.py reads.  The first has samples of CPU time and
tells when threads run.  The second copies a stack whenever a thread stops to
run, which can be thousands of times a second.  It has buffers of its own, so
that if they are full, stacks of waits are lost, but no times and no samples.

If nothing tells for a while where a thread has stopped, a third thread of ours
looks for itself, as initial.py does.

Called by run.py.
"""

import signal
import threading
import time

from perfpy import collect, initial, unwinding
from perfpy.perf import PerfError
from perfpy.reduce import Reducer
from perfpy.waits import FIRST_SITE, Waits


LOOK_EVERY = 0.05           # seconds
LOOK_AFTER = 50_000_000     # nanoseconds without a sign of a thread
MOST_LOOKS = 500            # which take 32 KiB each


def with_largest_buffers(start, largest=unwinding.LARGEST_BUFFER):
    """Return start(size) with the largest size that the kernel allows."""
    for size in unwinding.buffer_sizes(largest):
        try:
            return start(size)
        except PerfError as error:
            failure = error
            if "mmap" not in str(error):    # it names --mmap_pages
                break
    raise failure


class WallRecorder:
    """Two perf records that are attached to a process, and recording."""

    def __init__(self, perf, pid, data, how, event, rate,
                 is_attached=False):
        self.waits = Waits()
        beginning = self.waits.stream()
        self._data = data + ".waits"
        self._perf = perf

        def samples(source, path):
            return Reducer(source, path, self.waits)

        def stacks(source, path):
            return Reducer(source, path, self.waits, has_switches=False)

        self._samples = with_largest_buffers(lambda size: perf.record(
            pid, data, *how.record_options(event, rate, size),
            "--switch-events", reduce=samples, enable=False))
        try:
            self._stacks = with_largest_buffers(lambda size: perf.record(
                pid, self._data, *unwinding.wait_options(size),
                reduce=stacks, enable=False), unwinding.LARGEST_BUFFERS)
            self._stacks.tell("enable")
            self._samples.tell("enable")
        except PerfError:
            self._samples.stop()
            raise
        if is_attached:
            self._add_initial(beginning, map(int, str(pid).split(",")))
        beginning.finish()
        self._is_over = threading.Event()
        self._looker = threading.Thread(target=self._look, daemon=True)
        self._looker.start()
        self.process = self._samples.process
        self.reducer = self._samples.reducer

    def _add_initial(self, stream, pids):
        """Tell of the threads that are there already."""
        now = self.waits.begin = time.monotonic_ns()
        for pid, tid, waiting in initial.threads(pids):
            stream.start(now, pid, tid,
                         waiting and self._add_site(waiting, now))

    def _add_site(self, waiting, now):
        found = self._stacks.reducer.initial
        site = FIRST_SITE - len(found)
        found[site] = waiting, now
        return site

    def _look(self):
        """Look from time to time for threads that wait nobody knows where."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        looks = self.waits.looks
        count = 0
        while count < MOST_LOOKS and not self._is_over.wait(LOOK_EVERY):
            # Else they keep for themselves what does not fill a buffer.
            if not (self._samples.ping() and self._stacks.ping()):
                break
            late = time.monotonic_ns() - LOOK_AFTER
            for pid, tid in self.waits.unexplained(late):
                if looks.get(tid, [(0, 0)])[-1][0] > late:
                    continue
                try:
                    waiting = initial.look(pid, tid)
                except (OSError, ValueError):
                    continue
                if waiting and waiting.stack:
                    now = time.monotonic_ns()
                    looks.setdefault(tid, []).append(
                        (now, self._add_site(waiting, now)))
                    count += 1

    def stop(self):
        """Let both finish; raise PerfError if one cannot."""
        end = time.monotonic_ns()
        self._is_over.set()
        self._looker.join()
        try:
            self._samples.stop()
        finally:
            self._stacks.stop()
            self.waits.finish(end)

    def add_waits(self, profile, interpreters):
        """Put the waits into the profile of the samples."""
        collect.collect_waits(self._perf, self._data, profile, self.waits,
                              interpreters=interpreters,
                              reduced=self._stacks.reducer)
