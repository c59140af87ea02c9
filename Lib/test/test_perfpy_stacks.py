"""perfpy run: are the stacks right?

A random program, whose functions can be reached in one way only, is recorded.
Each stack must be such a way, whole, or say that it is cut.
"""

import collections
import os
import resource
import subprocess
import sys
import unittest
from test.support.perf_calltree import Tree
from test.support.perfpy_case import (NOBODY, RecordingTestCase,
                                      clean_environment)

from perfpy import marks
from perfpy.profile import NO_STACK, Kind

POOR = 2**31 - os.getpid()      # a user whom nobody else is
# Those for Debian's Python 3.11 serve any build of it.
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"

SECONDS = 2
FREQUENCY = 997
OTHER_MARKS = {mark.name for mark in (
    marks.START_UP, marks.SHUTDOWN, marks.GARBAGE_COLLECTION)}


def outline(profile, stack):
    """Return the names of Python functions and marks, outermost first.

    A recursive function is there once.
    """
    names = []
    for frame in profile.frames_of(stack):
        frame = profile.frames[frame]
        if frame.kind in (Kind.PYTHON, Kind.MARK) and (
                not names or names[-1] != frame.name):
            names.append(frame.name)
    return tuple(name for name in names if name not in OTHER_MARKS)


class RandomProgramTest(RecordingTestCase):

    def check(self, seed, greenlets=False, **kwargs):
        """Record a random program and look at each stack."""
        tree = Tree(seed, greenlets=greenlets)
        script = self.write("tree.py", tree.source)
        result = self.record("-F", str(FREQUENCY), script, str(SECONDS),
                             **kwargs)
        profile = result.profile
        tails = {path[start:] for path in tree.paths
                 for start in range(len(path))}
        counts = collections.Counter()
        functions = set()
        for thread in profile.threads:
            for stack in thread.stacks:
                names = outline(profile, stack) if stack != NO_STACK else ()
                script_runs = any(name in ("n", "run") or name[:2] == "n_"
                                  for name in names)
                if names[:1] == (marks.CUT.name,):
                    self.assertIn(self.known(names[1:]), tails)
                    counts["cut"] += 1
                elif script_runs:
                    self.assertIn(self.known(names), tree.paths)
                    counts["whole"] += 1
                    functions.add(names[-1])
                elif names == (marks.NO_CALLERS.name,):
                    counts["nothing"] += 1
        self.assertGreater(counts["whole"], SECONDS * FREQUENCY)
        self.assertLess(counts["nothing"], 0.01 * counts["whole"])
        self.assertGreater(len(functions), 100)
        return counts

    def known(self, names):
        """Leave out what the functions call in the standard library."""
        names = list(names)
        while names and not (names[-1] in ("n", "run", "<module>")
                             or names[-1].startswith("n_")
                             or names[-1] == "Attribute.__getattr__"
                             or "Thread." in names[-1]):
            names.pop()
        return tuple(names)

    def test_truth(self):
        for seed in range(2):
            with self.subTest(seed):
                counts = self.check(seed)
                # The deepest recursion is deeper than a copy.
                self.assertGreater(counts["cut"], 0)
                self.assertLess(counts["cut"], 0.3 * counts["whole"])

    def test_greenlets(self):
        # What a greenlet has left on the stack must not be taken for more.
        env = clean_environment(PYTHONPATH=os.pathsep.join(
            [*filter(None, sys.path), DEBIAN_PACKAGES]))
        found = subprocess.run([sys.executable, "-c", "import greenlet"],
                               env=env, capture_output=True)
        if found.returncode:
            self.skipTest("there is no greenlet for this Python: "
                          + found.stderr.decode().splitlines()[-1])
        self.check(2, greenlets=True, env=env)

    def test_ordinary_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        self.admit_nobody()

        def become_poor():
            # As little as any user may have, and not shared with nobody's
            # profilers in other tests.
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 16, 1 << 16))
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(POOR)

        self.check(3, preexec_fn=become_poor,
                   env=clean_environment(HOME="/nonexistent"))


if __name__ == "__main__":
    unittest.main()
