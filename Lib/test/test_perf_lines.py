"""Where lines are shown, each function's label tells the line it executes.

test_perf_walk and test_perf_random compare the lines of functions of many
kinds with those of their frames.  Here are lines in places that are special,
the addresses that stand for them, and tables of lines that are none.
"""

import asyncio
import contextlib
import os
import random
import re
import sys
import textwrap
import types
import unittest

from test.support.perf_helper import (map_path, parse_map, read_map,
                                      remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import (Native, PerfTestCase, symbol,
                                    symbol_and_line)

import _testperf


def setUpModule():
    remove_own_map_at_exit()


class LinesTestCase(PerfTestCase):

    lines = True

    def shown(self):
        """The names of the calling function and of those further out."""
        return self.checker.names.of_all(_testperf.labels()[1:])

    def line_shown(self):
        """Return the line that the calling function shows."""
        name = self.checker.names.of(_testperf.labels()[1])
        return int(name.rpartition(":")[2])


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

    def test_exec_and_eval(self):
        scope = {"check": self.check}

        def use():
            exec("\n\ncheck()\nfor i in range(2):\n    check()", scope)
            eval("(\n\ncheck\n(\n))", scope)

        self.repeat(use, checks=4)


def nothing():
    """A function for tables of lines of any kind."""
    x = 1
    for _ in range(3):
        x += 1
    return probe(x)


def probe(_):
    return _testperf.labels_and_lines()


@requires_trampoline
class TableTest(LinesTestCase):
    """Tables of lines as programs can make them."""

    def run_with(self, **changes):
        """Return what nothing() shows if its code is changed in this way."""
        code = nothing.__code__.replace(**changes)
        function = types.FunctionType(code, globals())
        labels, lines = function()
        name = self.checker.names.of(labels[1])
        return name, lines[1]

    def assert_right(self, **changes):
        name, (code, line) = self.run_with(**changes)
        self.assertEqual(name, symbol_and_line(code, line))
        return line

    def test_first_line(self):
        for line in 0, 1, 10**6, 2**31 - 1, 2**31 - 2:
            with self.subTest(line):
                self.assert_right(co_firstlineno=line)

    def test_no_line(self):
        # Code 15 has none; there may be as many units as the code has.
        units = len(nothing.__code__.co_code) // 2
        table = b"\xff" * (units // 8 + 1)
        self.assertIsNone(self.assert_right(co_linetable=table))

    def test_large_deltas(self):
        def varint(number):
            encoded = []
            while number >= 64:
                encoded.append(64 | number & 63)
                number >>= 6
            return bytes([*encoded, number])

        for delta in 1, 63, 64, 10**5, 2**30, 2**31 - 1, 2**31 + 5, 2**32 - 1:
            for sign in 0, 1:
                with self.subTest(delta=delta, sign=sign):
                    number = delta << 1 | sign
                    entry = bytes([0x80 | 13 << 3 | 7]) + varint(number)
                    back = bytes([0x80 | 13 << 3 | 7]) + varint(number ^ 1)
                    # Far away and back, again and again.
                    self.run_with(co_linetable=(entry + back) * 20)

    def test_random_tables(self):
        # The interpreter's own reader may only see good ones.
        chance = random.Random(os.environ.get("PERF_TEST_SEED", "lines"))
        names = set()
        for _ in range(3000):
            table = chance.randbytes(chance.randrange(60))
            code = nothing.__code__.replace(
                co_linetable=table, co_firstlineno=chance.randrange(2**31))
            function = types.FunctionType(code, {"probe": probe_labels})
            names.add(self.checker.names.of(function()[1]))
        self.assertGreater(len(names), 100)
        for name in names:
            self.assertRegex(name, rf"\A{re.escape(symbol(nothing.__code__))}"
                                   r"(:[0-9]+)?\Z")

    def test_empty_table(self):
        code = nothing.__code__.replace(co_linetable=b"")
        function = types.FunctionType(code, {"probe": probe_labels})
        self.assertEqual(self.checker.names.of(function()[1]),
                         symbol(nothing.__code__))

    def test_tables_tell_functions_of_one_name_apart(self):
        def functions(source):
            scope = {"check": self.check}
            exec(compile(source, "one file", "exec"), scope)
            return scope["f"]

        one = functions("def f():\n    check()\n    check()")
        other = functions("def f():\n\n    check()\n\n    check()")

        def use():
            one()
            other()
            functions("def f():\n    check()\n\n    check()")()

        self.repeat(use, checks=6)

    def test_large_functions(self):
        # As large as an arena, and larger: then it shows none.
        for statements, has_lines in (20_000, True), (300_000, False):
            with self.subTest(statements):
                source = ("def f():\n" + "    x = 1\n" * statements
                          + "    return probe()\n")
                scope = {"probe": lambda: self.shown()[1]}
                exec(compile(source, f"<{statements}>", "exec"), scope)
                end = f">:{statements + 2}" if has_lines else ">"
                for _ in range(2):
                    self.assertEqual(scope["f"](), f"py::f:<{statements}{end}")
                self.check()
                self.assert_checked()


def probe_labels(_):
    return _testperf.labels()


@requires_trampoline
class AddressTest(LinesTestCase):

    def test_addresses(self):
        def function():
            x = 1
            return (x +
                    1)

        before = len(read_map(os.getpid()))
        function()
        name = symbol(function.__code__)
        own = [entry for entry in read_map(os.getpid())[before:]
               if entry[2].startswith(name)]
        own.sort()
        # They follow each other, and take two bytes for each unit of code.
        for (start, size, _), (following, _, _) in zip(own, own[1:]):
            self.assertEqual(start + size, following)
        start, end = own[0][0], sum(own[-1][:2])
        self.assertEqual(end - start, 16 + len(function.__code__.co_code))
        self.assertEqual(own[0][1:], (14, name))
        # And say what co_positions() says.
        lines = {}
        for first, size, shown in own[1:]:
            for address in range(first, first + size):
                line = int(shown.removeprefix(f"{name}:"))
                lines[address - start - 16] = line
        for number, position in enumerate(function.__code__.co_positions()):
            self.assertEqual(lines[2 * number], position[0])
            self.assertEqual(lines[2 * number + 1], position[0])

    def test_equal_functions_add_nothing(self):
        source = "def f():\n    x = 1\n    return x\nf()"
        exec(source, {})
        before = len(read_map(os.getpid()))
        for _ in range(100_000):
            exec(source, {})
        self.assertEqual(len(read_map(os.getpid())), before)

    def test_size_of_the_map(self):
        """Each entry takes 40 bytes more than the name, at most."""
        with open(map_path(os.getpid()), encoding="utf-8") as file:
            text = file.read()
        lines = text.splitlines()
        for line, (_, _, name) in zip(lines, parse_map(text)):
            name, _, number = name.rpartition(":")
            if number.isdecimal():
                self.assertLessEqual(len(line) + 1 - len(name), 40)


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
