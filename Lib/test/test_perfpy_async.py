"""Programs with asyncio: coroutines stand below one mark, not the loop."""

import asyncio
import unittest
from test.support.perfpy_case import RecordingTestCase, stacks

from perfpy import fold
from perfpy.profile import Frame, Kind

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
    await asyncio.gather(fetch(), store())

asyncio.run(main())
"""


class FoldTest(RecordingTestCase):

    def check(self, extra):
        profile = self.record(self.script(
            PROGRAM.format(extra=extra))).profile
        found = {stack for stack in stacks(profile) if "busy" in stack}
        names = {stack[:stack.index("busy")] for stack in found}
        self.assertIn(("<module>", "(event loop)", "fetch"), names)
        self.assertIn(("<module>", "(event loop)", "store", "helper"), names)
        for stack in names:
            self.assertNotIn("Handle._run", stack)
            self.assertLessEqual(stack.count("(event loop)"), 1)

    def test_task_in_c(self):
        self.check("")

    def test_task_in_python(self):
        self.check("asyncio.Task = asyncio.tasks.Task = "
                   "asyncio.tasks._PyTask")


class MachineryTest(unittest.TestCase):

    def test_what_is_machinery(self):
        directory = asyncio.__path__[0]
        for name, file, expected in [
                ("BaseEventLoop._run_once", "base_events.py", True),
                ("Handle._run", "events.py", True),
                ("Runner.run", "runners.py", True),
                ("run", "runners.py", True),
                ("Task.__step", "tasks.py", True),
                ("gather", "tasks.py", False), ("sleep", "tasks.py", False),
                ("Queue.get", "queues.py", False)]:
            frame = Frame(name, f"{directory}/{file}", Kind.PYTHON)
            self.assertEqual(fold.is_loop(frame), expected, name)
        self.assertFalse(fold.is_loop(Frame("run", "/srv/run.py",
                                            Kind.PYTHON)))


if __name__ == "__main__":
    unittest.main()
