"""Native profilers see asyncio's tasks by the names that were chosen for them.

The stack of a step of such a task has py::<task>:KIND above the coroutine;
that of any other task has not.  See test_perf_walk for how the tests look.
"""

import asyncio
import functools
import glob
import os
import sys
import tempfile
import threading
import unittest
from asyncio import tasks

from test.support import perf_base, perf_jitdump
from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import (PerfTestCase, StackChecker,
                                    also_with_details)


def setUpModule():
    remove_own_map_at_exit()


class TaskChecker(StackChecker):
    """Expects a task's symbol above its coroutine."""

    def __init__(self, lines):
        super().__init__(lines)
        self.kinds = {}                 # task: what its name looks like

    def above(self, frame):
        return [f"py::<task>:{kind}"
                for task, kind in list(self.kinds.items())
                if task.get_coro().cr_frame is frame]


class TaskTestCase(PerfTestCase):

    Checker = TaskChecker

    def setUp(self):
        super().setUp()
        self.addCleanup(self.checker.kinds.clear)
        self.addCleanup(asyncio.set_event_loop_policy, None)

    def create_task(self, coroutine, name=None, kind=None, Task=asyncio.Task):
        """Create a task; kind: its symbol's end, if it is to have one."""
        loop = asyncio.get_running_loop()
        task = Task(coroutine, loop=loop, name=name)
        self.expect(task, kind)
        return task

    def expect(self, task, kind):
        if kind is not None and (perf_base.STEPS_OF_PYTHON_TASKS_BY_C
                                 or isinstance(task, asyncio.Task)):
            self.checker.kinds[task] = kind
        else:
            self.checker.kinds.pop(task, None)

    def run_tasks(self, *names_and_kinds, Task=asyncio.Task):
        """Let a task with each name make three steps."""
        async def work():
            self.check()
            await nested()
            self.check()
            list(map(self.check, range(2)))

        async def nested():
            await asyncio.sleep(0)
            self.check()
            await asyncio.sleep(0.0001)
            self.check()

        async def main():
            await asyncio.gather(*(
                self.create_task(work(), name, kind, Task)
                for name, kind in names_and_kinds))
            self.check()

        asyncio.run(main())
        self.checker.kinds.clear()
        self.assert_checked()


