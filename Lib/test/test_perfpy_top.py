"""perfpy top: a live table, in a real terminal (tmux)."""

import os
import re
import shlex
import subprocess
import sys
import unittest
from test.support.perfpy_case import RecordingTestCase, clean_environment
from test.support.tmux import Terminal, requires_tmux

from perfpy import live, table, top
from perfpy.profile import Frame, Kind, Profile

PROGRAM = """
def heavy():
    while True:
        inner()

def inner():
    sum(range(10_000))

def light():
    while True:
        nap()

def nap():
    time.sleep(0.05)
    sum(range(100_000))

threading.Thread(target=light, daemon=True, name="lighter").start()
print(os.getpid(), flush=True)
"""


@requires_tmux
class TerminalTest(RecordingTestCase):

    def setUp(self):
        super().setUp()
        self.terminal = Terminal(self.directory, clean_environment(
            TERM="xterm-256color", LC_ALL="C.UTF-8"))
        self.addCleanup(self.terminal.close)
        self.before = self.terminal.settings()

    def start(self, *options):
        """Start a program that goes on; return its Popen."""
        process, _ = self.start_process(
            [sys.executable, *(options or ("-X", "perf")),
             self.script(PROGRAM + "\nheavy()\n")])
        return process

    def top(self, *arguments):
        command = shlex.join(self.command("top", *map(str, arguments)))
        self.terminal.type(f"{command}; echo status $?")
        self.terminal.press("Enter")

    def assertRestored(self):
        self.assertEqual(self.terminal.settings(), self.before)

    def rows(self, lines):
        """Return {function: (self, total)} of a screen."""
        found = [re.match(r" *(\d+\.\d) % +(\d+\.\d) %  (\S+)", line)
                 for line in lines]
        return {match[3]: (float(match[1]), float(match[2]))
                for match in found if match}

    def test_process(self):
        process = self.start()
        self.top(process.pid)
        lines = self.terminal.wait_for("inner", "heavy", "nap")
        self.assertIn(f"process {process.pid}", lines[0])
        rows = self.rows(lines)
        self.assertGreaterEqual(rows["heavy"][1], rows["inner"][1])
        self.assertGreater(rows["inner"][0], rows["nap"][0])
        self.assertEqual(max(rows, key=rows.get), "inner")
        # Sorted by total, outer functions come first.
        self.terminal.press("t")
        lines = self.terminal.wait_for("sorted by total")
        place = {name: place for place, name in enumerate(self.rows(lines))}
        self.assertLess(place["heavy"], place["nap"])
        self.terminal.press("n")
        self.terminal.wait_for("sorted by name")
        # One thread after the other, and then all again.
        self.terminal.press("Right")
        self.terminal.wait_for("heavy", gone=[" nap "])
        self.terminal.press("Right")
        self.terminal.wait_for("(lighter)", " nap ", gone=["heavy"])
        self.terminal.press("Right")
        self.terminal.wait_for("all threads", "heavy", " nap ")
        # Search, and take it back.
        self.terminal.press("/")
        self.terminal.type("HEAX")
        self.terminal.press("BSpace")
        self.terminal.wait_for("search: HEA_", "heavy", gone=[" inner "])
        self.terminal.press("Enter")
        self.terminal.wait_for("search: HEA", gone=["HEA_"])
        self.terminal.press("Escape")
        self.terminal.wait_for(" inner ", gone=["search:"])
        self.terminal.press("a")
        self.terminal.wait_for("since the start", "inner")
        self.terminal.press("Space")
        self.terminal.wait_for("paused")
        # It follows the size of the window.
        self.terminal.resize(60, 8)
        lines = self.terminal.wait_for("q quit", gone=["all threads, "])
        self.assertTrue(all(len(line) < 61 for line in lines))
        self.terminal.resize(20, 3)
        self.terminal.resize(120, 30)
        self.terminal.wait_for("space pause", "Thread._bootstrap")
        self.terminal.press("q")
        self.terminal.wait_for("status 0")
        self.assertRestored()
        self.assertIsNone(process.poll())

    def test_process_that_names_nothing(self):
        process = self.start("-X", "perf=0")
        self.top(process.pid)
        self.terminal.wait_for("inner", "nap")
        self.terminal.press("l")            # with lines
        self.terminal.wait_for("lines, sorted", ".py:")
        self.terminal.press("q")
        self.terminal.wait_for("status 0")
        self.assertRestored()
        self.assertIsNone(process.poll())
        self.assertFalse(os.path.exists(f"/tmp/perf-{process.pid}.map"))

    def test_signals_restore_the_terminal(self):
        process = self.start()
        for name, status in ("INT", 130), ("TERM", 143):
            self.top(process.pid)
            self.terminal.wait_for("inner")
            found, = {int(line) for line in subprocess.run(
                ["pgrep", "-f", f"perfpy top {process.pid}$"],
                capture_output=True, text=True).stdout.split()}
            subprocess.run(["kill", f"-{name}", str(found)], check=True)
            self.terminal.wait_for(f"status {status}")
            self.assertRestored()
        self.top(process.pid)
        self.terminal.wait_for("inner")
        self.terminal.press("C-c")
        self.terminal.wait_for("status 130")
        self.assertRestored()
        self.assertIsNone(process.poll())

    def test_process_that_ends(self):
        process = self.start()
        self.top(process.pid)
        self.terminal.wait_for("inner")
        process.kill()
        # What there was can still be seen.
        self.terminal.wait_for("ended", "since the start", "inner")
        self.terminal.press("q")
        self.terminal.wait_for("status 0")

    def test_script(self):
        script = self.script("""
            print("to", "stdout")
            print("to", "stderr", file=sys.stderr)
            print(os.isatty(0), os.isatty(1), sys.argv[1:])
            print("process", os.getpid())
            busy(5)
            sys.exit(7)
            """)
        self.top(script, "-m", "x")
        self.terminal.wait_for("busy", gone=["to stdout"])
        lines = self.terminal.wait_for("status 7")
        self.assertRestored()
        for text in "to stdout", "to stderr", "False False ['-m', 'x']":
            self.assertIn(text, lines)
        pid = re.search(r"(?m)^process (\d+)$", "\n".join(lines))[1]
        self.assertFalse(os.path.exists(f"/tmp/perf-{pid}.map"))

    def test_leaving_ends_the_script(self):
        script = self.script("""
            with open("pid", "w") as file:
                file.write(str(os.getpid()))
            busy(3600)
            """)
        self.top(script)
        self.terminal.wait_for("busy")
        self.terminal.press("q")
        self.terminal.wait_for("status 0")
        with open(self.path("pid")) as file:
            pid = int(file.read())
        self.assertFalse(os.path.exists(f"/proc/{pid}"))


