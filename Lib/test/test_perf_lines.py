"""Where lines are shown, each function's label tells the line it executes.

test_perf_walk and test_perf_random compare the lines of functions of many
kinds with those of their frames.  Here are lines in places that are special,
switches, and random moments; test_perf_lines_tables has tables of any kind.
"""

import asyncio
import contextlib
import os
import signal
import sys
import textwrap
import types
import unittest

from test.support import import_helper
from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import (LinesTestCase, Native, symbol,
                                    symbol_and_line)

import _testperf


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
class PlacesTest(LinesTestCase):
    """The line is that of the frame, wherever execution is."""

    def test_every_line_of_a_function(self):
        def function():
            first = sys._getframe().f_lineno
            lines = [self.line_shown()]
            for number in range(3):
                lines.append(self.line_shown())
                if number == 1:
                    lines.append(self.line_shown())
            return first, lines

        first, lines = function()
        self.assertEqual([line - first for line in lines], [1, 3, 3, 5, 3])

    def test_multi_line_call(self):
        def function():
            first = sys._getframe().f_lineno
            self.check(
                1,
                2,
            )
            lines = max(
                self.line_shown(),
                self.line_shown(),
                *[
                    self.line_shown(),
                ],
            )
            return lines - first

        def use():
            self.assertEqual(function(), 9)

        self.repeat(use)

    def test_chained_calls_and_operators(self):
        class Chain:
            def link(chain, *_):
                self.check()
                return chain

            __add__ = __getitem__ = link

            def __bool__(chain):
                self.check()
                return True

        def use():
            chain = Chain()
            (chain
             .link()
             .link(1,
                   chain + 1)
             + chain[
                 1]
             )
            if (chain and
                    not chain
                    or chain):
                self.check()

        self.repeat(use, checks=9)

    def test_with_and_finally(self):
        @contextlib.contextmanager
        def manager():
            self.check()
            try:
                yield
            finally:
                self.check()

        class Suppress:
            def __enter__(_):
                self.check()

            def __exit__(_, *error):
                self.check()
                return True

        def use():
            with (manager(),
                  Suppress(),
                  manager()):
                try:
                    self.check()
                    raise ValueError
                finally:
                    self.check()
            for _ in range(2):
                try:
                    continue
                finally:
                    self.check()

        self.repeat(use, checks=10)

    def test_destructor_while_an_exception_passes(self):
        # RERAISE tells the line that raised first.
        class Object:
            def __del__(_):
                self.check()

        def inner():
            thing = Object()
            try:
                with contextlib.nullcontext(thing):
                    raise ValueError
            finally:
                del thing
                self.check()

        def use():
            with contextlib.suppress(ValueError):
                inner()

        self.repeat(use, checks=2)

    def test_decorators_and_class_bodies(self):
        def decorator(function):
            self.check()
            return function

        def use():
            @decorator
            @decorator
            def function():
                pass

            @decorator
            class Class:
                self.check()

                @decorator
                def method(self):
                    pass

        self.repeat(use, checks=5)

    def test_comprehensions(self):
        def use():
            [
                self.check()
                for number in range(2)
                if self.check() or
                number
            ]

        self.repeat(use, checks=3)

    def test_generators_and_coroutines(self):
        class Pause:
            def __await__(_):
                self.check()
                yield
                self.check()

        def generator():
            self.check()
            yield 1
            self.check()
            yield from (
                self.check()
                for _ in range(2))

        async def coroutine():
            self.check()
            await Pause()
            async for _ in items():
                self.check()
            async with contextlib.AsyncExitStack():
                self.check()

        async def items():
            self.check()
            yield 1
            self.check()

        def use():
            for _ in generator():
                self.check()
            asyncio.run(coroutine())

        self.addCleanup(asyncio.set_event_loop_policy, None)
        self.repeat(use, checks=14)

    def test_jumps_by_a_tracer(self):
        def function():
            lines.append(self.line_shown())
            lines.append(self.line_shown())
            lines.append(self.line_shown())

        def tracer(frame, event, argument):
            if frame.f_code is function.__code__:
                line = frame.f_lineno - frame.f_code.co_firstlineno
                self.assertEqual(self.shown()[1],
                                 symbol_and_line(frame.f_code, frame.f_lineno))
                if event == "line" and line == 2:
                    frame.f_lineno += 1
                return tracer

        lines = []
        sys.settrace(tracer)
        try:
            function()
        finally:
            sys.settrace(None)
        self.assertEqual([line - function.__code__.co_firstlineno
                          for line in lines], [1, 3])

    def test_template(self):
        # As Jinja does: lines and file are those of another language.
        import ast
        tree = ast.parse("def render(check):\n    check()\n    check()")
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                node.lineno += 1000
                node.end_lineno += 1000
        scope = {}
        exec(compile(tree, "templates/page.html", "exec"), scope)
        shown = []
        scope["render"](lambda: shown.append(self.shown()[1]))
        self.assertEqual(shown, [
            f"py::render:templates/page.html:{line}" for line in (1002, 1003)])
        self.repeat(lambda: scope["render"](self.check), checks=2)

    def test_first_instruction(self):
        # A signal's handler runs there: before any line of the function.
        kill = import_helper.import_module("ctypes").CDLL(None).kill
        arguments = [os.getpid()], [signal.SIGUSR1]

        def plain(_):
            return 1

        def closure(_):
            return lambda: arguments

        def variable(_):
            return arguments

        def handler(*_):
            frame = sys._getframe(1)
            seen.append((frame.f_lasti, frame.f_lineno))
            self.assertEqual(self.shown()[1],
                             symbol_and_line(frame.f_code, frame.f_lineno))

        seen = []
        self.addCleanup(signal.signal, signal.SIGUSR1,
                        signal.signal(signal.SIGUSR1, handler))
        for function in plain, closure, variable:
            # C calls both: nothing is in between.
            self.assertEqual(len([*map(function, map(kill, *arguments))]), 1)
            self.assertEqual(seen[-1][1], function.__code__.co_firstlineno)
        # A module begins in line 0, as its traceback would say.
        # exec() would call audit hooks before.
        module = types.FunctionType(compile("pass", "module", "exec"), {})
        self.assertEqual([*zip(map(kill, *arguments), iter(module, 1))],
                         [(0, None)])
        self.assertEqual(seen[-1], (0, 0))
        self.assertEqual(len(seen), 4)

    def test_exec_and_eval(self):
        scope = {"check": self.check}

        def use():
            exec("\n\ncheck()\nfor i in range(2):\n    check()", scope)
            eval("(\n\ncheck\n(\n))", scope)

        self.repeat(use, checks=4)


