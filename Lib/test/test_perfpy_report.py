"""perfpy report and perfpy diff: recordings, shown and compared."""

import io
import os
import re
import shutil
import subprocess
import unittest
from test.support.perfpy_case import PerfpyTestCase, clean_environment
from test.test_perfpy_profile import profile_of

import perfpy
from perfpy import recording, table
from perfpy.formats import FORMATS
from perfpy.profile import NO_STACK, Frame, Kind, Profile


class TableTest(unittest.TestCase):

    def text(self, write, profile, *arguments):
        file = io.StringIO()
        write(profile, file, *arguments)
        return file.getvalue()

    def test_functions(self):
        profile = profile_of((1, "py:f"), (2, "py:f py:g"), (5, "malloc"),
                             (2, "py:f py:g ker:read"))
        self.assertEqual(self.text(table.write_functions, profile, 9), """\
    self    total  function  file
 20.00 %  40.00 %  g         /srv/app.py
 10.00 %  50.00 %  f         /srv/app.py
""")
        lines = self.text(table.write_functions, profile, 1).splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn(" g ", lines[1])

    def test_little_time_is_left_out(self):
        profile = profile_of((1000, "py:f"), (4, "py:g"))
        self.assertNotIn("g", self.text(table.write_functions, profile, 9)
                         .partition("\n")[2])

    def test_no_python(self):
        self.assertEqual(
            self.text(table.write_functions, profile_of((1, "f")), 9),
            "no Python function in any sample\n")
        self.assertEqual(self.text(table.write_functions, Profile(), 9),
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
        for text in (self.text(table.write_functions, profile, 9),
                     self.text(table.write_tree, profile)):
            self.assertIn(r"a\x1b[2Jb\n", text)
            self.assertTrue(text.replace("\n", "").isprintable())

    def test_summary(self):
        self.assertEqual(table.summary(profile_of((1.5, "f"), (1, "g"))),
                         "2 samples, 2.50 s of CPU time, in 1 thread of "
                         "1 process")


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
    self    total  function  file
 75.00 % 100.00 %  f         /srv/app.py
 25.00 %  25.00 %  g         /srv/app.py
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
                written = self.path("profile" + format.suffix)
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
            (["diff", "a.perfpy", "no.perfpy"], "no.perfpy: No such file"),
            (["diff", "bad.perfpy", "a.perfpy"], "not a recording"),
        ]:
            with self.subTest(arguments):
                self.assertIn(message,
                              self.perfpy(*arguments, status=1).stderr)

    def test_diff(self):
        self.save("a.perfpy", (4, "py:f py:g"), (1, "py:f py:old"),
                  (5, "py:f"))
        # Twice as long, which is no change by itself.
        self.save("b.perfpy", (2, "py:f py:g"), (4, "py:f py:new"),
                  (14, "py:f"))
        result = self.perfpy("diff", "a.perfpy", "b.perfpy")
        self.assertEqual(re.sub(" +", " ", result.stdout), """\
a.perfpy: 3 samples, 10.00 s of CPU time, in 1 thread of 1 process
b.perfpy: 3 samples, 20.00 s of CPU time, in 1 thread of 1 process
 self before change total before change function file
 10.00% 40.00% -30.00% 10.00% 40.00% -30.00% g /srv/app.py
 20.00% 0.00% +20.00% 20.00% 0.00% +20.00% new /srv/app.py
 70.00% 50.00% +20.00% 100.00% 100.00% +0.00% f /srv/app.py
 0.00% 10.00% -10.00% 0.00% 10.00% -10.00% old /srv/app.py
""")
        result = self.perfpy("diff", "--top", "1", "a.perfpy", "b.perfpy")
        self.assertEqual(result.stdout.count("\n"), 4)

    def test_diff_with_itself(self):
        self.save("a.perfpy", (1, "py:f"))
        result = self.perfpy("diff", "a.perfpy", "a.perfpy")
        self.assertIn("no Python function's share changed\n", result.stdout)

    def test_diff_with_nothing(self):
        self.save("a.perfpy")
        self.save("b.perfpy", (1, "py:f"))
        self.assertIn("+100.00%",
                      self.perfpy("diff", "a.perfpy", "b.perfpy").stdout)


if __name__ == "__main__":
    unittest.main()
