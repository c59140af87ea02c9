"""perfpy run --attach: running processes, recorded by the real perf."""

import glob
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from test import support
from test.support.perf_helper import remove_map
from test.support.perfpy_case import (OfDwarf, RecordingTestCase,
                                      become_nobody, clean_environment)

from perfpy import family

SERVER = """
def serve():
    handle()

def handle():
    busy()

print(os.getpid(), flush=True)
while True:
    serve()
"""


class AttachTestCase:

    def start(self, *options, prefix=(), script=SERVER, **kwargs):
        """Start a server that runs until the end of the test."""
        process, line = self.start_process(
            [*prefix, sys.executable, *options, self.script(script)],
            env=clean_environment(JITDUMPDIR=self.directory), **kwargs)
        self.inner_pid = int(line)
        return process


class AttachTest(AttachTestCase, RecordingTestCase):

    def attach(self, pid, *arguments, **kwargs):
        return self.record("--attach", str(pid), "--duration", "1",
                           *arguments, **kwargs)

    def test_attach(self):
        server = self.start("-X", "perf")
        before = time.monotonic()
        result = self.attach(server.pid)
        self.assertGreater(time.monotonic() - before, 1)
        self.assertShown(result.profile, "serve", "handle", "busy")
        self.assertRegex(result.stdout, "(?m)^.* busy ")
        self.assertIn(f"process {server.pid}", result.profile.meta["command"])
        # It goes on, with its map.
        self.assertIsNone(server.poll())
        self.assertTrue(os.path.exists(f"/tmp/perf-{server.pid}.map"))

    def test_waiting_for_a_processor(self):
        # Not longer than it is recorded, though it has waited before.
        servers = [self.start("-X", "perf")
                   for _ in range(4 * os.cpu_count())]
        meta = self.attach(servers[0].pid).profile.meta
        self.assertGreater(float(meta["queued"]), 0)
        self.assertLess(float(meta["queued"]), float(meta["duration"]))

    def test_ctrl_c_ends_it(self):
        server = self.start("-X", "perf")
        with subprocess.Popen(
                self.command("run", "-o", self.OUTPUT, "--duration", "9999",
                             "--attach", str(server.pid)),
                env=clean_environment(), cwd=self.directory, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertIn("recording", process.stderr.readline())
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=support.LONG_TIMEOUT)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("busy", output)
        self.assertIsNone(server.poll())

    def test_process_that_ends(self):
        server = self.start("-X", "perf", script="""
            print(os.getpid(), flush=True)
            while not os.path.exists("stop"):
                busy()
            """)
        with subprocess.Popen(
                self.command("run", "-o", self.OUTPUT, "--duration", "9999",
                             "--attach", str(server.pid)),
                env=clean_environment(), cwd=self.directory, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stderr.readline()
            time.sleep(2)
            self.write("stop", "")
            # It is no zombie, for perfpy is not its parent.
            server.wait(support.LONG_TIMEOUT)
            output, errors = process.communicate(timeout=support.LONG_TIMEOUT)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("busy", output)

    def test_feature_is_off(self):
        server = self.start()
        result = self.perfpy("run", "--no-activate", "--attach",
                             str(server.pid), status=125)
        self.assertRegex(result.stderr, "does not name its Python functions.*"
                         "-X perf or PYTHONPERFSUPPORT=1")

    def test_map_of_an_earlier_process(self):
        # It had the same number.  One of this process's own may be as old, if
        # the clock was set: it is open.
        server = self.start()
        path = f"/tmp/perf-{server.pid}.map"
        with open(path, "w") as file:
            file.write("1000 10 py::before:/srv/before.py\n")
        os.utime(path, (1, 1))
        result = self.perfpy("run", "--no-activate", "--attach",
                             str(server.pid), status=125)
        self.assertIn("does not name its Python functions", result.stderr)

        server = self.start("-X", "perf")
        os.utime(f"/tmp/perf-{server.pid}.map", (1, 1))
        self.assertShown(self.attach(server.pid).profile, "serve", "busy")

    def test_children_but_not_perfpy_itself(self):
        child = subprocess.Popen(["sleep", "60"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        found = family.with_children([os.getppid()])
        self.assertIn(os.getppid(), found)
        self.assertNotIn(os.getpid(), found)
        self.assertNotIn(child.pid, found)
        self.assertIn(child.pid, family.with_children([os.getpid()]))

    def test_other_user(self):
        if os.geteuid() != 0:
            if os.stat("/proc/1").st_uid == os.geteuid():
                self.skipTest("there is no process of another user")
            result = self.perfpy("run", "--attach", "1", status=125)
        else:
            self.admit_nobody()
            server = self.start("-X", "perf")
            result = self.perfpy("run", "--attach", str(server.pid),
                                 status=125, preexec_fn=become_nobody)
        self.assertRegex(result.stderr, "belongs to user root; become")

    def test_pid_namespace(self):
        prefix = ["unshare", "--pid", "--fork", "--mount-proc",
                  "--kill-child"]
        if not shutil.which("unshare") or subprocess.run(
                [*prefix, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("there are no pid namespaces for this user")
        unshare = self.start("-X", "perf", prefix=prefix)
        self.addCleanup(remove_map, self.inner_pid)
        with open(f"/proc/{unshare.pid}/task/{unshare.pid}/children") as file:
            pid = int(file.read())
        self.assertNotEqual(pid, self.inner_pid)
        result = self.attach(pid)
        self.assertShown(result.profile, "serve", "handle", "busy")

    def test_jitdump_by_frame_pointers(self):
        server = self.start("-X", "perf_jit")
        result = self.attach(server.pid, "--unwind", "fp")
        self.assertShown(result.profile, "serve", "handle", "busy")
        self.assertEqual(glob.glob(self.path("jitted-*")), [])
        self.assertTrue(os.path.exists(self.path(f"jit-{server.pid}.dump")))


class AttachByDwarfTest(AttachTestCase, OfDwarf):

    def test_dwarf(self):
        # perf unwinds only in files with such names.
        server = self.start("-X", "perf_jit")
        result = self.record("--attach", str(server.pid), "--duration", "1",
                             "--unwind", "dwarf")
        self.assertShown(result.profile, "serve", "handle", "busy")
        self.assertEqual(glob.glob(self.path("jitted-*")), [])


if __name__ == "__main__":
    unittest.main()
