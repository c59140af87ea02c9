"""The perf trampoline end to end: what perf and gdb show of a program.

Each program is recorded as a user would, and every stack whose innermost
Python function is the busy one must be the Python stack of that moment, with
the right C functions in between.  How many samples there are is up to the
machine: if there are none of interest, the program gets ten times the work.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import unittest
from test import support
from test.support.perf_base import INLINES_COMPREHENSIONS, INLINES_SEND
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


def clean_environment(**variables):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    return env | variables


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=TIMEOUT,
                          stderr=subprocess.PIPE, errors="surrogateescape",
                          **kwargs)


# What stands between generators of which one yields from the other.
SENT = [] if INLINES_SEND else [("gen",)]


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
            found = {function: [] for function in functions}
            for sample in samples:
                if sample.functions:
                    name = sample.functions[0].split(":")[2]
                    if name in found:
                        found[name].append(sample)
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


class StackTest(RecordTestCase):

    NESTED = """
        def foo(): return bar()
        def bar(): return baz()
        def baz(): return busy()
        foo()
    """

    def test_nested(self):
        samples = self.check(self.NESTED, "busy", "baz", "bar", "foo",
                             "<module>")
        # The evaluator works below the area code, or calls the C function
        # that perf found at work; the frames of the latter may be missing.
        self.assertTrue([sample for sample in samples
                         if sample.between()[0][-2:-1] == [EVALUATOR]
                         and sample.between()[0][-1] in AREAS])
        for sample in samples:
            outermost = sample.frames.index(sample.functions[-1])
            outside = sample.frames[outermost + 1:]
            self.assertIn("PyEval_EvalCode", outside)
            self.assertNotIn(EVALUATOR, outside)
            self.assertFalse(set(AREAS) & set(outside))

    def test_environment(self):
        value = "native" if self.native else "1"
        self.check("""
            def key(_): return busy()
            def foo(): return sorted([1], key=key)
            foo()
        """, "busy", "key", ("sort",), "foo", "<module>",
                   options=(), variables={"PYTHONPERFSUPPORT": value})

    def test_sys_function(self):
        # The module runs already: its frame stays as it is.
        self.check('sys.activate_stack_trampoline("perf")\n'
                   + textwrap.dedent(self.NESTED), "busy", "baz", "bar", "foo",
                   options=())

    def test_off(self):
        recording = self.recording(self.NESTED)
        recording.record(self.event, ["--", sys.executable, recording.script,
                                      str(WORK)], env=clean_environment())
        samples = recording.samples()
        self.assertEqual([s for s in samples if s.functions], [])
        frames = {frame for sample in samples for frame in sample.frames}
        self.assertIn(ORDINARY_EVALUATOR, frames)
        self.assertFalse({EVALUATOR, *AREAS} & frames)

    def test_report(self):
        recording = self.recording(self.NESTED)
        found, _ = self.samples_of(None, "busy", recording=recording)
        report = recording.output("report", "--stdio", "--no-inline",
                                  "--children", "-F",
                                  "overhead_children,symbol", "-g", "none")
        names = set(re.findall(r"%\s+\[\.\] (.*?) *$", report, re.MULTILINE))
        sample = found["busy"][0]
        self.assertLessEqual(
            set(self.symbols(sample, "busy", "baz", "bar", "foo", "<module>")),
            names)
        self.assertIn(AREA if self.native else SHARED_AREA, names)

    def test_methods(self):
        self.check("""
            class Base:
                def method(self): return self.other()
                @classmethod
                def made(cls): return cls().method()
            class Derived(Base):
                def other(self): return self.static()
                @staticmethod
                def static(): return busy()
            def main(): return Derived.made()
            main()
        """, "busy", "Derived.static", "Derived.other", "Base.method",
            "Base.made", "main", "<module>")

    def test_slots(self):
        self.check("""
            class C:
                def __init__(self): self["key"]
                def __getitem__(self, key): return self.property
                @property
                def property(self): return self + 1
                def __add__(self, other): return busy()
            C()
        """, "busy", "C.__add__", ("slot_nb_add",), "C.property",
            ("attr",), "C.__getitem__", ("subscript",), "C.__init__",
            ("slot_tp_init", "type_call"), "<module>")

    def test_specialised_slot(self):
        # Hot enough, the evaluator calls __getitem__ without C's help.
        self.check("""
            class C:
                def __getitem__(self, work): return busy() if work else None
            def main():
                indexable = C()
                for number in range(100):
                    indexable[number == 99]
            main()
        """, "busy", "C.__getitem__", "main", "<module>")

    def test_generators(self):
        self.check("""
            def outer():
                yield from middle()
            def middle():
                for _ in inner():
                    yield
            def inner():
                yield busy()
            def main():
                for _ in outer():
                    pass
            main()
        """, "busy", "inner", ("gen",), "middle", *SENT, "outer",
            ("gen",), "main", "<module>")

    def test_comprehensions_and_lambdas(self):
        self.check("""
            f = lambda: [busy() for _ in "a"]
            def main(): return {f() is None for _ in "b"}
            main()
        """, "busy", *(() if INLINES_COMPREHENSIONS
                        else ["<lambda>.<locals>.<listcomp>"]), "<lambda>",
            *(() if INLINES_COMPREHENSIONS else ["main.<locals>.<setcomp>"]),
            "main", "<module>")

    def test_coroutines(self):
        self.check("""
            class Awaitable:
                def __await__(self):
                    yield busy()
            async def inner(): await Awaitable()
            async def outer(): await inner()
            def main():
                coroutine = outer()
                coroutine.send(None)
                coroutine.close()
            main()
        """, "busy", "Awaitable.__await__", *SENT, "inner", *SENT,
            "outer", ("gen",), "main", "<module>")

    def test_callbacks(self):
        self.check("""
            def key(x): return busy()
            def mapped(x): return sorted([x], key=key)
            def main(): return list(map(mapped, [1]))
            main()
        """, "busy", "key", ("sort",), "mapped", ("map", "list"), "main",
            "<module>")

    def test_exec_and_class_body(self):
        found, _ = self.samples_of("""
            class C:
                exec(compile("def f(): return busy()\\\\nf()", "made", "exec"))
        """.replace("\\\\", "\\"), "busy")
        for sample in found["busy"]:
            busy, f, executed, body, module = sample.functions
            self.assertEqual((f, executed), ("py::f:made",
                                             "py::<module>:made"))
            self.assertEqual([body, module],
                             self.symbols(sample, "C", "<module>"))
            self.assert_between(sample, sample.between()[3], ["exec"])

    def test_import(self):
        recording = self.recording("import working")
        path = os.path.join(os.path.dirname(recording.script), "working.py")
        with open(path, "w") as file:
            file.write("from __main__ import busy\nbusy()\n")
        found, _ = self.samples_of(None, "busy", recording=recording)
        for sample in found["busy"]:
            self.assertEqual(sample.functions[1], f"py::<module>:{path}")
            self.assertEqual(sample.functions[-1:],
                             self.symbols(sample, "<module>"))
            for function in sample.functions[2:-1]:
                self.assertTrue(function.endswith(
                    ":<frozen importlib._bootstrap>") or function.endswith(
                    ":<frozen importlib._bootstrap_external>"), function)
            self.assert_between(sample, sample.between()[-1], ["import"])

    def test_exceptions(self):
        self.check("""
            def raising(): raise KeyError
            def catching():
                for _ in range(5):
                    try:
                        raising()
                    except KeyError:
                        pass
                    finally:
                        handled()
            def handled(): return busy()
            catching()
        """, "busy", "handled", "catching", "<module>")

    def test_recursion(self):
        found, _ = self.samples_of("""
            def recurse(depth): return recurse(depth - 1) if depth else busy()
            recurse(59)
        """, "busy")
        for sample in found["busy"]:
            self.assertEqual(sample.functions, self.symbols(
                sample, "busy", *["recurse"] * 60, "<module>"), sample)
            # An area that is full continues in another one.
            continued = [call for call in sample.between()[1:] if call]
            self.assertLessEqual(len(continued), 2)
            for call in continued:
                self.assert_c_call(sample, call, [])
                for frame in call[:-2]:
                    self.assertIn("area", frame.lower(), sample)

    def test_deep_recursion(self):
        # Deeper than perf looks: what it shows is as good.
        found, _ = self.samples_of("""
            sys.setrecursionlimit(10 ** 6)
            def recurse(depth): return recurse(depth - 1) if depth else busy()
            recurse(2000)
        """, "busy")
        for sample in found["busy"]:
            functions = sample.functions
            self.assertGreater(len(functions), 60, sample)
            self.assertEqual(functions, self.symbols(
                sample, "busy", *["recurse"] * (len(functions) - 1)), sample)

    def test_strange_names(self):
        found, _ = self.samples_of(r"""
            name = "two\nlines\t\udcff \U0001f40d/100% \\a\u2028.py"
            source = "def \u00e9t\u00e9(): return busy()\n\u00e9t\u00e9()"
            exec(compile(source, name, "exec"))
        """, "busy")
        name = r"two\x0alines\x09\udcff " + "\U0001f40d/100% \\a\\u2028.py"
        for sample in found["busy"]:
            self.assertEqual(sample.functions[1:3],
                             [f"py::\u00e9t\u00e9:{name}",
                              f"py::<module>:{name}"])


class NativeStackTest(StackTest):

    native = True


class LimitTest(RecordTestCase):
    """The kernel follows 127 frame pointers."""

    DEPTH = 100

    def test_more_than_a_hundred_functions_through_c(self):
        found, _ = self.samples_of(f"""
            def recurse(depth):
                if depth:
                    sorted([depth - 1], key=recurse)
                else:
                    busy()
            recurse({self.DEPTH})
        """, "busy")
        whole = ["busy"] + ["recurse"] * (self.DEPTH + 1) + ["<module>"]
        for sample in found["busy"]:
            self.assertEqual(sample.functions, self.symbols(sample, *whole))


class KernelTest(RecordTestCase):
    """With the kernel's part of the stacks."""

    event = "cpu-clock"

    def test_system_calls(self):
        self.check("""
            def outer(): return inner()
            def inner():
                for _ in range(WORK // 100):
                    os.stat("/")
            outer()
        """, "inner", "outer", "<module>")


