"""perfpy shows lines, however it finds callers, of any number of functions."""

import glob
import os
import re
import resource
import unittest
from test.support import perf_split
from test.support.perfpy_case import OfDwarf, RecordingTestCase, stacks

from perfpy.profile import Kind


class SplitTest(OfDwarf):
    """A script whose time is split between lines in a known way."""

    def check(self, *options):
        script = self.write("split.py", perf_split.SCRIPT)
        result = self.record(*options, script, str(perf_split.SECONDS))
        profile = result.profile
        found = []
        for thread in profile.threads:
            for stack in thread.stacks:
                frames = [profile.frames[frame]
                          for frame in profile.frames_of(stack)]
                found.append(([(frame.name, frame.line)
                               for frame in reversed(frames)
                               if frame.file == script], 1))
        perf_split.assert_split(self, found, eval(result.stdout))
        return profile

    def test_copies_of_the_stack(self):
        self.check()

    def test_frame_pointers(self):
        self.check("--unwind", "fp")

    def test_unwind_information(self):
        profile = self.check("--unwind", "dwarf", "--frequency", "499")
        self.assertEqual(profile.meta["unwinding"], "dwarf")
        for frame in profile.frames:
            if frame.kind is Kind.PYTHON:
                self.assertGreaterEqual(
                    frame.line, perf_split.least_line(frame.name), frame)

    def test_without(self):
        for method in "copy", "fp", "dwarf":
            with self.subTest(method):
                result = self.record(
                    "--no-lines", "--unwind", method, "-c",
                    "for number in range(3_000_000): pass")
                self.assertEqual(
                    {frame.line for frame in result.profile.frames}, {0})
                self.assertIn(("<module>",), [
                    stack[:1] for stack in stacks(result.profile.functions())
                    if "<module>" in stack[:1]])


FUNCTIONS = 20_000
FUNCTION = """\
def f{0}(x):
    y = x + {0}
    for j in range(3):
        y ^= j
    return y
"""


class ManyFunctionsTest(RecordingTestCase):

    def test_many_functions(self):
        """20,000 take seconds, and leave nothing behind."""
        source = self.write("many.py", "".join(
            map(FUNCTION.format, range(FUNCTIONS))))
        script = self.script(f"""
            begin = time.process_time()
            scope = {{}}
            exec(compile(open({source!r}).read(), {source!r}, "exec"), scope)
            functions = [scope[f"f{{number}}"]
                         for number in range({FUNCTIONS})]
            end = time.process_time() + 3
            while time.process_time() < end:
                for function in functions:
                    function(1)
            print(os.getpid(), time.process_time())
            """)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = self.record(script)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        pid, seconds = result.stdout.split()
        used = (after.ru_utime + after.ru_stime
                - before.ru_utime - before.ru_stime)
        self.assertLess(used - float(seconds), 10)
        self.assertEqual(glob.glob(f"/tmp/*{pid}*"), [])
        self.assertEqual(set(os.listdir(self.directory)),
                         {"many.py", "script.py", self.OUTPUT, "out.perfpy"})
        seen = 0
        for frame in result.profile.frames:
            if match := re.fullmatch(r"f(\d+)", frame.name):
                self.assertEqual(frame.file, source)
                self.assertEqual((frame.line - 1) // 5, int(match[1]), frame)
                seen += 1
        self.assertGreater(seen, 300)


if __name__ == "__main__":
    unittest.main()
