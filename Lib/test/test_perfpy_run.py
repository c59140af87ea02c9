"""perfpy run: real scripts, recorded by the real perf.

The script's arguments and streams are its own.  test_perfpy_run_ends tells how
it ends.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import unittest
from test.support.perf_helper import remove_map
from test.support.perfpy_case import (NO_FP, NOBODY, OfDwarf,
                                      RecordingTestCase, become_nobody,
                                      clean_environment, shares, stacks)

from perfpy import advice, permissions, recording
from perfpy.perf import Perf
from perfpy.profile import Kind

NESTED = """
def foo():
    bar()

def bar():
    baz()

def baz():
    busy()

foo()
"""


class CommandLineTest(RecordingTestCase):

    def test_script(self):
        script = self.script(NESTED)
        result = self.record(script)
        self.assertEqual(result.stdout, "")
        self.assertShown(result.profile, "<module>", "foo", "bar", "baz",
                         "busy")
        self.assertRegex(result.stderr, "perfpy: recording .* stacks by ")
        self.assertRegex(result.stderr, r"(?m)^ +\d+\.\d\d % +\d+\.\d\d %  "
                         r"own +busy +" + re.escape(script))
        meta = result.profile.meta
        self.assertIn(script, meta["command"])
        self.assertGreater(float(meta["duration"]), 0.2)
        noun = ("CPU time" if permissions.may_record_kernel()
                else "user CPU time, without the kernel")
        self.assertIn(f" s of {noun} in {float(meta['duration']):.2f} s",
                      result.stderr)
        # What others do on this machine is not taken for waiting.
        self.assertNotIn("mostly waiting", result.stderr)
        self.assertEqual(meta["directory"], self.directory)
        self.assertRegex(meta["started"], r"\A\d{4}-\d\d-\d\dT.*\+00:00\Z")
        with open(self.path(self.OUTPUT)) as file:
            self.assertIn("busy", file.read())

    def test_waiting_is_told(self):
        if not permissions.may_record_kernel():
            self.skipTest("only root, or kernel.perf_event_paranoid of 1, "
                          "knows whether the kernel worked or waited")
        result = self.record("-c", "import time; time.sleep(1)")
        self.assertIn("; mostly waiting, which is not in the profile",
                      result.stderr)

    def test_arguments_are_the_scripts(self):
        script = self.script("print(sys.argv[1:])")
        arguments = ["-o", "x", "--format", "-m", "-c", "--help", "--", "-q",
                     "--attach", "1", "", "a b"]
        result = self.record("--", script, *arguments)
        self.assertEqual(result.stdout, f"{arguments}\n")
        result = self.record(script, "--", "x")
        self.assertEqual(result.stdout, "['--', 'x']\n")
        result = self.record("-c", "import sys; print(sys.argv)", *arguments)
        self.assertEqual(result.stdout, f"{['-c', *arguments]}\n")

    def test_script_from_standard_input(self):
        with open(self.script(NESTED)) as file:
            result = self.record("-", "x", stdin=file)
        self.assertShown(result.profile, "foo", "bar", "baz", "busy")

    def test_python_on_the_path(self):
        os.symlink(sys.executable, self.path("another-python"))
        env = clean_environment(
            PATH=self.directory + os.pathsep + os.environ["PATH"])
        result = self.record("--python", "another-python", "-c",
                             "import sys; print(sys.executable)", env=env)
        self.assertEqual(result.stdout.strip(), self.path("another-python"))

    def test_module(self):
        self.script(NESTED + "print(__name__, sys.argv[1:])", "nested.py")
        result = self.record("-m", "nested", "-m", "-o")
        self.assertEqual(result.stdout, "__main__ ['-m', '-o']\n")
        self.assertShown(result.profile, "foo", "bar", "baz", "busy")

    def test_streams(self):
        script = self.script("""
            data = sys.stdin.buffer.read()
            sys.stderr.write("to stderr")
            sys.stdout.buffer.write(data[::-1])
            print(len(os.listdir("/proc/self/fd")), end="")
            """)
        with open(self.write("in", "abc\0")) as file:
            result = self.record("-q", script, stdin=file)
            file.seek(0)
            with subprocess.Popen([sys.executable, "-X", "perf", script],
                                  stdin=file, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as alone:
                self.addCleanup(remove_map, alone.pid)
                expected = alone.communicate()
        self.assertEqual((result.stdout, result.stderr), expected)
        self.assertTrue(result.stdout.startswith("\0cba"))

    def test_no_streams(self):
        script = self.script("""
            with open("streams", "w") as file:
                print(file.fileno(), sys.stdout, sys.stderr, file=file)
            busy()
            """)
        result = self.record(script, prefix=[
            "sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
        self.assertIn("busy", shares(result.profile))
        with open(self.path("streams")) as file:
            self.assertEqual(file.read(), "0 None None\n")

    def test_nothing_is_left_behind(self):
        pids = self.script("""
            print(os.getpid(), flush=True)
            if os.fork() == 0:
                print(os.getpid(), flush=True)
                busy()
                os._exit(0)
            os.wait()
            """)
        for options in [], ["--unwind", "dwarf"]:
            result = self.record(*options, pids)
            for pid in result.stdout.split():
                self.assertEqual(glob.glob(f"/tmp/perf-{pid}.map")
                                 + glob.glob(f"/tmp/jit-{pid}.dump")
                                 + glob.glob(f"/tmp/jitted-{pid}-*"), [])
        left = set(os.listdir(self.directory)) - {"script.py", "__pycache__"}
        self.assertEqual(left, {self.OUTPUT, "out.perfpy"})
        work = self.path("work")
        os.mkdir(work)
        self.record(pids, env=clean_environment(TMPDIR=work))
        self.assertEqual(os.listdir(work), [])

    def test_formats(self):
        for name, start in [("speedscope", b"{"), ("gecko", b"{"),
                            ("pprof", b"\x1f\x8b"), ("collapsed", b"python"),
                            ("perf.data", b"PERFILE2")]:
            with self.subTest(name):
                output = self.path(f"out-{name}")
                result = self.perfpy("run", "-o", output, "--format", name,
                                     "-c", "sum(range(10**6))")
                with open(output, "rb") as file:
                    self.assertEqual(file.read(len(start)), start)
                self.assertIn(output, result.stderr)
                recording.load(output + recording.SUFFIX)

    def test_recording_alone(self):
        result = self.perfpy("run", "-o", "a.perfpy", self.script(NESTED))
        self.assertShown(recording.load(self.path("a.perfpy")), "foo", "baz")
        self.assertEqual(sorted(os.listdir(self.directory)),
                         ["a.perfpy", "script.py"])
        self.assertIn("For a format", result.stderr)

    def test_raw_data_keep_their_names(self):
        result = self.perfpy("run", "--format", "perf.data",
                             self.script(NESTED + "print(os.getpid())"))
        map_file = f"/tmp/perf-{result.stdout.strip()}.map"
        self.addCleanup(os.unlink, map_file)
        report = Perf.find().run("report", "-i", self.path("perf.data"),
                                 "--stdio")
        self.assertIn("py::baz:", report.stdout)

    def test_errors_before_the_script(self):
        script = self.script("print('ran')")
        os.mkdir(self.path("directory"))
        for arguments, message in [
            (["missing.py"], "there is no script missing.py"),
            (["-o", "no/such/a.pb.gz", script], "no directory no/such"),
            (["-o", "/proc/x.pb.gz", script], "cannot write /proc/x.pb.gz"),
            (["-o", "x.svg", script], "the ending of x.svg names no format"),
            (["-o", "q.perfpy", "--format", "html", script],
             "q.perfpy would be taken for a recording"),
            (["--format", "pprof", "-o", "directory", script],
             "it is a directory"),
            (["--perf", "no-perf", script], "no-perf is not installed"),
            (["--perf", "true", script], "does not work"),
            (["--python", "/no/python", script], "cannot run /no/python"),
            (["--python", shutil.which("true"), script], "not a Python"),
            (["--event", "no-event", script], "perf record failed"),
            (["--attach", "99999999"], "there is no process 99999999"),
            (["--format", "perf.data", "--unwind", "copy", script],
             "cannot have stacks by copies"),
        ]:
            with self.subTest(arguments):
                result = self.perfpy("run", *arguments, status=125)
                self.assertIn(message, result.stderr)
                self.assertEqual(result.stdout, "")
        for arguments, message in [
            ([], "give either"),
            (["--attach", "1", script], "give either"),
            (["--frequency", "0", script], "invalid positive int value"),
            (["--attach", "x"], "invalid number of a process value"),
            (["--duration", "3", script], "--duration goes with --attach"),
            (["--attach", "1", "--python", "x"], "--python does not go with"),
            (["--attach", "1", "-m"], "-m does not go with"),
            (["--", "-W"], "-W needs an argument"),
            (["--", "-B"], "give either"),
            (["--duration", "nan", "--attach", "1"], "positive float"),
            (["-m", "-c", "x"], "not allowed with"),
            (["--unknown", script], "unrecognized"),
            (["--event", "cycles,instructions", script], "one event"),
        ]:
            with self.subTest(arguments):
                result = self.perfpy("run", *arguments, status=2)
                self.assertIn(message, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_profile_cannot_be_written(self):
        os.symlink("/dev/full", self.path("full"))
        for status, end in (1, ""), (3, "; sys.exit(3)"):
            script = self.script("print('ran')" + end)
            result = self.perfpy("run", "--format", "collapsed",
                                 "-o", self.path("full"), script,
                                 status=status)
            self.assertEqual(result.stdout, "ran\n")
            self.assertIn("cannot write", result.stderr)


class ProcessesTest(RecordingTestCase):

    def test_fork_and_threads(self):
        script = self.script("""
            def in_child():
                busy()

            def in_thread():
                busy()

            def in_main():
                busy()

            print(os.getpid(), flush=True)
            if (child := os.fork()) == 0:
                in_child()
                os._exit(0)
            print(child, flush=True)
            thread = threading.Thread(target=in_thread)
            thread.start()
            in_main()
            thread.join()
            os.waitpid(child, 0)
            """)
        result = self.record(script)
        parent, child = map(int, result.stdout.split())
        profile = result.profile
        self.assertEqual({thread.pid for thread in profile.threads},
                         {parent, child})
        own = [thread for thread in profile.threads if thread.pid == parent]
        self.assertEqual(len(own), 2)
        found = shares(profile)
        for name in "in_child", "in_thread", "in_main":
            self.assertAlmostEqual(found[name], 1 / 3, delta=0.15)

    def test_spawned_interpreter(self):
        self.script(NESTED, "other.py")
        script = self.script("""
            import subprocess
            subprocess.run([sys.executable, "other.py"], check=True)
            """)
        result = self.record(script)
        self.assertShown(result.profile, "foo", "bar", "baz", "busy")

    def test_kinds(self):
        script = self.script("""
            import zlib

            def compress():
                data = os.urandom(1 << 20)
                end = time.thread_time() + 0.3
                while time.thread_time() < end:
                    zlib.compress(data)

            compress()
            """)
        result = self.record(script)
        profile = result.profile
        kinds = {frame.kind for frame in profile.frames}
        self.assertLessEqual({Kind.PYTHON, Kind.NATIVE, Kind.INTERPRETER},
                             kinds)
        native = [frame for frame in profile.frames
                  if frame.kind is Kind.NATIVE and "libz" in frame.file]
        self.assertTrue(native)
        # Whether it was built with frame pointers or not.
        self.assertShown(profile, "compress", share=0.8)


class PlacesTest(RecordingTestCase):

    def test_ordinary_user(self):
        if os.geteuid() != 0:
            # Then every test here is this one.
            self.skipTest("only root can become another user")
        with open("/proc/sys/kernel/perf_event_paranoid") as file:
            if int(file.read()) > 2:
                self.skipTest("perf_event_paranoid keeps out ordinary users")
        self.admit_nobody()
        script = self.script(NESTED)
        result = self.record(script, preexec_fn=become_nobody,
                             env=clean_environment(HOME="/nonexistent"))
        self.assertShown(result.profile, "foo", "bar", "baz", "busy")
        self.assertEqual(os.stat(self.path("out.perfpy")).st_uid, NOBODY)
        self.assertNotIn(Kind.KERNEL,
                         {frame.kind for frame in result.profile.frames})

    def test_disk_is_full(self):
        prefix = ["unshare", "--mount", "sh", "-c",
                  'mount -t tmpfs -o size=4m tmpfs /mnt && TMPDIR=/mnt "$@"',
                  "sh"]
        if not shutil.which("unshare") or subprocess.run(
                [*prefix, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this user may not mount a small file system")
        script = self.script("busy(3); print('done')")
        result = self.record("-F", "5000", script, prefix=prefix)
        # It is told, the script does not notice, and what there is is shown.
        self.assertEqual(result.stdout, "done\n")
        self.assertIn("No space left on device", result.stderr)
        self.assertIn(("<module>", "busy"), stacks(result.profile))

    def test_pid_namespace(self):
        prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
        try:
            probe = subprocess.run([*prefix, "true"], text=True,
                                   stderr=subprocess.PIPE)
        except FileNotFoundError:
            self.skipTest("unshare is not installed")
        if probe.returncode:
            self.skipTest(f"no pid namespace: {probe.stderr.strip()}")
        result = self.record(self.script(NESTED + "print(os.getpid())"),
                             prefix=prefix)
        self.assertLess(int(result.stdout), 100)
        self.assertShown(result.profile, "foo", "bar", "baz", "busy")


class UnwindingTest(OfDwarf):

    def test_dwarf(self):
        # A C function in between takes unwinding through more than Python.
        script = self.script("""
            def outer():
                return sorted(range(3), key=inner)

            def inner(number):
                busy()
                return number

            print(os.environ["JITDUMPDIR"])
            outer()
            """)
        for python in filter(None, {sys.executable, NO_FP}):
            with self.subTest(python):
                result = self.record("--unwind", "dwarf", "--python", python,
                                     script)
                self.assertIn("unwind information", result.stderr)
                self.assertEqual(result.profile.meta["unwinding"], "dwarf")
                self.assertShown(result.profile, "<module>", "outer", "inner",
                                 "busy")
                directory = result.stdout.strip()
                self.assertTrue(directory.startswith("/tmp/jitted-perfpy-"))
                self.assertFalse(os.path.exists(directory))

    def test_library_without_frame_pointers(self):
        script = self.script("""
            import zlib

            def compress():
                data = os.urandom(1 << 20)
                end = time.thread_time() + 0.5
                while time.thread_time() < end:
                    zlib.compress(data)

            compress()
            """)
        result = self.record("--unwind", "dwarf", script)
        self.assertShown(result.profile, "<module>", "compress")
        self.assertLess(advice.orphans(result.profile)[0], 0.1)


class ChoiceTest(RecordingTestCase):

    @unittest.skipUnless(NO_FP, "PERF_TEST_PYTHON_NO_FP is not set")
    def test_without_frame_pointers(self):
        result = self.record("--python", NO_FP, self.script(NESTED))
        self.assertEqual(result.profile.meta["unwinding"], "copy")
        self.assertShown(result.profile, "foo", "bar", "baz", "busy")

    def test_frame_pointers(self):
        result = self.record("--unwind", "fp", self.script(NESTED))
        self.assertIn("frame pointers, as asked", result.stderr)
        self.assertEqual(result.profile.meta["unwinding"], "fp")
        self.assertShown(result.profile, "foo", "bar", "baz", "busy")


if __name__ == "__main__":
    unittest.main()
