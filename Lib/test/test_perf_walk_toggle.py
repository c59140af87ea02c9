"""Labels while the trampoline is switched, and beside other evaluators.

See test_perf_walk for how the tests look.
"""

import contextlib
import itertools
import sys
import threading
import unittest

from test.support.perf_base import has_jit
from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import PerfTestCase, also_with_details, symbol

import _testperf


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
class ToggleTest(PerfTestCase):

    def setUp(self):
        super().setUp()
        self.off = sys.deactivate_stack_trampoline
        self.on = self.activate
        self.addCleanup(self.on)

    def called(self):
        """Start a function: expect a label or none, as things are."""
        if not sys.is_stack_trampoline_active():
            self.checker.called_while_off(sys._getframe())
            self.checker.called_while_off(sys._getframe(1))
        self.check()

    def test_off_in_running_functions(self):
        def outer():
            self.called()
            middle()
            self.check()
            later()
            self.on()
            later()
            self.check()

        def middle():
            self.called()
            self.off()
            self.check()
            later()
            sorted([1], key=later)
            self.check()

        def later(_=None):
            self.called()
            even_later()
            self.check()

        def even_later():
            self.called()

        self.repeat(outer, checks=18)

    def test_on_in_running_functions(self):
        def outer():
            self.called()
            middle()
            self.check()
            later()
            sorted([1], key=later)
            self.check()

        def middle():
            self.called()
            self.on()
            later()
            self.check()

        def later(_=None):
            self.called()
            even_later()
            self.check()

        def even_later():
            self.called()

        def use():
            self.off()
            outer()

        self.repeat(use, checks=14)

    def test_at_each_depth(self):
        # Each function's caller has switched on or off, in patterns.
        def recurse(n, period):
            self.called()
            if n:
                switch = self.on if n % period else self.off
                switch()
                recurse(n - 1, period)
                self.check()

        for period in (1, 2, 3, 7, 35, 40):
            self.on()
            recurse(120, period)
            self.assert_checked()
        self.assertEqual(self.checker.count, 6 * (121 + 120))

    def test_exception_after_a_switch(self):
        def outer():
            self.called()
            for switch in self.on, self.off, self.on:
                with contextlib.suppress(KeyError):
                    middle(switch)
                self.check()

        def middle(switch):
            self.called()
            switch()
            inner()

        def inner():
            self.called()
            raise KeyError

        self.repeat(outer, checks=10)

    def test_generators_take_the_state_of_each_resumption(self):
        def generator():
            frame = sys._getframe()
            while True:
                if sys.is_stack_trampoline_active():
                    self.check()
                else:
                    # Without a label this time.
                    unlabelled = self.checker._unlabelled
                    unlabelled.append(frame)
                    self.check()
                    unlabelled.remove(frame)
                yield

        def use():
            running = generator()
            for switch in self.on, self.off, self.off, self.on, self.on:
                switch()
                next(running)
            self.check()

        self.repeat(use, checks=6)

    def test_in_a_trace_function(self):
        def trace(frame, event, arg):
            switch = self.on if next(turns) % 2 else self.off
            switch()

        def traced():
            return [inner(i) for i in range(20)]

        def inner(i):
            return sum(x for x in range(3))

        turns = itertools.count()
        self.addCleanup(sys.setprofile, sys.getprofile())
        sys.setprofile(trace)
        try:
            traced()
        finally:
            sys.setprofile(None)
            self.on()
        self.assertGreater(next(turns), 100)
        self.repeat(self.check)

    def test_in_another_thread(self):
        def recurse(n):
            if n:
                recurse(n - 1)
            else:
                walks.append(_testperf.labels())

        def run():
            while not done:
                recurse(50)

        # Which functions have labels is a matter of chance; only these can.
        walks, done = [], []
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(2000):
            self.off()
            self.on()
        done.append(True)
        for thread in threads:
            thread.join()
        known = {symbol(recurse.__code__), symbol(run.__code__),
                 *(symbol(getattr(threading.Thread, name).__code__)
                   for name in ("run", "_bootstrap", "_bootstrap_inner"))}
        names = {self.checker.names.function_of(label)
                 for labels in walks for label in labels}
        self.assertLessEqual(names, known)
        self.assertIn(symbol(recurse.__code__), names)


@requires_trampoline
class OtherEvaluatorTest(PerfTestCase):

    lines_do_not_matter = "the other evaluator does not tell them"
    """Another tool has an evaluator of its own (PEP 523)."""

    def setUp(self):
        # The other evaluator is the ordinary one, below it.
        if self.native and has_jit():
            self.skipTest("native stacks lead through frame records, which "
                          "code of a JIT need not have")
        super().setUp()

    def remove_evaluator(self):
        sys.deactivate_stack_trampoline()
        return _testperf.remove_evaluator()

    def functions(self):
        """Return a function and the number of checks in it."""
        def outer():
            self.check()
            sorted([1], key=inner)
            inner(2)
            for _ in generator():
                pass
            with contextlib.suppress(KeyError):
                raiser()

        def inner(_):
            self.check()

        def generator():
            yield 1
            self.check()

        def raiser():
            raise KeyError

        return outer, 4

    def test_before_activation(self):
        outer, checks = self.functions()
        self.addCleanup(self.activate)
        sys.deactivate_stack_trampoline()
        _testperf.install_evaluator()
        try:
            self.assertTrue(_testperf.evaluator_is_current())
            self.activate()
            self.assertTrue(sys.is_stack_trampoline_active())
            self.assertTrue(_testperf.evaluator_is_current())
            self.repeat(outer, checks)
            calls = _testperf.evaluator_calls()
            sys.deactivate_stack_trampoline()
            self.assertTrue(_testperf.evaluator_is_current())
            self.assertFalse(sys.is_stack_trampoline_active())
            self.activate()
            self.repeat(outer, checks)
        finally:
            all_calls = self.remove_evaluator()
        # Each function that ran was counted once: outer, inner twice, the
        # generator twice, raiser and the check's own.
        self.assertGreaterEqual(calls, self.TIMES * (6 + checks))
        self.assertGreaterEqual(all_calls - calls, self.TIMES * (6 + checks))
        self.activate()
        self.repeat(outer, checks)

    def test_after_activation(self):
        outer, checks = self.functions()
        _testperf.install_evaluator()
        try:
            self.assertTrue(sys.is_stack_trampoline_active())
            self.assertTrue(_testperf.evaluator_is_current())
            self.repeat(outer, checks)
        finally:
            calls = _testperf.remove_evaluator()
        self.assertGreaterEqual(calls, self.TIMES * (6 + checks))
        self.assertTrue(sys.is_stack_trampoline_active())
        self.repeat(outer, checks)


also_with_details(globals())


if __name__ == "__main__":
    unittest.main()
