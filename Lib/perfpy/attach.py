"""Record a process that runs already, for a time.

Called by run.py for --attach.
"""

import glob
import os
import pwd
import re
import signal
import time
import typing

from perfpy import family, interpreter
from perfpy.launch import ENDS

_JITDUMP = re.compile(r".*/jit-\d+\.dump")


class AttachError(Exception):
    """The process cannot be profiled.  The text is for the user."""


class NamelessError(AttachError):
    """The process may be recorded, but does not name its functions."""


class Target(typing.NamedTuple):
    """A running process whose Python functions a profiler can name."""

    pid: int
    program: str            # what it runs
    jitdump: str | None     # its jitdump, if it writes one and no map


def _user(uid):
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"number {uid}"


def _innermost_pid(pid):
    """Return the number that the process has for itself, in a container."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return pid


def map_of(pid):
    """Return the name of the file in which a process names its functions."""
    return f"/proc/{pid}/root/tmp/perf-{_innermost_pid(pid)}.map"


def _started(pid):
    """Return when the process was started, in seconds since 1970."""
    with open("/proc/stat") as file:
        boot = next(int(line.split()[1]) for line in file
                    if line.startswith("btime "))
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def _has_open(pid, file):
    """Return whether the process has the file open, given by its status."""
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), file):
                return True
        except FileNotFoundError:
            pass                # closed meanwhile
    return False


def _has_map(pid):
    """Return whether it has a map.

    A process that had the same number may have left one: that is older than
    this process.  A clock that was set could say so of its own, which Python
    keeps open.
    """
    name = map_of(pid)
    try:
        file = os.stat(name)
    except FileNotFoundError:
        return False
    return file.st_mtime >= _started(pid) - 1 or _has_open(pid, file)


def _mapped(pid):
    """Return the paths of files that it has mapped as code."""
    with open(f"/proc/{pid}/maps", errors="surrogateescape") as maps:
        lines = [line.rstrip("\n").split(maxsplit=5) for line in maps]
    return {line[5] for line in lines
            if len(line) == 6 and "x" in line[1] and line[5].startswith("/")}


def _mapped_jitdump(pid):
    return next(filter(_JITDUMP.fullmatch, _mapped(pid)), None)


def find(pid):
    """Return the Target with this number; raise AttachError."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
        if os.geteuid() not in (0, owner):
            raise AttachError(f"process {pid} belongs to user {_user(owner)}; "
                              "become that user or root, for instance by sudo")
        program = os.readlink(f"/proc/{pid}/exe")
        jitdump = _mapped_jitdump(pid)
        has_map = _has_map(pid)
        os.readlink(f"/proc/{pid}/exe")     # it may have ended meanwhile
    except (FileNotFoundError, ProcessLookupError) as error:
        raise AttachError(f"there is no process {pid}") from error
    except PermissionError as error:
        raise AttachError(f"process {pid} may not be looked at "
                          f"({error.filename}): become root") from error
    if not has_map and not jitdump:
        raise NamelessError(
            f"process {pid} does not name its Python functions: start it with "
            "-X perf or PYTHONPERFSUPPORT=1, or let it call "
            'sys.activate_stack_trampoline("perf"); perfpy can do that in a '
            "cpython-perf and in Python 3.14 or newer, unless --no-activate")
    return Target(pid, program, jitdump)


def find_all(pids):
    """Return the Targets among these processes and all their children.

    Raise AttachError if there is none, or if one of pids may not be recorded.
    """
    targets = []
    silent = None
    for pid in family.with_children(pids):
        try:
            targets.append(find(pid))
        except NamelessError as error:
            silent = silent or error
        except AttachError:
            if pid in pids:
                raise
    if not targets:
        raise silent
    return targets


def has_labels(target):
    """Return whether its functions can be found in copies of its stack."""
    try:
        files = {f"/proc/{target.pid}/root{path}" for path in _mapped(
            target.pid)}
    except OSError:
        return False
    return interpreter.has_labels(files)


def wait(recorder, seconds):
    """Wait until the time is over, the process gone, or Ctrl-C pressed."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS | {signal.SIGCHLD})
    deadline = time.monotonic() + seconds
    try:
        while (remaining := deadline - time.monotonic()) > 0:
            if recorder.process.poll() is not None:     # the process is gone
                break
            info = signal.sigtimedwait(ENDS | {signal.SIGCHLD}, remaining)
            if info and info.si_signo in ENDS:
                break
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class InjectedFiles:
    """What perf inject puts beside a jitdump, to be removed at the end."""

    def __init__(self, target):
        directory, name = os.path.split(target.jitdump)
        number = name.removeprefix("jit-").removesuffix(".dump")
        self._pattern = os.path.join(glob.escape(directory),
                                     f"jitted-{number}-*.so")

    def __enter__(self):
        self._before = set(glob.glob(self._pattern))
        return self

    def __exit__(self, *exception):
        for name in set(glob.glob(self._pattern)) - self._before:
            os.unlink(name)
