"""perfpy doctor: what it finds on this machine, and where something is wrong.

Nothing is simulated: each situation is made, where this user can make it.
"""

import os
import shutil
import subprocess
import sys
import unittest
from test.support.perf_seccomp import (ALLOW, EQUAL, LOAD, NUMBER, REFUSE,
                                       RETURN, install)
from test.support.perfpy_case import (NO_FP, PerfpyTestCase,
                                      RecordingTestCase, become_nobody,
                                      clean_environment)

from perfpy import architecture, framepointers, permissions

MACHINE = architecture.of_machine()


def forbid_perf_event_open(number):
    """Let the system call fail in this process and its children.

    As the filters of container runtimes do.
    """
    install([(LOAD, 0, 0, NUMBER),
             (EQUAL, 0, 1, MACHINE.perf_event_open),
             (RETURN, 0, 0, REFUSE | number),
             (RETURN, 0, 0, ALLOW)])


class WorkingTest(RecordingTestCase):

    def test_all_is_well(self):
        result = self.perfpy("doctor")
        self.assertNotIn("problem", result.stdout)
        self.assertIn("its functions have names and callers", result.stdout)
        self.assertIn("A profile is possible", result.stdout)
        self.assertEqual(result.stderr, "")
        self.assertEqual(os.listdir(self.directory), [])

    @unittest.skipUnless(NO_FP, "PERF_TEST_PYTHON_NO_FP is not set")
    def test_no_frame_pointers(self):
        result = self.perfpy("doctor", "--python", NO_FP)
        self.assertIn("built without frame pointers", result.stdout)
        self.assertIn("--with-frame-pointers", result.stdout)
        self.assertIn("names and callers (copies of", result.stdout)


class FeatureTest(RecordingTestCase):
    """What keeps single features from working; a profile is possible."""

    def test_nobody_may_ask(self):
        self.assertNotIn("REMOTE_DEBUG", self.perfpy("doctor").stdout)
        result = self.perfpy("doctor", env=clean_environment(
            PYTHON_DISABLE_REMOTE_DEBUG="1"))
        self.assertIn("lets nobody ask it for names later", result.stdout)

    def test_tracing_of_processes(self):
        scope = permissions.setting("kernel.yama.ptrace_scope")
        if not scope:
            self.skipTest("kernel.yama.ptrace_scope limits nobody here")
        options = {}
        if os.geteuid() == 0:
            self.admit_nobody()
            options["preexec_fn"] = become_nobody
        self.assertIn(f"kernel.yama.ptrace_scope is {scope}",
                      self.perfpy("doctor", **options).stdout)

    def test_tracepoints(self):
        if os.geteuid() != 0:
            self.skipTest("takes root, to become another user")
        self.admit_nobody()
        result = self.perfpy("doctor", preexec_fn=become_nobody)
        self.assertIn("--event has no tracepoints for you", result.stdout)

    def test_terminal(self):
        self.write("_curses.py", "raise ImportError('no such terminal')")
        result = self.perfpy("doctor", env=clean_environment(
            PYTHONPATH=self.directory))
        self.assertIn("perfpy top cannot draw: no such terminal",
                      result.stdout)


class FramePointersTest(PerfpyTestCase):
    """Which code keeps frame pointers?"""

    SOURCE = """
        int other(int);
        #define F(n) int f##n(int x) { return other(x + n) + other(n); }
        #define G(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6)
        G(1) G(2) G(3) G(4) G(5)
        """

    def compile(self, name, flag):
        os.makedirs(self.path(os.path.dirname(name)), exist_ok=True)
        source = self.write("code.c", self.SOURCE)
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", flag, "-o",
                        self.path(name), source], check=True)
        return self.path(name)

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    @unittest.skipUnless(MACHINE and MACHINE.sets_frame_pointer,
                         "nobody can tell, on this architecture")
    def test_code(self):
        with_them = self.compile("packages/one/code.so",
                                 "-fno-omit-frame-pointer")
        without = self.compile("packages/two/deep/code.so",
                               "-fomit-frame-pointer")
        self.compile("packages/three.cpython-311.so", "-fomit-frame-pointer")
        self.write("packages/two/small.so", "")
        self.assertIs(framepointers.are_kept(with_them), True)
        self.assertIs(framepointers.are_kept(without), False)
        self.assertEqual(framepointers.packages_without(
            [self.path("packages"), "/no/such/directory"]), ["three", "two"])
        result = self.perfpy("doctor", "--perf", "/no/perf", status=1,
                             env=clean_environment(
                                 PYTHONPATH=self.path("packages")))
        self.assertRegex(result.stdout,
                         r"note +without frame pointers: three, two[,.] ")

    def test_other_files(self):
        for path in (os.devnull, __file__, "/no/such/file",
                     self.write("short.so", "\x7fELF\2\1")):
            self.assertIsNone(framepointers.are_kept(path))


