"""Labels of functions that call others where an area of labels is full.

There another evaluator takes over the functions that called last, if one of
them fills the area again.  See test_perf_walk for how the tests look.
"""

import textwrap
import unittest

from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import PerfTestCase, also_with_details


def setUpModule():
    remove_own_map_at_exit()


# at() calls function() at any depth.  Where the trampoline is switched on, the
# first area has 32 slots, or 16 with native functions, and the next one 256:
# among these depths are those at which they end, whatever was handed over.
PREAMBLE = textwrap.dedent("""
    import sys
    import _testperf
    from test.support.perf_walk import LabelNames, StackChecker, symbol

    sys.tracebacklimit = 5
    sys.setrecursionlimit(10_000)
    checker = StackChecker()
    check = checker.check

    def at(depth, function):
        return at(depth - 1, function) if depth else function()

    DEPTHS = *range(10, 36), *range(250, 262), *range(268, 292)
    """)


@requires_trampoline
class EndTest(PerfTestCase):

    def run_at_ends(self, source, at_least, end=""):
        self.run_script(PREAMBLE + textwrap.dedent(source)
                        + textwrap.dedent("""
            sys.activate_stack_trampoline("perf")
            for depth in DEPTHS:
                at(depth, loop)
            """) + textwrap.dedent(end)
            + f"checker.finish(at_least={at_least})")

    def test_calls_in_a_loop(self):
        self.run_at_ends("""
            def loop():
                check()
                for _ in range(5):
                    callee()
                    check()

            def callee():
                check()
            """, 300)

    def test_evaluator(self):
        # It is entered once, not for each call: the C stack tells.
        self.run_at_ends("""
            def loop():
                for number in range(6):
                    pointer = callee()
                    distances[number].append(
                        abs(_testperf.stack_pointer() - pointer))

            def callee():
                return _testperf.stack_pointer()

            distances = [[] for _ in range(6)]
                """, 0, """
            assert max(distances[0]) > 4000, distances
            assert max(map(max, distances[2:])) < 500, distances
            """)

    def test_deeper_and_back(self):
        self.run_at_ends("""
            def loop():
                for depth in (3, 3, 20, 40, 70, 40, 3):
                    at(depth, check)
                    check()
            """, 400)

    def test_exceptions(self):
        self.run_at_ends("""
            def loop():
                for depth in 1, 2, 3:
                    callee()
                    try:
                        at(depth, throw)
                    except KeyError:
                        check()
                if sys._getframe(10).f_code is at.__code__:
                    raise KeyError

            def callee():
                check()

            def throw():
                check()
                raise KeyError

            def catch(depth):
                try:
                    at(depth, loop)
                except KeyError:
                    check()

            def all_depths():
                for depth in DEPTHS:
                    for _ in range(3):
                        catch(depth)

            sys.activate_stack_trampoline("perf")
            all_depths()
            DEPTHS = ()
            """, 500)

    def test_other_calls(self):
        # Each of these leaves a frame in another way: what cleans up after
        # __init__() is a frame of its own, and generators are resumed.
        self.run_at_ends("""
            class Class:
                def __init__(self, depth):
                    check()
                    if depth:
                        self.other = one_of(depth - 1)

                @property
                def attribute(self):
                    return one_of(self.depth)

                def __getitem__(self, depth):
                    check()
                    return one_of(depth - 1)

            def generator(depth):
                check()
                yield one_of(depth - 1)
                check()
                yield from other_generator(depth - 1)
                check()

            def other_generator(depth):
                yield one_of(depth)
                check()

            def one_of(depth):
                if depth <= 0:
                    for _ in range(3):
                        callee()
                    return
                kind = depth % 5
                if kind == 0:
                    Class(depth)
                elif kind == 1:
                    instance = object.__new__(Class)
                    instance.depth = depth - 1
                    instance.attribute
                elif kind == 2:
                    object.__new__(Class)[depth]
                elif kind == 3 and depth < 9:
                    for _ in generator(depth):
                        check()
                elif kind == 4:
                    sorted([depth - 1], key=one_of)
                else:
                    one_of(depth - 1)
                check()

            def callee():
                check()

            def loop():
                for _ in range(2):
                    one_of(sys._getframe(1).f_locals["depth"] % 9 + 10)
            """, 500)

    def test_switched_off_meanwhile(self):
        self.run_at_ends("""
            def loop():
                for number in range(6):
                    callee()
                    if number == 3:
                        sys.deactivate_stack_trampoline()
                sys.activate_stack_trampoline("perf")
                check()

            def callee():
                if not sys.is_stack_trampoline_active():
                    checker.called_while_off()
                check()
            """, 200)

    def test_small_stack(self):
        # Its areas are smaller.  How deep they go depends on its size.
        self.run_at_ends("""
            import threading

            def loop():
                for _ in range(4):
                    callee()

            def callee():
                check(depth=1)

            def thread():
                for depth in range(4, 70, 3):
                    at(depth, loop)

            def at(depth, function):
                return at(depth - 1, function) if depth else function()

            threading.stack_size(128 * 1024)
            sys.activate_stack_trampoline("perf")
            thread = threading.Thread(target=thread)
            thread.start()
            thread.join()
            """, 50)

    def test_beyond_the_labelled_depth(self):
        # Only the innermost function is shown, and the right one.
        self.run_at_ends("""
            def loop():
                compare(loop, _testperf.labels())
                for _ in range(4):
                    callee()
                    compare(loop, _testperf.labels())

            def callee():
                compare(callee, _testperf.labels())

            def compare(function, labels):
                actual = names.function_of(labels[0])
                assert actual == symbol(function.__code__), actual

            def at(depth, function):
                return at(depth - 1, function) if depth else function()

            names = LabelNames()
            DEPTHS = range(2000, 2330)
            """, 0)


also_with_details(globals())


if __name__ == "__main__":
    unittest.main()
