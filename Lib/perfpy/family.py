"""Processes, their children and their command lines, as /proc has them.

Called by attach.py, launch.py and run.py.
"""

import os
import shlex


def _parents():
    """Return the parent of each process, by number."""
    result = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name before, in parentheses, may contain anything.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:         # gone
            continue
        result[int(name)] = int(fields[1])
    return result


def with_children(pids):
    """Return these processes and all that descend from them, in order.

    perfpy itself, which may be a child of the shell it looks at, is none.
    """
    parents = _parents()
    parents.pop(os.getpid(), None)
    found = list(dict.fromkeys(pids))
    known = set(found)
    for pid in found:           # which grows
        children = [child for child, parent in parents.items()
                    if parent == pid and child not in known]
        found.extend(sorted(children))
        known.update(children)
    return found


def command_line(pid):
    """Return how the process was started, or "" if that is not to be had."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return shlex.join(word.decode("utf-8", "backslashreplace")
                      for word in words if word or len(words) > 1)


def cpu_seconds(pids):
    """Return the CPU time that the processes have taken so far."""
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def queued_seconds(pid):
    """Return how long a process's main thread has waited for a processor."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):       # the kernel does not count it
        return 0.0