@requires_trampoline
class StepTest(TaskTestCase):

    Task = asyncio.Task

    def test_steps(self):
        for _ in range(self.TIMES):
            self.run_tasks(("reader", "reader"), ("writer", "writer"),
                           (None, None), ("reader", "reader"), Task=self.Task)
        self.assert_checked(self.TIMES * (4 * 6 + 1))

    def test_cancel(self):
        # The exception is thrown into the outermost coroutine, which hands it
        # on; its evaluator does not run then.
        async def innermost():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.check()
                await asyncio.sleep(0)
                self.check()
                raise

        async def outermost():
            try:
                await innermost()
            finally:
                self.check()

        async def main():
            victims = [self.create_task(outermost(), name, kind, self.Task)
                       for name, kind in [("victim 1", "victim #"),
                                          (None, None)]]
            await asyncio.sleep(0)
            for victim in victims:
                victim.cancel()
            for victim in victims:
                with self.assertRaises(asyncio.CancelledError):
                    await victim
                self.check()

        self.repeat(lambda: asyncio.run(main()), checks=8)

    def test_cancel_before_it_starts(self):
        async def never():
            self.check()

        async def main():
            task = self.create_task(never(), "never", "never", self.Task)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            list(map(self.check, range(2)))

        self.repeat(lambda: asyncio.run(main()), checks=2)

    def test_exception(self):
        async def fails():
            self.check()
            await asyncio.sleep(0)
            raise KeyError

        async def main():
            task = self.create_task(fails(), "fails", "fails", self.Task)
            with self.assertRaises(KeyError):
                await task
            self.check()

        self.repeat(lambda: asyncio.run(main()), checks=2)

    def test_coroutine_that_has_ended(self):
        # The step begins with nothing.
        async def short():
            self.check()

        async def main():
            coroutine = short()
            await coroutine
            task = self.create_task(coroutine, "late", None, self.Task)
            with self.assertRaisesRegex(RuntimeError, "already awaited"):
                await task
            list(map(self.check, (i for i in range(2))))
            await short()

        self.repeat(lambda: asyncio.run(main()), checks=4)

    def test_name_that_changes(self):
        async def work(new_task):
            task = await new_task
            for name in "first", None, "second", "Task-7":
                if name is not None:
                    task.set_name(name)
                    await asyncio.sleep(0)
                    self.expect(task, name if name != "Task-7" else None)
                self.check()

        async def main():
            new_task = asyncio.get_running_loop().create_future()
            task = self.create_task(work(new_task), Task=self.Task)
            new_task.set_result(task)
            await task

        self.repeat(lambda: asyncio.run(main()), checks=4)

    def test_calls_that_fill_areas(self):
        def down(depth):
            if depth > 0:
                down(depth - 1)
            else:
                self.check(depth=100)
                list(map(self.check, range(2)))

        async def work():
            await asyncio.sleep(0)
            down(300)

        async def main():
            await self.create_task(work(), "deep", "deep", self.Task)

        asyncio.run(main())
        self.assert_checked(3)

    def test_switched_in_a_step(self):
        async def work():
            self.check()
            sys.deactivate_stack_trampoline()
            await asyncio.sleep(0)
            self.activate()

        async def main():
            await self.create_task(work(), "switch", "switch", self.Task)

        # What was called while it was off is not of interest here.
        asyncio.run(main())
        self.run_tasks(("after", "after"), Task=self.Task)

    def test_threads(self):
        def run(name):
            async def work():
                for _ in range(50):
                    await asyncio.sleep(0)
                    checkers[name].check(depth=3)

            async def main():
                task = self.create_task(work(), name, name, self.Task)
                checkers[name].kinds = self.checker.kinds
                await task

            asyncio.run(main())

        checkers = {name: TaskChecker(self.lines) for name in "abcd"}
        threads = [threading.Thread(target=run, args=(name,))
                   for name in checkers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for checker in checkers.values():
            self.assertIsNone(report := checker.report(), report)
            self.assertEqual(checker.count, 50)


@requires_trampoline
class PythonStepTest(StepTest):
    """The same with tasks that are written in Python."""

    Task = tasks._PyTask

    def test_strange_task(self):
        class Strange(tasks._PyTask):
            @property
            def _name(self):
                raise ValueError("profilers should not ask")

            @_name.setter
            def _name(self, value):
                pass

        self.run_tasks(("strange", None), Task=Strange)

    def test_no_task(self):
        sums = []

        class Stranger:
            """Has no name."""
            @property
            def _coro(self):
                # In C, this asks whether an exception is set.
                sums.append(sum(map(int, "12")))

        async def main():
            loop = asyncio.get_running_loop()
            current = asyncio.current_task()
            stranger = Stranger()
            tasks._leave_task(loop, current)
            tasks._enter_task(loop, stranger)
            self.assertIs(asyncio.current_task(), stranger)
            tasks._leave_task(loop, stranger)
            tasks._enter_task(loop, current)

        asyncio.run(main())
        self.assertEqual(sums, [3])


@requires_trampoline
@unittest.skipUnless(hasattr(asyncio, "eager_task_factory"),
                     "tasks start eagerly since Python 3.12")
class EagerTest(TaskTestCase):

    Task = asyncio.Task
    current_task = staticmethod(asyncio.current_task)

    def test_eager(self):
        # A step of the outer task is interrupted by one of the inner task.
        async def inner():
            self.check()
            await asyncio.sleep(0)
            self.check()

        async def outer():
            self.check()
            await asyncio.sleep(0)
            task = create(inner(), "inner")
            self.check()
            list(map(self.check, range(2)))
            await task
            self.check()

        def create(coroutine, name):
            Task = functools.partial(self.Task, eager_start=True)

            async def starts():
                self.expect(self.current_task(), name)
                await coroutine

            return self.create_task(starts(), name, name, Task)

        async def main():
            await create(outer(), "outer")

        self.repeat(lambda: asyncio.run(main()), checks=7)


class EagerPythonTest(EagerTest):

    Task = tasks._PyTask
    current_task = staticmethod(
        asyncio.current_task if perf_base.STEPS_OF_PYTHON_TASKS_BY_C
        else tasks._py_current_task)


also_with_details(globals())


@requires_trampoline
class KindTest(TaskTestCase):
    """Names that differ in numbers only have one symbol."""

    def test_kinds(self):
        for name, kind in [
                ("worker-12", "worker-#"),
                ("worker12of15", "worker#of#"),
                ("GET /items/42?page=3", "GET /items/#?page=#"),
                ("request-3f2a9c81", "request-#"),
                ("3f2a9c81-77ab-4c0e-9b1f-00112233aabb", "#"),
                ("job 3F2A9C81-77AB-4C0E-9B1F-00112233AABB.", "job #."),
                ("at 0x7f00deadbeef>", "at #>"),
                ("deadbee", "deadbee"), ("facade-reader", "facade-reader"),
                ("defaceable", "defaceable"),
                ("deadbeef-reader", "#-reader"),
                ("Task-1x", "Task-#x"), ("Task", "Task"),
                ("Task-1", None), ("Task-", None), ("17", None), ("", None),
                ("a: b<c>", "a: b<c>"), ("über\u6f22", "über\u6f22"),
                ("\u0661\u0662", "\u0661\u0662"),
                ("line\nbreak\x7f\ud800", r"line\x0abreak\x7f\ud800"),
                ("\U0001f40d" * 3, "\U0001f40d" * 3),
                ("y" * 200, "y" * 200), ("y" * 201, "y" * 200 + "..."),
                ("\ud800" * 300, r"\ud800" * 200 + "..."),
                (f"{'z' * 198}12345", f"{'z' * 198}#..."),
        ]:
            with self.subTest(name=name):
                self.checker.mismatches.clear()
                self.run_tasks((name, kind))

    def test_too_many_kinds(self):
        # A program of its own, which fills the table.
        self.run_script("""if True:
            import asyncio
            import os
            import sys
            from test.support.perf_walk import LabelNames
            import _testperf

            def letters(i):
                return "".join(chr(ord("g") + int(d)) for d in str(i))

            async def work(name, expected):
                await asyncio.sleep(0)
                found = names.of_all(_testperf.labels())
                assert f"py::<task>:{expected}" in found, (expected, found)

            async def main():
                create = asyncio.create_task
                for i in range(500):
                    await create(work(letters(i), letters(i)),
                                 name=letters(i))
                for i in range(500, 600):
                    await create(work(letters(i), "..."), name=letters(i))
                await create(work(letters(499), letters(499)),
                             name=letters(499))

            sys.activate_stack_trampoline("perf")
            names = LabelNames()
            asyncio.run(main())
            with open(f"/tmp/perf-{os.getpid()}.map") as file:
                assert file.read().count("py::<task>:") == 501
        """)


@requires_trampoline
class FileTest(TaskTestCase):

    def test_jitdump(self):
        with tempfile.TemporaryDirectory() as directory:
            self.run_script("""if True:
                import asyncio

                async def work():
                    await asyncio.sleep(0)

                async def main():
                    for i in range(3):
                        await asyncio.create_task(work(), name=f"job {i}")

                asyncio.run(main())
            """, "-X", "perf_jit", env={"JITDUMPDIR": directory})
            [path] = glob.glob(os.path.join(directory, "**", "jit-*.dump"),
                               recursive=True)
            names = [load.name for load in perf_jitdump.read(path).loads]
        self.assertEqual(names.count("py::<task>:job #"), 1)

    def test_child(self):
        # A forked child knows its parent's tasks, and makes others.
        self.run_script("""if True:
            import asyncio
            import os
            import sys
            from test.support.perf_walk import LabelNames
            import _testperf

            def shows(kind):
                found = LabelNames().of_all(_testperf.labels())
                assert f"py::<task>:{kind}" in found, found

            async def work(kind):
                await asyncio.sleep(0)
                shows(kind)

            async def in_child():
                await asyncio.create_task(work("parent"), name="parent")
                await asyncio.create_task(work("child"), name="child")

            async def main():
                await asyncio.create_task(work("parent"), name="parent")
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        asyncio.run(in_child())
                        status = 0
                    finally:
                        os.unlink(f"/tmp/perf-{os.getpid()}.map")
                        os._exit(status)
                _, status = os.waitpid(child, 0)
                assert status == 0, status
                await asyncio.create_task(work("later"), name="later")

            sys.activate_stack_trampoline("perf")
            asyncio.run(main())
        """)

    def test_tool(self):
        # Another tool's evaluator (PEP 523) runs the functions.
        self.run_script("""if True:
            import asyncio
            import sys
            from test.support.perf_walk import LabelNames, symbol
            import _testperf
            import _testperf_evaluators as evaluators

            async def work():
                await asyncio.sleep(0)
                found = names.of_all(_testperf.labels())
                here = found.index(symbol(work.__code__))
                assert found[here + 1] == "py::<task>:watched", found

            async def main():
                await asyncio.create_task(work(), name="watched")

            sys.activate_stack_trampoline("perf")
            names = LabelNames()
            evaluators.install("A")
            try:
                asyncio.run(main())
            finally:
                evaluators.uninstall("A")
        """)


if __name__ == "__main__":
    unittest.main()
