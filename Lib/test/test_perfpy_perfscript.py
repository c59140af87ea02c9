"""How perfpy reads the output of perf script, and keeps it in a file."""

import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from test import support

from perfpy import perfscript, recording
from perfpy.profile import NO_STACK, Frame, Kind

PYTHON = "/usr/bin/python3.11"

SAMPLES = """\
python3       0/0           0.000000000: PERF_RECORD_COMM: python3:25/25
worker 25/26 100.000000500:    1001001 cpu-clock:
\tffffffff821f23e7 exc_page_fault ([kernel.kallsyms])
\t    556c284cb486 long_div (/usr/bin/python3.11)
\t    7f3801230018 py::halve:/srv/collatz.py (/tmp/perf-25.map)
\t    7f3801230028 py::<module>:/srv/collatz.py (/tmp/perf-25.map)
\t    7fd5758fd24a __libc_start_call_main (/usr/lib/libc.so.6)

python 25/25 100.500000500:    2002002 cpu-clock:
\t    556c284cb487 long_div (/usr/bin/python3.11)
\t    7f3801230018 py::halve:/srv/collatz.py (/tmp/perf-25.map)
\t    7f3801230028 py::<module>:/srv/collatz.py (/tmp/perf-25.map)
\t    7fd5758fd24a __libc_start_call_main (/usr/lib/libc.so.6)

python 25/25 100.600000500: PERF_RECORD_FORK(31:31):(25:25)
python 25/25 100.700000500: PERF_RECORD_LOST lost 12
python 25/25 101.000000500:    1001001 cpu-clock:

"""


def read(text, **options):
    profile, processes = perfscript.read(
        io.StringIO(text, newline="\n"), frequency=999, **options)
    return profile, processes


def sample(*frames, name="python", event="cpu-clock", period=1000000):
    """Return the text of a sample; frames are the lines' ends."""
    return "\n".join(
        [f"{name} 7/7 1.000000000: {period} {event}: ",
         *(f"\t    7f000000 {frame}" for frame in frames), "", ""])


