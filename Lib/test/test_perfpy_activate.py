"""perfpy run --attach of processes that do not name their functions."""

import glob
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import unittest
from test import support
from test.support.perf_base import SERVES_REQUESTS
from test.support.perfpy_case import (RecordingTestCase, become_nobody,
                                      clean_environment, shares)

from perfpy import marks, request
from perfpy.profile import Kind

BUSY = """
def inner():
    sum(range(10_000))

def outer():
    while True:
        inner()

print(os.getpid(), flush=True)
"""

# For what uses test.support.
TEST_LIBRARY = {"PYTHONPATH": os.pathsep.join(sys.path)}


class ActivateTestCase(RecordingTestCase):

    def start(self, text, *options, prefix=(), python=sys.executable,
              **variables):
        """Start a process that prints its number when it is ready."""
        process, _ = self.start_process(
            [*prefix, python, *options, self.script(
                BUSY + textwrap.dedent(text))],
            env=clean_environment(**variables), stdin=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        return process

    def attach(self, process, *options, duration=1, **kwargs):
        result = self.record("--attach", str(process.pid), "--duration",
                             str(duration), *options, **kwargs)
        self.assertIsNone(process.poll())
        return result

    def has_map(self, pid):
        return os.path.exists(f"/tmp/perf-{pid}.map")

    def refused(self, process, *options, **kwargs):
        result = self.perfpy("run", "-o", self.OUTPUT, "--attach",
                             str(process.pid), *options, status=125, **kwargs)
        self.assertFalse(self.has_map(process.pid))
        self.assertIsNone(process.poll())
        return result.stderr


class ActivateTest(ActivateTestCase):

    def test_on_and_off(self):
        process = self.start("outer()")
        for _ in range(2):
            result = self.attach(process)
            self.assertGreater(shares(result.profile)["inner"], 0.5)
            self.assertRegex(result.stderr, "running since before: .*outer")
            # It is off again.
            self.assertFalse(self.has_map(process.pid))

    def test_running_since_before(self):
        process = self.start("""
            while True:
                sum(range(10_000))
            """)
        profile = self.attach(process).profile
        self.assertGreater(shares(profile, {Kind.MARK}).get(
            marks.SINCE_BEFORE.name, 0), 0.9)
        self.assertNotIn(marks.START_UP, profile.frames)

    def test_signals_leave_nothing_switched_on(self):
        process = self.start("outer()")
        # Before it records, perfpy tries what it may, and in the end it reads
        # what it has: each takes a moment.
        for beginning, number in [
                ("perfpy: not shown until", signal.SIGTERM),
                ("perfpy: not shown until", signal.SIGHUP),
                ("perfpy: recording", signal.SIGTERM)]:
            with subprocess.Popen(
                    self.command("run", "-o", self.OUTPUT, "--attach",
                                 str(process.pid)),
                    env=clean_environment(TMPDIR=self.directory), text=True,
                    cwd=self.directory, stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE) as perfpy:
                while not perfpy.stderr.readline().startswith(beginning):
                    self.assertIsNone(perfpy.poll())
                perfpy.send_signal(number)
                perfpy.send_signal(signal.SIGINT)
                errors = perfpy.stderr.read()
            # It may have been recording already, which they end.
            self.assertIn(perfpy.returncode, (-number, 0, 1, 130), errors)
            self.assertNotIn("Traceback", errors)
            self.assertFalse(self.has_map(process.pid))
            self.assertEqual(glob.glob(self.path("perfpy-*")), [])

    def test_process_that_ends_meanwhile(self):
        process = self.start("""
            while not os.path.exists(f"/tmp/perf-{os.getpid()}.map"):
                inner()
            """)
        result = self.perfpy("run", "-o", self.OUTPUT, "--attach",
                             str(process.pid), status=125)
        self.assertRegex(result.stderr, f"there is no process {process.pid}|"
                         f"process {process.pid} has ended")
        self.assertFalse(self.has_map(process.pid))
        self.assertEqual(glob.glob(f"/tmp/perfpy-{process.pid}-*"), [])

    def test_lines(self):
        process = self.start("outer()")
        lines = {frame.line for frame in self.attach(process).profile.frames
                 if frame.name == "inner"}
        self.assertTrue(lines - {0}, lines)
        lines = {frame.line for frame in self.attach(
            process, "--no-lines").profile.frames if frame.name == "inner"}
        self.assertEqual(lines, {0})

    def test_sleeper(self):
        process = self.start("""
            while True:
                time.sleep(0.02)
                inner()
            """)
        self.assertIn("inner", shares(self.attach(process).profile))

    def test_no_safe_point(self):
        process = self.start("""
            os.dup2(os.open("errors", os.O_WRONLY | os.O_CREAT), 2)
            sys.stdin.readline()
            for _ in range(100):
                inner()
            print(sys.is_stack_trampoline_active(), flush=True)
            outer()
            """)
        before = time.monotonic()
        self.assertIn("has not come to a safe point for 5 s",
                      self.refused(process))
        self.assertLess(time.monotonic() - before, 60)
        # Nothing comes of it later.
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "False\n")
        self.assertFalse(self.has_map(process.pid))
        with open(self.path("errors")) as file:
            self.assertEqual(file.read(), "")
        for name in glob.glob(f"/tmp/perfpy-{process.pid}-*"):
            shutil.rmtree(name)

    def test_no_activate(self):
        self.assertIn("does not name its Python functions: start it with "
                      "-X perf", self.refused(self.start("outer()"),
                                              "--no-activate"))

    def test_user_says_no(self):
        message = "lets nobody switch anything on in it: -X disable-remote"
        process = self.start("outer()", "-X", "disable-remote-debug")
        self.assertIn(message, self.refused(process))
        process = self.start("outer()", PYTHON_DISABLE_REMOTE_DEBUG="1")
        self.assertIn(message, self.refused(process))

    def test_sealed(self):
        process = self.start("""
            sys.seal_stack_trampoline()
            outer()
            """)
        if SERVES_REQUESTS:
            self.assertIn("sys.seal_stack_trampoline() was called",
                          self.refused(process))

    def test_not_traceable(self):
        if os.geteuid() != 0:
            self.skipTest("takes root, to become another user")
        self.admit_nobody()
        process = self.start("outer()")
        self.assertIn("belongs to user root", self.refused(
            process, preexec_fn=become_nobody))

    def test_not_dumpable(self):
        if os.geteuid() != 0:
            self.skipTest("takes root, to become another user")
        self.admit_nobody()
        process = self.start("""
            import ctypes
            os.setgid(65534)
            os.setuid(65534)
            ctypes.CDLL(None).prctl(4, 0)       # PR_SET_DUMPABLE
            print("ready", flush=True)
            outer()
            """)
        process.stdout.readline()
        self.assertRegex(self.refused(process, preexec_fn=become_nobody),
                         "become root|belongs to user")

    def test_other_python(self):
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        probe = python and subprocess.run(
            [python, "-c", "import sys; print(hasattr(sys, 'remote_exec') or "
             "hasattr(sys, 'activate_stack_trampoline'))"],
            text=True, stdout=subprocess.PIPE)
        if not probe or probe.stdout != "False\n":
            self.skipTest("the system has no Python without -X perf")
        process = self.start("outer()", python=python)
        self.assertRegex(self.refused(process), "runs a Python that cannot "
                         "name its functions.*perfpy run")


