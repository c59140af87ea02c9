"""What the kernel lets this user record.

Called by doctor.py and run.py.
"""

CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYSLOG, CAP_PERFMON = 19, 21, 34, 38


def read(path):
    """Return the text of a file of the kernel's, or None."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def setting(name):
    """Return a number of sysctl's, or None if there is none."""
    text = read("/proc/sys/" + name.replace(".", "/"))
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def has_capability(*numbers):
    for line in (read("/proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            mask = int(line.split()[1], 16)
            return any(mask >> number & 1 for number in numbers)
    return False


def may_record_kernel():
    """Return whether what happens in the kernel may be recorded.

    Switches of threads are of that kind.
    """
    return ((setting("kernel.perf_event_paranoid") or 0) <= 1
            or has_capability(CAP_PERFMON, CAP_SYS_ADMIN))
