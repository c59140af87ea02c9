"""Compare the stack that native profilers see with the interpreter's own.

For test_perf_walk, test_perf_random and test_perf_fork, and for the scripts
that they run in other processes.  Needs _testperf, the extension module that
`make test` builds and puts on the path.
"""

import bisect
import itertools
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import unittest

from test import support
from test.support.perf_helper import map_path, parse_map, remove_map

try:
    import _testperf
except ImportError as error:
    raise unittest.SkipTest("_testperf is not on the path: "
                            "`make test` builds it") from error

if "-fno-omit-frame-pointer" not in (sysconfig.get_config_var("CFLAGS") or ""):
    raise unittest.SkipTest("Python is configured --without-frame-pointers: "
                            "its stack cannot be walked")

# What a process is told by the person who runs the tests.
SWITCHES = ("PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT")


def symbol(code):
    """Return the symbol of a code object whose names need no escapes."""
    return f"py::{code.co_qualname}:{code.co_filename}"


def symbol_and_line(code, line):
    """The same of a frame, when lines are shown."""
    return symbol(code) if line is None else f"{symbol(code)}:{line}"


def without_line(name):
    function, _, line = name.rpartition(":")
    return function if line.isdecimal() else name


class LabelNames:
    """Names labels by this process's map, as perf does: by the byte before."""

    def __init__(self):
        self._lock = threading.RLock()  # threads and callbacks use this
        self._path = map_path(os.getpid())
        self._offset = 0
        self._entries = []              # sorted
        self._known = {}                # label: name

    def _read_news(self):
        with self._lock:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                text = file.read()
                self._offset = file.tell()
            for entry in parse_map(text.decode()):
                bisect.insort(self._entries, entry)

    def _look_up(self, address):
        index = bisect.bisect(self._entries, (address, sys.maxsize)) - 1
        if index < 0:
            return None
        start, size, name = self._entries[index]
        return name if start <= address < start + size else None

    def of(self, label):
        name = self._known.get(label)
        if name is None:
            name = self._look_up(label - 1)
            if name is None:
                self._read_news()
                name = self._look_up(label - 1)
            if name is None:
                return f"no symbol at {label:#x}"
            if name != self._look_up(label):
                return f"two symbols at {label:#x}: {name}"
            self._known[label] = name
        return name

    def function_of(self, label):
        """The name without line; no file of the tests ends like one."""
        return without_line(self.of(label))

    def of_all(self, labels):
        return [self.of(label) for label in labels]


class StackChecker:
    """Compares the labels on the C stack with the frames of Python's stack.

    Functions that were called while the trampoline was off have no label:
    those that run when the checker is made, and those that say so with
    called_while_off().  Mismatches are collected, because an exception would
    not get out of every callback.

    With lines, each function that was called since the checker was made has to
    show the line that its frame tells.
    """

    def __init__(self, lines=False):
        self.names = LabelNames()
        self.lines = lines
        self._without_lines = []
        self.count = 0
        self.mismatches = []
        self._unlabelled = []
        old = (self._without_lines if sys.is_stack_trampoline_active()
               else self._unlabelled)
        frame = sys._getframe()
        while frame is not None:
            old.append(frame)
            frame = frame.f_back

    def called_while_off(self, frame=None):
        """Expect no label of the calling function."""
        self._unlabelled.append(frame or sys._getframe(1))

    def expected(self, frame, lines=()):
        """Return the symbols of frame and its callers, without unlabelled.

        lines: of the innermost ones, instead of what they would be now."""
        symbols = []
        lines = iter(lines)
        while frame is not None:
            line = next(lines, None) or frame.f_lineno
            if any(frame is other for other in self._without_lines):
                line = None
            if not any(frame is other for other in self._unlabelled):
                symbols.append(symbol_and_line(
                    frame.f_code, line if self.lines else None))
                symbols += self.above(frame)
            frame = frame.f_back
        return symbols

    def above(self, frame):
        """Return symbols that stand between frame's and that of its caller."""
        return []

    def check(self, *_, depth=None, below=()):
        """Compare the whole stack, or its innermost depth functions.

        below: symbols of functions further out, in other interpreters.
        Arguments are ignored, so that this can serve as a callback.
        """
        frame = sys._getframe()
        labels, lines = _testperf.labels_and_lines()
        if not sys.is_stack_trampoline_active():
            self.called_while_off(frame)
        actual = self.names.of_all(labels[:depth])
        expected = self.expected(frame, [line for _, line in lines])
        expected = (expected + list(below))[:depth]
        self.count += 1
        if actual != expected:
            self.mismatches.append((actual, expected))
        del frame

    def forget_frames(self):
        self._unlabelled.clear()
        self._without_lines.clear()

    def report(self):
        """Return what was wrong, as text, or None."""
        if not self.mismatches:
            return None
        actual, expected = map(list, self.mismatches[0])
        while actual and expected and actual[-1] == expected[-1]:
            del actual[-1], expected[-1]
        lines = [f"{len(self.mismatches)} of {self.count} stacks are wrong; "
                 f"the first, without its outermost part, which is right:"]
        for pair in itertools.zip_longest(actual, expected,
                                          fillvalue="(nothing)"):
            lines.append(f"    {pair[0]}" if pair[0] == pair[1]
                         else f"  ! {pair[0]}  instead of  {pair[1]}")
        return "\n".join(lines[:100])

    def finish(self, at_least):
        """In a script: fail unless enough stacks were compared and right."""
        report = self.report()
        if report is None and self.count < at_least:
            report = f"compared {self.count} stacks, not {at_least}"
        if report is not None:
            sys.exit(report)