class ReaderTest(unittest.TestCase):

    def names(self, profile, thread=0):
        stacks = profile.threads[thread].stacks
        return [[profile.frames[frame].name
                 for frame in profile.frames_of(stack)] for stack in stacks]

    def frame_of(self, text, **options):
        profile, _ = read(sample(text), **options)
        self.assertEqual(len(profile.frames), 1)
        return profile.frames[0]

    def test_samples(self):
        profile, processes = read(SAMPLES)
        worker, main = profile.threads
        self.assertEqual((worker.pid, worker.tid, worker.name),
                         (25, 26, "worker"))
        self.assertEqual((main.pid, main.tid, main.name), (25, 25, "python"))
        self.assertEqual(worker.process_name, "python")
        stack = ["__libc_start_call_main", "<module>", "halve", "long_div"]
        self.assertEqual(self.names(profile), [[*stack, "exc_page_fault"]])
        self.assertEqual(self.names(profile, 1), [stack, []])
        self.assertEqual(list(worker.times), [0])
        self.assertEqual(list(main.times), [0.5, 1.0])
        self.assertEqual(list(main.weights), [0.002002002, 0.001001001])
        self.assertEqual(profile.meta["lost samples"], "12")
        self.assertEqual(profile.meta["event"], "cpu-clock")
        self.assertEqual(processes, {25, 31})
        self.assertEqual(profile.frames, [
            Frame("__libc_start_call_main", "/usr/lib/libc.so.6", Kind.NATIVE),
            Frame("<module>", "/srv/collatz.py", Kind.PYTHON),
            Frame("halve", "/srv/collatz.py", Kind.PYTHON),
            Frame("long_div", PYTHON, Kind.INTERPRETER),
            Frame("exc_page_fault", "[kernel.kallsyms]", Kind.KERNEL)])

    def test_python_symbols(self):
        for symbol, name, file in [
            ("py::f:/srv/a.py", "f", "/srv/a.py"),
            ("py::A.f.<locals>.<lambda>:/srv/a.py", "A.f.<locals>.<lambda>",
             "/srv/a.py"),
            ("py::f:C:/srv:1/a.py", "f", "C:/srv:1/a.py"),
            ("py::<cell line: 1>:<ipython-input-1>", "<cell line: 1>",
             "<ipython-input-1>"),
            ("py::f:/srv/a (b) (c).py", "f", "/srv/a (b) (c).py"),
            ("py::f:/srv/a (/b.py", "f", "/srv/a (/b.py"),
            ("py::f: x y ", "f", " x y "),
            ("py::f:\x85a\u2028b", "f", "\x85a\u2028b"),
            ("py::<unknown>", "<unknown>", ""),
        ]:
            with self.subTest(symbol):
                self.assertEqual(
                    self.frame_of(f"{symbol} (/tmp/perf-7.map)"),
                    Frame(name, file, Kind.PYTHON))

    def test_native_symbols(self):
        for text, name, file in [
            ("f (/usr/lib/libx.so (deleted))", "f",
             "/usr/lib/libx.so (deleted)"),
            ("f(int, char (*)(int)) (/usr/lib/libx.so)",
             "f(int, char (*)(int))", "/usr/lib/libx.so"),
            ("f (/opt/my app (x86)/libx.so)", "f",
             "/opt/my app (x86)/libx.so"),
            ("[unknown] ([unknown])", "[unknown]", "[unknown]"),
            ("f ([vdso])", "f", "[vdso]"),
            ("f (memfd:x)", "f", "memfd:x"),
        ]:
            with self.subTest(text):
                self.assertEqual(self.frame_of(text),
                                 Frame(name, file, Kind.NATIVE))

    def test_interpreter(self):
        for library in ("/usr/bin/python3.11", "/srv/build/python",
                        "/usr/lib/libpython3.11.so.1.0",
                        "/usr/lib/libpython3.11d.so.1.0"):
            self.assertIs(self.frame_of(f"f ({library})").kind,
                          Kind.INTERPRETER, library)
        for library in ("/usr/lib/python3.11/lib-dynload/_ssl.so",
                        "/usr/lib/libpythonx.so", "/srv/app"):
            self.assertIs(self.frame_of(f"f ({library})").kind, Kind.NATIVE,
                          library)
        self.assertIs(
            self.frame_of("f (/srv/app)", interpreters=["/srv/app"]).kind,
            Kind.INTERPRETER)
        for name in ("_PyEval_EvalFrameDefault_labelled",
                     "_PyPerf_EnterAreaWithUnwindInfo"):
            self.assertIs(self.frame_of(f"{name} (/srv/app)").kind,
                          Kind.INTERPRETER)

    def test_names_of_threads(self):
        for name in "a b", "1/2 3.4: 5 x:", " x", "\tx", "é":
            with self.subTest(name):
                profile, _ = read(sample("f (/a)", name=name))
                self.assertEqual(profile.threads[0].name, name.strip())
        # perf makes this one up, where it has not been told.
        profile, _ = read(sample("f (/a)", name=":7"))
        self.assertEqual(profile.threads[0].name, "")
        # A line break in a name: the rest of the name is what is left.
        profile, _ = read(sample("f (/a)", name="a\nb") * 2)
        self.assertEqual(profile.threads[0].name, "b")
        self.assertEqual(len(profile.threads[0].times), 2)

    def test_nonsense_is_left_out(self):
        profile, processes = read("nonsense\n\n\tnonsense\n"
                                  + sample("nonsense", "f (/a)") + "more")
        self.assertEqual(self.names(profile), [["f"]])
        self.assertEqual(processes, {7})
        profile, processes = read("")
        self.assertEqual((profile.threads, processes), ([], set()))

    def test_end_in_the_middle(self):
        profile, _ = read(sample("f (/a)", "g (/a)").rstrip("\n"))
        self.assertEqual(self.names(profile), [["g", "f"]])

    def test_counts_become_seconds(self):
        # The first periods are short until perf has found the right one.
        text = "".join(sample("f (/a)", event="cycles:P", period=period)
                       for period in [1, 1000] + [3_000_000] * 8)
        profile, _ = read(text)
        self.assertAlmostEqual(profile.duration(), 8 / 999, delta=0.001 / 999)
        profile, _ = read(sample("f (/a)", event="task-clock:u"))
        self.assertEqual(profile.duration(), 0.001)

    def test_event_that_is_no_time(self):
        profile, _ = read(sample("f (/a)", event="page-faults:u", period=3)
                          + sample("f (/a)", event="page-faults:u", period=4))
        self.assertEqual(list(profile.threads[0].weights), [3, 4])
        self.assertEqual(profile.meta["unit"], "page-faults:u")
        self.assertNotIn("unit", read(SAMPLES)[0].meta)

    def test_children_are_told_from_their_parent(self):
        def at(pid, name="python"):
            return sample("f (/a)", name=name).replace("7/7", f"{pid}/{pid}")

        def fork(child, parent):
            return (f"python 7/7 0.1: PERF_RECORD_FORK({child}:{child}):"
                    f"({parent}:{parent})\n")

        profile, _ = read(
            at(5) + fork(6, 5) + fork(7, 5) + fork(9, 5) + at(6) + at(7)
            + fork(8, 6) + at(8) + at(9, "sh")
            + "python 7/7 0.1: PERF_RECORD_FORK(5:66):(5:5)\n")
        self.assertEqual([thread.process_name for thread in profile.threads],
                         ["python", "python child 1", "python child 2",
                          "python child 3", "sh"])

    def test_progress(self):
        seen = []
        read(sample("f (/a)") * 25_000, progress=seen.append)
        self.assertEqual(seen, [10_000, 20_000])


