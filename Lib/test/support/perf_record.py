"""Programs that perf records, and what it shows of them.

For test_perf_record and others.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import unittest

from test import support
from test.support.perf_helper import (remove_map, requires_trampoline,
                                      skip_module_if_emulated)

skip_module_if_emulated("perf would see it, not the program it runs")

TIMEOUT = support.LONG_TIMEOUT
FREQUENCY = "2000"
WORK = 700_000

EVALUATOR = "_PyEval_EvalFrameDefault_labelled"
ORDINARY_EVALUATOR = "_PyEval_EvalFrameDefault"
# What C enters a Python function by: the first of a thread, or one of those
# that show the native functions before them, or any other.
AREA, SHARED_AREA = AREAS = "_PyPerf_EnterArea", "_PyPerf_ShareArea"

# Every recorded script starts with this; its argument is how much to do.
PRELUDE = """\
import os, sys
WORK = int(sys.argv[1])

def busy(rounds=WORK):
    total = 0
    for number in range(rounds):
        total += number * number % 7
    return total

"""


# The parent ends in busy(), the child in child_busy().
FORK = """
    def in_child(): child_busy()
    def in_parent(): busy()
    def child_busy():
        for number in range(WORK):
            number * number % 7
    def both():
        if os.fork() == 0:
            in_child()
            os._exit(0)
        in_parent()
        assert os.wait()[1] == 0
    both()
