"""perfpy run --wall: is the time that threads wait where it belongs?

The programs measure themselves, and what is recorded must agree within 2 %.
Whether a thread that does not run waits or just has no processor depends on
what else this machine does, unless the program sees to that itself.
"""

import json
import os
import re
import subprocess
import sys
import time
import unittest
from test.support.perfpy_case import (RecordingTestCase,
                                      become_nobody, clean_environment)

from perfpy import marks, permissions, wakeups, walltime
from perfpy.profile import NO_STACK

# Waits that the program measures: {function: seconds}.
TRUTH = """
import json
truth = {}

def measured(function):
    def measure(*args):
        start = time.perf_counter()
        result = function(*args)
        truth[function.__name__] = time.perf_counter() - start
        return result
    return measure
"""

# How exact the sums of many waits are, and of samples of CPU time.
CLOSE = 0.02
SAMPLED = 0.1


class WallTestCase(RecordingTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not permissions.may_record_kernel():
            raise unittest.SkipTest("only root, or kernel.perf_event_paranoid "
                                    "of 1, may record switches of threads")

    def wall(self, text, *options, may_lose=False, **kwargs):
        """Record a script; return the Profile, and what it measured.

        On a busy machine perf may come too late to its buffers.
        """
        script = self.script(TRUTH + text + "\nprint(json.dumps(truth))\n")
        for _ in range(5):
            self.result = self.record("--wall", *options, script, **kwargs)
            if may_lose or self.result.profile.meta["lost samples"] == "0":
                break
        return self.result.profile, json.loads(self.result.stdout)

    def start(self, script):
        """Return a process that runs a script, once that is ready."""
        process, _ = self.start_process([sys.executable, "-X", "perf", script])
        return process

    def states_in(self, profile, function, threads=None):
        """Return the time of each state below a function, by its mark."""
        result = {}
        for thread in threads or profile.threads:
            for stack, weight in zip(thread.stacks, thread.weights):
                frames = [profile.frames[frame]
                          for frame in profile.frames_of(stack)]
                if function in [frame.name for frame in frames]:
                    mark = frames[-1]
                    if mark not in walltime.STATES:
                        mark = None
                    result[mark] = result.get(mark, 0) + weight
        return result

    def assertClose(self, value, expected, share=CLOSE, least=0.005):
        self.assertAlmostEqual(value, expected,
                               delta=max(share * expected, least))

    def assertWaits(self, profile, function, mark, truth):
        states = self.states_in(profile, function)
        self.assertClose(sum(states.values()), truth)
        # What is missing is the processor's, before it waits and after.
        others = sum(states.get(state, 0) for state in
                     set(walltime.STATES) - {mark, marks.READY})
        self.assertLess(others, CLOSE * truth, states)
        self.assertGreater(states[mark], 0.5 * truth, states)


class WaitTest(WallTestCase):

    def test_reasons(self):
        # Long enough: waiting for a processor is less than two hundredths.
        profile, truth = self.wall("""
import select, socket

@measured
def sleeps():
    time.sleep(1.5)

def after(seconds, function, *args):
    timer = threading.Timer(seconds, function, args)
    timer.start()
    return timer

@measured
def reads():
    reader, writer = os.pipe()
    after(1.5, os.write, writer, b"x")
    os.read(reader, 1)

@measured
def polls():
    poll = select.epoll()
    poll.poll(1.5)

@measured
def locks():
    lock = threading.Lock()
    lock.acquire()
    after(1.5, lock.release)
    lock.acquire()

@measured
def joins():
    after(1.5, int).join()

@measured
def computes():
    end = time.perf_counter() + 1.5
    while time.perf_counter() < end:
        pass

for function in sleeps, reads, polls, locks, joins, computes:
    function()
""")
        for name, mark in [("sleeps", marks.SLEEP), ("reads", marks.IO),
                           ("polls", marks.IO), ("locks", marks.LOCK),
                           ("joins", marks.LOCK)]:
            with self.subTest(name):
                self.assertWaits(profile, name, mark, truth[name])
        states = self.states_in(profile, "computes")
        self.assertClose(sum(states.values()), truth["computes"])
        self.assertLessEqual(states.keys(), {None, marks.READY})
        # What is shown says so.
        self.assertRegex(self.result.stderr, r"\d s of wall-clock time in ")
        self.assertRegex(self.result.stderr, r"(?m)^ +wall +running +GIL +lock"
                         r" +I/O +sleep +ready  thread$")
        report = self.perfpy("report", "out.perfpy").stdout
        self.assertRegex(report, r"(?m)^ +\d+\.\d\d s( +\d+\.\d %){6}  python")
        tree = self.perfpy("report", "--tree", "out.perfpy").stdout
        self.assertIn("(sleeping)", tree)

    def test_more_stack_than_is_copied(self):
        # select.select() has 73 KiB of its own, most of them never used.  The
        # first of the short waits may be over before it is looked at.
        profile, truth = self.wall("""
import select

@measured
def selects():
    reader, _ = os.pipe()
    for _ in range(150):
        select.select([reader], [], [], 0.01)

@measured
def selects_for_long():
    reader, _ = os.pipe()
    select.select([reader], [], [], 2)

thread = threading.Thread(target=selects_for_long)
thread.start()
selects()
thread.join()
""")
        for name in "selects", "selects_for_long":
            with self.subTest(name):
                self.assertWaits(profile, name, marks.IO, truth[name])

    def test_gil(self):
        profile, truth = self.wall("""
def spin(name):
    start = time.perf_counter()
    while time.perf_counter() < start + 1.5:
        pass
    truth[name] = [threading.get_native_id(), time.perf_counter() - start,
                   time.thread_time()]

threads = [threading.Thread(target=spin, args=(name,)) for name in "ab"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""")
        threads = {thread.tid: thread for thread in profile.threads}
        holders = walltime.holders(profile)
        for name, other in "ab", "ba":
            tid, wall, cpu = truth[name]
            running = walltime.states_of(profile, [threads[tid]])[0][0]
            self.assertClose(running, cpu)
            states = self.states_in(profile, "spin", [threads[tid]])
            self.assertClose(sum(states.values()), wall)
            # Each few milliseconds it is woken, to say that it still waits.
            self.assertGreater(states[marks.GIL], 0.01 * wall)
            self.assertGreater(states[marks.GIL] + states.get(marks.READY, 0),
                               0.1 * wall)
            self.assertLessEqual(states.keys(),
                                 {None, marks.GIL, marks.READY})
            meanwhile = holders[threads[tid].pid, tid]
            self.assertGreater(meanwhile[truth[other][0]],
                               0.8 * sum(meanwhile.values()))
        self.assertRegex(self.result.stderr, r"(?m)^while .* waited for the "
                         r"GIL, it was with: .* \d+%")

    def test_asyncio(self):
        profile, truth = self.wall("""
import asyncio

async def child():
    for _ in range(20):
        await asyncio.sleep(0.02)

async def gather():
    await asyncio.gather(*(child() for _ in range(20)))

@measured
def loop():
    asyncio.run(gather())

loop()
""")
        self.assertWaits(profile, "loop", marks.IO, truth["loop"])

    ECHO = """
ping, pong = os.pipe(), os.pipe()

def echo():
    while os.read(ping[0], 1) == b"x":
        os.write(pong[1], b"x")

def with_echo(function):
    thread = threading.Thread(target=echo)
    thread.start()
    function()
    os.write(ping[1], b"q")
    thread.join()
"""

    def test_thousands_of_switches(self):
        profile, truth = self.wall(self.ECHO + """
@measured
def play():
    end = time.perf_counter() + 2
    while time.perf_counter() < end or truth["rounds"] < 3000:
        os.write(ping[1], b"x")
        os.read(pong[0], 1)
        truth["rounds"] = truth.get("rounds", 0) + 1
        sum(range(10_000))

with_echo(play)
time.sleep(0.5)
""")
        states = self.states_in(profile, "play")
        self.assertClose(sum(states.values()), truth["play"])
        self.assertClose(sum(self.states_in(profile, "echo").values()),
                         truth["play"], least=0.05)
        # Short waits are added up, so that a recording does not grow.
        samples = sum(len(thread.times) for thread in profile.threads)
        self.assertLess(samples, 10_000 * truth["play"])
        main = max(profile.threads, key=lambda thread: sum(thread.weights))
        self.assertEqual(list(main.times), sorted(main.times))
        self.assertClose(states.get(marks.SLEEP, 0), 0)

    def test_flood(self):
        # More switches than anybody can follow: the program is left alone,
        # and what is said of it is known to be less exact.
        profile, truth = self.wall(self.ECHO + """
@measured
def flood():
    end = time.perf_counter() + 1
    while time.perf_counter() < end:
        os.write(ping[1], b"x")
        os.read(pong[0], 1)

with_echo(flood)
""", may_lose=True)
        main = max(profile.threads, key=lambda thread: sum(thread.weights))
        self.assertGreater(sum(main.weights), 0.95 * truth["flood"])
        states = self.states_in(profile, "flood")
        # The thread's waits before and after may be put there, too.
        self.assertClose(sum(states.values()), truth["flood"], SAMPLED,
                         sum(main.weights) - truth["flood"])

    def test_children(self):
        profile, truth = self.wall("""
import subprocess

@measured
def waits_for_child():
    subprocess.run([sys.executable, "-c", '''
import time
def child_sleeps():
    time.sleep(0.5)
child_sleeps()
'''])

waits_for_child()
""")
        self.assertWaits(profile, "waits_for_child", marks.IO,
                         truth["waits_for_child"])
        states = self.states_in(profile, "child_sleeps")
        self.assertClose(sum(states.values()), 0.5, least=0.03)

    def test_script_is_left_alone(self):
        result = self.record("--wall", "-q", "-c",
                             "import sys, time; time.sleep(.1); sys.exit(7)",
                             status=7)
        self.assertEqual((result.stdout, result.stderr), ("", ""))
        sleeping = [stack for thread in result.profile.threads
                    for stack in thread.stacks if stack != NO_STACK
                    and result.profile.frames[
                        result.profile.stack_frames[stack]] == marks.SLEEP]
        self.assertTrue(sleeping)


# Sleeps in company that has the one processor when it wakes up, and measures
# how much longer that takes: a millisecond or more, each time.
CROWDED = """
import subprocess
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
hogs = [subprocess.Popen([sys.executable, "-ISc", f'''
import os
while os.getppid() == {os.getpid()}:
    pass
''']) for _ in range(2)]

def naps():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    truth["thread"] = threading.get_native_id()
    truth["late"] = 0
    start = time.monotonic()
    for _ in range(160):
        asleep = time.monotonic()
        time.sleep(0.005)
        truth["late"] += time.monotonic() - asleep - 0.005
    truth["naps"] = time.monotonic() - start

try:
    naps()
finally:
    for hog in hogs:
        hog.kill()
        hog.wait()
"""


def run_delay(pid):
    """Return how long a process's first thread has waited for a processor."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


class CrowdTest(WallTestCase):

    def test_woken_threads_are_ready(self):
        if not wakeups.may_be_recorded():
            self.skipTest("only root, or CAP_PERFMON, may trace the machine")
        profile, truth = self.wall(CROWDED)
        if not os.access("/sys/kernel/tracing/events/sched", os.R_OK):
            self.skipTest("perf cannot mount a tracefs")
        self.assertEqual(profile.meta["lost wake-ups"], "0")
        states = self.states_in(profile, "naps")
        self.assertClose(sum(states.values()), truth["naps"])
        # What it slept is known exactly, but that timers may be late.
        self.assertClose(states[marks.SLEEP], 160 * 0.005, 0.05)
        self.assertClose(states[marks.READY], truth["late"], 0.05, 0.05)
        self.assertNotIn("permission to trace", self.result.stderr)

    def test_attached(self):
        if not wakeups.may_be_recorded():
            self.skipTest("only root, or CAP_PERFMON, may trace the machine")
        script = self.script(TRUTH + 'print("ready", flush=True)'
                             + CROWDED.replace("range(160)", "range(40_000)"))
        process = self.start(script)
        start, late = time.monotonic(), run_delay(process.pid)
        result = self.record("--wall", "--attach", str(process.pid),
                             "--duration", "2")
        late = run_delay(process.pid) - late
        whole = time.monotonic() - start
        if not os.access("/sys/kernel/tracing/events/sched", os.R_OK):
            self.skipTest("perf cannot mount a tracefs")
        states = self.states_in(result.profile, "naps")
        self.assertEqual(result.profile.meta["lost wake-ups"], "0")
        # perf takes its time before and after.  How much company there is
        # changes meanwhile.
        share = states[marks.READY] / sum(states.values())
        self.assertGreater(share, 0.2 * late / whole)
        self.assertLess(states[marks.READY], late + 0.05)
        self.assertGreater(states[marks.SLEEP], 0)

    def test_without_permission_the_sum_is_told(self):
        # The same as in a container: numbers of processes are its own.
        crowded = CROWDED.replace("range(160)", "range(400)")
        script = self.script(TRUTH + crowded + "print(json.dumps(truth))\n")
        path = self.directory + "/out.perfpy"
        done = subprocess.run(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
             sys.executable,
             "-m", "perfpy", "run", "--wall", "-o", path, script],
            env=clean_environment(), capture_output=True, text=True)
        if "unshare: " in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        truth = json.loads(done.stdout.splitlines()[-1])
        told = re.search(r"(?m)^without permission to trace the machine, time "
                         r".* counts as waiting: (\d+\.\d+) s of \S+ (\d+)$",
                         done.stderr)
        self.assertIsNotNone(told, done.stderr)
        self.assertEqual(int(told[2]), truth["thread"])
        # It is looked at five times a second, or less on a busy machine.
        self.assertGreater(float(told[1]), 0.3 * truth["late"])
        self.assertLess(float(told[1]), truth["late"] + 0.1)


class AttachedTest(WallTestCase):

    def test_waits_since_before(self):
        script = self.script("""
def waits_for_event():
    threading.Event().wait()

def sleeps():
    time.sleep(3600)

def reads():
    os.read(os.pipe()[0], 1)

def naps():
    while True:
        time.sleep(0.05)

def selects():
    import select
    select.select([os.pipe()[0]], [], [])

for function in waits_for_event, sleeps, naps, selects:
    threading.Thread(target=function, daemon=True).start()
print("ready", flush=True)
reads()
""")
        process = self.start(script)
        time.sleep(0.2)
        result = self.record("--wall", "--attach", str(process.pid),
                             "--duration", "1")
        for name, mark in [("waits_for_event", marks.LOCK),
                           ("sleeps", marks.SLEEP), ("reads", marks.IO),
                           ("selects", marks.IO), ("naps", marks.SLEEP)]:
            with self.subTest(name):
                states = self.states_in(result.profile, name)
                self.assertGreater(states[mark], 0.9, states)
                self.assertClose(sum(states.values()), 1, least=0.1)
        names = {thread.name for thread in result.profile.threads}
        self.assertIn("Thread-3 (naps)", names)
        self.assertIsNone(process.poll())


class RefusalTest(RecordingTestCase):

    def test_options(self):
        for option, value in [("--event", "page-faults"), ("--unwind", "fp"),
                              ("--format", "perf.data")]:
            result = self.perfpy("run", "--wall", option, value, "x.py",
                                 status=2)
            self.assertIn(f"{option} {value}".replace("--event page-faults",
                                                      "--event"),
                          result.stderr)
            self.assertIn("does not go with --wall", result.stderr)

    def test_without_permission(self):
        paranoid = permissions.setting("kernel.perf_event_paranoid")
        if os.geteuid() == 0:
            if paranoid < 2:
                self.skipTest("kernel.perf_event_paranoid lets anybody")
            self.admit_nobody()
            options = {"preexec_fn": become_nobody}
        elif permissions.may_record_kernel():
            self.skipTest("this user may")
        else:
            options = {}
        result = self.perfpy(
            "run", "--wall", "-c", "print('not run')", status=125,
            env=clean_environment(HOME="/nonexistent"), **options)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Aperfpy: --wall needs .*sudo sysctl"
                         r" kernel.perf_event_paranoid=1, .* Without --wall, ")


if __name__ == "__main__":
    unittest.main()
