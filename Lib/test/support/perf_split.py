"""A script whose time is split between lines in a way that is known.

For tests that let a profiler watch it and compare what that tells of lines.
The script measures what its lines really take, and prints it at its end, after
the CPU time that its argument says or a SIGINT.
"""

import collections
import math
import os
import re
import shutil
import tempfile
import unittest

SECONDS = 3

# What each line works takes so many parts of the time: three, two and one by
# calling, and the rest by itself.
SCRIPT = """\
import random
import sys
import time

spent = {}

def work(count):
    return sum(range(count))

def timed(line, function, count):
    begin = time.process_time()
    function(count)
    spent[line] = spent.get(line, 0) + time.process_time() - begin

def split(n):
    timed(16, work, 3 * n)
    timed(17, work, 2 * n)
    timed(18, work,
          1 * n)
    timed(20, loop, n // 3)

def loop(count):
    x = 0
    for number in range(count):
        x ^= number
        x += 1

random.seed(1)
end = time.process_time() + float(sys.argv[1])
try:
    while time.process_time() < end:
        # Work without a period does not fall in step with the samples.
        split(random.randrange(20_000, 100_000))
except KeyboardInterrupt:
    pass
print(spent)
"""
FUNCTIONS = {"<module>", "split", "timed", "work", "loop"}
LINES = {16, 17, 18, 20}
LOOP = {24, 25, 26}
BEFORE_LOOP = {22, 23}
# split() begins, and multiplies in a line of its own: next to no time.
HARDLY = {15, 19}


class SplitTestCase(unittest.TestCase):
    """Tests with the script in a file of a directory of theirs."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="jitted-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory)
        self.script = os.path.join(self.directory, "script.py")
        with open(self.script, "w") as file:
            file.write(SCRIPT)


def least_line(function):
    """The first line that a frame of the function can show.

    A module's first instruction is in none, which is line 0: where it lets
    others run, collect garbage, say, it takes long enough to be seen.
    """
    return 0 if function == "<module>" else 1


def assert_line(test, symbol):
    """The symbol ends with a line that its function can be in."""
    test.assertRegex(symbol, r":(0|[1-9][0-9]*)\Z")
    function, line = re.match(r"py::(.*?):.*:(.*)", symbol).groups()
    test.assertGreaterEqual(int(line), least_line(function), symbol)


def python_frames(text, script):
    """The (function, line) of all symbols with lines in text, in order."""
    return [(name, int(line)) for name, line in re.findall(
        rf"py::(.*?):{re.escape(script)}:(\d+)", text)]


def shares(spent):
    """The parts of the time that the script says its lines have taken."""
    return {line: seconds / sum(spent.values())
            for line, seconds in spent.items()}


def assert_split(test, stacks, spent, at_least=100 * SECONDS):
    """Compare the samples below each line with the time it has taken.

    stacks: pairs of a list of (function, line), the innermost first, and how
    many samples have it.
    """
    found, loops = collections.Counter(), collections.Counter()
    for stack, count in stacks:
        for function, line in stack:
            if function == "split":
                found[line] += count
        if stack and stack[0][0] == "loop":
            loops[stack[0][1]] += count
    samples = found.total()
    test.assertLessEqual(set(found), LINES | HARDLY)
    test.assertLess(sum(found[line] for line in HARDLY), 0.01 * samples)
    test.assertGreater(samples, at_least)
    for line, share in shares(spent).items():
        # Five times the error of counting; the clock's reading itself.
        error = 5 * math.sqrt(share * (1 - share) / samples) + 0.01
        test.assertAlmostEqual(found[line] / samples, share, delta=error)
    # The lines of the loop, and nothing else, have all of its time.
    test.assertLessEqual(set(loops), LOOP | BEFORE_LOOP)
    test.assertGreater(sum(loops[line] for line in LOOP),
                       0.98 * loops.total())
    test.assertTrue(all(loops[line] for line in LOOP), loops)
