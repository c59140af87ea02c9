"""The jitdump back end end to end: what perf shows after `perf inject --jit`.

As in test_perf_record, every stack whose innermost Python function is the busy
one must be the Python stack of that moment, with the right C functions in
between.  Call graphs are taken by DWARF unwind information, here and in a
build without frame pointers, and by frame pointers.

Environment variables: PERF is the perf to use, else it is the one on the path;
PERF_TEST_PYTHON_NO_FP is an interpreter that is built without frame pointers.

perf cannot unwind a sample that was taken in the last instructions of a C
function, where the frame pointer's saved value is no longer part of the stack.
Such a sample has no Python functions at all and is not looked at.
"""

import os
import re
import shutil
import sys
import sysconfig
import tempfile
import textwrap
import unittest
from test.support import perf_jitdump
from test.support.perf_base import INLINES_SEND
from test.support.perf_helper import requires_trampoline
from test.support.perf_record import (FORK, PRELUDE, by_innermost,
                                      clean_environment, parse, run)

FREQUENCY = "499"
WORK = 1_500_000

EVALUATOR = "_PyEval_EvalFrameDefault_labelled"
AREAS = {"_PyPerf_EnterAreaWithUnwindInfo", "_PyPerf_ShareAreaWithUnwindInfo"}

# What stands between generators of which one yields from the other.
SENT = [] if INLINES_SEND else ["C:en_"]

# What perf copies of the stack with each sample.  The default, 8 KiB, is less
# than a few C functions such as list.sort() take.
STACK_DUMP = "32768"

# Older ones were not tried: from here on unwind information is put to use.
DWARF_VERSION = (6, 1)


def perf_version(perf):
    """Return (major, minor), or None if perf does not run."""
    try:
        text = run([perf, "--version"]).stdout
    except OSError:
        return None
    match = re.search(r"(\d+)\.(\d+)", text)
    return match and (int(match[1]), int(match[2]))


def config_var(python, name):
    """Return a variable of an interpreter's sysconfig."""
    if python == sys.executable:
        return sysconfig.get_config_var(name)
    return run([python, "-c", "import sys, sysconfig; "
                "print(sysconfig.get_config_var(sys.argv[1]))", name],
               env=clean_environment(), check=True).stdout.rstrip("\n")


def has_frame_pointers(python):
    return "-fno-omit-frame-pointer" in config_var(python, "CFLAGS").split()


def choose_event(perf, call_graph):
    """Return the event to record and None, or None and why perf cannot."""
    with tempfile.TemporaryDirectory() as directory:
        for event in "cpu-clock", "cpu-clock:u":
            probe = run([perf, "record", "-q", "-k", "1", "-e", event,
                         "--call-graph", call_graph,
                         "-o", os.path.join(directory, "perf.data"),
                         "--", "true"])
            if probe.returncode == 0:
                return event, None
    reason = " ".join(probe.stderr.split())[:200]
    return None, f"{perf} may not record: {reason}"


