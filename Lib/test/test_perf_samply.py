"""samply shows each Python function by its name and its line.

By the map and by the jitdump, with lines and without, in what it records of a
script whose time is split between lines in a known way.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from test import support
from test.support import perf_samply, perf_split
from test.support.perf_helper import (remove_map, requires_trampoline,
                                      skip_module_if_emulated)
from test.support.perf_record import clean_environment

skip_module_if_emulated("samply would see it, not the program it runs")


@requires_trampoline
class SamplyTest(perf_split.SplitTestCase):

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            if why_not := perf_samply.why_not(directory):
                raise unittest.SkipTest(why_not)

    def record(self, option):
        """Return samples, and what each line says of itself, in seconds."""
        path = os.path.join(self.directory, "profile.json")
        run = subprocess.run(
            [*perf_samply.command(self.directory), "record", "--save-only",
             "-o", path, "--", sys.executable, "-X", option, self.script,
             str(perf_split.SECONDS)],
            env=clean_environment(JITDUMPDIR=self.directory), text=True,
            stdin=subprocess.DEVNULL, capture_output=True,
            timeout=support.LONG_TIMEOUT)
        self.assertEqual(run.returncode, 0, run.stderr)
        profile = perf_samply.Profile(path)
        for pid in profile.pids:
            self.addCleanup(remove_map, pid)
        return profile.samples(), eval(run.stdout)

    def python_frames(self, samples):
        frames = {frame for stack, _ in samples for frame in stack
                  if frame and (frame.name or "").startswith("py::")}
        # Which others a sample meets, of those that run at the start, varies.
        own = re.compile(rf"py::(.*?):{re.escape(self.script)}(:[0-9]+)?")
        found = {match[1] for frame in frames
                 if (match := own.fullmatch(frame.name))}
        self.assertEqual(found, perf_split.FUNCTIONS)
        return frames

    def assert_chain(self, samples):
        """Without lines, the functions are there, in the order of calls."""
        names = ("work", "timed", "split", "<module>")
        chain = [f"py::{name}:{self.script}" for name in names]
        whole = [weight for stack, weight in samples
                 if [frame.name for frame in stack if frame
                     and frame.name.startswith("py::")] == chain]
        share = sum(whole) / sum(weight for _, weight in samples)
        self.assertGreater(share, 0.6)

    def test_map(self):
        samples, _ = self.record("perf")
        self.assert_chain(samples)

    def test_jitdump(self):
        samples, _ = self.record("perf_jit")
        self.assert_chain(samples)
        self.assertEqual({frame.line for frame in self.python_frames(samples)},
                         {None})

    def test_map_with_lines(self):
        samples, spent = self.record("perf=lines")
        for frame in self.python_frames(samples):
            perf_split.assert_line(self, frame.name)
        stacks = [(perf_split.python_frames(
                       "\n".join(frame.name for frame in stack if frame),
                       self.script), weight)
                  for stack, weight in samples]
        perf_split.assert_split(self, stacks, spent)

    def test_jitdump_with_lines(self):
        samples, spent = self.record("perf_jit=lines")
        # Each has its whole file name and a line, but for line 0, for which
        # samply has none; symbols stay one for each function.
        for frame in self.python_frames(samples):
            self.assertRegex(frame.name, rf":{re.escape(frame.file)}\Z")
            function = re.fullmatch(r"py::(.*?):.*", frame.name)[1]
            self.assertGreaterEqual(frame.line or 0,
                                    perf_split.least_line(function), frame)
        own = re.compile(rf"py::(.*):{re.escape(self.script)}")
        stacks = [([(own.fullmatch(frame.name)[1], frame.line or 0)
                    for frame in stack
                    if frame and own.fullmatch(frame.name)], weight)
                  for stack, weight in samples]
        perf_split.assert_split(self, stacks, spent)


if __name__ == "__main__":
    unittest.main()
