"""What the weights of a profile's samples are, in words.

Events that count time, and cycles, which perf samples at a steady rate, are
seconds of CPU time.  Any other event is counted in its own unit, whose name is
in meta["unit"].

Called by perfscript.py, which scales the weights, and by all that shows them.
"""

import re

from perfpy import walltime

# Their periods are nanoseconds.
_CLOCK = re.compile(r"(cpu-clock|task-clock)(:\w*)?")
# Events of the kernel's own that are no clocks.
_SOFTWARE = frozenset((
    "page-faults", "faults", "minor-faults", "major-faults",
    "context-switches", "cs", "cpu-migrations", "migrations",
    "alignment-faults", "emulation-faults", "cgroup-switches"))
_CYCLES = re.compile(r"(cpu[-\w]*/)?(cpu-)?cycles/?(:\w*)?")


def is_clock(event):
    return bool(_CLOCK.fullmatch(event))


def is_time(event):
    return is_clock(event) or bool(_CYCLES.fullmatch(event))


def is_counted(event):
    """Return whether perf can take each of them, not some of so many a second.

    Tracepoints and probes are called GROUP:NAME.
    """
    name, _, modifiers = event.partition(":")
    return (name in _SOFTWARE
            or len(modifiers) > 3 or not set(modifiers) <= set("ukhpPGHSDIW"))


def _is_user_only(event):
    modifiers = event.rpartition(":")[2] if ":" in event else ""
    return "u" in modifiers and "k" not in modifiers


def noun(profile):
    """Return what the weights count: CPU time, or the name of an event."""
    unit = profile.meta.get("unit")
    if walltime.is_wall(profile):
        return "wall-clock time"
    events = profile.meta.get("event", "").split()
    if events and all(map(_is_user_only, events)):
        return f"{unit or 'user CPU time'}, without the kernel"
    return unit or "CPU time"


def amount(profile, weight):
    """Return a sum of weights as text with its unit."""
    unit = profile.meta.get("unit")
    if unit:
        return f"{weight:,.0f} {unit}"
    if abs(weight) >= 100 or not weight:
        return f"{weight:.0f} s"
    return f"{weight:.2f} s" if abs(weight) >= 0.01 else f"{weight:.2g} s"
