"""The perf trampoline end to end in programs with several threads or
processes, and in those that switch it.
"""

import os
import signal
import subprocess
import sys
import textwrap
import unittest

from test.support.perf_helper import remove_map
from test.support.perf_record import (FORK, ORDINARY_EVALUATOR, RecordTestCase,
                                      TIMEOUT, clean_environment)


class ToggleTest(RecordTestCase):

    # Each phase has a busy function of its own.
    PHASES = """
        from types import FunctionType
        def named(name):
            code = busy.__code__.replace(co_name=name, co_qualname=name)
            return FunctionType(code, globals(), name, (WORK,))
        first, second, third, fourth = map(named, ["first", "second", "third",
                                                   "fourth"])
    """

    def run_phases(self, script, *seen):
        script = textwrap.dedent(self.PHASES) + textwrap.dedent(script)
        found, samples = self.samples_of(script, *seen, options=())
        names = {function.split(":")[2] for sample in samples
                 for function in sample.functions}
        self.assertTrue([s for s in samples if not s.functions])
        return found, names

    def test_phases(self):
        found, names = self.run_phases("""
            def off(): return first()
            def on(): return second()
            def off_again(): return third()
            def on_again(): return fourth()
            off()
            sys.activate_stack_trampoline("perf")
            on()
            sys.deactivate_stack_trampoline()
            off_again()
            sys.activate_stack_trampoline("perf")
            on_again()
        """, "second", "fourth")
        self.assertEqual(names, {"on", "second", "on_again", "fourth"})
        for sample in found["second"]:
            self.assert_stack(sample, "second", "on")
        for sample in found["fourth"]:
            self.assert_stack(sample, "fourth", "on_again")

    def test_running_functions(self):
        # A function that is running keeps its label or goes on without.
        found, names = self.run_phases("""
            def starts_without():
                sys.activate_stack_trampoline("perf")
                starts_with()
            def starts_with():
                first()
                sys.deactivate_stack_trampoline()
                second()
                sys.activate_stack_trampoline("perf")
                third()
            starts_without()
        """, "first", "starts_with")
        self.assertNotIn("second", names)
        self.assertNotIn("starts_without", names)
        for sample in found["first"]:
            self.assert_stack(sample, "first", "starts_with")
        without = [sample for sample in found["starts_with"]
                   if ORDINARY_EVALUATOR in sample.between()[0]]
        self.assertTrue(without)
        for sample in found["starts_with"]:
            self.assert_stack(sample, "starts_with")


class ThreadTest(RecordTestCase):

    def test_threads(self):
        found, _ = self.samples_of("""
            import threading
            def left(): left_busy()
            def left_busy(): return sum(n * n % 7 for n in range(WORK))
            def right(): return busy()
            threads = [threading.Thread(target=function)
                       for function in (left, right)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """, "busy", "left_busy.<locals>.<genexpr>")
        tids = {}
        bootstrap = ["Thread.run", "Thread._bootstrap_inner",
                     "Thread._bootstrap"]
        for name, callers in (("busy", ["right"]),
                              ("left_busy.<locals>.<genexpr>",
                               ["left_busy", "left"])):
            tids[name] = {sample.tid for sample in found[name]}
            for sample in found[name]:
                names = [function.split(":")[2]
                         for function in sample.functions]
                self.assertEqual(names, [name, *callers, *bootstrap])
                threading_py = sample.functions[-1].split(":", 3)[3]
                self.assertEqual(os.path.basename(threading_py),
                                 "threading.py")
        self.assertEqual([len(those) for those in tids.values()], [1, 1])
        self.assertNotEqual(*tids.values())


class ProcessTest(RecordTestCase):

    def assert_other_process(self, found, one, other):
        """Functions one and other ran in one process each, not the same."""
        pids = [{sample.pid for sample in found[name]}
                for name in (one, other)]
        self.assertEqual([len(those) for those in pids], [1, 1])
        self.assertNotEqual(*pids)

    def test_fork(self):
        found, _ = self.samples_of(FORK, "busy", "child_busy")
        self.assert_other_process(found, "busy", "child_busy")
        for sample in found["busy"]:
            self.assert_stack(sample, "busy", "in_parent", "both", "<module>")
        for sample in found["child_busy"]:
            self.assert_stack(sample, "child_busy", "in_child", "both",
                              "<module>")

    def test_attach_to_forked_child(self):
        recording = self.recording("""
            def before_fork(): return until_parent_is_gone()
            def until_parent_is_gone():
                while os.getppid() == parent:
                    after_fork()
            def after_fork(): return busy(10_000)
            parent = os.getpid()
            child = os.fork()
            if child == 0:
                before_fork()
                os._exit(0)
            print(child, flush=True)
            input()
        """)
        with subprocess.Popen(
                [sys.executable, "-X", "perf", recording.script, "1"],
                env=clean_environment(), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE) as parent:
            child = None
            try:
                child = int(parent.stdout.readline())
                for seconds in "0.3", "3":
                    recording.record(self.event, ["-p", str(child), "--",
                                                  "sleep", seconds])
                    samples = [sample for sample in recording.samples()
                               if sample.functions and sample.functions[0]
                               .startswith("py::busy:")]
                    if samples:
                        break
                self.assertTrue(samples, "no sample")
                for sample in samples:
                    self.assertEqual(sample.pid, child)
                    self.assert_stack(sample, "busy", "after_fork",
                                      "until_parent_is_gone", "before_fork",
                                      "<module>")
            finally:
                if child is not None:
                    os.kill(child, signal.SIGKILL)
                parent.communicate(b"\n", timeout=TIMEOUT)
                remove_map(parent.pid)
                remove_map(child)

    def test_subprocess(self):
        found, _ = self.samples_of("""
            import subprocess
            source = "def child_busy():\\\\n  for n in range(WORK): n * n % 7"
            def main():
                busy()
                subprocess.run([sys.executable, "-X", "perf", "-c",
                                f"WORK = {WORK}\\\\n{source}\\\\n"
                                "child_busy()"], check=True)
            main()
        """.replace("\\\\n", "\\n"), "busy", "child_busy")
        self.assert_other_process(found, "busy", "child_busy")
        for sample in found["busy"]:
            self.assert_stack(sample, "busy", "main", "<module>")
        for sample in found["child_busy"]:
            self.assertEqual(sample.functions, ["py::child_busy:<string>",
                                                "py::<module>:<string>"])

    def test_multiprocessing(self):
        for method in "fork", "spawn", "forkserver":
            with self.subTest(method):
                found, _ = self.samples_of(f"""
                    import multiprocessing
                    def child_busy():
                        for number in range(WORK):
                            number * number % 7
                    def target(): child_busy()
                    def main():
                        context = multiprocessing.get_context({method!r})
                        process = context.Process(target=target)
                        process.start()
                        busy()
                        process.join()
                        assert process.exitcode == 0
                    if __name__ == "__main__":
                        main()
                """, "busy", "child_busy", options=(),
                    variables={"PYTHONPERFSUPPORT": "1"})
                self.assert_other_process(found, "busy", "child_busy")
                for sample in found["busy"]:
                    self.assert_stack(sample, "busy", "main", "<module>")
                for sample in found["child_busy"]:
                    names = [function.split(":")[2]
                             for function in sample.functions]
                    self.assertEqual(names[:4], [
                        "child_busy", "target", "BaseProcess.run",
                        "BaseProcess._bootstrap"])


if __name__ == "__main__":
    unittest.main()
