"""Off-CPU time from perf's records, and what threads wait for, by themselves.

test_perfpy_wall.py has the whole of it, with a kernel and perf.
"""

import io
import json
import os
import struct
import tempfile
import unittest

from perfpy import (advice, elfsymbols, initial, marks, perfstream, rundelay,
                    table, waits, wakeups, walltime)
from perfpy.perfstream import Layout
from perfpy.profile import Frame, Kind, Profile

MS = 1_000_000


class Recording:
    """Two streams that tell what a test says."""

    def __init__(self):
        self.waits = waits.Waits()
        self.switches = self.waits.stream()
        self.stacks = self.waits.stream()
        self.wakeups = self.waits.stream()

    def go(self, time, tid, site=None, preempted=False):
        """A thread stops to run; without a site, its sample is lost."""
        if site is not None:
            self.stacks.sample(time - 1, 1, tid, site)
        self.switches.switch(time, 1, tid, True, preempted)

    def come(self, time, tid):
        self.switches.switch(time, 1, tid, False, False)

    def end_rounds(self):
        for stream in self.switches, self.stacks, self.wakeups:
            stream.end_round()

    def finish(self, end):
        self.waits.end = end
        for stream in self.switches, self.stacks, self.wakeups:
            stream.finish()
        self.waits.finish()
        return {thread.tid: thread for thread in self.waits.threads}


def sums(thread):
    """Return the time of each (site, is ready)."""
    result = {}
    for *key, duration in zip(thread.sites, thread.ready,
                              thread.durations):
        result[*key,] = result.get((*key,), 0) + duration
    return result


