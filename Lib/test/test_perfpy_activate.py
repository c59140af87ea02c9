"""perfpy run --attach of processes that do not name their functions."""

import os
import subprocess
import sys
import time
import unittest
from test.support.perf_helper import remove_map
from test.support.perfpy_case import (RecordingTestCase, clean_environment,
                                      shares)

PROGRAM = """
def outer():
    while True:
        inner()

def inner():
    sum(range(10_000))

print(os.getpid(), flush=True)
outer()
"""


class ActivateTest(RecordingTestCase):

    def start(self, text=PROGRAM):
        process = subprocess.Popen(
            [sys.executable, self.script(text)], env=clean_environment(),
            text=True, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(remove_map, process.pid)
        self.addCleanup(process.kill)
        process.stdout.readline()
        return process

    def attach(self, process, *options, **kwargs):
        return self.record("--attach", str(process.pid), "--duration", "1",
                           *options, **kwargs)

    def refused(self, process, *options):
        result = self.perfpy("run", "-o", self.OUTPUT, "--attach",
                             str(process.pid), *options, status=125)
        self.assertIn(f"process {process.pid} does not name its Python "
                      "functions: start it with -X perf", result.stderr)
        self.assertFalse(os.path.exists(f"/tmp/perf-{process.pid}.map"))
        self.assertIsNone(process.poll())

    def test_on_and_off(self):
        process = self.start()
        if not hasattr(sys, "remote_exec"):
            # CPython 3.13 and older cannot be asked.
            self.refused(process)
            return
        for _ in range(2):
            result = self.attach(process)
            self.assertGreater(shares(result.profile)["inner"], 0.5)
            self.assertRegex(result.stderr, "running since before: .*outer")
            # It is off again.
            self.assertFalse(os.path.exists(f"/tmp/perf-{process.pid}.map"))
            self.assertIsNone(process.poll())

    def test_no_activate(self):
        self.refused(self.start(), "--no-activate")

    @unittest.skipUnless(hasattr(sys, "remote_exec"),
                         "sys.remote_exec is new in CPython 3.14")
    def test_no_safe_point(self):
        process = self.start("""
            read, write = os.pipe()
            print(os.getpid(), flush=True)
            os.read(read, 1)
            """)
        before = time.monotonic()
        result = self.perfpy("run", "-o", self.OUTPUT, "--attach",
                             str(process.pid), status=125)
        self.assertLess(time.monotonic() - before, 60)
        self.assertIn("has not come to a safe point", result.stderr)
        self.assertIsNone(process.poll())


if __name__ == "__main__":
    unittest.main()
