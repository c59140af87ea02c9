"""Do profilers tell the truth?  Shares of CPU time, by perf and by two others.

A program spends known times in four activities: it reads the clock of its
thread's CPU time around each.  perf's share of samples in each of them has to
be the same, within the error that so many samples have: four standard
deviations of a binomial distribution.  So have those of two profilers of other
kinds, but for one percentage point, because they depend on what else the
machine does:

- _testperf's sampler, a timer whose signal handler walks the stack within the
  process; the kernel looks at timers of CPU time only when its clock ticks;
- py-spy, if it is installed, which looks at the process from outside in real
  time, and reads the interpreter's own frames instead of the stack.

PERF_TEST_TRUTH_SECONDS in the environment is how long each program computes.
"""

import collections
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from test import support
from test.support.perf_helper import remove_map
from test.support.perf_record import (RecordTestCase, clean_environment,
                                      parse, run)

import _testperf

SECONDS = float(os.environ.get("PERF_TEST_TRUTH_SECONDS", 4))
FREQUENCY = 1999                # not a multiple of the rate of anything else
SAMPLER_FREQUENCY = 997         # or as often as the kernel's clock ticks
DEVIATIONS = 4
MARGIN_OF_OTHERS = 0.01

# Each activity, with the Python functions that may be innermost in it.
ACTIVITIES = {
    "arithmetic": {"arithmetic"},
    "sorting": {"sorting", "key"},
    "generating": {"generating", "generator", "forwarding"},
    "recursion": {"recursion", "fib"},
}

PROGRAM = """\
import json, os, random, sys, time
sys.path.insert(0, {ext!r})
SECONDS, BACK_END, SAMPLER_HZ, REPORT = (
    float(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])

def arithmetic(n):
    total = 0
    for number in range(40 * n):
        total += number * number % 7

def key(number):
    return -number

def sorting(n):
    for _ in range(n):
        sorted(numbers, key=key)

def generator(n):
    for number in range(n):
        yield number

def forwarding(n):
    yield from generator(n)

def generating(n):
    for _ in range(n):
        sum(forwarding(20))

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def recursion(n):
    for _ in range(n):
        fib(6)

numbers = list(range(20))
spent = {{}}

def spend(activity, n):
    start = time.thread_time()
    activity(n)
    name = activity.__name__
    spent[name] = spent.get(name, 0) + time.thread_time() - start

def compute():
    rng = random.Random(1)
    while sum(spent.values()) < SECONDS:
        # In random turns of random lengths, so that no rhythm of the program
        # meets one of a timer.
        spend(rng.choices([arithmetic, sorting, generating, recursion],
                          [1, 2, 4, 6])[0], rng.randrange(500, 5000))

if SAMPLER_HZ:
    import _testperf
    from test.support.perf_walk import LabelNames, Native
    _testperf.start_sampler(SAMPLER_HZ, *Native().area_code(), True)
compute()
report = {{"spent": spent, "pid": os.getpid()}}
if SAMPLER_HZ:
    report["sampler"] = sampled = _testperf.stop_sampler()
    # Whatever the back end was, the map names all labels.
    sys.activate_stack_trampoline("perf")
    labels = list(sampled["labels"])
    sampled["labels"] = [[name, sampled["labels"][label]] for name, label
                         in zip(LabelNames().of_all(labels), labels)]
    sampled["bad_walks"] = sorted(sampled["bad_walks"])
with open(REPORT, "w") as file:
    json.dump(report, file)
"""


def activity_of(function):
    """Return the activity that a function of that name is innermost in."""
    return next((activity for activity, names in ACTIVITIES.items()
                 if function in names), None)


@unittest.skipIf(support.check_sanitizer(address=True, memory=True, ub=True),
                 "a sanitizer's library has no frame pointers")