class WaitsTest(unittest.TestCase):

    def test_one_thread(self):
        recording = Recording()
        recording.come(0, 7)
        recording.go(10 * MS, 7, site=1)
        recording.come(30 * MS, 7)
        recording.go(35 * MS, 7, site=2, preempted=True)
        recording.come(40 * MS, 7)
        thread = recording.finish(50 * MS)[7]
        self.assertEqual(thread.running, 25 * MS)
        self.assertEqual(sums(thread), {(1, 0): 20 * MS, (2, 1): 5 * MS})
        self.assertEqual(list(thread.times), [10 * MS, 35 * MS])
        self.assertEqual(thread.estimated, 0)

    def test_order_of_processors_and_rounds(self):
        # Every order in which rounds may tell it gives the same.
        recording = Recording()
        recording.come(30 * MS, 7)
        recording.end_rounds()
        recording.go(10 * MS, 7, site=1)
        recording.come(0, 7)
        recording.end_rounds()
        recording.go(40 * MS, 7, site=2)
        recording.end_rounds()
        thread = recording.finish(100 * MS)[7]
        self.assertEqual(thread.running, 20 * MS)
        self.assertEqual(sums(thread), {(1, 0): 20 * MS, (2, 0): 60 * MS})

    def test_one_stream_is_late(self):
        recording = Recording()
        recording.come(0, 7)
        recording.go(10 * MS, 7)
        recording.come(30 * MS, 7)
        recording.switches.end_round()
        recording.switches.end_round()
        self.assertEqual(recording.waits.threads, [])
        recording.stacks.sample(10 * MS - 1, 1, 7, 3)
        recording.stacks.finish()
        self.assertEqual(recording.waits.threads, [])
        self.assertEqual(sums(recording.finish(30 * MS)[7]),
                         {(3, 0): 20 * MS})

    def test_lost_stacks(self):
        # A wait whose stack is lost is like that which took as long.
        recording = Recording()
        now = 0
        for number in range(20):
            recording.come(now, 7)
            recording.go(now + MS, 7, 1 if number < 2 else None)
            recording.come(now + 3 * MS, 7)
            recording.go(now + 4 * MS, 7, 2 if number < 2 else None)
            now += 44 * MS
        thread = recording.finish(now)[7]
        self.assertEqual(sums(thread), {(1, 0): 40 * MS, (2, 0): 800 * MS})
        self.assertEqual(thread.estimated, 18 * 42 * MS)

    def test_lost_switches(self):
        recording = Recording()
        recording.come(0, 7)
        recording.stacks.sample(10 * MS, 1, 7, 1)   # that it goes is lost
        recording.come(30 * MS, 7)
        recording.go(40 * MS, 7, site=2)
        recording.go(60 * MS, 7, site=1)            # that it came is lost
        thread = recording.finish(70 * MS)[7]
        self.assertEqual(thread.running, 20 * MS)
        self.assertEqual(sum(thread.durations), 50 * MS)

    def test_short_waits_are_added_up(self):
        recording = Recording()
        for number in range(100_000):
            recording.come(number * 10_000, 7)
            recording.go(number * 10_000 + 4_000, 7, site=number % 2)
            if number % 1000 == 0:
                recording.end_rounds()
        thread = recording.finish(10**9)[7]
        self.assertLess(len(thread.times), 300)
        self.assertEqual(sums(thread), {(0, 0): 300 * MS, (1, 0): 300 * MS})
        self.assertEqual(thread.running, 400 * MS)

    def test_end_and_beginning(self):
        recording = Recording()
        recording.waits.begin = 10 * MS
        beginning = recording.waits.stream()
        beginning.start(10 * MS, 1, 7, waits.FIRST_SITE)
        beginning.start(10 * MS, 1, 8, None)
        beginning.finish()
        recording.go(5 * MS, 9)                     # before the beginning
        recording.go(20 * MS, 8, site=1)
        recording.switches.exit(30 * MS, 1, 8)
        recording.come(110 * MS, 7)                 # after the end
        recording.go(120 * MS, 7, site=2)
        recording.come(110 * MS, 10)
        threads = recording.finish(100 * MS)
        self.assertEqual(sums(threads[7]), {(waits.FIRST_SITE, 0): 90 * MS})
        self.assertEqual(threads[8].running, 10 * MS)
        self.assertEqual(sums(threads[8]), {(1, 0): 10 * MS})
        self.assertFalse({9, 10} & threads.keys())

    def test_woken(self):
        recording = Recording()
        recording.come(0, 7)
        recording.wakeups.wake(5 * MS, 7)           # it runs
        recording.go(10 * MS, 7, site=1)
        recording.wakeups.wake(25 * MS, 7)
        recording.wakeups.wake(27 * MS, 7)          # by another, too
        recording.come(30 * MS, 7)
        recording.go(40 * MS, 7, site=1, preempted=True)
        recording.wakeups.wake(45 * MS, 7)          # it does not wait
        recording.come(50 * MS, 7)
        recording.go(60 * MS, 7, site=2)
        recording.wakeups.wake(65 * MS, 8)          # of another program
        recording.wakeups.wake(80 * MS, 7)
        threads = recording.finish(100 * MS)
        self.assertEqual(list(threads), [7])
        self.assertEqual(threads[7].running, 30 * MS)
        self.assertEqual(sums(threads[7]), {
            (1, 0): 15 * MS, (1, 1): 5 * MS + 10 * MS,
            (2, 0): 20 * MS, (2, 1): 20 * MS})

    def test_woken_where_nobody_knows(self):
        recording = Recording()
        for start in 0, 100 * MS:
            recording.come(start, 7)
            recording.go(start + 10 * MS, 7, site=None if start else 1)
            recording.wakeups.wake(start + 60 * MS, 7)
        thread = recording.finish(200 * MS)[7]
        self.assertEqual(sums(thread), {(1, 0): 100 * MS, (1, 1): 80 * MS})
        self.assertEqual(thread.estimated, 90 * MS)

    def test_woken_is_not_without_the_gil(self):
        recording = Recording()
        recording.stacks.new_site(5, 0, 1, True)
        for tid in 1, 2, 3:
            recording.come(0, tid)
        recording.go(10 * MS, 1, site=5)
        recording.go(10 * MS, 2, site=5)
        recording.go(20 * MS, 3, site=1)
        recording.wakeups.wake(20 * MS, 1)          # has it, but cannot run
        recording.come(40 * MS, 1)
        threads = recording.finish(50 * MS)
        self.assertEqual(threads[1].held_by, {3: 10 * MS})
        self.assertEqual(threads[2].held_by, {3: 10 * MS, 1: 30 * MS})

    def test_exec_begins_anew(self):
        recording = Recording()
        recording.go(0, 7, site=1)
        recording.switches.execute(50 * MS, 1, 7)
        recording.go(60 * MS, 7, site=2)
        thread = recording.finish(100 * MS)[7]
        self.assertEqual(thread.running, 10 * MS)
        self.assertEqual(sums(thread), {(2, 0): 40 * MS})

    def test_who_has_the_gil(self):
        recording = Recording()
        recording.stacks.new_site(5, 0, 1, True)
        recording.come(0, 1)
        recording.come(0, 2)
        recording.come(0, 3)
        recording.go(10 * MS, 3, site=1)            # waits for something else
        recording.go(10 * MS, 1, site=5)
        recording.go(30 * MS, 2, site=1, preempted=True)    # still has it
        recording.come(40 * MS, 2)
        recording.go(50 * MS, 2, site=5)
        recording.come(50 * MS, 1)
        recording.go(60 * MS, 1, site=1)
        threads = recording.finish(70 * MS)
        self.assertEqual(threads[1].held_by, {2: 40 * MS})
        self.assertEqual(threads[2].held_by, {1: 10 * MS, 0: 10 * MS})
        self.assertEqual(threads[3].held_by, {})