class ToggleTest(RecordTestCase):

    # Each phase has a busy function of its own.
    PHASES = """
        from types import FunctionType
        def named(name):
            code = busy.__code__.replace(co_name=name, co_qualname=name)
            return FunctionType(code, globals(), name, (WORK,))
        first, second, third, fourth = map(named, ["first", "second", "third",
                                                   "fourth"])
    """

    def run_phases(self, script, *seen):
        script = textwrap.dedent(self.PHASES) + textwrap.dedent(script)
        found, samples = self.samples_of(script, *seen, options=())
        names = {function.split(":")[2] for sample in samples
                 for function in sample.functions}
        self.assertTrue([s for s in samples if not s.functions])
        return found, names

    def test_phases(self):
        found, names = self.run_phases("""
            def off(): return first()
            def on(): return second()
            def off_again(): return third()
            def on_again(): return fourth()
            off()
            sys.activate_stack_trampoline("perf")
            on()
            sys.deactivate_stack_trampoline()
            off_again()
            sys.activate_stack_trampoline("perf")
            on_again()
        """, "second", "fourth")
        self.assertEqual(names, {"on", "second", "on_again", "fourth"})
        for sample in found["second"]:
            self.assert_stack(sample, "second", "on")
        for sample in found["fourth"]:
            self.assert_stack(sample, "fourth", "on_again")

    def test_running_functions(self):
        # A function that is running keeps its label or goes on without.
        found, names = self.run_phases("""
            def starts_without():
                sys.activate_stack_trampoline("perf")
                starts_with()
            def starts_with():
                first()
                sys.deactivate_stack_trampoline()
                second()
                sys.activate_stack_trampoline("perf")
                third()
            starts_without()
        """, "first", "starts_with")
        self.assertNotIn("second", names)
        self.assertNotIn("starts_without", names)
        for sample in found["first"]:
            self.assert_stack(sample, "first", "starts_with")
        without = [sample for sample in found["starts_with"]
                   if ORDINARY_EVALUATOR in sample.between()[0]]
        self.assertTrue(without)
        for sample in found["starts_with"]:
            self.assert_stack(sample, "starts_with")