# Makes what perf would print of ten minutes of a busy program, reads it, and
# prints the most memory it took, in KiB, and how many samples there are.
BIG = """\
import random, resource, sys
from perfpy import perfscript
count = int(sys.argv[1])

def lines():
    choose = random.Random(1).randrange
    for number in range(count):
        pid = 1 + number % 4
        time = f"{number // 999}.{number % 999:09}"
        yield f"python 9/{pid} {time}: 1001001 cpu-clock:\\n"
        path = choose(20_000)
        for depth in range(15, -1, -1):
            name = path * 7919 // 2 ** (15 - depth) % 3000
            symbol = f"py::function_{name}:/srv/a.py"
            yield f"\\t  7f{name:06x} {symbol} (/tmp/perf-9.map)\\n"
        yield "\\n"

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
profile, _ = perfscript.read(lines(), frequency=999)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(after - before, sum(len(thread.times) for thread in profile.threads),
      len(profile.stacks))
"""


class MemoryTest(unittest.TestCase):

    def peak(self, count):
        """Return the MiB that reading so many samples takes."""
        output = subprocess.run([sys.executable, "-c", BIG, str(count)],
                                stdout=subprocess.PIPE, check=True, text=True,
                                timeout=support.LONG_TIMEOUT).stdout
        kib, samples, stacks = map(int, output.split())
        self.assertEqual(samples, count)
        self.assertGreater(stacks, 20_000)
        return kib / 1024

    @support.requires_resource("cpu")
    def test_a_million_samples(self):
        few, many = self.peak(100_000), self.peak(1_000_000)
        if support.verbose:
            print(f"100,000 samples: {few:.0f} MiB, 1,000,000: {many:.0f} MiB")
        # 24 bytes for a sample, and what the arrays have in reserve.
        self.assertLess(many - few, 900_000 * 24 * 1.5 / 2**20 + 10)
        self.assertLess(many, 250)


class RecordingTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "a.perfpy")

    def test_round_trip(self):
        text = SAMPLES * 9000 + sample("py::\ud800é:/a (/tmp/perf-7.map)")
        profile, _ = read(text)
        profile.meta["command"] = "a 'b'"
        recording.save(profile, self.path)
        again = recording.load(self.path)
        self.assertEqual(again.meta, profile.meta)
        self.assertEqual(again.frames, profile.frames)
        self.assertEqual(again.stacks, profile.stacks)
        self.assertEqual(len(again.threads), len(profile.threads))
        for thread, other in zip(again.threads, profile.threads):
            self.assertEqual(
                (thread.pid, thread.tid, thread.process_name, thread.name),
                (other.pid, other.tid, other.process_name, other.name))
            self.assertEqual(thread.stacks, other.stacks)
            for one, two in ((thread.times, other.times),
                             (thread.weights, other.weights)):
                self.assertEqual([round(x * 1e9) for x in one],
                                 [round(x * 1e9) for x in two])

    def test_empty(self):
        recording.save(read("")[0], self.path)
        self.assertEqual(recording.load(self.path).threads, [])

    def assertDamaged(self, data):
        with open(self.path, "wb") as file:
            file.write(data)
        with self.assertRaisesRegex(recording.RecordingError, "a.perfpy: not"):
            recording.load(self.path)

    def test_damaged(self):
        recording.save(read(SAMPLES)[0], self.path)
        with open(self.path, "rb") as file:
            whole = file.read()
        lines = gzip.decompress(whole).splitlines(keepends=True)
        self.assertDamaged(b"")
        self.assertDamaged(b"PERFILE2")
        self.assertDamaged(whole[:-9])
        self.assertDamaged(whole[:30] + b"xxxx" + whole[34:])
        self.assertDamaged(gzip.compress(b"".join(lines[1:])))
        self.assertDamaged(gzip.compress(lines[0] + lines[2]))
        self.assertDamaged(gzip.compress(b"[]\n"))
        for line in (
                {"perfpy": 3, "meta": {}},
                {"stacks": [[0], [0]]}, {"stacks": [[1], [9999]]},
                {"stacks": [[1], [-1]]}, {"stacks": [[9999], [0]]},
                {"stacks": [[1], []]}, {"stacks": [[], []]},
                {"stacks": [[1.5], [0]]}, {"stacks": [[1 << 40], [0]]},
                {"frames": [["f", "a", "other"]]},
                {"samples": [[1], [0], [1, 2]]}, {"samples": [[1], [99], [1]]},
                {"samples": [[1], ["x"], [1]]}, {"thread": [1]},
                {"other": []}, {}, [], 1):
            text = json.dumps(line).encode() + b"\n"
            if isinstance(line, dict) and "perfpy" in line:
                lines[0] = text
                self.assertDamaged(gzip.compress(b"".join(lines)))
                lines[0] = gzip.decompress(whole).splitlines(True)[0]
            else:
                self.assertDamaged(gzip.compress(b"".join(lines) + text))

    def test_version_1(self):
        lines = [{"perfpy": 1, "meta": {"command": "c"}},
                 {"frames": [["f", "/a.py", "python"], ["g", "", "native"]]},
                 {"stacks": [[-1, 0], [0, 1]]}, {"stacks": [[0, 0]]},
                 {"thread": [1, 2, "p", "t"]},
                 {"samples": [[5, 5], [1, 2], [10**9, 10**9]]}]
        with gzip.open(self.path, "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        profile = recording.load(self.path)
        self.assertEqual(profile.stacks, [(NO_STACK, 0), (0, 1), (0, 0)])
        self.assertEqual(list(profile.threads[0].stacks), [1, 2])
        # More can be added.
        self.assertEqual(profile.add_stack(0, 1), 1)
        self.assertEqual(profile.add_stack(2, 1), 3)

    def test_failure_leaves_what_was_there(self):
        profile = read(SAMPLES)[0]
        recording.save(profile, self.path)
        profile.meta["command"] = object()      # no JSON
        with self.assertRaises(TypeError):
            recording.save(profile, self.path)
        self.assertTrue(recording.load(self.path).threads)
        self.assertEqual(os.listdir(os.path.dirname(self.path)),
                         ["a.perfpy"])

    def test_missing(self):
        with self.assertRaisesRegex(recording.RecordingError, "No such file"):
            recording.load(self.path)


if __name__ == "__main__":
    unittest.main()
