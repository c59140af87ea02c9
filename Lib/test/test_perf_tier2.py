"""Native profiling where CPython has a second tier, compiled or interpreted.

The ordinary evaluator makes traces of loops and runs these; evaluators with
labels make none and enter none.  So each test has a loop that is hot, and
looks whether its bytecode leads to a trace.  Programs switch the trampoline on
themselves: started with -X perf, CPython 3.14 and later have no JIT.
"""

import tempfile
import textwrap
import unittest

from test.support.perf_base import ANNOUNCES_JIT_CODE, has_jit, has_tier_2
from test.support.perf_helper import requires_trampoline
from test.support.perf_jitdump_case import JitdumpTestCase
from test.support.perf_walk import run_script

if not has_tier_2():
    raise unittest.SkipTest("this build of CPython has no second tier, or "
                            "nothing that tells of its traces")

HOT = """
    import _opcode, sys

    def double(number):
        return number + number

    def run():
        total = 0
        for number in range(20000):
            total += double(number)
        return total

    def traces(function):
        found = 0
        for offset in range(0, len(function.__code__.co_code), 2):
            try:
                _opcode.get_executor(function.__code__, offset)
                found += 1
            except ValueError:
                pass
        return found

    def has_run():
        for _ in range(5):
            assert run() == 399980000
        return traces(run) > 0
"""


def with_hot_loop(source):
    return textwrap.dedent(HOT) + textwrap.dedent(source)


class TierTests(unittest.TestCase):

    def run_script(self, source, **variables):
        self.assertEqual(run_script(with_hot_loop(source), env={
            "PYTHON_JIT": "1", **variables}), "")

    def test_off(self):
        self.run_script("""
            assert has_run()
        """)

    @requires_trampoline
    def test_on(self):
        for options in "'perf'", "'perf_jit'", "'perf', lines=True":
            with self.subTest(options=options), \
                    tempfile.TemporaryDirectory() as directory:
                self.run_script(f"""
                    sys.activate_stack_trampoline({options})
                    assert not has_run()
                """, JITDUMPDIR=directory)

    @requires_trampoline
    def test_after_off(self):
        self.run_script("""
            sys.activate_stack_trampoline("perf")
            assert not has_run()
            sys.deactivate_stack_trampoline()
            assert has_run()
        """)

    @requires_trampoline
    def test_switched_on_later(self):
        # What stands in the bytecode for a trace leads to none any more, and
        # calls in the loop, inlined or not, have their labels.
        self.run_script("""
            from test.support.perf_walk import StackChecker
            assert has_run()
            checker = StackChecker()
            sys.activate_stack_trampoline("perf")
            assert not has_run()

            def double(number):
                if number % 4000 == 0:
                    checker.check()
                return number + number

            assert not has_run()
            checker.finish(at_least=25)
            sys.deactivate_stack_trampoline()
            assert has_run()
        """)

    @requires_trampoline
    def test_switched_within_a_trace(self):
        # The loop runs in the ordinary evaluator, from a trace, until it calls
        # a function with the trampoline on.
        self.run_script("""
            def double(number):
                if number % 5000 == 4999:
                    switches[number % 2]()
                    switches.reverse()
                return number + number

            switches = [lambda: sys.activate_stack_trampoline("perf"),
                        sys.deactivate_stack_trampoline]
            from test.support.perf_walk import StackChecker
            checker = StackChecker()
            for _ in range(20):
                assert run() == 399980000
            sys.activate_stack_trampoline("perf")

            def check(depth):
                return checker.check() if depth == 0 else check(depth - 1)

            for depth in range(500):
                check(depth)
            checker.finish(at_least=500)
        """)


@requires_trampoline
@unittest.skipUnless(ANNOUNCES_JIT_CODE and has_jit(),
                     "this CPython tells profilers nothing of its JIT's code, "
                     "or has no JIT")
class JitCodeTests(JitdumpTestCase):

    def announced(self, source):
        dump = self.dump_of(with_hot_loop(source), "-X", "utf8",
                            variables={"PYTHON_JIT": "1"})
        return [load for load in dump.loads if load.name == "py::jit:executor"]

    def test_announced(self):
        loads = self.announced("""
            sys.activate_stack_trampoline("perf_jit")
            sys.deactivate_stack_trampoline()
            assert has_run()
        """)
        self.assertGreater(len(loads), 0)
        for load in loads:
            self.assertGreater(len(load.code), 0)
        self.assertEqual(len({load.code_addr for load in loads}), len(loads))

    def test_none_while_on(self):
        self.assertEqual(self.announced("""
            sys.activate_stack_trampoline("perf_jit")
            assert not has_run()
        """), [])


if __name__ == "__main__":
    unittest.main()
