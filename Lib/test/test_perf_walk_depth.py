"""Labels of deep recursion, which fills areas and C stacks.

See test_perf_walk for how the tests look.
"""

import textwrap
import unittest

from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import PerfTestCase, also_with_details


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
class DepthTest(PerfTestCase):

    def test_default_recursion_limit(self):
        def recurse(n):
            if n % 10 == 0:
                self.check()
            if n:
                recurse(n - 1)

        depth = 800
        recurse(depth)
        self.assert_checked()
        self.assertEqual(self.checker.count, depth // 10 + 1)

    def test_exact_to_the_documented_depth(self):
        self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def recurse(n):
                if n % 50 == 0:
                    checker.check()
                if n < 2000:
                    recurse(n + 1)
                if n % 50 == 0:
                    checker.check()

            sys.setrecursionlimit(5000)
            sys.activate_stack_trampoline("perf")
            recurse(0)
            checker.finish(at_least=80)
            """))

    def test_with_callbacks_and_generators_in_between(self):
        self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def recurse(n):
                if n % 20 == 0:
                    checker.check()
                if n == 0:
                    return
                if n % 70 == 0:
                    sorted([n - 1], key=recurse)
                elif n % 33 == 0:
                    list(generator(n - 1))
                else:
                    recurse(n - 1)
                if n % 20 == 0:
                    checker.check()

            def generator(n):
                yield
                recurse(n)

            sys.setrecursionlimit(5000)
            sys.activate_stack_trampoline("perf")
            recurse(1500)
            checker.finish(at_least=150)
            """))

    def test_innermost_function_at_any_depth(self):
        # Three functions in turn, so that a stale label would be noticed.
        functions = "".join(textwrap.dedent(f"""
            def {name}(n):
                compare({name}, n, n % 700 < 3 and _testperf.labels())
                if n:
                    {callee}(n - 1)
                compare({name}, n, n % 700 < 3 and _testperf.labels())
            """) for name, callee in zip("abc", "bca"))
        self.run_script(DEEP_PREAMBLE + functions + textwrap.dedent("""
            sys.setrecursionlimit(10**6)
            sys.activate_stack_trampoline("perf")
            a(400_000)
            assert len(seen) > 3000, len(seen)
            """))

    def test_exception_from_any_depth(self):
        self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def a(n):
                try:
                    b(n - 1)
                except KeyError:
                    compare(a, n, n % 502 == 0 and _testperf.labels())
                    raise

            def b(n):
                if n < 0:
                    raise KeyError
                try:
                    a(n - 1)
                finally:
                    compare(b, n, n % 501 == 0 and _testperf.labels())

            sys.setrecursionlimit(10**6)
            sys.activate_stack_trampoline("perf")
            for _ in range(2):
                try:
                    a(50_000)
                except KeyError:
                    checker.check()
            assert len(seen) > 250, len(seen)
            checker.finish(at_least=2)
            """))

    def test_c_stack_per_call(self):
        out = self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def recurse(n):
                if n in (0, 10, 100, 900, 9_000, 90_000):
                    pointers[n] = _testperf.stack_pointer()
                return n and recurse(n - 1)

            pointers = {}
            sys.setrecursionlimit(10**6)
            sys.activate_stack_trampoline("perf")
            for depth in (900, 90_000):
                pointers.clear()
                recurse(depth)
                print((pointers[depth] - pointers[0]) / depth)
            """))
        for line in out.split():
            self.assertLess(float(line), 32)


DEEP_PREAMBLE = textwrap.dedent("""
    import sys
    import _testperf
    from test.support.perf_walk import LabelNames, StackChecker, symbol

    sys.tracebacklimit = 5
    checker, names = StackChecker(), LabelNames()

    # Called with the labels, for which no call may have made new ones.
    def compare(function, n, labels):
        if labels:
            actual = names.function_of(labels[0])
            assert actual == symbol(function.__code__), (n, actual)
            seen.append(n)

    seen = []
    """)


also_with_details(globals())


if __name__ == "__main__":
    unittest.main()
