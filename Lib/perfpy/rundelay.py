"""How long threads wanted a processor and had none, as the kernel adds it up.

/proc/PID/task/TID/schedstat has this for anybody.  Where wakeups.py may not
look it tells how much of the time in which threads seem to wait they were
ready to run; it does not tell when, nor where.  What a thread collects after
the last look before it ends is missing.

Used by wallrecorder.py, in a thread of its.
"""

import json
import time

from perfpy import initial

META = "run delay"          # what a recording has of it

_LEAST_PAUSE = 0.2          # seconds
_PAUSE = 50                 # times the CPU time of a look


def read(pid, tid):
    """Return nanoseconds, or None."""
    try:
        with open(f"/proc/{pid}/task/{tid}/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None


class RunDelay:

    def __init__(self, pids):
        self._before = {(pid, tid): read(pid, tid) or 0
                        for pid in pids for tid in initial.numbers(pid)}
        self._found = {}
        self._next = 0

    def look(self, pids):
        """Look at all threads, but not too often."""
        if time.monotonic() < self._next:
            return
        start = time.thread_time()
        for pid in pids:
            for tid in initial.numbers(pid):
                found = read(pid, tid)
                if found is not None:
                    self._found[pid, tid] = found
        self._next = time.monotonic() + max(
            _LEAST_PAUSE, _PAUSE * (time.thread_time() - start))

    def write(self, meta):
        meta[META] = json.dumps(
            [[pid, tid,
              round((found - self._before.get((pid, tid), 0)) / 1e9, 6)]
             for (pid, tid), found in self._found.items()],
            separators=(",", ":"))


def of(profile):
    """Return {(pid, tid): seconds}, as a recording has it."""
    try:
        return {(pid, tid): float(seconds) for pid, tid, seconds
                in json.loads(profile.meta.get(META, "[]"))}
    except (ValueError, TypeError):
        return {}           # a recording that was tampered with
