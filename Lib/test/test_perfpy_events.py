"""perfpy run --event: other events than time, each of them counted."""

import os
import unittest
from test.support.perfpy_case import RecordingTestCase, shares

from perfpy import units

OPENS = """
def few():
    for _ in range(100):
        open("/etc/hostname").close()

def many():
    for _ in range(300):
        open("/etc/hostname").close()

few()
many()
"""


def counts(profile):
    """Return how often it happened in each Python function."""
    return {name: round(share * profile.duration())
            for name, share in shares(profile).items()}


class EventTest(RecordingTestCase):

    def test_tracepoint(self):
        if not os.access("/sys/kernel/tracing/events/syscalls", os.R_OK):
            self.skipTest("no tracepoints: not root, or no tracefs is mounted "
                          "at /sys/kernel/tracing")
        event = "syscalls:sys_enter_openat"
        result = self.record("--event", event, self.script(OPENS))
        found = counts(result.profile)
        self.assertEqual((found["few"], found["many"]), (100, 300))
        whole = result.profile.duration()
        self.assertEqual(result.profile.meta["unit"], event)
        self.assertIn(f"recording each {event};", result.stderr)
        self.assertIn(f" {whole:,.0f} {event} in ", result.stderr)
        with open(self.path(self.OUTPUT)) as file:
            numbers = [int(line.rpartition(" ")[2]) for line in file]
        self.assertEqual(sum(numbers), whole)
        for name in "speedscope", "gecko", "pprof", "html":
            self.perfpy("report", "--format", name, "out.perfpy")
        with open(self.path("out.speedscope.json")) as file:
            self.assertIn(event, file.read())

    def test_page_faults(self):
        script = self.script("""
            def touch():
                data = bytearray(40_000_000)
                del data

            touch()
            """)
        result = self.record("--event", "page-faults:u", "--count", "50",
                             script)
        faults = counts(result.profile)["touch"]
        # Pages of 4 KiB, or larger ones.
        self.assertLess(faults, 1.1 * 40_000_000 / 4096)
        self.assertGreater(faults, 0)
        self.assertIn("recording one in 50 page-faults:u;", result.stderr)
        self.assertEqual(result.profile.meta["period"], "50")

    def test_arguments(self):
        for arguments, message in [
                (["--count", "2"], "--count goes with --event"),
                (["--event", "faults", "--count", "2", "-F", "3"],
                 "either --count or --frequency")]:
            result = self.perfpy("run", *arguments, "x.py", status=2)
            self.assertIn(message, result.stderr)


    def test_no_such_event(self):
        result = self.perfpy("run", "--event", "nosuch:event", "-c",
                             "print('not run')", status=125)
        self.assertEqual(result.stdout, "")
        self.assertIn("nosuch", result.stderr)
        self.assertNotIn("Usage:", result.stderr)


class KindTest(unittest.TestCase):

    def test_what_can_be_counted(self):
        for event in ("page-faults", "page-faults:u", "minor-faults:k", "cs",
                      "syscalls:sys_enter_openat", "probe_python:main",
                      "sdt_python:function__entry", "net:net_dev_queue"):
            self.assertTrue(units.is_counted(event), event)
        for event in ("cycles", "cycles:u", "cpu-clock", "cpu-clock:u",
                      "cache-misses", "instructions:uk", "task-clock",
                      "cpu/cache-misses/", "L1-dcache-load-misses:u"):
            self.assertFalse(units.is_counted(event), event)


if __name__ == "__main__":
    unittest.main()
