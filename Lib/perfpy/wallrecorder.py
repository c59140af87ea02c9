"""Record wall-clock time: one perf for samples and times, one for stacks.

Both write streams that reduce.py reads.  The first has samples of CPU time and
tells when threads run.  The second copies a stack whenever a thread stops to
run, which can be thousands of times a second.  It has buffers of its own, so
that if they are full, stacks of waits are lost, but no times and no samples.
A third one tells when threads are woken (wakeups.py).

If nothing tells for a while where a thread has stopped, a third thread of ours
looks for itself, as initial.py does.

Called by run.py.
"""

import signal
import threading
import time

from perfpy import collect, initial, unwinding, wakeups
from perfpy.perf import PerfError
from perfpy.reduce import Reducer
from perfpy.rundelay import RunDelay
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
    """The perf records of a process, or of several, and recording."""

    def __init__(self, perf, pid, data, how, event, rate,
                 is_attached=False):
        self.waits = Waits()
        beginning = self.waits.stream()
        self._data = data + ".waits"
        self._perf = perf
        pids = list(map(int, str(pid).split(",")))

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
            self._wakeups = self._record_wakeups(pids)
            self._samples.tell("enable")
        except PerfError:
            self._samples.stop()
            raise
        self._run_delay = None if self._wakeups else RunDelay(pids)
        if is_attached:
            self._add_initial(beginning, pids)
        beginning.finish()
        self._is_over = threading.Event()
        self._looker = threading.Thread(target=self._look, daemon=True)
        self._looker.start()
        self.process = self._samples.process
        self.reducer = self._samples.reducer

    def _record_wakeups(self, pids):
        """Return a Recorder, or None where it is not allowed."""
        if not wakeups.may_be_recorded():
            return None
        # In this order: what is older than the first and not among the second
        # is no thread of ours.
        newest = wakeups.newest_number()
        tids = [tid for pid in pids for tid in initial.numbers(pid)]

        def reduce(source, path):
            return wakeups.Wakeups(source, path, self.waits)

        try:
            return self._perf.record(None, None,
                                     *wakeups.options(tids, newest),
                                     reduce=reduce)
        except PerfError:
            return None

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
        count = 0
        while not self._is_over.wait(LOOK_EVERY):
            # Else they keep for themselves what does not fill a buffer.
            if not (self._samples.ping() and self._stacks.ping()):
                break
            if self._wakeups:
                self._wakeups.ping()
            else:
                self._run_delay.look(self.waits.pids())
            if count < MOST_LOOKS:
                count += self._look_at_unexplained()

    def _look_at_unexplained(self):
        """Return how many looks were worth it."""
        looks = self.waits.looks
        count = 0
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
        return count

    def stop(self):
        """Let all finish; raise PerfError if one cannot."""
        # Those that end last tell of what happens while the others finish.
        self.waits.end = time.monotonic_ns()
        self._is_over.set()
        self._looker.join()
        try:
            self._samples.stop()
        finally:
            try:
                self._stacks.stop()
            finally:
                if self._wakeups:
                    self._wakeups.stop()
                self.waits.finish()

    def add_waits(self, profile, interpreters):
        """Put the waits into the profile of the samples."""
        collect.collect_waits(self._perf, self._data, profile, self.waits,
                              interpreters=interpreters,
                              reduced=self._stacks.reducer)
        if self._wakeups:
            profile.meta["lost wake-ups"] = str(self._wakeups.reducer.lost)
        else:
            self._run_delay.write(profile.meta)
