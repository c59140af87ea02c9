"""Off-CPU time: when each thread stopped to run, where, and for how long.

perf tells of each switch of a thread off a processor and on to one, by a small
record with the time, and by a sample of where the thread was when it went.
Where it may (wakeups.py), it tells as well when the thread was woken: from
then on it is ready to run.
What happens on different processors comes in any order, and is put into that
of time as soon as perf promises that nothing older will come.

A sample's stack is a *site*: a number that reduce.py gives to what is equal.
If the kernel has dropped a sample, because its buffer was full, the time is
known all the same.  If the wait is long, somebody looks where the thread is.
Else the site is taken to be that of a known wait of the thread, of those
before it the one that took most nearly as long.

Used by reduce.py, in its thread.  Memory grows with time, not with the number
of switches: short waits at one site are added up, SHORT within each WINDOW.
"""

import array
import collections
import math
import operator
import threading

NO_SITE = -1
FIRST_SITE = -2             # of threads that waited before the recording

SHORT = 1_000_000           # nanoseconds
WINDOW = 10_000_000
REMEMBERED = 32             # waits of a thread, of which one is like another

# Kinds of events, in the order in which they happen at one instant.
_SAMPLE, _OUT, _WAKE, _IN, _EXIT, _EXEC, _START = range(7)


class Thread:
    """What is known of a thread; times are nanoseconds."""

    def __init__(self, process, tid):
        self.process = process
        self.tid = tid
        self.running = 0            # time on a processor
        self.held_by = collections.Counter()    # time of waits for the GIL
        # Its waits: parallel arrays.
        self.times = array.array("Q")
        self.sites = array.array("i")
        self.ready = array.array("b")   # whether it could have run
        self.durations = array.array("Q")
        self.estimated = 0          # time of waits with another's site
        self.in_since = self.out_since = None
        self.is_preempted = False
        self.woken = None           # when, since it stopped
        self.site = None            # of the sample before the next switch
        self.site_time = 0
        self._recent = collections.deque(maxlen=REMEMBERED)
        self._short = {}            # (site, is ready): index in arrays
        self._window = 0

    def add_wait(self, start, end, site):
        """Add the time since it stopped, some of it ready to run."""
        ready = start if self.is_preempted else min(self.woken or end, end)
        duration = end - start
        if site is None:
            site = self._like(duration, self.is_preempted)
            self.estimated += duration
        else:
            self._recent.append((duration, self.is_preempted, site))
        if start < ready:
            self._add(start, ready, site, False)
        if ready < end:
            self._add(ready, end, site, True)

    def _add(self, start, end, site, is_ready):
        duration = end - start
        if duration < SHORT:
            window = start // WINDOW
            if window != self._window:
                self._window = window
                self._short.clear()
            index = self._short.setdefault((site, is_ready),
                                           len(self.times))
            if index < len(self.times):
                self.durations[index] += duration
                return
        self.times.append(start)
        self.sites.append(site)
        self.ready.append(is_ready)
        self.durations.append(duration)

    def _like(self, duration, is_preempted):
        """Return the site of a wait that is most like this one."""
        best, least = NO_SITE, math.inf
        if self._recent:
            best = self._recent[-1][2]
        for other, was_preempted, site in self._recent:
            if was_preempted == is_preempted:
                difference = abs(math.log((other + 1) / (duration + 1)))
                if difference <= least:
                    best, least = site, difference
        return best


class Process:
    """Who waits for the GIL of a process, and who may have it."""

    def __init__(self, pid):
        self.pid = pid
        self.waiters = set()        # threads
        self.runners = set()        # those that run, or could
        self.since = 0

    def advance(self, time):
        """Account for the time since the last event."""
        passed = time - self.since
        self.since = time
        if not self.waiters or passed <= 0:
            return
        holders = [thread.tid for thread in self.runners] or [0]
        share = passed / len(holders)
        for waiter in self.waiters:
            for tid in holders:
                waiter.held_by[tid] += share


# Details are not compared: one thread does one thing at a time.
_ORDER = operator.itemgetter(0, 1)


class Stream:
    """What one of perf's streams tells, in any order."""

    def __init__(self, waits):
        self._waits = waits
        self.events = []
        self.came = {}              # thread: when it came last
        self.stopped = {}           # thread: (process, when it stopped)
        self.sampled = {}           # thread: time of its last sample
        self.limit = -1
        self._newest = [-1, -1]     # times, of the last rounds

    def new_site(self, site, time, tid, is_of_gil):
        """Tell a number for the site of the sample with this time."""
        self._waits.first_of_site[tid, time] = site
        if is_of_gil:
            self._waits.gil_sites.add(site)

    def name(self, tid, name):
        self._waits.names[tid] = name

    def sample(self, time, pid, tid, site):
        self.events.append((time, _SAMPLE, pid, tid, site))
        self.sampled[tid] = time

    def switch(self, time, pid, tid, is_out, is_preempted):
        self.events.append((time, _OUT if is_out else _IN, pid, tid,
                            is_preempted))
        if is_out:
            self.stopped[tid] = pid, time
        else:
            self.came[tid] = time
            self.stopped.pop(tid, None)

    def exit(self, time, pid, tid):
        self.events.append((time, _EXIT, pid, tid, None))
        for known in self.stopped, self.came, self.sampled:
            known.pop(tid, None)

    def wake(self, time, tid):
        self.events.append((time, _WAKE, None, tid, None))

    def execute(self, time, pid, tid):
        self.events.append((time, _EXEC, pid, tid, None))

    def start(self, time, pid, tid, site):
        """A thread waits at a site, or runs, since before the recording."""
        self.events.append((time, _START, pid, tid, site))

    def end_round(self):
        """Take what nothing older can come after.

        perf promises that nothing in the next round is older than all of the
        last one; and reduce.py keeps samples back for one more.
        """
        self._newest.append(max((event[0] for event in self.events),
                                default=self._newest[-1]))
        self.limit = self._newest.pop(0)
        self._waits.take(self)

    def finish(self):
        """Nothing is to come at all."""
        self.limit = math.inf
        self._waits.take(self)


