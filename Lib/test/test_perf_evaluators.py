"""Other tools' evaluators (PEP 523) come and go while the trampoline does.

What tools do is in Modules/_testperf_evaluators.c.  Everything runs in
processes of its own: a tool that calls itself ends in a fault.
"""

import textwrap
import unittest
from test.support import requires_subprocess
from test.support.perf_helper import requires_trampoline
from test.support.perf_walk import run_script


@requires_subprocess()
class EvaluatorTestCase(unittest.TestCase):

    def run_well(self, script, *options):
        return run_script(textwrap.dedent(script), *options)


@requires_trampoline
class OrderTest(EvaluatorTestCase):
    """Words of Lib/test/support/perf_evaluators.py."""

    def run_words(self, count, *arguments):
        out = self.run_well(f"""
            from test.support import perf_evaluators
            perf_evaluators.main({arguments!a})
        """)
        self.assertEqual(len(out.splitlines()), count)

    def test_all_orders_of_two_tools(self):
        self.run_words(8 ** 4, "all", "10AaPp()", "4")

    def test_all_orders_of_tools_that_remember(self):
        self.run_words(8 ** 4, "all", "10AaBb[)", "4")

    def test_random_orders(self):
        self.run_words(1000, "random", "10AaBbPp([{)", "40", "1000", "3.11")

    def test_all_orders_of_tools_that_write(self):
        self.run_words(8 ** 4, "all", "10WwXxAa", "4")

    def test_random_orders_with_tools_that_write(self):
        self.run_words(2000, "random", "10AaPpWwXx([{)", "40", "2000", "3.11")


# Functions whose stacks are compared wherever they get to be called.
PRELUDE = textwrap.dedent("""
    import sys
    import _testperf_evaluators as evaluators
    from test.support.perf_walk import StackChecker
    activate = sys.activate_stack_trampoline
    deactivate = sys.deactivate_stack_trampoline
    is_active = sys.is_stack_trampoline_active
    OURS = "somebody else's"
""")