"""


def clean_environment(**variables):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    return env | variables


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=TIMEOUT,
                          stderr=subprocess.PIPE, errors="surrogateescape",
                          **kwargs)


def why_not_record(event):
    """Return None if perf may record event, or why it cannot."""
    if shutil.which("perf") is None:
        return "perf is not installed"
    with tempfile.TemporaryDirectory() as directory:
        probe = run(["perf", "record", "-q", "-e", event,
                     "-o", os.path.join(directory, "perf.data"), "--", "true"])
    if probe.returncode == 0:
        return None
    return f"perf may not record: {' '.join(probe.stderr.split())[:200]}"


class Sample:
    """A stack that perf found: symbols, the innermost first."""

    def __init__(self, pid, tid):
        self.pid = pid
        self.tid = tid
        self.frames = []

    @property
    def functions(self):
        return [frame for frame in self.frames if frame.startswith("py::")]

    def between(self):
        """For each Python function, the C functions that it called, up to the
        next Python function, the innermost first."""
        calls, current = [], []
        for frame in self.frames:
            if frame.startswith("py::"):
                calls.append(current)
                current = []
            else:
                current.append(frame)
        return calls

    def __repr__(self):
        return "\n    ".join([f"{self.pid}/{self.tid}", *self.frames])


def parse(text):
    """Return the samples in the output of perf script -F pid,tid,ip,sym."""
    samples = []
    for line in text.split("\n"):
        if header := re.fullmatch(r"\s*(\d+)/(\d+)\s*", line):
            samples.append(Sample(int(header[1]), int(header[2])))
        elif frame := re.fullmatch(r"\s+[0-9a-f]+ (.*)", line):
            samples[-1].frames.append(frame[1])
    return samples


def by_innermost(samples, functions):
    """Return {function: the samples whose innermost function it is}."""
    found = {function: [] for function in functions}
    for sample in samples:
        if sample.functions:
            name = sample.functions[0].split(":")[2]
            if name in found:
                found[name].append(sample)
    return found


class Recording:
    """A script, and what perf recorded of it."""

    def __init__(self, directory, script):
        self.data = os.path.join(directory, "perf.data")
        self.script = os.path.join(directory, "script.py")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(PRELUDE + textwrap.dedent(script))

    def record(self, event, target, **kwargs):
        # To stop listening for BPF programs takes root's perf a second.
        result = run(["perf", "record", "-q", "--no-bpf-event",
                      "-F", FREQUENCY, "-g", "-e", event, "-o", self.data,
                      *target], **kwargs)
        if result.returncode != 0:
            raise AssertionError(f"perf record ended with {result.returncode}"
                                 f":\n{result.stderr}")
        return result

    def output(self, subcommand, *options):
        # --force: root may look at an ordinary user's recording.
        result = run(["perf", subcommand, "--force", "-i", self.data,
                      *options])
        if result.returncode != 0:
            raise AssertionError(f"perf {subcommand}:\n{result.stderr}")
        return result.stdout

    def samples(self):
        return parse(self.output("script", "--no-inline",
                                 "-F", "pid,tid,ip,sym"))

    def remove_maps(self):
        """Of all processes that perf saw."""
        if os.path.exists(self.data):
            events = self.output("script", "--show-task-events")
            for pid in set(re.findall(r"\((\d+):\d+\)", events)):
                remove_map(pid)


@requires_trampoline
class RecordTestCase(unittest.TestCase):

    # Without the kernel: whose symbols take perf seconds to read.
    event = "cpu-clock:u"

    # Are native functions shown that stand between Python functions?
    native = False

    @classmethod
    def setUpClass(cls):
        flags = sysconfig.get_config_var("CFLAGS").split()
        if "-fno-omit-frame-pointer" not in flags:
            raise unittest.SkipTest("configured without frame pointers")
        why_not = why_not_record(cls.event)
        if why_not is not None:
            raise unittest.SkipTest(why_not)

    def recording(self, script):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        recording = Recording(directory.name, script)
        self.addCleanup(recording.remove_maps)
        return recording

    def samples_of(self, script, *functions, options=None, variables=None,
                   recording=None):
        """Record script until all functions have been seen as the innermost
        Python function.  Return {function: its samples}, and all samples."""
        recording = recording or self.recording(script)
        if options is None:
            options = "-X", "perf=native" if self.native else "perf"
        for work in WORK, 10 * WORK:
            result = recording.record(
                self.event, ["--", sys.executable, *options, recording.script,
                             str(work)],
                env=clean_environment(**(variables or {})))
            self.assertEqual(result.stderr, "")
            samples = recording.samples()
            found = by_innermost(samples, functions)
            if all(found.values()):
                return found, samples
            recording.remove_maps()
        missing = [name for name, those in found.items() if not those]
        self.fail(f"no sample in {missing}; {len(samples)} samples, Python "
                  f"functions seen: "
                  f"{ {name for s in samples for name in s.functions} }")

    def symbols(self, sample, *functions):
        """The symbols of functions in the script of sample's recording."""
        path = sample.functions[0].split(":", 3)[3]
        return [f"py::{function}:{path}" for function in functions]

    def assert_stack(self, sample, *expected):
        """Each expected item is the name of a Python function or, after it, a
        tuple: words that C functions between it and the next contain."""
        functions = [item for item in expected if isinstance(item, str)]
        self.assertEqual(sample.functions, self.symbols(sample, *functions),
                         sample)
        calls = sample.between()
        position = 0
        for item in expected[1:]:
            if isinstance(item, tuple):
                self.assert_between(sample, calls[position + 1], item)
                calls[position + 1] = []
            elif isinstance(item, str):
                position += 1
        # What is left after the innermost: as if Python called Python.
        for call in calls[1:]:
            self.assertEqual(call, [], sample)

    def assert_between(self, sample, frames, words):
        """frames stand for a C function that a Python function called: they
        show it, or nothing does."""
        if self.native:
            self.assert_c_call(sample, frames, words)
        else:
            self.assertEqual(frames, [], sample)

    def assert_c_call(self, sample, frames, words):
        """frames are C functions that a Python function called."""
        self.assertEqual(frames[-2:], [EVALUATOR, AREA], sample)
        self.assertFalse(set(AREAS) & set(frames[:-1]), sample)
        for word in words:
            self.assertTrue([frame for frame in frames[:-2]
                             if word in frame.lower()], (word, sample))

    def check(self, script, *expected, **kwargs):
        """All samples in expected[0] have the expected stack."""
        found, samples = self.samples_of(script, expected[0], **kwargs)
        for sample in found[expected[0]]:
            self.assert_stack(sample, *expected)
        # Nowhere is it called by something else.
        for sample in samples:
            self.assertNotIn(found[expected[0]][0].functions[0],
                             sample.functions[1:])
        return found[expected[0]]
