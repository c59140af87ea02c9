"""How the callers of a function are found: the choice, and perf's options.

By copies of the stack ("copy"), wherever the interpreter has frame labels:
perfpy itself finds the Python functions in them, whatever code stands below
(reduce.py), and perf the native functions.  By frame pointers ("fp"), which
code has to be compiled for, elsewhere; recordings are small.  By unwind
information alone ("dwarf") if asked: perf merges a jitdump into the recording,
and finds the native functions between Python functions, too.

Called by run.py and doctor.py.
"""

import os
import resource
import typing

from perfpy import architecture, walltime

FREQUENCY = {"copy": 499, "fp": 999, "dwarf": 199}
NAMES = {"copy": "copies of the stack", "fp": "frame pointers",
         "dwarf": "unwind information"}

STACK_SIZE = 32768      # bytes of each stack that perf copies for "dwarf"
LARGEST_COPY = 65528    # and at most, which is for "copy" if there is room
COPY_IN_BURSTS = 32768  # the same, of what can happen very often

# For each processor, perf's buffer has room for so many copies, or is smaller
# than so many bytes; and all of them together take no more than that.
COPIES_IN_BUFFER = 8
LARGEST_BUFFER = 1 << 23
LARGEST_BUFFERS = 1 << 26

_CAP_IPC_LOCK = 14


class Unwinding(typing.NamedTuple):
    method: str         # "copy", "fp" or "dwarf"
    reason: str         # one line for the user

    @property
    def backend(self):
        """The name of -X option and of the trampoline's back end."""
        return "perf_jit" if self.method == "dwarf" else "perf"

    def record_options(self, event, rate, buffer=None, in_bursts=False):
        """Return perf's options.

        rate        perf's options for how many samples there are
        buffer      bytes for each processor
        in_bursts   whether there can be very many at once
        """
        # The clock of the jitdump; its times are easy to read, too.
        options = ["-k", "CLOCK_MONOTONIC", "-e", event, *rate]
        if self.method == "copy":
            size = min(COPY_IN_BURSTS if in_bursts else LARGEST_COPY,
                       buffer // COPIES_IN_BUFFER & ~7)
            return [*options, "--call-graph", f"dwarf,{size}",
                    "-m", f"{buffer}B"]
        how = f"dwarf,{STACK_SIZE}" if self.method == "dwarf" else "fp"
        return [*options, "--call-graph", how]


def wait_options(buffer):
    """Return perf's options for stacks of threads that stop to run."""
    size = min(COPY_IN_BURSTS, buffer // COPIES_IN_BUFFER & ~7)
    return ["-k", "CLOCK_MONOTONIC", "-e", walltime.EVENT, "-c", "1",
            "--call-graph", f"dwarf,{size}", "-m", f"{buffer}B"]


def _can_lock_anything():
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("CapEff:"):
                    return bool(int(line.split()[1], 16) >> _CAP_IPC_LOCK & 1)
    except (OSError, ValueError):
        pass
    return False


def _kibibytes_for_perf():
    """Return what each user may lock for each processor."""
    try:
        with open("/proc/sys/kernel/perf_event_mlock_kb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 516


def buffer_sizes(largest=LARGEST_BUFFER):
    """Yield how large perf's buffer for each processor may be, best first.

    Others may use up what this user may lock, so the first may be too large.
    """
    processors = os.sysconf("SC_NPROCESSORS_ONLN")
    page = os.sysconf("SC_PAGESIZE")
    size = min(largest, LARGEST_BUFFERS // processors)
    if not _can_lock_anything():
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        lockable = _kibibytes_for_perf() * 1024
        if limit == resource.RLIM_INFINITY:
            lockable = size + page
        else:
            lockable += limit // processors
        size = min(size, lockable - page)
    pages = max(size // page, 1)
    size = page << pages.bit_length() - 1   # a power of two
    while size >= 1 << 16:
        yield size
        size //= 4


def choose(forced, has_labels):
    """Return the best Unwinding; forced is a method or None.

    has_labels tells whether the interpreter has frame labels that can be found
    in a copy of a stack.
    """
    can_copy = has_labels and architecture.of_machine() is not None
    if forced:
        reason = f"{NAMES[forced]}, as asked"
        if forced == "copy" and not can_copy:
            reason += (", but the interpreter has no frame labels: Python "
                       "functions, or their callers, are missing")
        return Unwinding(forced, reason)
    if can_copy:
        return Unwinding("copy", NAMES["copy"])
    return Unwinding("fp", "frame pointers, as the interpreter has no frame "
                     "labels")
