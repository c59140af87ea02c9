"""bpftrace, a tracer, for tests: whether it can trace here."""

import functools
import shutil
import subprocess

from test import support


def run(*arguments):
    return subprocess.run(["bpftrace", *arguments], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=support.LONG_TIMEOUT)


@functools.cache
def why_not():
    """Return None if bpftrace can trace, or why it cannot."""
    if shutil.which("bpftrace") is None:
        return "bpftrace is not installed"
    probe = run("-e", "profile:hz:99 { @ = count(); exit(); }")
    if probe.returncode == 0 and "@:" in probe.stdout:
        return None
    return f"bpftrace may not trace: {' '.join(probe.stderr.split())[:200]}"