@support.requires_resource("cpu")
class TruthTest(RecordTestCase):

    def setUp(self):
        # perf takes only files for jitted whose path begins like this.
        self.directory = tempfile.mkdtemp(prefix="jitted-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory)
        self.script = self.path("truth.py")
        pathlib.Path(self.script).write_text(
            PROGRAM.format(ext=os.path.dirname(_testperf.__file__)))

    def path(self, name):
        return os.path.join(self.directory, name)

    def report(self):
        report = json.loads(pathlib.Path(self.path("report")).read_text())
        self.addCleanup(remove_map, report["pid"])
        return report

    def program(self, back_end, sampler_hz):
        return [sys.executable, "-X", back_end, self.script, str(SECONDS),
                back_end, str(sampler_hz), self.path("report")]

    def run_tool(self, *command):
        result = run(command, cwd=self.directory,
                     env=clean_environment(JITDUMPDIR=self.directory))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def shares(self, counts):
        total = sum(counts.values())
        return total, {activity: counts[activity] / total
                       for activity in ACTIVITIES}

    def check(self, who, counts, spent, margin=0.0):
        """counts: samples by activity; spent: seconds by activity."""
        self.assertEqual(spent.keys(), ACTIVITIES.keys())
        samples, seen = self.shares(counts)
        self.assertGreater(samples, 50 * SECONDS, f"{who}: {counts}")
        _, truth = self.shares(spent)
        lines = []
        for activity, share in truth.items():
            error = math.sqrt(share * (1 - share) / samples)
            lines.append(f"{activity} {share:.2%}: seen {seen[activity]:.2%}, "
                         f"{(seen[activity] - share) / error:+.1f} deviations")
        text = f"{who}, {samples} samples: " + "; ".join(lines)
        if support.verbose:
            print(text)
        for activity, share in truth.items():
            error = math.sqrt(share * (1 - share) / samples)
            self.assertLessEqual(abs(seen[activity] - share),
                                 DEVIATIONS * error + margin, text)

    def counts_of_perf(self, data):
        samples = parse(self.run_tool(
            "perf", "script", "--no-inline", "-i", data,
            "-F", "pid,tid,ip,sym"))
        counts = collections.Counter()
        for sample in samples:
            names = [name.split(":")[2] for name in sample.functions]
            if "compute" in names:
                # The outermost below spend() is the activity itself.
                [called] = [name for name in names if name in ACTIVITIES] or [
                    None]
                self.assertIn(called, [activity_of(names[0]), None], names)
                counts[called] += 1
        # What is none of them is spend() and compute().
        self.assertLess(counts.pop(None, 0), 0.05 * counts.total(), counts)
        return counts

    def check_sampler(self, back_end):
        self.run_tool(*self.program(back_end, SAMPLER_FREQUENCY))
        report = self.report()
        sampled = report["sampler"]
        self.assertEqual(sampled["bad"], 0, sampled["bad_walks"])
        self.assertLess(sampled["elsewhere"], 0.05 * sampled["walks"], sampled)
        counts = collections.Counter()
        for name, count in sampled["labels"]:
            function = name.split(":")[2]
            if activity_of(function) and name.endswith(self.script):
                counts[activity_of(function)] += count
        self.check(f"sampler, {back_end}", counts, report["spent"],
                   MARGIN_OF_OTHERS)

    def record(self, back_end):
        data = self.path("perf.data")
        self.run_tool(
            "perf", "record", "-q", "--no-buildid-cache", "--no-bpf-event",
            "-k", "1", "-F", str(FREQUENCY), "-e", self.event, "-g",
            "-o", data, "--", *self.program(back_end, 0))
        return data, self.report()

    def test_map(self):
        data, report = self.record("perf")
        self.check("perf, map", self.counts_of_perf(data), report["spent"])

    def test_jitdump(self):
        data, report = self.record("perf_jit")
        injected = self.path("perf.jit.data")
        self.run_tool("perf", "inject", "--jit", "-i", data, "-o", injected)
        self.check("perf, jitdump", self.counts_of_perf(injected),
                   report["spent"])

    def test_sampler_map(self):
        self.check_sampler("perf")

    def test_sampler_jitdump(self):
        self.check_sampler("perf_jit")

    def test_py_spy(self):
        if shutil.which("py-spy") is None:
            self.skipTest("py-spy is not installed")
        stacks = self.path("stacks")
        with subprocess.Popen(
                ["py-spy", "record", "--rate", "500", "--format", "raw",
                 "--function", "--output", stacks, "--",
                 *self.program("perf", 0)],
                cwd=self.directory, env=clean_environment(),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            output, _ = process.communicate(timeout=support.LONG_TIMEOUT)
        self.assertEqual(process.returncode, 0, output)
        report = self.report()
        counts = collections.Counter()
        for line in pathlib.Path(stacks).read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            innermost = stack.split(";")[-1].split(" ")[0]
            if activity_of(innermost):
                counts[activity_of(innermost)] += int(count)
        self.check("py-spy", counts, report["spent"], MARGIN_OF_OTHERS)


if __name__ == "__main__":
    unittest.main()