class Waits:

    def __init__(self):
        self.threads = []           # all there were
        self.gil_sites = set()      # sites at which a thread waits for a GIL
        self.first_of_site = {}     # (tid, time) of its first sample: site
        self.names = {}             # of threads, by number
        self.looks = {}             # thread: [(time, site)] while it waited
        self.begin = 0              # what is older is left out
        self.end = math.inf         # what is newer, too
        self._streams = []
        self._alive = {}            # by number
        self._processes = {}
        self._lock = threading.Lock()
        self._events = []           # of all streams

    def stream(self):
        """Return another Stream that tells of threads."""
        self._streams.append(Stream(self))
        return self._streams[-1]

    def take(self, stream):
        """Take a stream's events, and do what nothing can come before."""
        with self._lock:
            self._events += stream.events
            stream.events.clear()
            limit = min(stream.limit for stream in self._streams)
            self._events.sort(key=_ORDER)
            place = 0
            for event in self._events:
                if event[0] > limit:
                    break
                self._do(*event)
                place += 1
            del self._events[:place]

    def finish(self):
        """Let all waits end with the recording."""
        for thread in list(self._alive.values()):
            self._leave(thread, self.end)

    def _do(self, time, kind, pid, tid, detail):
        if not self.begin <= time <= self.end:
            return
        thread = self._alive.get(tid)
        if (kind in (_EXIT, _WAKE) and thread is None
                or kind == _START and thread is not None):
            return              # not worth to be known, or known better
        if thread is None:
            thread = self._alive[tid] = Thread(self._process(pid), tid)
            self.threads.append(thread)
        if kind == _SAMPLE:
            thread.site, thread.site_time = detail, time
        elif kind == _OUT:
            self._go(thread, time, detail)
        elif kind == _WAKE:
            self._wake(thread, time)
        elif kind == _IN:
            self._come(thread, time)
        elif kind == _EXIT:
            self._leave(thread, time)
        elif kind == _EXEC:
            # What it was before was another program.
            thread.in_since, thread.out_since = time, None
            thread.woken = None
        elif detail is None:
            thread.in_since = time
            thread.process.runners.add(thread)
        else:
            thread.site, thread.out_since = detail, time
            self._wait(thread, time)

    def _process(self, pid):
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = Process(pid)
        return process

    def _go(self, thread, time, is_preempted):
        if thread.out_since is not None:
            # That it came is lost; it cannot have been long.
            self._come(thread, time)
        if thread.in_since is not None:
            thread.running += time - thread.in_since
        thread.in_since = None
        thread.out_since = time
        thread.is_preempted = is_preempted
        self._wait(thread, time)

    def _wait(self, thread, time):
        process = thread.process
        process.advance(time)
        if not thread.is_preempted:
            process.runners.discard(thread)
            if thread.site in self.gil_sites:
                process.waiters.add(thread)

    def _wake(self, thread, time):
        if (thread.out_since is None or thread.is_preempted
                or thread.woken is not None):
            return
        thread.woken = time
        process = thread.process
        process.advance(time)
        process.waiters.discard(thread)
        process.runners.add(thread)

    def _come(self, thread, time):
        process = thread.process
        process.advance(time)
        process.waiters.discard(thread)
        process.runners.add(thread)
        start = thread.out_since
        if start is None:                   # that it went is lost
            start = thread.in_since
            if thread.site is not None:
                start = thread.site_time
                if thread.in_since is not None:
                    thread.running += start - thread.in_since
        if start is not None:
            site = thread.site
            if site is None:
                site = self._look_between(thread.tid, start, time)
            thread.add_wait(start, time, site)
        thread.site = thread.out_since = thread.woken = None
        thread.is_preempted = False
        thread.in_since = time

    def _look_between(self, tid, start, end):
        """Return the site at which a thread was found in this time."""
        for time, site in self.looks.get(tid, ()):
            if start < time < end:
                return site
        return None

    def pids(self):
        """Return the numbers of all processes so far."""
        return list(self._processes)

    def unexplained(self, before):
        """Yield (pid, tid) of threads that stopped before a time, where?

        They still wait, as far as is known, and there is no sample of them.
        """
        for stream in self._streams:
            for tid, (pid, time) in list(stream.stopped.items()):
                newest = max(other.sampled.get(tid, 0)
                             for other in self._streams)
                if time < before and newest <= stream.came.get(tid, 0):
                    yield pid, tid

    def _leave(self, thread, time):
        if thread.out_since is not None:
            self._come(thread, time)
        elif thread.in_since is not None:
            thread.running += time - thread.in_since
        thread.process.advance(time)
        thread.process.runners.discard(thread)
        del self._alive[thread.tid]
