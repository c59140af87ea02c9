"""Programs with asyncio: the stack of a task begins with the task."""

import asyncio
import io
import os
import subprocess
import sys
import unittest
import unittest.mock
from test.support import perf_base
from test.support.perfpy_case import (RecordingTestCase, clean_environment,
                                      stacks)

from perfpy import fold, marks, permissions, tasks
from perfpy.profile import NO_STACK, Frame, Kind, Profile

PROGRAM = """
import asyncio
{extra}

async def fetch():
    for _ in range(10):
        await asyncio.sleep(0.001)
        busy(0.01)

async def store():
    await helper()

async def helper():
    for _ in range(10):
        await asyncio.sleep(0.001)
        busy(0.01)

async def main():
    named = [asyncio.create_task(fetch(), name=f"fetcher-{{i}}")
             for i in range(2)]
    await asyncio.gather(fetch(), store(), *named)

{run}(main())
"""


class FoldTest(RecordingTestCase):

    def check(self, extra="", run="asyncio.run", has_names=True, **kwargs):
        result = self.record(self.script(
            PROGRAM.format(extra=extra, run=run)), **kwargs)
        found = {stack for stack in stacks(result.profile) if "busy" in stack}
        expected = {("fetch",), ("store", "helper")}
        rows = {"fetch": r"[567]\d", "store": r"[12]\d"}
        if has_names:
            expected.add(("task fetcher-#", "fetch"))
            rows |= {"fetcher-#: fetch": r"[345]\d", "fetch": r"[12]\d"}
        self.assertEqual({stack[:stack.index("busy")] for stack in found},
                         expected)
        # The table has all tasks of a kind in a row, and the loop.
        functions, _, table = result.stderr.partition("task, or callback")
        self.assertRegex(functions, r"(?m) %  +\(event loop\)$")
        self.assertNotRegex(functions, r"Handle|BaseEventLoop|Runner")
        for task, share in rows.items():
            self.assertRegex(
                table, rf"(?m)^ *{share}\.\d\d %  {task} +.*script.py$")
        self.assertNotIn("helper", table)
        self.assertNotRegex(table, "run|Handle")
        return result

    def test_task_in_c(self):
        self.check()

    def test_task_in_python(self):
        self.check("asyncio.Task = asyncio.tasks.Task = "
                   "asyncio.tasks._PyTask",
                   has_names=perf_base.STEPS_OF_PYTHON_TASKS_BY_C)

    def test_uvloop(self):
        env = clean_environment(PYTHONPATH=os.pathsep.join(sys.path))
        found = subprocess.run([sys.executable, "-c", "import uvloop"],
                               env=env, text=True, stderr=subprocess.PIPE)
        if found.returncode:
            self.skipTest("there is no uvloop for this Python; `make test` "
                          "fetches it from PyPI: "
                          f"{found.stderr.splitlines()[-1]}")
        self.check("import uvloop", "uvloop.run", env=env)

    def test_what_the_loop_does(self):
        # Its waiting is nobody's, and callbacks are no tasks.
        if not permissions.may_record_kernel():
            self.skipTest("only root, or kernel.perf_event_paranoid of 1, may "
                          "record switches of threads")
        result = self.record("--wall", self.script("""
            import asyncio
            def tick(loop, count):
                busy(0.02)
                if count:
                    loop.call_later(0.05, tick, loop, count - 1)
                else:
                    loop.stop()
            loop = asyncio.new_event_loop()
            loop.call_soon(tick, loop, 10)
            loop.run_forever()
            """))
        found = stacks(result.profile)
        self.assertIn(("(event loop)", "(waiting for I/O)"),
                      {(stack[0], stack[-1]) for stack in found})
        self.assertIn("tick", {stack[0] for stack in found})
        _, _, rows = result.stderr.partition("task, or callback")
        self.assertRegex(rows, r"(?m)^ *\d+\.\d\d %  \(event loop\)$")
        self.assertRegex(rows, r"(?m)^ *\d+\.\d\d %  tick ")


class TableTest(unittest.TestCase):

    def test_long_names_fit_the_terminal(self):
        profile = Profile()
        thread = profile.thread(1, 1)
        stack = NO_STACK
        for frame in [fold.LOOP, marks.task("request " + "x" * 90),
                      Frame("handle", "/srv/application/views/orders.py",
                            Kind.PYTHON)]:
            stack = profile.add_stack(stack, profile.add_frame(frame))
        thread.add_sample(0, stack, 1)
        for width in 60, 80, 100:
            file = io.StringIO()
            with unittest.mock.patch.object(tasks, "width_of",
                                            lambda file: width):
                tasks.write(profile, file)
            text = file.getvalue()
            self.assertLessEqual(max(map(len, text.splitlines())), width)
            self.assertIn("xxx: handle ", text)
            self.assertIn("orders.py\n", text)


class MachineryTest(unittest.TestCase):

    def test_what_is_machinery(self):
        directory = asyncio.__path__[0]
        for name, file, expected in [
                ("BaseEventLoop._run_once", "base_events.py", True),
                ("Handle._run", "events.py", True),
                ("Runner.run", "runners.py", True),
                ("run", "runners.py", True),
                ("Task.__step", "tasks.py", True),
                ("TimerHandle.__lt__", "events.py", True),
                ("gather", "tasks.py", False), ("sleep", "tasks.py", False),
                ("Queue.get", "queues.py", False)]:
            frame = Frame(name, f"{directory}/{file}", Kind.PYTHON)
            self.assertEqual(fold.is_loop(frame), expected, name)
        self.assertFalse(fold.is_loop(Frame("run", "/srv/run.py",
                                            Kind.PYTHON)))


if __name__ == "__main__":
    unittest.main()
