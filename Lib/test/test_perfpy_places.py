"""perfpy run where something is amiss: what is told, and what is kept."""

import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from test.support.perf_helper import remove_map
from test.support.perfpy_case import RecordingTestCase, clean_environment

from perfpy import family, nothing, recording
from perfpy.perf import Perf

UNSHARE = ["unshare", "--mount", "sh", "-c"]


class NothingTest(RecordingTestCase):
    """There are no samples."""

    def test_waiting_process(self):
        process, _ = self.start_process(
            [sys.executable, "-X", "perf", "-c",
             "import time; print(flush=True); time.sleep(600)"])
        time.sleep(0.2)
        self.write("out.perfpy", "the last result")
        self.write(self.OUTPUT, "the last result")
        result = self.perfpy("run", "-o", self.OUTPUT, "--attach",
                             str(process.pid), "--duration", "0.5", status=1)
        self.assertIn("nothing was recorded: the processes were waiting all "
                      "the time", result.stderr)
        for name in "out.perfpy", self.OUTPUT:
            with open(self.path(name)) as file:
                self.assertEqual(file.read(), "the last result")

    def test_short_script(self):
        self.write("out.perfpy", "the last result")
        result = self.perfpy("run", "-F", "1", "-o", "out.perfpy", "-c",
                             "pass", status=1)
        self.assertRegex(result.stderr, "nothing was recorded: ")
        with open(self.path("out.perfpy")) as file:
            self.assertEqual(file.read(), "the last result")

    def test_reasons(self):
        self.assertIn("page-faults did not happen",
                      nothing.reason("page-faults", 9, 9))
        self.assertIn("waiting", nothing.reason("cycles:u", 9, 0.01))
        self.assertIn("--frequency", nothing.reason("cpu-clock", 0.05))
        self.assertIn("--duration", nothing.reason("cpu-clock", 0.05, 0.05))
        self.assertIn("doctor", nothing.reason("cpu-clock", 9))
        self.assertIn("doctor", nothing.reason("cpu-clock", 9, 9))

    def test_event_that_does_not_happen(self):
        if Perf.find().try_event("page-faults", self.directory):
            self.skipTest("perf cannot count page faults here")
        result = self.perfpy("run", "-o", self.OUTPUT, "--event",
                             "alignment-faults", "-c", "pass", status=1)
        self.assertIn("nothing was recorded: alignment-faults did not happen",
                      result.stderr)
        self.assertFalse(os.path.exists(self.path("out.perfpy")))


class EventTest(RecordingTestCase):

    def test_its_own_unit(self):
        if Perf.find().try_event("page-faults", self.directory):
            self.skipTest("perf cannot count page faults here")
        result = self.record("--event", "page-faults", "-F", "999", "-c",
                             "def grow():\n"
                             "    return [b'x' * 9999 for _ in range(9999)]\n"
                             "grow()")
        self.assertRegex(result.stderr, r"samples, [\d,]+ page-faults"
                                        r"(:u, without the kernel)? in ")
        self.assertNotIn("CPU time", result.stderr)
        self.assertGreater(result.profile.duration(), 9999)
        self.assertIn(" grow ", result.stderr)

    def test_what_perf_says(self):
        result = self.perfpy("run", "--event", "bogus", "-c", "pass",
                             status=125)
        self.assertIn("'bogus'", result.stderr)
        self.assertIn("perf record failed", result.stderr)


class OutputTest(RecordingTestCase):

    def in_namespace(self, preparation):
        """Return a command that runs others where /tmp is prepared."""
        prefix = [*UNSHARE, preparation + ' && "$@"', "sh"]
        if not shutil.which("unshare") or subprocess.run(
                [*prefix, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this user may not mount anything")
        return prefix

    def test_tmp_is_read_only(self):
        prefix = self.in_namespace("mount -t tmpfs -o ro tmpfs /tmp && "
                                   "cd /var/tmp")
        result = subprocess.run(
            [*prefix, *self.command("run", "-o", "/var/tmp/x.collapsed.txt",
                                    "-c", "print('ran')")],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=clean_environment())
        self.assertEqual((result.returncode, result.stdout), (125, ""))
        self.assertIn("/tmp is not writable; the interpreter writes the names "
                      "of functions there", result.stderr)
        self.assertFalse(os.path.exists("/var/tmp/x.perfpy"))

    def test_full_disk_leaves_the_last_result(self):
        self.write("out.perfpy", "the last result")
        os.mkdir(self.path("kept"))
        prefix = self.in_namespace(
            "mount -t tmpfs -o size=4k tmpfs /mnt && "
            f"cp {self.path('out.perfpy')} /mnt && "
            f"trap 'cp /mnt/* {self.directory}/kept' EXIT")
        result = self.perfpy("run", "-q", "-o", "/mnt/out.perfpy",
                             self.script("busy()"), prefix=prefix, status=1)
        self.assertIn("No space left", result.stderr)
        self.assertEqual(os.listdir(self.path("kept")), ["out.perfpy"])
        with open(self.path("kept/out.perfpy")) as file:
            self.assertEqual(file.read(), "the last result")


class FamilyTest(RecordingTestCase):
    """--attach records several processes, and their children."""

    def start(self, text):
        process = subprocess.Popen(
            [sys.executable, "-X", "perf", self.script(text), "--serve"],
            text=True, stdout=subprocess.PIPE, env=clean_environment(),
            start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
        pids = list(map(int, process.stdout.readline().split()))
        for pid in process.pid, *pids:
            self.addCleanup(remove_map, pid)
        return process, pids

    MASTER = """
        def work():
            while True:
                busy()

        pids = []
        for _ in range(2):
            if (pid := os.fork()) == 0:
                work()
            pids.append(pid)
        print(*pids, flush=True)
        time.sleep(600)
        """

    def test_children_of_a_master(self):
        master, pids = self.start(self.MASTER)
        result = self.record("--attach", str(master.pid), "--duration", "1")
        profile = result.profile
        self.assertEqual({thread.pid for thread in profile.threads},
                         set(pids))
        self.assertShown(profile, "work", "busy")
        self.assertIn(f"process {master.pid}: ", profile.meta["command"])
        self.assertIn("-X perf", profile.meta["command"])
        self.assertTrue(profile.meta["command"].endswith(" --serve"))

    def test_several(self):
        master, pids = self.start(self.MASTER)
        for arguments in [["--attach", f"{pids[0]},{pids[1]}"],
                          ["--attach", str(pids[1]),
                           "--attach", str(pids[0])]]:
            result = self.record(*arguments, "--duration", "0.5")
            self.assertEqual(
                {thread.pid for thread in result.profile.threads}, set(pids))

    def test_parents_and_children(self):
        master, pids = self.start(self.MASTER)
        self.assertEqual(family.with_children([master.pid]),
                         [master.pid, *sorted(pids)])
        self.assertIn("--serve", family.command_line(pids[0]))
        self.assertEqual(family.command_line(2**22 + 1), "")
        self.assertGreaterEqual(family.cpu_seconds([os.getpid()]), 0)

    def test_pool(self):
        # A pool's workers are told from their parent.
        script = self.script("""
            import multiprocessing

            def work(number):
                busy()

            if __name__ == "__main__":
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    pool.map(work, range(4))
                busy()
            """)
        self.record(script)
        profile = recording.load(self.path("out.perfpy"))
        names = {thread.process_name for thread in profile.threads}
        parent = min(names, key=len)
        self.assertLessEqual({parent, f"{parent} child 1",
                              f"{parent} child 2"}, names)


if __name__ == "__main__":
    unittest.main()