class ThreadTest(RecordTestCase):

    def test_threads(self):
        found, _ = self.samples_of("""
            import threading
            def left(): left_busy()
            def left_busy(): return sum(n * n % 7 for n in range(WORK))
            def right(): return busy()
            threads = [threading.Thread(target=function)
                       for function in (left, right)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """, "busy", "left_busy.<locals>.<genexpr>")
        tids = {}
        bootstrap = ["Thread.run", "Thread._bootstrap_inner",
                     "Thread._bootstrap"]
        for name, callers in (("busy", ["right"]),
                              ("left_busy.<locals>.<genexpr>",
                               ["left_busy", "left"])):
            tids[name] = {sample.tid for sample in found[name]}
            for sample in found[name]:
                names = [function.split(":")[2]
                         for function in sample.functions]
                self.assertEqual(names, [name, *callers, *bootstrap])
                threading_py = sample.functions[-1].split(":", 3)[3]
                self.assertEqual(os.path.basename(threading_py),
                                 "threading.py")
        self.assertEqual([len(those) for those in tids.values()], [1, 1])
        self.assertNotEqual(*tids.values())


class ProcessTest(RecordTestCase):

    def assert_other_process(self, found, one, other):
        """Functions one and other ran in one process each, not the same."""
        pids = [{sample.pid for sample in found[name]}
                for name in (one, other)]
        self.assertEqual([len(those) for those in pids], [1, 1])
        self.assertNotEqual(*pids)

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

    def test_fork(self):
        found, _ = self.samples_of(self.FORK, "busy", "child_busy")
        self.assert_other_process(found, "busy", "child_busy")
        for sample in found["busy"]:
            self.assert_stack(sample, "busy", "in_parent", "both", "<module>")
        for sample in found["child_busy"]:
            self.assert_stack(sample, "child_busy", "in_child", "both",
                              "<module>")

    def test_attach_to_forked_child(self):
        recording = self.recording("""
            def before_fork(): return until_parent_is_gone()
            def until_parent_is_gone():
                while os.getppid() == parent:
                    after_fork()
            def after_fork(): return busy(10_000)
            parent = os.getpid()
            child = os.fork()
            if child == 0:
                before_fork()
                os._exit(0)
            print(child, flush=True)
            input()
        """)
        with subprocess.Popen(
                [sys.executable, "-X", "perf", recording.script, "1"],
                env=clean_environment(), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE) as parent:
            child = None
            try:
                child = int(parent.stdout.readline())
                for seconds in "0.3", "3":
                    recording.record(self.event, ["-p", str(child), "--",
                                                  "sleep", seconds])
                    samples = [sample for sample in recording.samples()
                               if sample.functions and sample.functions[0]
                               .startswith("py::busy:")]
                    if samples:
                        break
                self.assertTrue(samples, "no sample")
                for sample in samples:
                    self.assertEqual(sample.pid, child)
                    self.assert_stack(sample, "busy", "after_fork",
                                      "until_parent_is_gone", "before_fork",
                                      "<module>")
            finally:
                if child is not None:
                    os.kill(child, signal.SIGKILL)
                parent.communicate(b"\n", timeout=TIMEOUT)
                remove_map(parent.pid)
                remove_map(child)

    def test_subprocess(self):
        found, _ = self.samples_of("""
            import subprocess
            source = "def child_busy():\\\\n  for n in range(WORK): n * n % 7"
            def main():
                busy()
                subprocess.run([sys.executable, "-X", "perf", "-c",
                                f"WORK = {WORK}\\\\n{source}\\\\n"
                                "child_busy()"], check=True)
            main()
        """.replace("\\\\n", "\\n"), "busy", "child_busy")
        self.assert_other_process(found, "busy", "child_busy")
        for sample in found["busy"]:
            self.assert_stack(sample, "busy", "main", "<module>")
        for sample in found["child_busy"]:
            self.assertEqual(sample.functions, ["py::child_busy:<string>",
                                                "py::<module>:<string>"])

    def test_multiprocessing(self):
        for method in "fork", "spawn", "forkserver":
            with self.subTest(method):
                found, _ = self.samples_of(f"""
                    import multiprocessing
                    def child_busy():
                        for number in range(WORK):
                            number * number % 7
                    def target(): child_busy()
                    def main():
                        context = multiprocessing.get_context({method!r})
                        process = context.Process(target=target)
                        process.start()
                        busy()
                        process.join()
                        assert process.exitcode == 0
                    if __name__ == "__main__":
                        main()
                """, "busy", "child_busy", options=(),
                    variables={"PYTHONPERFSUPPORT": "1"})
                self.assert_other_process(found, "busy", "child_busy")
                for sample in found["busy"]:
                    self.assert_stack(sample, "busy", "main", "<module>")
                for sample in found["child_busy"]:
                    names = [function.split(":")[2]
                             for function in sample.functions]
                    self.assertEqual(names[:4], [
                        "child_busy", "target", "BaseProcess.run",
                        "BaseProcess._bootstrap"])


