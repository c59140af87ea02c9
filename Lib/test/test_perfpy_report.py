"""perfpy report and perfpy diff: recordings, shown and compared."""

import ctypes
import io
import locale
import os
import platform
import random
import shutil
import subprocess
import sys
import unittest
import unittest.mock
from test import support
from test.support.perfpy_case import PerfpyTestCase, clean_environment
from test.test_perfpy_profile import profile_of

import perfpy
from perfpy import columns, marks, recording, table
from perfpy.formats import FORMATS
from perfpy.profile import NO_STACK, Frame, Kind, Profile


class TableTest(unittest.TestCase):

    def text(self, write, profile, *arguments):
        file = io.StringIO()
        write(profile, file, *arguments)
        return file.getvalue()

    def table(self, profile, **choice):
        return self.text(table.write_functions, profile,
                         table.Choice(**choice))

    def test_functions(self):
        profile = profile_of((1, "py:f"), (2, "py:f py:g"), (5, "malloc"),
                             (2, "py:f py:g ker:read"))
        self.assertEqual(self.table(profile), """\
    self    total  code  function  file
 40.00 %  40.00 %  own   g         /srv/app.py
 10.00 %  50.00 %  own   f         /srv/app.py
 50.00 %           without a Python function
""")

    def test_top(self):
        profile = profile_of((1, "py:f"), (2, "py:f py:g"), (3, "py:h"),
                             (4, "py:f py:i"))
        self.assertEqual(self.table(profile, top=2), """\
    self    total  code  function  file
 40.00 %  40.00 %  own   i         /srv/app.py
 30.00 %  30.00 %  own   h         /srv/app.py
 30.00 %           in 2 other functions
""")

    def names(self, profile, **choice):
        return [row.frame.name for row in
                table.rows_of(profile, table.Choice(**choice))]

    def test_sort(self):
        profile = profile_of((3, "py:b"), (1, "py:c py:a"), (4, "py:c"))
        self.assertEqual(self.names(profile), ["c", "b", "a"])
        self.assertEqual(self.names(profile, sort="name"), ["a", "b", "c"])
        profile = profile_of((3, "py:b"), (5, "py:c py:a"))
        self.assertEqual(self.names(profile, sort="total"), ["a", "c", "b"])

    def test_native(self):
        profile = profile_of((1, "libc:start int:main py:f int:call"),
                             (2, "libc:start int:main py:f int:call sqlite"),
                             (4, "libc:start int:main py:f sqlite ker:read"))
        self.assertEqual(self.table(profile, native=True), """\
    self    total  code    function  file
 57.14 %  57.14 %  kernel  read      [kernel.kallsyms]
 28.57 %  85.71 %  native  sqlite    /usr/lib/libother.so.1
 14.29 % 100.00 %  own     f         /srv/app.py
""")

    def test_only(self):
        profile = profile_of((1, "py:main"), (2, "py:main pkg:query lib:load"),
                             (3, "pkg:middle py:handle pkg:query"),
                             (4, "pkg:serve"))
        self.assertEqual(self.table(profile, only="mine"), """\
    self    total  code  function  file
 30.00 %  30.00 %  own   handle    /srv/app.py
 30.00 %  30.00 %  own   main      /srv/app.py
 40.00 %           elsewhere
""")
        self.assertEqual(self.names(profile, only="django"),
                         ["query", "serve", "middle"])
        self.assertEqual(self.names(profile, only="DJ*/db"),
                         ["query", "serve", "middle"])
        self.assertEqual(self.names(profile, only="load"), ["load"])
        self.assertEqual(self.table(profile, only="nobody"),
                         "no such function in any sample\n")
        profile = profile_of((1, "py:main"))
        profile.threads[0].add_sample(9, profile.add_stack(
            NO_STACK, profile.add_frame(marks.START_UP)), 9)
        self.assertEqual(self.table(profile, only="nobody"),
                         "no such function in any sample\n")

    def test_own_code_that_lets_others_work(self):
        for samples, expected in [
                ([(1, "py:f"), (2, "py:f pkg:g")], True),
                ([(2, "py:f"), (1, "py:f pkg:g")], False),
                ([(2, "py:f sqlite")], False),
                ([(2, "pkg:g")], False), ([], False)]:
            self.assertIs(table.is_elsewhere(profile_of(*samples)), expected)

    def test_imports_are_one_row(self):
        profile = profile_of(
            (1, "py:main"), (2, "py:main imp:_find int:x py:<module> py:g"),
            (3, "py:main py:g"), (4, "mark:(start-up) int:Py_Init imp:_find"),
            (5, "mark:(start-up) ker:exec"), (6, "py:main imp:_find pkg:h"))
        self.assertEqual(self.table(profile), """\
    self    total  code  function                file
 80.95 %  80.95 %        (start-up and imports)  see --imports
 14.29 %  14.29 %  own   g                       /srv/app.py
  4.76 %  57.14 %  own   main                    /srv/app.py
""")
        self.assertEqual(set(self.names(profile, imports=True)),
                         {"main", "_find", "<module>", "g", "(start-up)",
                          "h"})

    def test_terminal(self):
        profile = Profile()
        profile.meta["directory"] = "/home/me/project"
        for name, file in [
                ("f", "/home/me/project/application/views/orders.py"),
                ("g", "/v/lib/python3.11/site-packages/django/db/models/"
                      "query.py"),
                ("Class." * 20 + "method", "/usr/lib/python3.11/socket.py")]:
            profile.thread(1, 1).add_sample(0, profile.add_stack(
                NO_STACK, profile.add_frame(Frame(name, file, Kind.PYTHON))),
                1)
        for width in 40, 60, 72, 80, 100, 132:
            with unittest.mock.patch.object(table, "width_of",
                                            lambda file: width):
                text = self.table(profile)
            with self.subTest(width=width, text=text):
                lines = text.splitlines()
                for name in "orders.py", "query.py", "socket.py", "method":
                    self.assertIn(name, text)
                if width >= 72:
                    self.assertLessEqual(max(map(len, lines)), width)
                if width == 100:
                    self.assertIn("application/views/orders.py", text)
                    self.assertNotIn("/home", text)

    def test_wide_characters(self):
        # What the C library, and so a terminal, makes of them.
        libc = ctypes.CDLL(None)
        libc.wcswidth.argtypes = ctypes.c_wchar_p, ctypes.c_size_t
        self.addCleanup(locale.setlocale, locale.LC_CTYPE,
                        locale.setlocale(locale.LC_CTYPE))
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
        def width_of(text):
            return libc.wcswidth(text, len(text))
        names = ("f", "注文を処理", "주문", "é", "e\u0301", "ﾊﾝｶｸ", "Д",
                 "🐍", "長い名前の関数" * 5)
        for name in names:
            self.assertEqual(columns.count(name), width_of(name), name)
        profile = Profile()
        for name in names:
            profile.thread(1, 1).add_sample(0, profile.add_stack(
                NO_STACK, profile.add_frame(
                    Frame(name, "/srv/アプリケーション.py", Kind.PYTHON))), 1)
        for width in 72, 73, 100:
            with unittest.mock.patch.object(table, "width_of",
                                            lambda file: width):
                lines = self.table(profile).splitlines()
            self.assertLessEqual(max(map(width_of, lines)), width)
            before = lines[0][:lines[0].index("file")]
            self.assertEqual({width_of(line[:line.index("/srv")])
                              for line in lines[1:]}, {len(before)}, lines)

    def test_cut_to_columns(self):
        for text in "", "abc", "日本", "a日b本", "e\u0301日":
            for room in range(1, 8):
                with self.subTest(text=text, room=room):
                    head = columns.start(text, room)
                    self.assertTrue(text.startswith(head))
                    tail = columns.end(text, room)
                    self.assertTrue(text.endswith(tail.removeprefix("…")))
                    for part in head, tail:
                        self.assertLessEqual(columns.count(part), room)
                        # A wide character can leave one column empty.
                        self.assertGreaterEqual(columns.count(part),
                                                min(columns.count(text),
                                                    room - 1))
                    self.assertEqual(columns.count(columns.pad(head, room)),
                                     room)

    def test_little_time_is_left_out(self):
        profile = profile_of((1000, "py:f"), (4, "py:g"))
        lines = self.table(profile).splitlines()
        self.assertEqual(lines[2:],
                         ["  0.40 %           in 1 other function"])

    def test_no_python(self):
        for profile in profile_of((1, "f")), Profile():
            self.assertEqual(self.table(profile),
                             "no Python function in any sample\n")
        self.assertEqual(self.text(table.write_tree, Profile()), "")

    def test_tree(self):
        profile = profile_of((50, "py:f py:g"), (30, "py:f py:h"),
                             (1, "py:f py:small"), (19, "py:i"))
        self.assertEqual(self.text(table.write_tree, profile), """\
 81.00 %  f  (/srv/app.py)
 50.00 %    g  (/srv/app.py)
 30.00 %    h  (/srv/app.py)
 19.00 %  i  (/srv/app.py)
""")

    def test_deep_tree(self):
        # Deeper than Python's own recursion goes.
        profile = profile_of((1, " ".join(["py:f"] * 5000)))
        self.assertEqual(self.text(table.write_tree, profile).count("\n"),
                         5000)
        self.assertEqual(profile.totals(), [(1, 1)])

    def test_hostile_names(self):
        profile = Profile()
        stack = profile.add_stack(NO_STACK, profile.add_frame(
            Frame("a\x1b[2Jb\n", "/srv/\u202ex\x9b", Kind.PYTHON)))
        profile.thread(1, 1).add_sample(0, stack, 1)
        for text in (self.table(profile),
                     self.text(table.write_tree, profile)):
            self.assertIn(r"a\x1b[2Jb\n", text)
            self.assertTrue(text.replace("\n", "").isprintable())

    def test_summary(self):
        profile = profile_of((1.5, "f"), (1, "g"))
        self.assertEqual(table.summary(profile),
                         "2 samples, 2.50 s of CPU time, in 1 thread of "
                         "1 process")
        profile.meta.update(event="cycles", duration="3.125")
        self.assertEqual(table.summary(profile),
                         "2 samples, 2.50 s of CPU time in 3.12 s, in "
                         "1 thread of 1 process")
        profile.meta["duration"] = "25"
        self.assertEqual(table.summary(profile),
                         "2 samples, 2.50 s of CPU time in 25.00 s, in "
                         "1 thread of 1 process; mostly waiting, which is "
                         "not in the profile")

    def test_summary_on_a_busy_machine(self):
        profile = profile_of((1.5, "f"))
        profile.meta.update(duration="6", queued="4.2")
        self.assertEqual(table.summary(profile),
                         "1 sample, 1.50 s of CPU time in 6.00 s (4.20 s of "
                         "it waiting for a processor), in 1 thread of "
                         "1 process")
        profile.meta["queued"] = "0.1"
        self.assertIn("1.50 s of CPU time in 6.00 s, in 1 thread of 1 process"
                      "; mostly waiting", table.summary(profile))

    def test_summary_without_the_kernel(self):
        profile = profile_of((1.5, "f"))
        for event in "cycles:u", "cpu-clock:u", "cpu_core/cycles/:ppu":
            profile.meta["event"] = event
            self.assertIn("1.50 s of user CPU time, without the kernel,",
                          table.summary(profile))
        for event in "cycles", "cycles:P", "cycles:uk", "task-clock":
            profile.meta["event"] = event
            self.assertIn("1.50 s of CPU time,", table.summary(profile))

    def test_summary_of_another_event(self):
        profile = profile_of((1234, "py:f"), (1, "py:g"))
        profile.meta.update(event="page-faults", unit="page-faults",
                            duration="2")
        self.assertEqual(table.summary(profile),
                         "2 samples, 1,235 page-faults in 2.00 s, in "
                         "1 thread of 1 process")


