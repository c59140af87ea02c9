"""perfpy clean: which files go, and which stay.

Real files, of processes that are really gone; most of them in the test's own
directory, as there may be leftovers of others in /tmp.
"""

import os
import pty
import subprocess
import sys
import unittest
from test.support.perf_helper import remove_map
from test.support.perfpy_case import (NOBODY, PerfpyTestCase,
                                      clean_environment)


def dead_pid():
    """Return the number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    return process.pid


class CleanTest(PerfpyTestCase):

    def setUp(self):
        super().setUp()
        self.pid = dead_pid()
        self.env = clean_environment(TMPDIR=self.directory)

    def plant(self, name, text="x"):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def names(self):
        return sorted(os.listdir(self.directory))

    def clean(self, *options, status=0, **kwargs):
        """Run perfpy clean, for the test's own directory only."""
        code = ("import sys; from perfpy import clean, cli; "
                f"clean.directories_of_perf = lambda: [{self.directory!r}]; "
                "sys.exit(cli.main())")
        result = subprocess.run(
            [sys.executable, "-c", code, "clean", *options], env=self.env,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **kwargs)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def test_all_kinds(self):
        planted = [f"perf-{self.pid}.map", f"jit-{self.pid}.dump",
                   f"jitted-{self.pid}-17.so"]
        for name in planted:
            self.plant(name, "12345")
        os.makedirs(self.path(f"jitted-perfpy-{self.pid}-ab_c/x"))
        self.plant(f"jitted-perfpy-{self.pid}-ab_c/x/y", "1" * 1000)
        result = self.clean("--dry-run")
        for name in planted + [f"jitted-perfpy-{self.pid}-ab_c"]:
            self.assertIn(self.path(name), result.stdout)
        self.assertIn("4 with 1,015 bytes", result.stdout)
        self.assertEqual(len(self.names()), 4)
        self.clean("--yes")
        self.assertEqual(self.names(), [])
        self.assertIn("nothing is left behind", self.clean().stdout)

    def test_what_stays(self):
        victim = self.plant("victim")
        os.mkdir(self.path("directory"))
        self.plant("directory/file")
        self.plant(f"perf-{os.getpid()}.map")       # alive
        self.plant(f"jit-{os.getppid()}.dump")
        self.plant("perf-1.map")                    # alive, perhaps another's
        os.symlink(victim, self.path(f"perf-{self.pid}.map"))
        os.symlink(self.path("directory"),
                   self.path(f"jitted-perfpy-{self.pid}-abc"))
        os.mkfifo(self.path(f"jit-{self.pid}.dump"))
        os.mkdir(self.path(f"jitted-{self.pid}-1.so"))
        for name in (f"perf-{self.pid}.map.txt", f"xperf-{self.pid}.map",
                     f"perf-{self.pid}x.map", "perf-.map",
                     f"perf-{self.pid}.map\n", f"perf-{self.pid}.data",
                     f"perfpy-{self.pid}-abc", f"perf--{self.pid}.map"):
            self.plant(name)
        before = self.names()
        self.assertIn("nothing is left behind", self.clean("--yes").stdout)
        self.assertEqual(self.names(), before)
        self.assertEqual(os.listdir(self.path("directory")), ["file"])

    def test_links_in_a_directory(self):
        victim = self.plant("victim")
        os.mkdir(self.path(f"perfpy-{self.pid}-abc"))
        os.symlink(victim, self.path(f"perfpy-{self.pid}-abc/link"))
        self.clean("--yes")
        self.assertEqual(self.names(), ["victim"])

    def test_recycled_number(self):
        # The file is older than the process, which keeps it all the same.
        path = self.plant(f"perf-{os.getpid()}.map")
        os.utime(path, (0, 0))
        self.clean("--yes")
        self.assertTrue(os.path.exists(path))

    @unittest.skipUnless(os.geteuid() == 0,
                         "only root can plant others' files")
    def test_other_user(self):
        path = self.plant(f"perf-{self.pid}.map")
        os.chown(path, NOBODY, NOBODY)
        self.clean("--yes")
        self.assertTrue(os.path.exists(path))

    def test_nobody_to_ask(self):
        path = self.plant(f"perf-{self.pid}.map")
        result = self.clean(status=1)
        self.assertIn("--yes", result.stderr)
        self.assertTrue(os.path.exists(path))

    def test_question(self):
        path = self.plant(f"perf-{self.pid}.map")
        for answer, stays in (b"\n", True), (b"n\n", True), (b"y\n", False):
            master, terminal = pty.openpty()
            try:
                os.write(master, answer)
                code = ("import sys; from perfpy import clean, cli; "
                        "clean.directories_of_perf = lambda: "
                        f"[{self.directory!r}]; sys.exit(cli.main())")
                result = subprocess.run(
                    [sys.executable, "-c", code, "clean"], stdin=terminal,
                    env=self.env, stdout=subprocess.PIPE, text=True)
            finally:
                os.close(master)
                os.close(terminal)
            # It is listed before the question.
            self.assertRegex(result.stdout, r"(?s)perf-\d+\.map.*Remove.*\?")
            self.assertEqual(result.returncode, int(stays))
            self.assertEqual(os.path.exists(path), stays)

    def test_real_directory(self):
        path = f"/tmp/perf-{self.pid}.map"
        self.addCleanup(remove_map, self.pid)
        # A process that is gone may have left one.
        with open(path, "w") as file:
            file.write("x")
        result = self.perfpy("clean", "--dry-run")
        self.assertIn(path, result.stdout)
        self.assertTrue(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
