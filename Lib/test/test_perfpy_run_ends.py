"""perfpy run: however the script ends, what was recorded is shown.

Its status, its signals and its terminal are its own.
"""

import glob
import os
import pty
import resource
import select
import signal
import subprocess
import time
import unittest
from test import support
from test.support.perfpy_case import (RecordingTestCase, clean_environment,
                                      stacks)

from perfpy import recording


class EndTest(RecordingTestCase):

    def test_exit_code(self):
        for code in 0, 1, 2, 125, 255:
            result = self.record("-c", f"import sys; sys.exit({code})",
                                 status=code)
            self.assertTrue(result.profile.threads)

    def test_uncaught_exception(self):
        result = self.record("-q", "-c", "1/0", status=1)
        self.assertIn("ZeroDivisionError", result.stderr)

    def test_crash(self):
        script = self.script("""
            import ctypes

            def crash():
                busy()
                ctypes.string_at(0)

            crash()
            """)
        result = self.record(script, status=-signal.SIGSEGV)
        self.assertShown(result.profile, "<module>", "crash", "busy")

    def test_killed(self):
        script = self.script("busy(); os.kill(os.getpid(), int(sys.argv[1]))")
        for number in signal.SIGKILL, signal.SIGTERM, signal.SIGABRT:
            result = self.record(script, str(int(number)), status=-number)
            self.assertShown(result.profile, "busy")

    def test_status_in_a_shell(self):
        script = self.script("busy(); os.kill(os.getpid(), signal.SIGTERM)")
        self.perfpy("run", "-o", self.OUTPUT, script,
                    prefix=["sh", "-c", '"$@"; exit $?', "sh"],
                    status=128 + signal.SIGTERM)

    def test_no_core_of_perfpy(self):
        # Of the script there may be one, if its user wants it.
        script = self.script("""
            import resource
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.abort()
            """)

        def allow_core():
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        self.record(script, status=-signal.SIGABRT, preexec_fn=allow_core)
        self.assertEqual(glob.glob(self.path("core*")), [])

    def test_signals_reach_the_script(self):
        script = self.script("""
            seen = []
            for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP,
                           signal.SIGINT):
                signal.signal(number, lambda number, frame:
                              seen.append(number))
            print("ready", flush=True)
            while len(seen) < 4:
                busy(0.01)
            print(sorted(map(int, seen)))
            """)
        with subprocess.Popen(
                self.command("run", "-q", "-o", self.OUTPUT, script),
                env=clean_environment(), stdout=subprocess.PIPE, text=True,
                cwd=self.directory) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP,
                           signal.SIGINT):
                process.send_signal(number)
                time.sleep(0.1)
            self.assertEqual(process.stdout.readline(), "[1, 2, 10, 15]\n")
        self.assertEqual(process.returncode, 0)

    def test_child_that_outlives_the_script(self):
        script = self.script("""
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                os.dup2(1, 2)
                busy(0.01)              # its first call gives it a map
                time.sleep(600)
                os._exit(0)
            print(pid, flush=True)
            busy()
            """)
        start = time.monotonic()
        result = self.record(script)
        pid = int(result.stdout)
        self.addCleanup(os.unlink, f"/tmp/perf-{pid}.map")
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.assertLess(time.monotonic() - start, 300)
        self.assertShown(result.profile, "busy")
        # It is alive, and so keeps its map.
        self.assertTrue(os.path.exists(f"/tmp/perf-{pid}.map"))


class TerminalTest(RecordingTestCase):

    def run_on_terminal(self, *arguments, expect, send):
        """Run perfpy on a terminal, type something when the script is ready.

        Return all output and the status.
        """
        pid, terminal = pty.fork()
        if pid == 0:
            try:
                os.chdir(self.directory)
                command = self.command("run", "-o", self.OUTPUT, *arguments)
                os.execve(command[0], command, clean_environment())
            finally:
                os._exit(99)
        output = b""
        deadline = time.monotonic() + support.LONG_TIMEOUT
        with open(terminal, "rb+", buffering=0) as file:
            while True:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                    self.fail(f"no end: {output}")
                if not select.select([file], [], [], 1)[0]:
                    continue
                try:
                    data = file.read(4096)
                except OSError:         # how a terminal says that all is over
                    break
                if not data:
                    break
                output += data
                if expect and expect in output:
                    expect = None
                    file.write(send)
            status = os.waitpid(pid, 0)[1]
        return output.decode(), status

    def test_ctrl_c(self):
        script = self.script("""
            def forever():
                busy(1)
                print("ready")
                while True:
                    busy()

            count = 0
            try:
                forever()
            except KeyboardInterrupt:
                count += 1
                time.sleep(0.5)         # a second one would come now
                print(f"interrupted {count} time", "cleaned up")
                busy()
                raise
            """)
        output, status = self.run_on_terminal(script, expect=b"ready",
                                              send=b"\x03")
        self.assertIn("interrupted 1 time cleaned up", output)
        self.assertIn("KeyboardInterrupt", output)
        self.assertTrue(os.WIFSIGNALED(status), (status, output))
        self.assertEqual(os.WTERMSIG(status), signal.SIGINT)
        self.assertIn("samples", output)
        profile = recording.load(self.path("out.perfpy"))
        self.assertShown(profile, "forever", "busy", share=0.1)
        # Also what came after Ctrl-C.
        self.assertIn(("<module>", "busy"), stacks(profile))

    def test_script_that_goes_on_after_ctrl_c(self):
        script = self.script("""
            try:
                print("ready")
                while True:
                    busy()
            except KeyboardInterrupt:
                sys.exit(5)
            """)
        _, status = self.run_on_terminal(script, expect=b"ready", send=b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(status), 5)

    def test_ctrl_backslash(self):
        script = self.script("""
            busy(1)
            print("ready")
            while True:
                busy()
            """)
        output, status = self.run_on_terminal(script, expect=b"ready",
                                              send=b"\x1c")
        self.assertEqual(os.WTERMSIG(status), signal.SIGQUIT)
        self.assertShown(recording.load(self.path("out.perfpy")), "busy")

    def test_terminal_is_the_scripts(self):
        script = self.script("""
            print(all(map(os.isatty, range(3))), input("name? ").upper())
            """)
        output, status = self.run_on_terminal(script, expect=b"name?",
                                              send=b"abc\n")
        self.assertIn("True ABC", output)
        self.assertEqual(status, 0)
        # The line of progress is there, and gone at the end.
        self.assertRegex(output,
                         r"\r\x1b\[Kperfpy: reading samples.*\r\x1b\[K")

    def test_no_progress_elsewhere(self):
        self.assertNotIn("\r", self.record("-c", "pass").stderr)


if __name__ == "__main__":
    unittest.main()
