"""bpftrace shows each Python function by its name and its line.

It knows names only, so each line is a symbol of the map.
"""

import re
import signal
import subprocess
import sys
import unittest

from test import support
from test.support import perf_bpftrace, perf_split
from test.support.perf_helper import (remove_map, requires_trampoline,
                                      skip_module_if_emulated)
from test.support.perf_record import clean_environment

skip_module_if_emulated("bpftrace would see it, not the program it runs")

# bpftrace asks for names when it prints; the program has to be there then.
PROGRAM = ("profile:hz:997 /pid == {pid}/ {{ @[ustack(perf)] = count(); }} "
           "interval:s:{seconds} {{ exit(); }}")


@requires_trampoline
class BpftraceTest(perf_split.SplitTestCase):

    @classmethod
    def setUpClass(cls):
        if reason := perf_bpftrace.why_not():
            raise unittest.SkipTest(reason)

    def record(self, option):
        """Return pairs of a stack, as text, and its count, and what each line
        says of itself, in seconds."""
        process = subprocess.Popen(
            [sys.executable, "-X", option, self.script,
             str(support.LONG_TIMEOUT)],
            env=clean_environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(remove_map, process.pid)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        program = PROGRAM.format(pid=process.pid, seconds=perf_split.SECONDS)
        traced = perf_bpftrace.run("-p", str(process.pid), "-e", program)
        self.assertEqual(traced.returncode, 0, traced.stderr)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=support.LONG_TIMEOUT)
        stacks = [(stack, int(count)) for stack, count in re.findall(
            r"^@\[\n(.*?)\]: (\d+)$", traced.stdout, re.DOTALL | re.MULTILINE)]
        return stacks, eval(out)

    def test_lines(self):
        stacks, spent = self.record("perf=lines")
        for stack, _ in stacks:
            for name in re.findall(r"py::.*(?=\+\d+ )", stack):
                perf_split.assert_line(self, name)
        perf_split.assert_split(
            self,
            [(perf_split.python_frames(stack, self.script), count)
             for stack, count in stacks], spent, at_least=100)

    def test_functions(self):
        stacks, _ = self.record("perf")
        chain = [f"py::{name}:{self.script}"
                 for name in ("work", "timed", "split", "<module>")]
        whole = sum(count for stack, count in stacks
                    if re.findall(r"py::.*(?=\+\d+ )", stack) == chain)
        self.assertGreater(whole, 0.6 * sum(count for _, count in stacks))


if __name__ == "__main__":
    unittest.main()
