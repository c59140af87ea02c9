"""The perf trampoline among hostile neighbours: somebody keeps swapping what
stands at the predictable names while they are opened.

What stands there all the time is tested in test_perf_map and
test_perf_jitdump_file, names that could break a line in test_perf_map.
"""

import os
import pathlib
import sys
import unittest
from test import support
from test import test_perf_map
from test.support.perf_helper import remove_map
from test.support.perf_jitdump_case import JitdumpTestCase, symbol_of

import _testperf

OPENS = 10_000

PROGRAM = """\
import collections, errno, os, signal, stat, sys, time
sys.path.insert(0, {ext!r})
import _testperf
DIRECTORY = os.environ["JITDUMPDIR"]
BACK_END = sys.argv[1]
PATH = {{"perf": f"/tmp/perf-{{os.getpid()}}.map",
        "perf_jit": f"{{DIRECTORY}}/jit-{{os.getpid()}}.dump"}}[BACK_END]
OLD = 10 ** 9

class Stranger:
    '''Puts things at PATH, one after the other.'''

    # On the file system of PATH, for hard links.
    base = PATH + ".stranger"
    victim = base + ".victim"
    nowhere = base + ".nowhere"
    fifo = base + ".fifo"

    def __init__(self):
        self.write(self.victim, "precious", OLD)
        os.mkfifo(self.fifo)
        self.reader = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)

    @staticmethod
    def write(path, text, time=None):
        with open(path, "w") as file:
            file.write(text)
        if time:
            os.utime(path, (time, time))

    def link(self, path):
        os.symlink(self.victim, path)
    def dangling_link(self, path):
        os.symlink(self.nowhere, path)
    def hard_link(self, path):
        os.link(self.victim, path)
    def pipe(self, path):
        os.link(self.fifo, path)
    def stale_file(self, path):
        self.write(path, "", OLD)
    def empty_file(self, path):
        self.write(path, "")
    def others_file(self, path):
        self.write(path, "precious", OLD)
        os.chown(path, 65534, 65534)
    def device(self, path):
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    def directory(self, path):
        os.mkdir(path)

    def remove(self, path):
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                os.rmdir(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass

    def swap(self):
        '''Go on until killed.'''
        things = [self.link, self.dangling_link, self.hard_link, self.pipe,
                  self.stale_file, self.empty_file, self.directory]
        if os.geteuid() == 0:
            things += [self.others_file, self.device]
        new = self.base + ".new"
        while True:
            for thing in things:
                thing(new)
                try:
                    os.rename(new, PATH)
                except OSError:                 # of or onto a directory
                    self.remove(PATH)
                    try:
                        os.rename(new, PATH)
                    except OSError:             # the other one was faster
                        self.remove(new)
                # With the hard link gone, its target has one name again.
                if thing == self.hard_link:
                    self.remove(PATH)

    def check(self):
        with open(self.victim) as file:
            assert file.read() == "precious"
        assert os.stat(self.victim).st_mtime == OLD
        assert not os.path.exists(self.nowhere)
        try:
            assert os.read(self.reader, 100) == b""
        except BlockingIOError:
            pass

    def clean(self):
        for end in "", ".victim", ".nowhere", ".fifo", ".new":
            self.remove(self.base + end)
        self.remove(PATH)

def open_map():
    _testperf.perf_map_state_fini()
    _testperf.write_perf_map_entry(16, 16, "not into a file of others")

def open_jitdump():
    sys.activate_stack_trampoline("perf")
    sys.activate_stack_trampoline("perf_jit")

open_file = {{"perf": open_map, "perf_jit": open_jitdump}}[BACK_END]
results = collections.Counter()
stranger = Stranger()
pid = os.fork()
if pid == 0:
    try:
        stranger.swap()
    finally:
        os._exit(1)
try:
    # On a busy machine the stranger may rest for a while.
    deadline = time.monotonic() + 60
    while (results["opened"] < {opens} or results.total() < 1.1 * {opens}
           and time.monotonic() < deadline):
        try:
            open_file()
            result = "opened"
        except OSError as error:
            result = errno.errorcode[error.errno]
        results[result] += 1
    assert os.waitpid(pid, os.WNOHANG) == (0, 0), "nobody was hostile"
finally:
    os.kill(pid, signal.SIGKILL)
    os.wait()
    stranger.check()
    stranger.clean()
print(*results)
print(dict(results), file=sys.stderr)
"""


class RaceTest(JitdumpTestCase):

    def run_race(self, back_end):
        program = PROGRAM.format(ext=os.path.dirname(_testperf.__file__),
                                 opens=OPENS)
        path = os.path.join(self.directory, "race.py")
        pathlib.Path(path).write_text(program)
        result = self.run_command([sys.executable, "-W", "ignore", path,
                                   back_end])
        self.assertEqual(result.status, 0, result.err)
        if support.verbose:
            print(back_end, result.err.strip())
        kinds = set(result.out.split())
        self.assertIn("opened", kinds)
        self.assertGreater(len(kinds), 1)
        # ENXIO: a socket or a pipe, ENOENT: gone in between.
        self.assertLessEqual(kinds, {"opened", "EEXIST", "ELOOP", "EISDIR",
                                     "ENXIO", "ENOENT", "EACCES"})
        return result

    def test_map(self):
        self.run_race("perf")

    def test_jitdump(self):
        result = self.run_race("perf_jit")
        self.addCleanup(remove_map, result.pid)


class NameTest(JitdumpTestCase):
    """The names that test_perf_map tries, in a jitdump."""

    def test_names(self):
        cases = test_perf_map.NameTest
        expected = {name: name for name in cases.KEPT.values()}
        expected |= {name: escaped.decode()
                     for name, escaped in cases.ESCAPED.values()}
        dump = self.dump_of(f"""
            for name in {list(expected)!a}:
                run(name)
                run("f", name)
        """)
        names = [load.name for load in dump.loads]
        for name, escaped in expected.items():
            with self.subTest(ascii(name)):
                self.assertEqual(names.count(symbol_of(escaped)), 1)
                self.assertEqual(names.count(symbol_of("f", escaped)), 1)

    def test_long_names(self):
        dump = self.dump_of(r"""
            run("a" * 65536, "b" * 65536)
            run("\n" * 65536)
            run("\U0001f40d" * 65536)
            run("\u202e" * 65536)
            for length in range(800, 1000):
                run("n" * length)
        """)
        self.assert_has(dump, r"\x0a" * 65536, "\U0001f40d" * 65536,
                        "\u202e" * 65536,
                        *("n" * length for length in range(800, 1000)))
        self.assertIn(symbol_of("a" * 65536, "b" * 65536),
                      [load.name for load in dump.loads])


if __name__ == "__main__":
    unittest.main()
