"""Tell the kernel, and so profilers, how a program calls its threads.

threading calls announce() when a thread starts and when its name changes,
while the perf trampoline is on; otherwise this is not even imported.  The
kernel's names have 15 bytes at most.  A process has the name of its main
thread there, so that one keeps it, and so does a child that another thread
forks.

Called in the thread itself, or in the one that changes the name.  Nothing
happens where /proc is missing or another namespace's.
"""

import os
import sys

LONGEST = 15


def shorten(name):
    """Return a name as bytes that the kernel can keep.

    The end of a long name tells it from others: ThreadPoolExecutor-0_1.
    """
    text = "".join(char if char.isprintable() else " " for char in name)
    if len(text.encode("utf-8", "replace")) <= LONGEST:
        return text.encode("utf-8", "replace")
    start = text.encode("utf-8", "replace")[:7]
    end = text.encode("utf-8", "replace")[-7:]
    return (start.decode("utf-8", "ignore") + "~"
            + end.decode("utf-8", "ignore")).encode()


def _write(task, name):
    try:
        with open(f"/proc/self/task/{task}/comm", "wb", buffering=0) as file:
            file.write(name)
    except OSError:
        pass


def announce(thread):
    """Give a thread of this process the name that threading knows."""
    task = thread.native_id
    if task is not None and task != os.getpid() and not sys.is_finalizing():
        _write(task, shorten(thread.name) or b" ")


def _read_process_name():
    try:
        with open("/proc/self/comm", "rb") as file:
            return file.read().rstrip(b"\n")
    except OSError:
        return None


_process_name = _read_process_name()


def _restore_process_name():
    if _process_name is not None and _read_process_name() != _process_name:
        _write(os.getpid(), _process_name)


os.register_at_fork(after_in_child=_restore_process_name)
