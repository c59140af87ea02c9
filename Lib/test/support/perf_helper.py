"""What the tests of the perf trampoline share: map files and when to skip."""

import atexit
import contextlib
import os
import shlex
import sys
import sysconfig
import unittest


# For a program that measures its memory: AddressSanitizer, if that is linked,
# keeps freed memory for a while.
SMALL_QUARANTINE = {"ASAN_OPTIONS": ":".join(
    [os.environ.get("ASAN_OPTIONS", ""), "quarantine_size_mb=1",
     "thread_local_quarantine_size_kb=64"])}


# The command that runs programs of this architecture on another, set by the
# script that Tools/machine/emulate.sh writes; empty if this processor can run
# them.
EMULATOR = shlex.split(os.environ.get("PERF_TEST_EMULATOR", ""))


def not_emulated(reason):
    """Skip a test that an emulator such as qemu-user cannot hold."""
    return unittest.skipIf(EMULATOR, f"in an emulator: {reason}")


def skip_module_if_emulated(reason):
    """For the top of a module: the same for all of its tests."""
    if EMULATOR:
        raise unittest.SkipTest(f"in an emulator: {reason}")


def map_path(pid):
    """Return the path of the perf map of process pid."""
    return f"/tmp/perf-{pid}.map"


def parse_map(text):
    """Return the (start, size, name) of each line of a map."""
    entries = []
    # Not splitlines(): it would also split at control characters in a name.
    for line in text.split("\n")[:-1]:
        start, size, name = line.split(" ", 2)
        entries.append((int(start, 16), int(size, 16), name))
    return entries


def read_map(pid):
    """Return the (start, size, name) of each line of pid's map."""
    with open(map_path(pid), encoding="utf-8", newline="\n") as file:
        return parse_map(file.read())


def remove_map(pid):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(map_path(pid))


_removers = set()


def remove_own_map_at_exit():
    """Remove this process's map when the process ends.

    For tests that activate the trampoline in their own process.  Not earlier:
    a symbol is written once, and later tests need its line.  If whoever runs
    the tests has switched the trampoline on, the map is theirs and stays.
    """
    pid = os.getpid()
    if sys.is_stack_trampoline_active() or pid in _removers:
        return
    _removers.add(pid)

    @atexit.register
    def remove():
        if os.getpid() == pid:
            remove_map(pid)


def _missing():
    if not hasattr(sys, "activate_stack_trampoline"):
        return "this interpreter has no sys.activate_stack_trampoline()"
    if not sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"):
        return "the perf trampoline is not available on this platform"
    return None


def requires_trampoline(test):
    """Skip test where the perf trampoline is not available."""
    reason = _missing()
    return test if reason is None else unittest.skip(reason)(test)