@requires_trampoline
class GdbTest(unittest.TestCase):
    """gdb's py-bt finds the evaluators of a process with labels."""

    SCRIPT = """\
import os
print("pid", os.getpid(), flush=True)

class Sorter:
    def method(self, items):
        return sorted(items, key=self.key)
    def key(self, item):
        return [leaf() for _ in "a"]

def leaf():
    return id(42)

def generator(depth):
    if depth:
        yield from generator(depth - 1)
    else:
        yield Sorter().method([1])

def recurse(depth):
    return recurse(depth - 1) if depth else next(generator(3))

def main():
    return list(map(recurse, [40]))

main()
"""
    EXPECTED = ["leaf", "<listcomp>", "key", "method", *["generator"] * 4,
                *["recurse"] * 41, "main", "<module>"]

    def setUp(self):
        if shutil.which("gdb") is None:
            self.skipTest("gdb is not installed")
        self.commands = os.path.realpath(sys.executable) + "-gdb.py"
        if not os.path.exists(self.commands):
            self.skipTest(f"{self.commands!r} is missing")
        probe = self.gdb("-ex", "python print('gdb has', 'Python')")
        if "gdb has Python" not in probe.stdout:
            self.skipTest("this gdb was built without Python")

    def gdb(self, *options):
        return run(["gdb", "-nx", "-batch",
                    "-iex", "set debuginfod enabled off",
                    "-iex", "set auto-load no", *options],
                   env=clean_environment(), stdin=subprocess.DEVNULL)

    def test_backtrace(self):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "script.py")
            with open(script, "w") as file:
                file.write(self.SCRIPT)
            result = self.gdb("-ex", f"source {self.commands}",
                              "-ex", "set breakpoint pending on",
                              "-ex", "break builtin_id", "-ex", "run",
                              "-ex", "py-bt", "-ex", "kill", "--args",
                              sys.executable, "-X", "perf", script)
        pid = re.search(r"^pid (\d+)$", result.stdout, re.MULTILINE)
        if pid is None:
            self.skipTest(f"gdb cannot run a program: {result.stderr[-500:]}")
        remove_map(pid[1])
        backtrace = result.stdout.partition("Traceback (most recent call")[2]
        self.assertTrue(backtrace, result.stdout + result.stderr)
        names = re.findall(r"^  File .*, in (.*)$", backtrace, re.MULTILINE)
        self.assertEqual(names, self.EXPECTED)


if __name__ == "__main__":
    unittest.main()
