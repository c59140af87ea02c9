"""Tables of lines of any kind, and the addresses that stand for lines.

test_perf_lines has what functions show as they run.
"""

import os
import random
import re
import types
import unittest

from test.support.perf_helper import (map_path, parse_map, read_map,
                                      remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import LinesTestCase, symbol, symbol_and_line

import _testperf


def setUpModule():
    remove_own_map_at_exit()


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
        def run():
            exec(compile("def f():\n    x = 1\n    return x\nf()",
                         "equal functions", "exec"), {})

        def entries():
            # Of these only: anything else in the process may call a function
            # for the first time meanwhile.
            return [entry for entry in read_map(os.getpid())
                    if ":equal functions" in entry[2]]

        run()
        before = entries()
        self.assertGreater(len(before), 2)
        for _ in range(100_000):
            run()
        self.assertEqual(entries(), before)

    def test_size_of_the_map(self):
        """Each entry takes 40 bytes more than the name, at most."""
        with open(map_path(os.getpid()), encoding="utf-8") as file:
            text = file.read()
        lines = text.splitlines()
        for line, (_, _, name) in zip(lines, parse_map(text)):
            name, _, number = name.rpartition(":")
            if number.isdecimal():
                self.assertLessEqual(len(line) + 1 - len(name), 40)


if __name__ == "__main__":
    unittest.main()
