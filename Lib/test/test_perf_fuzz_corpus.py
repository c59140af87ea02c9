"""What the fuzzers of Tools/fuzz/ have found, in the ordinary interpreter.

fuzz_model.py, there, tells what an input means and what has to come of it.
Hold and release are left out: only the start of the interpreter does them.
"""

import collections
import os
import pathlib
import types
import unittest
from test.support import import_helper, perf_jitdump
from test.support.perf_helper import (read_map, remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_jitdump_case import JitdumpTestCase
from test.support.perf_walk import LinesTestCase

import _testperf

# Ours are links from the tree that is built to the repository.
FUZZ = pathlib.Path(__file__).resolve().parents[2] / "Tools" / "fuzz"
if not FUZZ.exists():
    raise unittest.SkipTest("Tools/fuzz is only in the source tree")
with import_helper.DirsOnSysPath(str(FUZZ)):
    import fuzz_model

PROGRAM = f"""
sys.path[:0] = {[str(FUZZ), str(pathlib.Path(_testperf.__file__).parent)]!a}
import shutil
import fuzz_model, _testperf

class Task:
    pass

def steps():
    yield

target, back_end = sys.argv[1:]
for path in (fuzz_model.CORPUS / target).iterdir():
    for operation, *arguments in fuzz_model.decode(path.read_bytes()):
        if operation == "symbol":
            run(*arguments)
        elif operation == "task":
            task = Task()
            task._name, task._coro = arguments[0], steps()
            _testperf.step(task)
        elif operation == "entry":
            _testperf.write_perf_map_entry(*arguments)
        elif operation == "close" and target == "map":
            _testperf.perf_map_state_fini()
        elif operation.startswith("switch to "):
            sys.activate_stack_trampoline(operation.split()[-1])
    sys.activate_stack_trampoline(back_end)
if back_end == "perf":
    shutil.copy(f"/tmp/perf-{{os.getpid()}}.map", os.environ["JITDUMPDIR"])
"""


def operations(target):
    for path in (fuzz_model.CORPUS / target).iterdir():
        yield from fuzz_model.decode(path.read_bytes())


def symbols(target):
    symbol_of = {"symbol": fuzz_model.symbol_of,
                 "task": fuzz_model.task_symbol}
    found = {symbol_of[operation](*arguments)
             for operation, *arguments in operations(target)
             if operation in symbol_of}
    return found - {None}


def setUpModule():
    remove_own_map_at_exit()


class WriterTest(JitdumpTestCase):

    def run_corpus(self, target, back_end):
        command = self.command(PROGRAM, "-X", back_end)
        result = self.run_command([*command, target, back_end])
        self.assertEqual((result.status, result.out, result.err), (0, "", ""))
        return result

    def assert_once_each(self, expected, names):
        self.assertTrue(expected)
        counts = collections.Counter(names)
        for name in expected:
            with self.subTest(name[:1000]):
                self.assertEqual(counts[name], 1)

    def test_map(self):
        result = self.run_corpus("map", "perf")
        path = pathlib.Path(self.directory, f"perf-{result.pid}.map")
        text = path.read_bytes().decode()       # valid UTF-8
        lines = collections.Counter(text.splitlines())
        self.assertEqual(lines.total(), text.count("\n"))
        for operation, *arguments in operations("map"):
            if operation == "entry":
                start, size, name = arguments
                line = f"{start:x} {size:x} {fuzz_model.entry_name(name)}"
                with self.subTest(line[:1000]):
                    self.assertGreater(lines[line], 0)
                lines[line] -= 1
        self.assert_once_each(symbols("map"),
                              [line.split(" ", 2)[2]
                               for line in lines.elements()])

    def test_jitdump(self):
        result = self.run_corpus("jitdump", "perf_jit")
        dump = perf_jitdump.read(result.path)
        self.assert_once_each(symbols("jitdump"),
                              [load.name for load in dump.loads])


def template(x):
    for number in range(3):
        x += number
    return [x,
            x]


@requires_trampoline
class LinesTest(LinesTestCase):

    def entries_of(self, code, name):
        """Call it; return what it adds to the map."""
        before = len(read_map(os.getpid()))
        types.FunctionType(code, {"range": range})(1)
        return sorted(entry for entry in read_map(os.getpid())[before:]
                      if entry[2].startswith(name))

    def test_lines(self):
        units = len(template.__code__.co_code) // 2
        checked = 0
        for path in (fuzz_model.CORPUS / "lines").iterdir():
            for qualname, filename, first, table in fuzz_model.decode_lines(
                    path.read_bytes()):
                name = fuzz_model.symbol_of(qualname, filename)
                entries = self.entries_of(template.__code__.replace(
                    co_qualname=qualname, co_filename=filename,
                    co_firstlineno=first, co_linetable=table), name)
                if not entries:
                    continue                # an equal one was there
                checked += 1
                start, size, shown = entries[0]
                self.assertEqual((size, shown), (14, name))
                lines = [first, *fuzz_model.lines_of_table(table, first,
                                                           units)]
                for address, size, shown in entries[1:]:
                    self.assertEqual(address, start + 14)
                    for _ in range(size // 2):
                        line = lines.pop(0)
                        self.assertEqual(shown, name if line is None
                                         else f"{name}:{line}", path)
                    start += size
                self.assertEqual(lines, [])
        self.assertGreater(checked, 10)


class ReaderTest(unittest.TestCase):

    def test_reader(self):
        outcomes = set()
        for path in (fuzz_model.CORPUS / "reader").iterdir():
            with self.subTest(path.name):
                dump = fuzz_model.check_reader(path.read_bytes())
                outcomes.add(dump is None)
        self.assertEqual(outcomes, {False, True})


if __name__ == "__main__":
    unittest.main()