class ReasonTest(unittest.TestCase):

    def test_reasons(self):
        for mark, kernel, user in [
                (marks.SLEEP, ["schedule", "do_nanosleep"], []),
                (marks.LOCK, ["schedule", "futex_wait_queue"], []),
                (marks.IO, ["schedule", "pipe_read"], ["read"]),
                (marks.IO, ["schedule", "ep_poll"], ["epoll_wait"]),
                (marks.IO, [], []),
                # Without names of the kernel's functions.
                (marks.SLEEP, ["[unknown]"], ["clock_nanosleep@GLIBC_2.17"]),
                (marks.LOCK, [], ["__new_sem_wait_slow64"]),
                (marks.LOCK, [], ["__futex_abstimed_wait_common64"]),
                (marks.IO, [], ["__poll", "select_poll_poll"]),
                (marks.GIL, ["futex_wait"], ["pthread_cond_timedwait",
                                             "take_gil.isra.0"])]:
            self.assertEqual(walltime.reason(kernel, user), mark,
                             (kernel, user))


def example():
    """A profile of a thread that runs, waits for the GIL, and sleeps."""
    profile = Profile()
    profile.start = 2 * MS
    recording = Recording()
    recording.stacks.new_site(1, 0, 1, True)
    recording.come(MS, 1)
    recording.go(2 * MS, 1, site=1)
    recording.come(5 * MS, 1)
    recording.go(6 * MS, 1, site=2)
    recording.come(MS, 2)
    recording.finish(10 * MS)
    recording.waits.names.update({1: "python3.11", 2: "worker"})
    function = profile.add_stack(-1, profile.add_frame(
        Frame("f", "/srv/f.py", Kind.PYTHON)))
    thread = profile.thread(1, 1)
    thread.add_sample(0, function, 0.0015)
    walltime.add_waits(profile, recording.waits, {
        1: (function, marks.LOCK), 2: (function, marks.SLEEP)})
    profile.meta |= {"duration": "0.01", "lost samples": "0"}
    return profile


