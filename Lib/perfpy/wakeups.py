"""When threads that wait are woken, from where on they want a processor.

That is told by the tracepoint sched:sched_wakeup.  The kernel fires it in
whichever thread runs on the processor just then, often none of the recorded
ones, so perf has to listen to the whole machine, with a filter by number.  A
script and all that it starts have higher numbers than what was there before;
when these begin anew, wake-ups of new threads are not seen.

It takes the right to trace the machine, and numbers that are the kernel's own.
Where either is missing, rundelay.py tells at least how much time it is.

Used by wallrecorder.py; a Wakeups is a thread that reads perf's stream.
"""

import os
import struct

from perfpy import permissions
from perfpy.perfstream import ATTRIBUTES, FINISHED_ROUND, LOST, layout_of
from perfpy.reduce import Reducer

EVENT = "sched:sched_wakeup"
BUFFER = 1 << 20            # bytes for each processor: 10,000 wake-ups
MOST_RANGES = 50            # of numbers in a filter, which has 4,095 letters

_FIRST_NAMESPACE = 0xEFFFFFFC   # of processes' numbers: the kernel's own
_PID = 24                   # where the tracepoint has the number
_COUNT = struct.Struct("<Q")
_NUMBER = struct.Struct("<i")


def may_be_recorded():
    """Return whether it is worth trying."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return False
    return namespace == _FIRST_NAMESPACE and permissions.has_capability(
        permissions.CAP_PERFMON, permissions.CAP_SYS_ADMIN)


def newest_number():
    """Return the number of the process or thread that was started last."""
    with open("/proc/loadavg") as file:
        return int(file.read().split()[4])


def filter_of(numbers, since):
    """Return perf's filter for some threads, and all newer than a number."""
    ranges = []
    for number in sorted(number for number in numbers if number <= since):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    while len(ranges) > MOST_RANGES:
        # Others between them do no harm; the closest ones have the fewest.
        place = min(range(1, len(ranges)), key=lambda place:
                    ranges[place][0] - ranges[place - 1][1])
        ranges[place - 1][1] = ranges.pop(place)[1]
    return "||".join([*(f"(pid>={first}&&pid<={last})"
                        for first, last in ranges), f"pid>{since}"])


def options(numbers, since):
    """Return perf's options, besides that it is to record everything."""
    return ["-k", "CLOCK_MONOTONIC", "--synth=no", "-e", EVENT, "-c", "1",
            "--filter", filter_of(numbers, since), "-m", f"{BUFFER}B"]


class Wakeups(Reducer):
    """Tells the Waits when threads are woken; writes nothing."""

    def __init__(self, source, path, waits):
        super().__init__(source, os.devnull, waits, has_switches=False)
        self.lost = 0

    def _sample(self, buffer, place, size):
        layout = self._layouts[None]
        if layout.has_identifier:
            layout = self._layouts.get(
                _COUNT.unpack_from(buffer, place + 8)[0], layout)
        time, data = layout.time_and_raw(buffer, place)
        self.waits.wake(time, _NUMBER.unpack_from(buffer, data + _PID)[0])

    def _other(self, kind, flags, record):
        if kind == FINISHED_ROUND:
            self.waits.end_round()
        elif kind == ATTRIBUTES:
            layout, identifiers = layout_of(record)
            for identifier in identifiers:
                self._layouts[identifier] = layout
            self._layouts.setdefault(None, layout)
        elif kind == LOST:
            self.lost += _COUNT.unpack_from(record, 16)[0]