class BrokenTest(PerfpyTestCase):

    def test_no_perf(self):
        os.mkdir(self.path("bin"))
        env = clean_environment(PATH=self.path("bin"))
        env.pop("PERF", None)
        result = self.perfpy("doctor", status=1, env=env)
        self.assertRegex(result.stdout, "problem +perf is not installed\n"
                         " +Remedy: apt install linux-perf")
        self.assertIn("A profile is not possible", result.stdout)

    def fake_perf(self, text, status=0):
        path = self.write("perf", f"#!/bin/sh\necho '{text}'\nexit {status}\n")
        os.chmod(path, 0o755)
        return path

    def test_wrapper_without_perf(self):
        # What distributions install that have one perf for each kernel.
        perf = self.fake_perf("WARNING: perf not found for kernel 6.18", 2)
        result = self.perfpy("doctor", "--perf", perf, status=1)
        self.assertIn("perf not found for kernel 6.18", result.stdout)

    def test_old_perf(self):
        perf = self.fake_perf("perf version 4.19.316")
        result = self.perfpy("doctor", "--perf", perf, status=1)
        self.assertRegex(result.stdout, "is perf 4.19; perfpy needs 5.13")

    def test_no_interpreter(self):
        result = self.perfpy("doctor", "--python", "/no/python", status=1)
        self.assertIn("cannot run /no/python", result.stdout)

    def test_interpreter_without_the_feature(self):
        for name in "/usr/bin/python3", "/usr/local/bin/python3":
            if os.path.exists(name) and subprocess.run(
                    [name, "-c", "import sys; sys.activate_stack_trampoline"],
                    stderr=subprocess.DEVNULL).returncode:
                break
        else:
            self.skipTest("there is no other Python 3 here")
        result = self.perfpy("doctor", "--python", name, status=1)
        self.assertIn("cannot name its functions", result.stdout)

    @unittest.skipUnless(MACHINE, "the number of the system call is unknown")
    def test_filter_of_a_container(self):
        for number in 1, 38:        # EPERM, ENOSYS
            result = self.perfpy(
                "doctor", status=1,
                preexec_fn=lambda: forbid_perf_event_open(number))
            self.assertIn("a filter of system calls", result.stdout)
            self.assertIn("--cap-add PERFMON", result.stdout)

    def unshare(self, *options):
        prefix = ["unshare", *options]
        if not shutil.which("unshare") or subprocess.run(
                [*prefix, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this user may not unshare namespaces")
        return prefix

    def test_proc_of_another_namespace(self):
        result = self.perfpy("doctor", status=1,
                             prefix=self.unshare("--pid", "--fork"))
        self.assertIn("/proc is of another pid namespace", result.stdout)
        self.assertIn("mount -t proc proc /proc", result.stdout)

    def test_tracepoints_that_perf_mounts(self):
        if os.geteuid() != 0:
            self.skipTest("takes root, for whom perf mounts a tracefs")
        prefix = [*self.unshare("--mount"), "sh", "-c",
                  "umount -q /sys/kernel/tracing; exec \"$@\"", "sh"]
        self.assertNotIn("--event has no tracepoints",
                         self.perfpy("doctor", prefix=prefix).stdout)
        self.perfpy("run", "-o", self.OUTPUT, "--event",
                    "syscalls:sys_enter_openat", "-c", "pass", prefix=prefix)

    def with_tmp(self, options, then="true"):
        """Return a prefix for a mount namespace with a /tmp of its own.

        What the interpreter needs of the present one is put there.
        """
        needed = os.path.commonpath([sys.executable, os.__file__])
        keep = "true"
        if needed.startswith("/tmp/"):
            keep = (f"mkdir -p {needed} && mount --bind "
                    f"/mnt/{needed.removeprefix('/tmp/')} {needed}")
        return [*self.unshare("--mount"), "sh", "-c",
                "mount --bind /tmp /mnt && "
                f"mount -t tmpfs -o {options} tmpfs /tmp && {keep} && {then} "
                '&& exec "$@"', "sh"]

    def test_tmp_read_only(self):
        prefix = self.with_tmp("mode=1777", "mount -o remount,ro /tmp")
        result = self.perfpy("doctor", status=1, prefix=prefix)
        self.assertIn("/tmp cannot be used: Read-only file system",
                      result.stdout)

    def test_tmp_full(self):
        prefix = self.with_tmp(
            "size=64k", "{ head -c 100000 /dev/zero >/tmp/x || :; }")
        result = self.perfpy("doctor", status=1, prefix=prefix)
        self.assertIn("/tmp cannot be used: No space left", result.stdout)

    def test_tmp_noexec(self):
        prefix = self.with_tmp("noexec,mode=1777")
        result = self.perfpy("doctor", prefix=prefix)
        self.assertRegex(result.stdout, "note +/tmp is mounted noexec")


if __name__ == "__main__":
    unittest.main()
