"""The kernel knows the names of a program's threads while it is profiled."""

import os
import textwrap
import unittest
from test.support.perf_base import NAMES_THREADS
from test.support.perf_helper import remove_map, requires_trampoline
from test.support.perfpy_case import RecordingTestCase
from test.support.script_helper import spawn_python, kill_python

import _thread_names

SHOW = """
    import os, sys, threading

    def comm(task):
        with open(f"/proc/self/task/{task}/comm") as file:
            return file.read().rstrip("\\n")

    def show():
        print(comm(threading.get_native_id()), flush=True)

    def in_thread(name, function=show):
        thread = threading.Thread(target=function, name=name)
        thread.start()
        thread.join()
    """


class ShortenTest(unittest.TestCase):

    def test_shorten(self):
        for name, expected in [
            ("a", "a"), ("fifteen bytes!!", "fifteen bytes!!"),
            ("ThreadPoolExecutor-0_12", "ThreadP~or-0_12"),
            ("line\nend\0", "line end "), ("", ""),
            ("ééééééééé", "ééé~ééé"),      # whole letters only
            ("a\ud800", "a "),
        ]:
            short = _thread_names.shorten(name)
            self.assertLessEqual(len(short), 15)
            self.assertEqual(short.decode(), expected)


@requires_trampoline
@unittest.skipUnless(os.path.exists("/proc/self/task"), "needs /proc")
class NameTest(unittest.TestCase):

    def run_code(self, code, *options):
        code = textwrap.dedent(SHOW) + textwrap.dedent(code)
        process = spawn_python(*options, "-c", code, text=True)
        output = kill_python(process)
        remove_map(process.pid)
        return output.splitlines()

    def test_name_that_cannot_be_announced(self):
        # The thread starts all the same.
        code = """
            import _thread_names
            def fail(thread):
                raise RuntimeError
            _thread_names.announce = fail
            in_thread("worker")
            """
        self.assertEqual(self.run_code(code, "-X", "perf"),
                         self.run_code('in_thread("worker")'))

    def test_no_name_is_announced_once_sealed(self):
        code = """
            sys.seal_stack_trampoline()
            in_thread("worker")
            """
        self.assertEqual(self.run_code(code, "-X", "perf"),
                         self.run_code('in_thread("worker")'))

    def test_names(self):
        code = """
            show()
            in_thread("worker")
            in_thread("ThreadPoolExecutor-0_1")
            show()
            """
        main, worker, pool, after = self.run_code(code, "-X", "perf")
        self.assertEqual([worker, pool], ["worker", "ThreadP~tor-0_1"])
        self.assertEqual(main, after)
        # Off, all is as CPython has it.
        self.assertEqual(self.run_code(code), [main, *(
            ("worker", "ThreadPoolExecu") if NAMES_THREADS else (main, main)
            ), main])

    def test_nothing_is_imported_when_off(self):
        self.assertEqual(self.run_code("""
            in_thread("x")
            print("_thread_names" in sys.modules)
            """)[1:], ["False"])

    def test_renamed(self):
        self.assertEqual(self.run_code("""
            def rename():
                threading.current_thread().name = "second"
                show()

            in_thread("first", rename)
            threading.main_thread().name = "ignored"
            print(comm(os.getpid()) == "ignored")
            """, "-X", "perf"), ["second", str(NAMES_THREADS)])

    def test_switched_on_later(self):
        self.assertEqual(self.run_code("""
            sys.activate_stack_trampoline("perf")
            in_thread("on")
            sys.deactivate_stack_trampoline()
            before = comm(os.getpid())
            in_thread("off")
            print(before)
            """)[0], "on")

    def test_child_of_a_thread_is_called_like_the_process(self):
        before, child = self.run_code("""
            def fork():
                if (pid := os.fork()) == 0:
                    show()
                    os._exit(0)
                os.waitpid(pid, 0)

            show()
            in_thread("forker", fork)
            """, "-X", "perf", "-W", "ignore::DeprecationWarning")
        self.assertEqual(child, before)


class RecordingTest(RecordingTestCase):

    def test_profile_has_the_names(self):
        result = self.record(self.script("""
            from concurrent.futures import ThreadPoolExecutor
            thread = threading.Thread(target=busy, name="checksums")
            thread.start()
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(busy, [0.2, 0.2, 0.2]))
            thread.join()
            """))
        names = {thread.name for thread in result.profile.threads}
        self.assertLessEqual({"checksums", "ThreadP~tor-0_0",
                              "ThreadP~tor-0_1"}, names)


if __name__ == "__main__":
    unittest.main()