class ErrorTest(RecordingTestCase):

    def test_no_terminal(self):
        result = self.perfpy("top", "1", status=125)
        self.assertIn("top needs a terminal", result.stderr)

    def test_arguments(self):
        for arguments in [], ["1", "2"]:
            self.perfpy("top", *arguments, status=2)


class Names:
    """Names a chain by its number."""

    def __init__(self, chains):
        self.chains = chains

    def frames_of(self, chain):
        return [Frame(name, "/srv/app.py", Kind.PYTHON)
                for name in self.chains[chain]]


class ViewTest(unittest.TestCase):

    def view(self):
        view = top.View("app", 100)
        view.now = view.whole = top.Samples(
            {(1, 1, 0): 50, (1, 2, 1): 25, (1, 2, 2): 10}, 1)
        view.threads = [(1, 1), (1, 2)]
        return view, Names([["f", "main"], ["g", "f", "g"],
                            ["\x1b[2J", "main"]])

    def test_rows(self):
        view, names = self.view()
        rows = {row.frame.name: row[1:] for row in live.rows_of(
            view.now.counts, names)}
        self.assertEqual(rows, {"f": (50, 75), "main": (0, 60), "g": (25, 25),
                                "\x1b[2J": (10, 10)})
        rows = live.rows_of(view.now.counts, names, (1, 1))
        self.assertEqual({row.frame.name for row in rows}, {"f", "main"})

    def test_lines_fit_any_window(self):
        view, names = self.view()
        for height in range(1, 30):
            for width in 1, 5, 20, 40, 80, 300:
                lines = view.lines(names, Profile(), height, width)
                self.assertLessEqual(len(lines), height)
        text = "\n".join(line for line, _ in lines)
        self.assertIn("  50.0 %   75.0 %  f ", text)
        self.assertNotIn("\x1b", text)
        self.assertIn("85 % CPU, 2 threads", text)

    def test_lines_have_their_numbers_in_narrow_windows(self):
        file = "/srv/a_long_directory/a_long_name_of_a_file.py"
        for width in range(6, 60):
            place = table.fit_place(Profile(), Frame(
                "f", file, Kind.PYTHON, 1234), width)
            self.assertLessEqual(len(place), width)
            self.assertRegex(place, r":1234\Z")
        self.assertEqual(place, file + ":1234")

    def test_scrolling_stays_in_the_table(self):
        view, names = self.view()
        view.first = 1000
        lines = view.lines(names, Profile(), 6, 80)
        self.assertEqual(view.first, 2)
        self.assertIn("/srv/app.py", lines[3][0])


if __name__ == "__main__":
    unittest.main()
