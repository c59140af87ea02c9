"""Whatever unwinds the C stack by DWARF in the process, or from outside, gets
past the labels of Python functions: C++ exceptions, threads that end by
pthread_exit() or cancellation, debuggers.

The unwind information that leads to labels is for profilers that read the
jitdump; see test_perf_record_jit.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from test.support import import_helper
from test.support.perf_base import HAS_NO_GIL
from test.support.perf_helper import not_emulated, requires_trampoline
from test.support.perf_walk import run_script

OPTIONS = "", "perf", "perf=native", "perf_jit", "perf_jit=native"

# Objects that C code had locked stay locked, where there is no GIL.
LEFT_BEHIND = ("a debug build, and one without a GIL, object to what C++ "
               "exceptions leave behind")
OBJECTS = hasattr(sys, "gettotalrefcount") or HAS_NO_GIL

# Between C++ and C++ there are plain calls, calls from C, a generator, an area
# that is full, and functions that are deep in the stack.
PREAMBLE = textwrap.dedent("""
    import _testperf_unwind, functools, os, sys
    def below(function, depth):
        '''Return what calls function below functions of all kinds.'''
        def plain():
            return called_from_c(function)
        def called_from_c(function):
            return sorted([1], key=lambda _: next(generator(function)))
        def generator(function):
            yield recurse(depth)
        def recurse(n):
            if n % 100 == 1:
                return functools.partial(recurse, n - 1)()
            return recurse(n - 1) if n else function()
        return plain
    """)


@requires_trampoline
class ProcessTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        import_helper.import_module("_testperf_unwind")     # needs C++

    def check(self, program, expected):
        for option in OPTIONS:
            with self.subTest(option=option), \
                    tempfile.TemporaryDirectory() as directory:
                out = run_script(PREAMBLE + textwrap.dedent(program),
                                 *(["-X", option] if option else []),
                                 env={"JITDUMPDIR": directory})
                self.assertEqual(out, expected)

    @unittest.skipIf(OBJECTS, LEFT_BEHIND)
    def test_exception(self):
        self.check("""
            for depth in (0, 40, 900):
                call = below(_testperf_unwind.throw, depth)
                print(_testperf_unwind.catch(call), flush=True)
        """, "thrown caught message 123456\n" * 3)

    @unittest.skipIf(OBJECTS, LEFT_BEHIND)
    def test_calls_after_exceptions(self):
        # CPython is left with pointers into the stack of evaluators that are
        # no more: labels must not go there.
        self.check("""
            import contextlib, random
            def descend(depth, function):
                if not depth:
                    return function()
                way = random.choice([plain, by_sort, by_generator, by_map])
                return way(depth - 1, function)
            def plain(depth, function):
                return descend(depth, function)
            def by_sort(depth, function):
                return sorted([1], key=lambda _: descend(depth, function))
            def by_generator(depth, function):
                def generator():
                    yield descend(depth, function)
                return next(generator())
            def by_map(depth, function):
                return list(map(lambda _: descend(depth, function), [1]))
            def key(number):
                descend(random.randrange(30), int)
                return number
            for seed in range(12):
                if pid := os.fork():
                    assert os.wait()[1] == 0
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"/tmp/perf-{pid}.map")
                    continue
                random.seed(seed)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                for _ in range(4):
                    depth = random.randrange(1, 60)
                    _testperf_unwind.catch(
                        lambda: descend(depth, _testperf_unwind.throw))
                    assert sorted([3, 1, 2], key=key) == [1, 2, 3]
                os._exit(0)
        """, "")

    @unittest.skipIf(OBJECTS, LEFT_BEHIND)
    def test_nested(self):
        # The innermost handler catches it, and Python code goes on.
        self.check("""
            def inner():
                for _ in range(2):
                    call = below(_testperf_unwind.throw, 40)
                    print(_testperf_unwind.catch(call), flush=True)
                return "outer"
            print(_testperf_unwind.catch(below(inner, 40)) is not None,
                  flush=True)
        """, "thrown caught message 123456\n" * 2 + "caught True\n")

    def test_exit_of_thread(self):
        self.check("""
            for depth in (0, 40, 900):
                call = below(_testperf_unwind.exit_thread, depth)
                assert _testperf_unwind.run_thread(call) == 0
        """, "exited joined " * 3)

    def test_cancelled_thread(self):
        self.check("""
            for depth in (0, 40, 900):
                call = below(_testperf_unwind.cancel_thread, depth)
                assert _testperf_unwind.run_thread(call) == 0
        """, "cancelled joined " * 3)


@requires_trampoline
class DebuggerTest(unittest.TestCase):

    PROGRAM = textwrap.dedent("""
        def outer(): return sorted([1], key=inner)
        def inner(n): return list(map(innermost, range(1)))[0]
        def innermost(n): return id(n)
        outer()
    """)

    @not_emulated("gdb would debug the emulator")
    @unittest.skipIf(shutil.which("gdb") is None, "gdb is not installed")
    def test_gdb(self):
        stacks = {}
        for option in OPTIONS:
            with tempfile.TemporaryDirectory() as directory:
                result = subprocess.run(
                    ["gdb", "--nx", "-batch",
                     "-ex", f"set environment JITDUMPDIR {directory}",
                     "-ex", "set breakpoint pending on",
                     "-ex", "break builtin_id", "-ex", "run", "-ex", "bt",
                     "-ex", "kill", "--args", sys.executable, "-I",
                     *(["-X", option] if option else []), "-c", self.PROGRAM],
                    text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, timeout=300)
            names = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+) \(",
                               result.stdout, re.MULTILINE)
            self.assertIn("builtin_id", names, result.stdout)
            stacks[option] = [
                name for name in names
                if not name.startswith(("_PyPerf", "call_", "_PyEval",
                                        "_TAIL_CALL_"))]
        self.assertIn("_start", stacks[""])
        self.assertIn("list_sort_impl", stacks[""])
        for option, names in stacks.items():
            self.assertEqual(names, stacks[""], option)


if __name__ == "__main__":
    unittest.main()