class ProfileTest(unittest.TestCase):

    def test_profile(self):
        profile = example()
        main, worker = profile.threads
        self.assertEqual([round(time, 6) for time in main.times],
                         [0, 0, 0.004])
        self.assertEqual(sorted(round(weight, 6) for weight in main.weights),
                         [0.002, 0.003, 0.004])
        self.assertEqual(
            [[round(seconds, 6) for seconds in states]
             for states in walltime.states_of(profile)],
            [[0.002, 0.003, 0, 0, 0.004, 0, 0], [0.009, 0, 0, 0, 0, 0, 0]])
        self.assertEqual(walltime.holders(profile), {(1, 1): {2: 0.003}})
        self.assertEqual((worker.name, worker.process_name),
                         ("worker", "python3.11"))
        self.assertAlmostEqual(walltime.running_seconds(profile), 0.011)
        self.assertIn("0.02 s of wall-clock time in 0.01 s",
                      table.summary(profile))
        # What waits is the function.
        row, = table.rows_of(profile, table.Choice())
        self.assertAlmostEqual(row.own, 0.009)

    def test_threads_that_had_the_gil(self):
        profile = example()
        self.assertIn("while python3.11 1 waited for the GIL, it was with: "
                      "worker 2 100%\n", self.threads_of(profile))
        # More than can be told, and a thread whose name is not known.
        profile.threads[0].name = ""
        profile.meta["gil"] = json.dumps(
            [[1, 1, tid, 0.003] for tid in range(2, 300)])
        self.assertIn("while thread 1 waited for the GIL, it was with: many "
                      "threads\n", self.threads_of(profile))

    def threads_of(self, profile):
        file = io.StringIO()
        table.write_threads(profile, file)
        return file.getvalue()

    def test_advice(self):
        profile = example()
        self.assertEqual(list(advice.advice(profile)), [])
        profile.meta["estimated waits"] = "0.005"
        line, = advice.advice(profile)
        self.assertIn("71% of the time in which they did not run", line)
        profile.meta["lost samples"] = "12345"
        line, = advice.advice(profile)
        self.assertIn("12,345 records are lost", line)

    def test_damaged_holders(self):
        profile = example()
        for text in "", "[1]", "[[1,2,3]]", "{", "[[1,2,3,null]]":
            profile.meta["gil"] = text
            self.assertEqual(walltime.holders(profile), {})


def matches(text, pid):
    """Do what the kernel does with a filter."""
    return eval(text.replace("&&", " and ").replace("||", " or "), {},
                {"pid": pid})


