"""What the tests of perfpy share: the command in a directory of its own.

Environment variables: PERF is the perf to use, else it is the one on the path;
PERF_TEST_PYTHON_NO_FP is an interpreter that is built without frame pointers.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from test import support
from test.support.perf_helper import remove_map, requires_trampoline

import perfpy
from perfpy import recording
from perfpy.perf import Perf, PerfError
from perfpy.profile import Kind

NO_FP = os.environ.get("PERF_TEST_PYTHON_NO_FP")
NOBODY = 65534
LIBRARY = os.path.dirname(os.path.dirname(perfpy.__file__))

# Every script starts with this.
PRELUDE = """\
import os, signal, sys, threading, time

def busy(seconds=0.2):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))

"""


@functools.cache
def why_not_record(perf=None):
    """Return None if perf may record here, or why it cannot."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            Perf.find(perf).find_event(directory)
    except PerfError as error:
        return " ".join(str(error).split())[:300]
    return None


def clean_environment(**variables):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON") and name != "JITDUMPDIR"}
    return env | variables


def shares(profile, kinds=frozenset({Kind.PYTHON})):
    """Return the share of all time of each function, by its name."""
    profile = profile.functions()
    whole = profile.duration()
    result = {}
    for frame, (_, total) in zip(profile.frames, profile.totals()):
        if frame.kind in kinds:
            share = result.get(frame.name, 0) + total / whole
            result[frame.name] = share
    return result


def stacks(profile):
    """Return the different stacks, folded, as tuples of names."""
    profile = profile.folded()
    return {tuple(profile.frames[frame].name
                  for frame in profile.frames_of(stack))
            for thread in profile.threads for stack in thread.stacks}


def become_nobody():
    """In a child process of root: go on as a user without any rights."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


class PerfpyTestCase(unittest.TestCase):

    # The format that takes no time.
    OUTPUT = "out.collapsed.txt"

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="test_perfpy-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def script(self, text, name="script.py"):
        return self.write(name, PRELUDE + textwrap.dedent(text))

    def admit_nobody(self):
        """Let become_nobody() work here; skip the test if it cannot."""
        os.chmod(self.directory, 0o777)
        # Some versions of regrtest give each test file one for its own user.
        around = os.path.dirname(self.directory)
        if not os.stat(around).st_mode & 0o001:
            os.chmod(around, 0o711)
        for name in sys.executable, os.__file__:
            probe = subprocess.run(["cat", name], preexec_fn=become_nobody,
                                   stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
            if probe.returncode:
                self.skipTest(f"{name} is not readable for others")

    def start_process(self, command, **kwargs):
        """Start what prints a line when it is ready; return it and the line.

        It is killed at the end of the test.
        """
        kwargs.setdefault("env", clean_environment())
        process = subprocess.Popen(command, text=True, cwd=self.directory,
                                   stdout=subprocess.PIPE, **kwargs)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(remove_map, process.pid)
        self.addCleanup(process.kill)
        return process, process.stdout.readline()

    def command(self, *arguments):
        return [sys.executable, "-m", "perfpy", *arguments]

    def perfpy(self, *arguments, status=0, prefix=(), **kwargs):
        """Run perfpy; return the CompletedProcess, checked for its status."""
        kwargs.setdefault("env", clean_environment())
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        result = subprocess.run(
            [*prefix, *self.command(*arguments)], text=True,
            cwd=self.directory, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=support.LONG_TIMEOUT, **kwargs)
        self.assertEqual(result.returncode, status,
                         result.stdout + result.stderr)
        return result

    def record(self, *arguments, **kwargs):
        """Run perfpy run; return the result, with the profile."""
        result = self.perfpy("run", "-o", self.OUTPUT, *arguments, **kwargs)
        result.profile = recording.load(self.path("out.perfpy"))
        return result


@requires_trampoline
class RecordingTestCase(PerfpyTestCase):
    """Tests that need a perf that may record."""

    @classmethod
    def setUpClass(cls):
        if reason := why_not_record():
            raise unittest.SkipTest(f"perf cannot record: {reason}")

    def assertShown(self, profile, *names, share=0.5):
        """Check that these call each other and take most of the time."""
        self.assertTrue(any(all(name in stack for name in names)
                            and [n for n in stack if n in names] == [*names]
                            for stack in stacks(profile)), stacks(profile))
        for name in names:
            self.assertGreater(shares(profile)[name], share, name)


class OfDwarf(RecordingTestCase):
    """Tests that need a perf that can inject unwind information."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        perf = Perf.find()
        if perf.version < (6, 1):
            raise unittest.SkipTest(f"{perf.path} is perf {perf.version_text};"
                                    " 6.1 can inject unwind information")