class CommandTest(PerfpyTestCase):

    def save(self, name, *samples):
        profile = profile_of(*samples)
        profile.meta.update({"command": "python app.py",
                             "started": "2026-11-18T12:00:00+00:00"})
        recording.save(profile, self.path(name))

    def test_report(self):
        self.save("profile.perfpy", (3, "int:main py:f int:eval"),
                  (1, "int:main py:f py:g"))
        self.assertEqual(self.perfpy("report").stdout, """\
command: python app.py
started: 2026-11-18T12:00:00+00:00
2 samples, 4.00 s of CPU time, in 1 thread of 1 process
    self    total  code  function  file
 75.00 % 100.00 %  own   f         /srv/app.py
 25.00 %  25.00 %  own   g         /srv/app.py
""")
        self.assertNotIn("g  ", self.perfpy("report", "--top", "1").stdout)
        tree = self.perfpy("report", "--tree").stdout
        self.assertTrue(tree.endswith("""
100.00 %  f  (/srv/app.py)
 25.00 %    g  (/srv/app.py)
"""), tree)
        tree = self.perfpy("report", "--tree", "--interpreter").stdout
        self.assertTrue(tree.endswith("""
100.00 %  main  (/usr/bin/python3.11)
100.00 %    f  (/srv/app.py)
 75.00 %      eval  (/usr/bin/python3.11)
 25.00 %      g  (/srv/app.py)
"""), tree)

    def test_formats(self):
        self.save("a.perfpy", (1, "py:f"))
        for name, format in FORMATS.items():
            if name == "html":
                continue        # test_perfpy_html
            with self.subTest(name):
                result = self.perfpy("report", "--format", name, "a.perfpy")
                written = self.path("a" + format.suffix)
                self.assertGreater(os.path.getsize(written), 0)
                self.assertIn(os.path.basename(written), result.stderr)
                output = "b" + format.suffix
                self.perfpy("report", "-o", output, "a.perfpy")
                with (open(written, "rb") as one,
                      open(self.path(output), "rb") as two):
                    self.assertEqual(one.read(), two.read())
        result = self.perfpy("report", "--format", "collapsed", "-o", "-",
                             "a.perfpy")
        self.assertRegex(result.stdout, r"f \(/srv/app.py\) 1000000\n")
        self.assertEqual(result.stderr, "")

    def test_formats_are_folded(self):
        self.save("a.perfpy", (1, "int:main py:f int:eval int:call"),
                  (2, "int:main py:f int:eval"))
        for arguments, stacks in [
                ([], ["python 1, thread main 1;f (/srv/app.py) 3000000"]),
                (["--interpreter"],
                 ["python 1, thread main 1;main;f (/srv/app.py);eval;call "
                  "1000000",
                  "python 1, thread main 1;main;f (/srv/app.py);eval "
                  "2000000"])]:
            result = self.perfpy("report", "--format", "collapsed", "-o", "-",
                                 *arguments, "a.perfpy")
            self.assertEqual(result.stdout.splitlines(), stacks)

    def test_reader_that_leaves(self):
        self.save("a.perfpy", *[(1, f"py:f{number}")
                                for number in range(2000)])
        command = self.command("report", "--format", "collapsed", "-o", "-",
                               "a.perfpy")
        for arguments in command, self.command("report", "--tree", "a.perfpy"):
            with subprocess.Popen(arguments, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True,
                                  cwd=self.directory) as process:
                process.stdout.close()
                self.assertEqual(process.stderr.read(), "")

    def test_disk_is_full(self):
        self.save("a.perfpy", (1, "py:f"))
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                self.command("report", "a.perfpy"), stdout=full,
                stderr=subprocess.PIPE, text=True, cwd=self.directory,
                env=clean_environment())
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "perfpy: No space left on device\n")

    def test_plain_terminal(self):
        profile = Profile()
        profile.thread(1, 1).add_sample(0, profile.add_stack(
            NO_STACK, profile.add_frame(
                Frame("caf\xe9\ud800", "/srv/a.py", Kind.PYTHON))), 1)
        recording.save(profile, self.path("a.perfpy"))
        result = self.perfpy("report", "a.perfpy",
                             env=clean_environment(PYTHONIOENCODING="ascii"))
        self.assertIn(r"caf\xe9\ud800", result.stdout)

    def test_stock_python(self):
        # The package works where our patches are not, but for run.
        stock = "/usr/bin/python3"
        if not os.path.exists(stock):
            self.skipTest(f"there is no {stock}")
        if subprocess.run([stock, "-c", "import sys; "
                           "sys.exit(sys.version_info < (3, 11))"]).returncode:
            self.skipTest(f"{stock} is older than 3.11")
        package = os.path.dirname(perfpy.__file__)
        shutil.copytree(package, self.path("perfpy"))
        self.save("a.perfpy", (1, "py:f"))
        env = clean_environment(PYTHONDONTWRITEBYTECODE="1")
        for arguments in (["report", "a.perfpy"],
                          ["report", "-o", "a.pb.gz", "a.perfpy"],
                          ["diff", "a.perfpy", "a.perfpy"],
                          ["clean", "--dry-run"]):
            subprocess.run([stock, "-m", "perfpy", *arguments], env=env,
                           cwd=self.directory, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=True)

    def test_errors(self):
        self.write("bad.perfpy", "x")
        self.save("a.perfpy", (1, "py:f"))
        for arguments, message in [
            (["report"], "profile.perfpy: No such file or directory"),
            (["report", "bad.perfpy"], "not a recording"),
            (["report", "--format", "pprof", "-o", "no/x", "a.perfpy"],
             "there is no directory no"),
            (["report", "-o", "x.svg", "a.perfpy"],
             "the ending of x.svg names no format; use one of .html, "
             ".collapsed.txt"),
            (["report", "-o", "x.txt", "no.perfpy"], "names no format"),
            (["report", "-o", "x", "a.perfpy"], "names no format"),
            (["report", "-o", "-", "a.perfpy"], "say which --format"),
            (["report", "-o", "a.perfpy", "--format", "html", "a.perfpy"],
             "a.perfpy would be taken for a recording"),
            (["report", "-o", "/proc/x.pb.gz", "a.perfpy"],
             "cannot write /proc/x.pb.gz: "),
            (["diff", "a.perfpy", "no.perfpy"], "no.perfpy: No such file"),
            (["diff", "bad.perfpy", "a.perfpy"], "not a recording"),
        ]:
            with self.subTest(arguments):
                self.assertIn(message,
                              self.perfpy(*arguments, status=1).stderr)
        self.assertEqual(sorted(os.listdir(self.directory)),
                         ["a.perfpy", "bad.perfpy"])

    def test_options_that_do_not_apply(self):
        self.save("profile.perfpy", (1, "py:f"))
        for arguments, message in [
            (["--tree", "--format", "pprof"], "--tree is for the terminal"),
            (["--interpreter"], "--interpreter goes with"),
            (["--tree", "--top", "3"], "--top is for the table"),
            (["--format", "pprof", "--sort", "total"], "--sort is for"),
            (["--tree", "--only", "mine"], "--only is for"),
        ]:
            with self.subTest(arguments):
                self.assertIn(message, self.perfpy("report", *arguments,
                                                   status=2).stderr)

    def test_version(self):
        told = self.perfpy("--version").stdout
        self.assertRegex(told, r"\Aperfpy of cpython-perf \d+\.\d+\.\d+, "
                         r"Python 3\.\d+\.\d+\S* at /.*\n\Z")
        # The interpreter says the same in `python -VV`.
        self.assertEqual(platform.python_build()[0],
                         told.removeprefix("perfpy of ").split(",")[0])

    def test_large_recording(self):
        # As many stacks as an hour of a big program has.
        rng = random.Random(16)
        profile = Profile()
        frames = [profile.add_frame(Frame(f"f{number}", "/srv/a.py", kind))
                  for number, kind in enumerate(
                      [Kind.PYTHON] * 900 + [Kind.INTERPRETER] * 100)]
        thread = profile.thread(1, 1)
        for time in range(30_000):
            stack = NO_STACK
            for _ in range(14):
                stack = profile.add_stack(
                    stack, frames[min(int(rng.expovariate(0.02)), 999)])
            thread.add_sample(time / 1000, stack, 0.001)
        count = len(profile.stacks)
        self.assertGreater(count, 300_000)
        recording.save(profile, self.path("large.perfpy"))
        self.write("measure.py", """if True:
            import re, resource
            from perfpy import cli
            cli.main(["report", "large.perfpy"])
            usage = resource.getrusage(resource.RUSAGE_SELF)
            with open("/proc/self/status") as status:
                peak = re.search(r"VmHWM:\s+(\d+)", status.read())[1]
            print(usage.ru_utime + usage.ru_stime, peak)
            """)
        output = subprocess.run(
            [sys.executable, self.path("measure.py")], check=True, text=True,
            stdout=subprocess.PIPE, env=clean_environment(),
            cwd=self.directory).stdout
        seconds, kibibytes = map(float, output.splitlines()[-1].split())
        if support.verbose:
            print(f"{count:,} stacks: {seconds:.2f} s, "
                  f"{kibibytes / 1024:.0f} MiB")
        # 5 s and 200 MB for two million, half of it for nothing.
        self.assertLess(kibibytes / 1024, 30 + 100 * count / 2e6)
        if not support.check_sanitizer(address=True):
            self.assertLess(seconds / count * 2e6, 15)

if __name__ == "__main__":
    unittest.main()