@requires_trampoline
class SwitchTest(LinesTestCase):

    def test_switching(self):
        def inner():
            return self.shown()

        def outer():
            return inner()

        def both():
            return ([name.rpartition(":")[2].isdecimal()
                     for name in outer()[1:3]])

        # Those that were called before keep what they have.
        self.assertEqual(both(), [True, True])
        sys.activate_stack_trampoline("perf")
        self.assertEqual(both(), [False, False])
        sys.activate_stack_trampoline("perf", lines=True)
        self.assertEqual(both(), [True, True])
        sys.deactivate_stack_trampoline()
        sys.activate_stack_trampoline("perf", lines=True)
        self.repeat(self.check)

    def test_running_functions_keep_their_kind(self):
        def generator():
            while True:
                yield self.shown()[0]

        def outer():
            running = generator()
            shown = [next(running)]
            sys.activate_stack_trampoline("perf")
            shown.append(next(running))
            sys.activate_stack_trampoline("perf", lines=True)
            shown.append(next(running))
            return shown, self.shown()[0]

        shown, own = outer()
        line = generator.__code__.co_firstlineno + 2
        with_line = symbol_and_line(generator.__code__, line)
        self.assertEqual(shown, [with_line, symbol(generator.__code__),
                                 with_line])
        self.assertEqual(own.rpartition(":")[0], symbol(outer.__code__))

    def test_options(self):
        for option, has_lines in (("perf=lines", True), ("perf=1", False),
                                  ("perf=native,lines", True),
                                  ("perf=lines,native", True),
                                  ("perf=native", False)):
            with self.subTest(option):
                out = self.run_script(SHOW, "-X", option)
                self.assertEqual(out, f"{has_lines}\n")

    def test_environment(self):
        for value, has_lines in (("lines", True), ("native,lines", True),
                                 ("native", False), ("1", False),
                                 ("lines" * 100, False)):
            with self.subTest(value):
                out = self.run_script(SHOW, env={"PYTHONPERFSUPPORT": value})
                self.assertEqual(out, f"{has_lines}\n")

    def test_fork(self):
        # The child's own map has the lines that it inherits, and new ones.
        self.run_script(textwrap.dedent("""
            import os, sys
            from test.support.perf_helper import remove_map
            from test.support.perf_walk import LabelNames, StackChecker

            checker = StackChecker()
            sys.activate_stack_trampoline("perf")

            def parent():
                pid = os.fork()
                if pid == 0:
                    checker.names = LabelNames()
                    def child():
                        checker.check()
                    for _ in range(3):
                        child()
                        checker.check()
                    print(checker.report(), flush=True)
                    remove_map(os.getpid())
                    os._exit(checker.report() is not None)
                checker.check()
                _, status = os.waitpid(pid, 0)
                assert status == 0, status
                checker.finish(at_least=1)

            parent()
            """))


SHOW = textwrap.dedent("""
    import _testperf
    from test.support.perf_walk import LabelNames

    def function():
        return LabelNames().of(_testperf.labels()[0])

    print(function().endswith(".py:6"))
    """)


@requires_trampoline
class TimerTest(LinesTestCase):
    """At random instructions, the innermost line is that of the frame.

    An instruction first tells its frame, then its label, and a call the frame
    before its record.  So the label may be that of the instruction before, but
    only in samples that come between two stores.
    """

    LAG = 0.05

    def test_random_instructions(self):
        def work(count):
            x = 0
            for number in range(count):
                x += number
                if number % 3:
                    x = helper(x)
                else:
                    x -= 1
            return x

        def helper(x):
            y = x & 0xffff
            for _ in range(3):
                y ^= 1
            return y

        codes = {id(function.__code__): function.__code__
                 for function in (work, helper)}
        work(1000)
        compared = wrong = 0
        while compared < 5000:
            _testperf.start_sampler(5000, *Native().area_code())
            try:
                work(500_000)
            finally:
                sampled = _testperf.stop_sampler()
            self.assertEqual(sampled["bad"], 0)
            for label, code_id, offset in sampled["newest"]:
                code = codes.get(code_id)
                if code is None:
                    continue
                line = next((line for start, end, line in code.co_lines()
                             if start <= offset < end), code.co_firstlineno)
                compared += 1
                name = self.checker.names.of(label)
                if name != symbol_and_line(code, line):
                    wrong += 1
                    self.assertRegex(name, r":[0-9]+\Z")
        self.assertLess(wrong, self.LAG * compared)


if __name__ == "__main__":
    unittest.main()
