"""From perf's file to a Profile, while the names are still to be had.

perf keeps addresses only.  The names are in /tmp/perf-PID.map or in a jitdump,
which others may remove, so they are read as soon as the recording ends.

Called by run.py.
"""

import contextlib
import os
import tempfile

from perfpy import perfscript, walltime

JITTED = "/tmp/jitted-"     # so begin the files that perf unwinds in


@contextlib.contextmanager
def work_directory():
    """A directory of our own for perf's files, removed at the end.

    They can be large, and /tmp is often in memory; /var/tmp is not.
    """
    place = os.environ.get("TMPDIR") or "/var/tmp"
    if not os.access(place, os.W_OK | os.X_OK):
        place = None
    prefix = f"perfpy-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as directory:
        yield directory


@contextlib.contextmanager
def jitdump_directory(keep=False):
    """A directory of our own for jitdumps, and what perf makes of them."""
    prefix = f"{os.path.basename(JITTED)}perfpy-{os.getpid()}-"
    parent = os.path.dirname(JITTED)
    if keep:
        yield tempfile.mkdtemp(prefix=prefix, dir=parent)
        return
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as directory:
        yield directory


def collect(perf, data, *, frequency, interpreters, progress=None,
            reduced=None):
    """Return the Profile in perf's file, and the pids of its processes.

    reduced is the Reducer that has written the file, if one has.
    """
    lines = perf.script(data, *perfscript.OPTIONS,
                        is_stream=reduced is not None)
    return perfscript.read(lines, frequency=frequency,
                           interpreters=interpreters, progress=progress,
                           reduced=reduced)


def collect_waits(perf, data, profile, waits, *, interpreters, reduced):
    """Put the Waits whose stacks are in perf's file into the Profile."""
    lines = perf.script(data, *perfscript.OPTIONS, is_stream=True)
    walltime.add_waits(profile, waits, perfscript.read_sites(
        lines, profile, waits, interpreters=interpreters, reduced=reduced))