class WakeupsTest(unittest.TestCase):

    def test_filter(self):
        for numbers in [], [7], [3, 4, 5, 9, 12], range(1, 4000, 2):
            text = wakeups.filter_of(numbers, 5000)
            self.assertLess(len(text), 4096)
            self.assertLessEqual(text.count("&&"), wakeups.MOST_RANGES)
            for pid in numbers:
                self.assertTrue(matches(text, pid))
            for pid in 2, 8, 4500, 5000:
                self.assertFalse(pid not in numbers and len(numbers) < 100
                                 and matches(text, pid))
            self.assertFalse(matches(text, 5000))
            self.assertTrue(matches(text, 5001))
        self.assertEqual(wakeups.filter_of([9999, 6], 7),
                         "(pid>=6&&pid<=6)||pid>7")

    def test_newest_number(self):
        before = wakeups.newest_number()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        self.assertNotEqual(before, wakeups.newest_number())

    def test_stream(self):
        told = waits.Waits()
        source, target = os.pipe()
        reader = wakeups.Wakeups(source, "unused", told)
        attributes = bytearray(128)
        # With identifier, task, time, processor, period and data.
        kind = 1 << 16 | 2 | 4 | 1 << 7 | 1 << 8 | 1 << 10
        struct.pack_into("<Q", attributes, 24, kind)

        def record(kind, body, flags=0):
            return struct.pack("<IHH", kind, flags, 8 + len(body)) + body

        def wake(time, pid):
            data = struct.pack("<8x16siii", b"python", pid, 120, 0) + bytes(4)
            return record(perfstream.SAMPLE, struct.pack(
                "<QIIQQQI", 99, 1, 1, time, 0, 1, len(data)) + data)

        attributes = struct.pack("<II", 2, 128) + attributes[8:]
        told.stream().finish()
        told.take(told._streams[-1])
        others = told.stream()
        others.switch(10, 1, 7, True, False)
        others.switch(90, 1, 7, False, False)
        others.finish()
        reader.start()
        os.write(target, perfstream.HEAD
                 + record(perfstream.ATTRIBUTES,
                          attributes + struct.pack("<Q", 99))
                 + wake(50, 7) + wake(60, 8)
                 + record(perfstream.LOST, struct.pack("<QQ", 99, 12))
                 + record(perfstream.FINISHED_ROUND, b""))
        os.close(target)
        reader.finish()
        told.end = 100
        told.finish()
        thread, = told.threads
        self.assertEqual(sums(thread), {(waits.NO_SITE, 0): 40,
                                        (waits.NO_SITE, 1): 40})
        self.assertEqual(reader.lost, 12)

    def test_run_delay(self):
        profile = example()
        profile.threads[0].name = "worker"
        thread = profile.threads[0]
        for seconds, expected in [(0.00005, None), (1.5, "1.50 s of worker")]:
            profile.meta[rundelay.META] = json.dumps(
                [[thread.pid, thread.tid, seconds]])
            file = io.StringIO()
            table.write_threads(profile, file)
            if expected:
                self.assertIn(f"counts as waiting: {expected} {thread.tid}\n",
                              file.getvalue())
            else:
                self.assertNotIn("counts as waiting", file.getvalue())
        for text in "", "[1]", "{", "[[1,2,null]]":
            profile.meta[rundelay.META] = text
            self.assertEqual(rundelay.of(profile), {})


class PiecesTest(unittest.TestCase):

    def test_symbol(self):
        with open("/proc/self/maps") as maps:
            path = next(line.split()[-1] for line in maps
                        if "python" in line and "/" in line)
        found = elfsymbols.find(path, "_PyRuntime")
        self.assertIsNotNone(found)
        self.assertGreater(found[1], 10_000)
        self.assertIsNone(elfsymbols.find(path, "_PyRuntim"))
        self.assertIsNone(elfsymbols.find("/nonexistent", "x"))
        with tempfile.NamedTemporaryFile() as file:
            for content in b"", b"\x7fELF\2\1" + b"\xff" * 100, os.urandom(99):
                file.seek(0)
                file.write(content)
                file.flush()
                self.assertIsNone(elfsymbols.find(file.name, "_PyRuntime"))

    def test_record_of_a_waiting_thread(self):
        attributes = bytearray(128)
        # With identifier, address, time, task, registers, stack, weight.
        kind = (1 << 16 | 1 | 2 | 4 | 8 | 1 << 5 | 1 << 12 | 1 << 13 | 1 << 15)
        struct.pack_into("<Q", attributes, 24, kind)
        struct.pack_into("<Q", attributes, 80, 0b1_1110_0000)
        layout = Layout(attributes)
        self.assertTrue(layout.is_known)
        waiting = initial.Waiting(10, 11, {5: 55, 7: 77, 8: 88},
                                  b"stack..." * 3)
        record = initial.record_of(waiting, layout, 1234, 99)
        self.assertEqual(struct.unpack_from("<H", record, 6)[0], len(record))
        sample = layout.find(record, 0)
        self.assertEqual((sample.pid, sample.tid, sample.time),
                         (10, 11, 1234))
        self.assertEqual(record[sample.stack:sample.stack + sample.copied],
                         waiting.stack)
        self.assertEqual(sample.end_of_stack + 8, len(record))
        self.assertEqual(struct.unpack_from(
            "<Q", record, sample.registers + layout.register(7)), (77,))
        struct.pack_into("<Q", attributes, 24, kind | 1 << 40)
        self.assertIsNone(initial.record_of(waiting, Layout(attributes), 0, 0))


if __name__ == "__main__":
    unittest.main()