@unittest.skipUnless(SERVES_REQUESTS, "CPython from 3.14 on runs a script in "
                     "its main thread instead")
class RequestTest(ActivateTestCase):
    """What goes beyond that: any thread, and any interpreter."""

    def test_idle_main_thread(self):
        process = self.start("""
            from concurrent.futures import ThreadPoolExecutor
            def work():
                while True:
                    inner()
                    time.sleep(0.001)
            with ThreadPoolExecutor() as pool:
                for _ in range(3):
                    pool.submit(work)
            """)
        self.assertGreater(shares(self.attach(process).profile)["inner"], 0.5)

    def test_one_busy_thread(self):
        # It never gives the GIL to anybody.
        process = self.start("""
            thread = threading.Thread(target=outer)
            thread.start()
            thread.join()
            """)
        self.assertGreater(shares(self.attach(process).profile)["inner"], 0.5)

    def test_interpreter(self):
        process = self.start("""
            from test.support.perf_interpreters import (create, raise_failure,
                                                        run_string)
            raise_failure(run_string(create(), '''if True:
                def inside():
                    sum(range(10_000))
                while True:
                    inside()
                '''))
            """, **TEST_LIBRARY)
        self.assertGreater(shares(self.attach(process).profile)["inside"], 0.5)

    def test_later_interpreter(self):
        process = self.start("""
            from test.support.perf_interpreters import (create, raise_failure,
                                                        run_string)
            while not os.path.exists(f"/tmp/perf-{os.getpid()}.map"):
                inner()
            raise_failure(run_string(create(), '''if True:
                def inside():
                    sum(range(10_000))
                while True:
                    inside()
                '''))
            """, **TEST_LIBRARY)
        result = self.attach(process, duration=3)
        self.assertGreater(shares(result.profile)["inside"], 0.3)

    def test_children(self):
        # One is there, one waits, and one is forked while it records.
        process = self.start("""
            def child():
                pid = os.fork()
                if pid == 0:
                    signal.alarm(600)
                    outer()
                print(pid, flush=True)
            child()
            if os.fork() == 0:
                sys.stdin.read()
                os._exit(0)
            time.sleep(0.3)
            print("ready", flush=True)
            while not os.path.exists(f"/tmp/perf-{os.getpid()}.map"):
                inner()
            child()
            outer()
            """)
        children = [int(process.stdout.readline())]
        self.addCleanup(os.kill, children[0], signal.SIGKILL)
        process.stdout.readline()
        result = self.attach(process)
        self.assertIn("waits for something; it names its Python functions as "
                      "soon as it runs", result.stderr)
        children.append(int(process.stdout.readline()))
        self.addCleanup(os.kill, children[1], signal.SIGKILL)
        self.assertEqual({thread.pid for thread in result.profile.threads},
                         {process.pid, *children})
        self.assertGreater(shares(result.profile)["inner"], 0.5)
        for pid in process.pid, *children:
            self.assertFalse(self.has_map(pid))
            found = request.find(pid)
            self.addCleanup(found.close)
            self.assertFalse(found.is_on)

    def ask(self, pid, wanted):
        found = request.find(pid)
        try:
            self.assertEqual(request.ask([found], wanted,
                                         support.LONG_TIMEOUT), [])
        finally:
            found.close()

    def test_threads_and_interpreters_that_end(self):
        # What is poked into is freed all the time.
        process = self.start("""
            from test.support.perf_interpreters import (create, destroy,
                                                        raise_failure,
                                                        run_string)
            import select
            def interpreters():
                while True:
                    number = create()
                    raise_failure(run_string(number, "sum(range(1000))"))
                    destroy(number)
            def threads():
                while True:
                    ended = [threading.Thread(target=inner)
                             for _ in range(10)]
                    for thread in ended:
                        thread.start()
                    for thread in ended:
                        thread.join()
            threading.Thread(target=interpreters, daemon=True).start()
            threading.Thread(target=threads, daemon=True).start()
            while not select.select([sys.stdin], [], [], 0)[0]:
                inner()
            os._exit(0)
            """, **TEST_LIBRARY)
        for _ in range(100):
            self.ask(process.pid, request.ON)
            self.ask(process.pid, request.OFF)
        self.assertIsNone(process.poll())
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.wait(support.LONG_TIMEOUT), 0)

    def test_signals_and_pending_calls(self):
        # None is lost by what the other process writes.
        process = self.start(r"""
            count = 0
            def count_one(number, frame):
                global count
                count += 1
                os.write(1, b"%d\n" % count)
            signal.signal(signal.SIGUSR1, count_one)
            os.write(1, b"ready\n")
            outer()
            """)
        process.stdout.readline()
        for number in range(100):
            process.send_signal(signal.SIGUSR1)
            self.ask(process.pid, (request.ON, request.OFF)[number % 2])
            readable, _, _ = select.select([process.stdout], [], [],
                                           support.SHORT_TIMEOUT)
            self.assertTrue(readable)
            self.assertEqual(process.stdout.readline(), f"{number + 1}\n")

    def test_one_at_a_time(self):
        process = self.start("outer()")
        first = request.find(process.pid)
        self.addCleanup(first.close)
        self.assertIn("another perfpy is asking", self.refused(process))


if __name__ == "__main__":
    unittest.main()