@requires_trampoline
class JitRecordTestCase(unittest.TestCase):

    # Are native functions shown that stand between Python functions?
    native = False

    call_graph = None
    python = sys.executable
    perf = os.environ.get("PERF") or shutil.which("perf")

    @classmethod
    def setUpClass(cls):
        if cls.perf is None:
            raise unittest.SkipTest("perf is not installed, "
                                    "and PERF names no other")
        cls.version = perf_version(cls.perf)
        if cls.version is None:
            raise unittest.SkipTest(f"{cls.perf} does not run")
        cls.event, why_not = choose_event(cls.perf, cls.call_graph)
        if cls.event is None:
            raise unittest.SkipTest(why_not)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="test_perf_record_jit-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.script = os.path.join(self.directory, "script.py")
        self.data = os.path.join(self.directory, "perf.data")
        self.injected = os.path.join(self.directory, "perf.jit.data")
        # perf writes an ELF file for each symbol beside the dump.  When it
        # unwinds by libdw, it takes only those whose path begins like this.
        self.dumps = tempfile.mkdtemp(prefix="jitted-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.dumps)

    def run_perf(self, subcommand, *options, variables=()):
        result = run([self.perf, subcommand, *options], cwd=self.directory,
                     env=clean_environment(JITDUMPDIR=self.dumps,
                                           **dict(variables)))
        self.assertEqual(result.returncode, 0,
                         f"perf {subcommand}:\n{result.stderr}")
        return result

    def record(self, options, variables, work):
        """Record the script and inject its jitdumps."""
        result = self.run_perf(
            "record", "-q", "--no-buildid-cache", "-k", "1", "-F", FREQUENCY,
            "-e", self.event, "--call-graph", self.call_graph,
            "-o", self.data, "--", self.python, *options, self.script,
            str(work), variables=variables)
        self.assertEqual(result.stderr, "")
        self.run_perf("inject", "--jit", "-i", self.data, "-o", self.injected)

    def remove_recording(self):
        for name in os.listdir(self.dumps):
            os.unlink(os.path.join(self.dumps, name))

    def samples(self):
        # Deeper stacks than perf shows unless asked to.
        text = self.run_perf("script", "-i", self.injected, "--no-inline",
                             "--max-stack", "1000",
                             "-F", "pid,tid,ip,sym").stdout
        return parse(text)

    def samples_of(self, script, *functions, options=None,
                   variables=()):
        """Record script until all functions have been seen as the innermost
        Python function.  Return {function: its samples}."""
        if options is None:
            options = "-X", "perf_jit=native" if self.native else "perf_jit"
        with open(self.script, "w") as file:
            file.write(PRELUDE + textwrap.dedent(script))
        for work in WORK, 10 * WORK:
            self.remove_recording()
            self.record(options, variables, work)
            samples = self.samples()
            found = by_innermost(samples, functions)
            if all(found.values()):
                return found
        missing = [name for name, those in found.items() if not those]
        self.fail(f"no sample in {missing}; {len(samples)} samples, Python "
                  f"functions seen: "
                  f"{ {name for s in samples for name in s.functions} }")

    def symbols(self, *functions):
        return [f"py::{function}:{self.script}" for function in functions]

    def assert_stack(self, sample, *expected, outermost=("Py_BytesMain",)):
        """Each expected item is the name of a Python function or, after it, a
        word that a C function between it and the next contains.  The C
        functions in outermost called the last Python function."""
        words = [[]]
        functions = []
        for item in expected:
            if item.startswith("C:"):
                words[-1].append(item.removeprefix("C:"))
            else:
                functions.append(item)
                words.append([])
        self.assertEqual(sample.functions, self.symbols(*functions), sample)
        # calls[i]: the C functions that functions[i] called.
        calls = sample.between()
        self.assert_innermost(sample, calls[0])
        for frames, wanted in zip(calls[1:], words[1:]):
            if wanted and self.native:
                self.assert_c_call(sample, frames, wanted)
            else:
                self.assertEqual(frames, [], sample)
        outside = sample.frames[sample.frames.index(sample.functions[-1]) + 1:]
        for function in outermost:
            self.assertIn(function, outside, sample)
        self.assertNotIn(EVALUATOR, outside, sample)

    def assert_innermost(self, sample, frames):
        """frames are of the evaluator, and what C functions it calls."""
        self.assert_c_call(sample, frames, [])

    def assert_c_call(self, sample, frames, words):
        """frames are C functions that a Python function called."""
        self.assertEqual(frames[-2:-1], [EVALUATOR], sample)
        self.assertIn(frames[-1], AREAS, sample)
        for word in words:
            self.assertTrue([frame for frame in frames[:-2] if word in frame],
                            (word, sample))

    def check(self, script, *expected, **kwargs):
        """All samples in expected[0] have the expected stack."""
        found = self.samples_of(script, expected[0], **kwargs)
        for sample in found[expected[0]]:
            self.assert_stack(sample, *expected)


class Stacks:
    """One body of tests, for each way to find callers."""

    NESTED = """
        def foo(): return bar()
        def bar(): return baz()
        def baz(): return busy()
        foo()
    """

    def test_nested(self):
        self.check(self.NESTED, "busy", "baz", "bar", "foo", "<module>")

    def test_environment(self):
        self.check(self.NESTED, "busy", "baz", "bar", "foo", "<module>",
                   options=(), variables={"PYTHON_PERF_JIT_SUPPORT": "1"})

    def test_sys_function(self):
        # The module runs already: its frame stays as it is.
        found = self.samples_of("""
            sys.activate_stack_trampoline("perf_jit")
            def foo(): return bar()
            def bar(): return busy()
            foo()
        """, "busy", options=())
        for sample in found["busy"]:
            self.assertEqual(sample.functions,
                             self.symbols("busy", "bar", "foo"), sample)

    def test_switched_back_end(self):
        # Symbols that were made for the map get into the jitdump.
        found = self.samples_of("""
            def foo(): return bar()
            def bar(): return busy()
            WORK = 10
            sys.activate_stack_trampoline("perf")
            foo()
            WORK = int(sys.argv[1])
            sys.activate_stack_trampoline("perf_jit")
            def outer(): return foo()
            busy.__defaults__ = WORK,
            outer()
        """, "busy", options=())
        for sample in found["busy"]:
            if len(sample.functions) > 3:
                self.assertEqual(sample.functions,
                                 self.symbols("busy", "bar", "foo", "outer"))

    def test_recursion(self):
        self.check("""
            def recurse(depth): return recurse(depth - 1) if depth else busy()
            recurse(19)
        """, "busy", *["recurse"] * 20, "<module>")

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
        """, "busy", "inner", "C:gen_", "middle", *SENT, "outer", "C:gen_",
            "main", "<module>")

    def test_callbacks(self):
        self.check("""
            def key(x): return busy()
            def mapped(x): return sorted([x], key=key)
            def main(): return list(map(mapped, [1]))
            main()
        """, "busy", "key", "C:sort", "mapped", "C:map_next", "main",
            "<module>")

    def test_slots(self):
        self.check("""
            class C:
                def __init__(self): self["key"]
                def __getitem__(self, key): return self + 1
                def __add__(self, other): return busy()
            C()
        """, "busy", "C.__add__", "C:slot_nb_add", "C.__getitem__",
            "C:slot_mp_subscript", "C.__init__", "C:slot_tp_init", "<module>")

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

    def test_many_symbols(self):
        # Later arenas do not hide what an earlier one holds.
        self.check("""
            from types import FunctionType
            def early(): return late()
            def late(): return busy()
            def template(): pass
            busy(10)
            for number in range(20_000):
                code = template.__code__.replace(co_qualname=f"f{number}")
                FunctionType(code, {})()
            early()
        """, "busy", "late", "early", "<module>")

    def test_threads(self):
        found = self.samples_of("""
            import threading
            def left(): left_busy()
            def left_busy():
                for number in range(WORK):
                    number * number % 7
            def right(): return busy()
            threads = [threading.Thread(target=function)
                       for function in (left, right)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """, "busy", "left_busy")
        tids = []
        for innermost, caller in ("busy", "right"), ("left_busy", "left"):
            tids.append({sample.tid for sample in found[innermost]})
            for sample in found[innermost]:
                names = [function.split(":")[2]
                         for function in sample.functions]
                self.assertEqual(names, [
                    innermost, caller, "Thread.run", "Thread._bootstrap_inner",
                    "Thread._bootstrap"], sample)
                self.assertIn("thread_run", sample.frames)
        self.assertEqual([len(those) for those in tids], [1, 1])
        self.assertNotEqual(*tids)

    def test_fork(self):
        found = self.samples_of(FORK, "busy", "child_busy")
        for sample in found["busy"]:
            self.assert_stack(sample, "busy", "in_parent", "both", "<module>")
        for sample in found["child_busy"]:
            # The first call makes the child's file, and so comes through C.
            self.assert_stack(sample, "child_busy", "in_child",
                              "C:Vector", "both", "<module>")
        pids = [{sample.pid for sample in those} for those in found.values()]
        self.assertEqual([len(those) for those in pids], [1, 1])
        self.assertNotEqual(*pids)

    def test_exec(self):
        # The process goes on as another program, with the same file.  perf
        # 6.12 looks for all unwind information of an executable relative to
        # the lowest address that it was at: without randomisation, the second.
        found = self.samples_of("""
            import ctypes
            def early_busy():
                for number in range(WORK):
                    number * number % 7
            def early(): early_busy()
            def late(): busy()
            if len(sys.argv) == 2:
                early()
                ctypes.CDLL(None).personality(0x0040000) # ADDR_NO_RANDOMIZE
                os.execv(sys.executable, [sys.executable, "-X", "perf_jit",
                                          *sys.argv, "again"])
            late()
        """, "busy", "early_busy")
        for sample in found["busy"]:
            self.assert_stack(sample, "busy", "late", "<module>")
        for sample in found["early_busy"]:
            self.assert_stack(sample, "early_busy", "early", "<module>")
        self.assertEqual(len({sample.pid for those in found.values()
                              for sample in those}), 1)


class FramePointerTest(Stacks, JitRecordTestCase):
    """`perf record -g`: for this, any perf will do."""

    call_graph = "fp"
    perf = shutil.which("perf") or os.environ.get("PERF")

    @classmethod
    def setUpClass(cls):
        if not has_frame_pointers(cls.python):
            raise unittest.SkipTest("configured without frame pointers")
        super().setUpClass()

    def assert_innermost(self, sample, frames):
        # A function that has not stored the frame pointer hides its caller.
        pass


class NativeFramePointerTest(FramePointerTest):

    native = True


class DwarfTest(Stacks, JitRecordTestCase):

    call_graph = f"dwarf,{STACK_DUMP}"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.version < DWARF_VERSION:
            raise unittest.SkipTest(
                "{} {}.{} cannot inject unwind information, {}.{} and later "
                "can: name one in PERF".format(cls.perf, *cls.version,
                                               *DWARF_VERSION))

    def test_deep_recursion(self):
        # Areas that are full continue in others.
        found = self.samples_of("""
            def recurse(depth): return recurse(depth - 1) if depth else busy()
            recurse(399)
        """, "busy")
        for sample in found["busy"]:
            self.assertEqual(sample.functions, self.symbols(
                "busy", *["recurse"] * 400, "<module>"))
            self.assertIn("Py_BytesMain", sample.frames)

    @unittest.skipUnless(shutil.which("readelf"), "needs readelf, of binutils")
    def test_injected_files(self):
        # One for each symbol; perf merges those with equal build-ids.
        self.samples_of(self.NESTED, "busy")
        files = [os.path.join(self.dumps, name)
                 for name in os.listdir(self.dumps)]
        elf_files = [path for path in files if path.endswith(".so")]
        [dump] = [path for path in files if path not in elf_files]
        loads = perf_jitdump.read(dump).loads
        self.assertEqual(len(elf_files), len(loads))
        notes = run(["readelf", "--notes", *elf_files], check=True).stdout
        build_ids = re.findall(r"Build ID: (\w+)", notes)
        self.assertEqual(len(build_ids), len(loads))
        self.assertEqual(len(set(build_ids)), len(loads))

    def test_report(self):
        self.samples_of(self.NESTED, "busy")
        report = self.run_perf("report", "-i", self.injected, "--stdio",
                               "--no-inline", "--children", "-g", "none",
                               "-F", "overhead_children,symbol").stdout
        names = set(re.findall(r"%\s+\[\.\] (.*?) *$", report, re.MULTILINE))
        self.assertLessEqual(
            set(self.symbols("busy", "baz", "bar", "foo", "<module>")), names)


class NativeDwarfTest(DwarfTest):

    native = True


class DwarfWithoutFramePointersTest(NativeDwarfTest):

    @classmethod
    def setUpClass(cls):
        cls.python = os.environ.get("PERF_TEST_PYTHON_NO_FP")
        if not cls.python:
            raise unittest.SkipTest("PERF_TEST_PYTHON_NO_FP names no "
                                    "interpreter without frame pointers")
        if not os.access(cls.python, os.X_OK):
            raise AssertionError(f"PERF_TEST_PYTHON_NO_FP={cls.python} is no "
                                 "program")
        version = config_var(cls.python, "py_version_short")
        if version != config_var(sys.executable, "py_version_short"):
            raise unittest.SkipTest("PERF_TEST_PYTHON_NO_FP names CPython "
                                    f"{version}, which has other stacks")
        if has_frame_pointers(cls.python):
            raise AssertionError(f"PERF_TEST_PYTHON_NO_FP={cls.python} has "
                                 "frame pointers")
        super().setUpClass()


if __name__ == "__main__":
    unittest.main()