@requires_trampoline
class LifeTest(EvaluatorTestCase):

    def run_well(self, script, *options):
        return super().run_well(PRELUDE + textwrap.dedent(script), *options)

    def test_threads(self):
        # What torch.compile does, from several threads, while another one
        # switches.  Which functions have labels is a matter of chance.
        self.run_well("""
            import random
            import threading
            import time
            import _testperf
            from test.support.perf_walk import LabelNames, symbol

            activate("perf")
            names = LabelNames()
            end = time.monotonic() + 3
            done, wrong = [], []

            def compare():
                labels = names.of_all(_testperf.labels())
                functions = []
                frame = sys._getframe()
                while frame is not None:
                    functions.append(symbol(frame.f_code))
                    frame = frame.f_back
                rest = iter(functions)
                if not all(label in rest for label in labels):
                    wrong.append((labels, functions))
                if evaluators.installed() == OURS:
                    wrong.append(OURS)

            def numbers(depth):
                yield depth
                compare()

            def recurse(depth, rng):
                if depth == 0:
                    compare()
                    time.sleep(0)
                elif rng.random() < 0.2:
                    evaluators.call("A", lambda: recurse(depth - 1, rng))
                elif rng.random() < 0.1:
                    evaluators.install("P")
                    recurse(depth - 1, rng)
                    evaluators.uninstall("P")
                elif rng.random() < 0.2:
                    sorted([1], key=lambda _: recurse(depth - 1, rng))
                elif rng.random() < 0.2:
                    for _ in numbers(depth):
                        recurse(depth - 1, rng)
                else:
                    recurse(depth - 1, rng)

            def work(seed):
                rng = random.Random(seed)
                while time.monotonic() < end and not wrong:
                    recurse(20, rng)
                done.append(seed)

            def switch():
                while time.monotonic() < end and not wrong:
                    deactivate()
                    time.sleep(0)
                    activate("perf")

            threads = [threading.Thread(target=work, args=[seed])
                       for seed in range(4)]
            threads.append(threading.Thread(target=switch))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not wrong, wrong[0]
            assert len(done) == 4
            assert is_active()
            assert evaluators.frames()["A"] > 100
            evaluators.reset()
            assert evaluators.effective() == OURS
            deactivate()
            assert evaluators.effective() is None
        """)

    def test_off_below_a_tool(self):
        self.run_well("""
            def off():
                deactivate()
                assert not is_active()
                assert evaluators.effective() == "A"
            def on():
                activate("perf")
                assert is_active()
                assert evaluators.effective() == OURS
            for _ in range(3):
                activate("perf")
                evaluators.call("A", off)
                assert evaluators.effective() is None
                assert not is_active()
                evaluators.call("A", on)
                assert evaluators.effective() == OURS
                assert is_active()
        """)

    def test_calls_stay_inside_the_evaluator_afterwards(self):
        # Whether call sites were specialised for a tool or for the trampoline.
        out = self.run_well("""
            import _testperf
            def depth(n):
                return depth(n - 1) if n else _testperf.stack_pointer()
            def room():
                return _testperf.stack_pointer() - depth(60)
            for _ in range(20):
                room()
            inside = room()
            evaluators.install("A")
            for _ in range(20):
                room()
            assert room() > inside + 60 * 100
            evaluators.uninstall("A")
            print(inside, room())
            activate("perf")
            labelled = [room() for _ in range(20)][-1]
            evaluators.install("P")
            assert room() > labelled + 60 * 100
            evaluators.uninstall("P")
            print(labelled, [room() for _ in range(20)][-1])
        """)
        for line in out.splitlines():
            before, after = line.split()
            self.assertEqual(before, after)

    def test_interpreters(self):
        # A tool of one interpreter is none of another, nor of a later one.
        self.run_well("""
            from test.support import perf_interpreters as interpreters
            inside = '''if True:
                import sys
                sys.path[:] = {path}
                import _testperf_evaluators as evaluators
                assert evaluators.installed() is None
                if {on}:
                    sys.activate_stack_trampoline("perf")
                if {tool!r}:
                    evaluators.install({tool!r})
                    before = evaluators.frames()[{tool!r}]
                    (lambda: 1)()
                    assert evaluators.frames()[{tool!r}] == before + 1
                assert evaluators.installed() == {tool!r}
                assert sys.is_stack_trampoline_active() == {on}
            '''
            alive = []
            for i in range(40):
                tool = [None, "P", "A"][i % 3]
                main_tool = [None, "B"][i % 2]
                if main_tool:
                    activate("perf")
                    evaluators.install(main_tool)
                new = interpreters.create(isolated=False)
                interpreters.raise_failure(
                    interpreters.run_string(new, inside.format(
                        path=sys.path, on=i % 4 < 2, tool=tool)))
                assert evaluators.installed() == main_tool
                evaluators.reset()
                deactivate()
                assert evaluators.effective() is None
                alive.append(new)
                if i % 5:
                    interpreters.destroy(alive.pop(0))
            for new in alive:
                interpreters.destroy(new)
        """)

    def test_end(self):
        # Functions run to the very end: atexit, __del__, daemon threads.
        for setup in ('activate("perf"); evaluators.install("A")',
                      'evaluators.install("A"); activate("perf")',
                      'activate("perf"); evaluators.install("P")',
                      'evaluators.install("W"); activate("perf")',
                      'activate("perf_jit"); evaluators.install("A");'
                      'evaluators.install("B")'):
            for at_exit in ("None", "deactivate", "evaluators.reset",
                            "lambda: activate('perf')"):
                with self.subTest(setup=setup, at_exit=at_exit):
                    self.run_well(f"""
                        import atexit, os, threading, time
                        # It goes after the process.
                        os.environ["JITDUMPDIR"] = os.getcwd()
                        class Last:
                            def __del__(self):
                                return [i for i in (n for n in range(3))]
                        def spin():
                            while True:
                                (lambda: time.sleep(0))()
                        sys.last = Last()
                        {setup}
                        threading.Thread(target=spin, daemon=True).start()
                        evaluators.last = Last()
                        if {at_exit}:
                            atexit.register({at_exit})
                    """)

    def test_fork(self):
        self.run_well("""
            import os
            from test.support.perf_helper import remove_map
            activate("perf")
            evaluators.install("A")
            pid = os.fork()
            before = evaluators.frames()["A"]
            (lambda: 1)()
            assert evaluators.frames()["A"] > before
            assert is_active()
            evaluators.uninstall("A")
            assert evaluators.effective() == OURS
            deactivate()
            assert evaluators.effective() is None
            if pid == 0:
                remove_map(os.getpid())
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        """)


if __name__ == "__main__":
    unittest.main()