class PerfTestCase(unittest.TestCase):
    """Tests with an active trampoline, and a StackChecker."""

    # How often to run what is tested: the interpreter specialises functions
    # that have run a few times.
    TIMES = 20

    Checker = StackChecker

    # Whether to show the native functions between Python functions; lines.
    native = False
    lines = False

    # A reason why not all frames that the tests compare can show lines.
    lines_do_not_matter = None

    def setUp(self):
        was_active = sys.is_stack_trampoline_active()
        self.checker = self.Checker(lines=self.lines)
        self.check = self.checker.check
        self.activate()
        if not was_active:
            self.addCleanup(sys.deactivate_stack_trampoline)
        self.addCleanup(self.checker.forget_frames)

    def activate(self):
        sys.activate_stack_trampoline("perf", native=self.native,
                                      lines=self.lines)

    def run_script(self, source, *options, env=()):
        source = source.replace('activate_stack_trampoline("perf")',
                                'activate_stack_trampoline("perf", native='
                                f'{self.native}, lines={self.lines})')
        source = source.replace("StackChecker()",
                                f"StackChecker(lines={self.lines})")
        return run_script(source, *options, env=env)

    def assert_checked(self, at_least=1):
        self.assertIsNone(report := self.checker.report(), report)
        self.assertGreaterEqual(self.checker.count, at_least)

    def repeat(self, function, checks=1):
        """Call function some times; each call has to make that many checks."""
        for i in range(self.TIMES):
            before = self.checker.count
            function()
            self.assert_checked()
            self.assertEqual(self.checker.count - before, checks)


class LinesTestCase(PerfTestCase):
    """The same, where lines are shown."""

    lines = True

    def shown(self):
        """The names of the calling function and of those further out."""
        return self.checker.names.of_all(_testperf.labels()[1:])

    def line_shown(self):
        """Return the line that the calling function shows."""
        name = self.checker.names.of(_testperf.labels()[1])
        return int(name.rpartition(":")[2])


def also_with_details(namespace):
    """Add twins to each test case of a module: with native functions, with
    lines, and with both."""
    for name, case in list(namespace.items()):
        if (isinstance(case, type) and issubclass(case, PerfTestCase)
                and case.__module__ == namespace["__name__"]):
            for native, lines in (1, 0), (0, 1), (1, 1):
                if lines and case.lines_do_not_matter:
                    continue
                twin = "Native" * native + "Lines" * lines + name
                namespace[twin] = type(twin, (case,), {
                    "native": bool(native), "lines": bool(lines),
                    "__module__": namespace["__name__"]})


class Native:
    """Names of C functions in this process, from the symbol table of the file
    that holds the evaluator."""

    def __init__(self):
        if shutil.which("nm") is None:
            raise unittest.SkipTest("nm (of binutils) is needed to find "
                                    "C functions")
        path, base = self._file_with_interpreter()
        listing = subprocess.run(["nm", "--defined-only", "--numeric-sort",
                                  path], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        self._starts, self._names = [], []
        for line in listing.splitlines():
            address, kind, name = line.split()
            if kind in "tTwW":
                self._starts.append(base + int(address, 16))
                self._names.append(name.partition(".")[0])
        if "_PyPerf_EnterArea" not in self._names:
            raise unittest.SkipTest(f"{path} has no symbols of C functions")

    @staticmethod
    def _file_with_interpreter():
        """Return its path and the address that its first byte is mapped to."""
        mapped = {}
        with open("/proc/self/maps") as maps:
            for line in maps:
                fields = line.split(maxsplit=5)
                if len(fields) == 6:
                    start = int(fields[0].partition("-")[0], 16)
                    mapped.setdefault(fields[5].rstrip("\n"), start)
        executable = os.readlink("/proc/self/exe")
        for path, start in mapped.items():
            if os.path.basename(path).startswith("libpython"):
                return path, start
        with open(executable, "rb") as file:
            is_position_independent = file.read(18)[16] == 3    # ET_DYN
        return executable, mapped[executable] * is_position_independent

    def name(self, address):
        """Return the name of the C function at address, or None."""
        index = bisect.bisect(self._starts, address) - 1
        is_here = 0 <= index < len(self._names) - 1
        return self._names[index] if is_here else None

    def area_code(self):
        """Return the addresses where the code of areas starts and ends.

        Its functions lie one behind the other."""
        ranges = [self.range(f"_PyPerf_{way}Area{suffix}")
                  for suffix in ("", "WithUnwindInfo")
                  for way in ("Enter", "Share")]
        for (_, end), (start, _) in zip(ranges, ranges[1:]):
            assert start == end
        return ranges[0][0], ranges[-1][1]

    def range(self, name):
        """Return the addresses where function name starts and ends."""
        index = self._names.index(name)
        return self._starts[index], self._starts[index + 1]


def run_script(source, *options, env=()):
    """Run source in an interpreter of its own; return its standard output.

    It finds _testperf and starts with the trampoline off, whatever the
    environment says.  Its map is removed.  Failure is an AssertionError with
    what it wrote to standard error.
    """
    environment = {name: value for name, value in os.environ.items()
                   if name not in SWITCHES}
    environment["PYTHONPATH"] = os.path.dirname(_testperf.__file__)
    environment.update(env)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "script.py")
        with open(path, "w") as file:
            file.write(source)
        with subprocess.Popen([sys.executable, *options, path],
                              env=environment, cwd=directory, text=True,
                              start_new_session=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(timeout=support.LONG_TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # and what it forked
                raise
            finally:
                remove_map(process.pid)
    if process.returncode != 0 or err:
        raise AssertionError(f"exit status {process.returncode}\n"
                             f"{out[-5000:]}\n{err[-5000:]}")
    return out
