"""The perf trampoline end to end: what perf and gdb show of a program.

Each program is recorded as a user would, and every stack whose innermost
Python function is the busy one must be the Python stack of that moment, with
the right C functions in between.  How many samples there are is up to the
machine: if there are none of interest, the program gets ten times the work.
"""

import os
import re
import sys
import textwrap
import unittest
from collections import Counter

from test.support.perf_base import INLINES_COMPREHENSIONS, INLINES_SEND
from test.support.perf_record import (AREA, AREAS, EVALUATOR,
                                      ORDINARY_EVALUATOR, RecordTestCase,
                                      SHARED_AREA, WORK, clean_environment)

# What stands between generators of which one yields from the other.
SENT = [] if INLINES_SEND else [("gen",)]


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


class QuickWayTest(RecordTestCase):
    """C enters functions all the time: the hook may not have to search."""

    def test_from_the_outermost_function(self):
        recording = self.recording("""
            def key(number): return number
            numbers = range(WORK // 100)
            for _ in range(300):
                max(numbers, key=key)
        """)
        found, samples = self.samples_of(None, "key", recording=recording)
        hook = [sample.frames[0] for sample in samples
                if sample.frames[0] in ("_PyPerfTrampoline_EvalFrame",
                                        "eval_frame_carefully", "enter")]
        self.assertGreater(len(found["key"]), 10)
        self.assertLess(len([name for name in hook
                             if name != "_PyPerfTrampoline_EvalFrame"]),
                        0.02 * len(samples), Counter(hook))


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


if __name__ == "__main__":
    unittest.main()
