"""What gdb shows of a program with the perf trampoline."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from test.support.perf_helper import remove_map, requires_trampoline
from test.support.perf_record import clean_environment, run


@requires_trampoline
class GdbTest(unittest.TestCase):
    """gdb's py-bt finds the evaluators of a process with labels."""

    SCRIPT = """\
import os
print("pid", os.getpid(), flush=True)

class Sorter:
    def method(self, items):
        return sorted(items, key=self.key)
    def key(self, item):
        return list(map(leaf, "a"))

def leaf(item):
    return id(item)

def generator(depth):
    if depth:
        yield from generator(depth - 1)
    else:
        yield Sorter().method([1])

def recurse(depth):
    return recurse(depth - 1) if depth else next(generator(3))

def main():
    return list(map(recurse, [40]))

main()
"""
    EXPECTED = ["leaf", "key", "method", *["generator"] * 4,
                *["recurse"] * 41, "main", "<module>"]

    def setUp(self):
        if shutil.which("gdb") is None:
            self.skipTest("gdb is not installed")
        self.commands = os.path.realpath(sys.executable) + "-gdb.py"
        if not os.path.exists(self.commands):
            self.skipTest(f"{self.commands!r} is missing")
        probe = self.gdb("-ex", "python print('gdb has', 'Python')")
        if "gdb has Python" not in probe.stdout:
            self.skipTest("this gdb was built without Python")

    def gdb(self, *options):
        return run(["gdb", "-nx", "-batch",
                    "-iex", "set debuginfod enabled off",
                    "-iex", "set auto-load no", *options],
                   env=clean_environment(), stdin=subprocess.DEVNULL)

    def backtrace(self, *options):
        """Return the names that py-bt shows."""
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "script.py")
            with open(script, "w") as file:
                file.write(self.SCRIPT)
            result = self.gdb("-ex", f"source {self.commands}",
                              "-ex", "set breakpoint pending on",
                              "-ex", "break builtin_id", "-ex", "run",
                              "-ex", "py-bt", "-ex", "kill", "--args",
                              sys.executable, *options, script)
        pid = re.search(r"^pid (\d+)$", result.stdout, re.MULTILINE)
        if pid is None:
            self.skipTest(f"gdb cannot run a program: {result.stderr[-500:]}")
        remove_map(pid[1])
        backtrace = result.stdout.partition("Traceback (most recent call")[2]
        self.assertTrue(backtrace, result.stdout + result.stderr)
        return re.findall(r"^  File .*, in (.*)$", backtrace, re.MULTILINE)

    def test_backtrace(self):
        names = self.backtrace("-X", "perf")
        if names != self.EXPECTED and self.backtrace() != self.EXPECTED:
            self.skipTest("this compiler has left out of the debug "
                          "information what py-bt needs, with labels or not")
        self.assertEqual(names, self.EXPECTED)


if __name__ == "__main__":
    unittest.main()
