"""Labels of functions that end by an exception or with their thread, and of
functions that are traced.

See test_perf_walk for how the tests look.
"""

import contextlib
import functools
import sys
import textwrap
import threading
import unittest

from test.support import import_helper
from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import PerfTestCase, also_with_details

import _testperf


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
class ExceptionTest(PerfTestCase):

    def test_raised_and_caught_at_several_depths(self):
        def raiser(depth, catcher):
            try:
                if depth == 0:
                    self.check()
                    raise ValueError
                raiser(depth - 1, catcher)
            except ValueError:
                self.check()
                if depth != catcher:
                    raise
            self.check()

        def use():
            for catcher in (0, 1, 5, 40):
                raiser(40, catcher)
                self.check()

        # Each depth that catches and each that goes on, and ends.
        checks = sum(1 + (catcher + 1) + (40 - catcher + 1) + 1
                     for catcher in (0, 1, 5, 40))
        self.repeat(use, checks=checks)

    def test_finally_with_and_else(self):
        def function(error):
            try:
                with contextlib.suppress(KeyError):
                    if error:
                        raise error
                    self.check()
            except ValueError:
                self.check()
            else:
                self.check()
            finally:
                self.check()

        def use():
            function(None)
            function(KeyError)
            function(ValueError)
            with self.assertRaises(IndexError):
                function(IndexError)

        self.repeat(use, checks=3 + 2 + 2 + 1)

    def test_exception_group(self):
        def raiser():
            raise ExceptionGroup("several", [ValueError(1), KeyError(2)])

        def use():
            try:
                raiser()
            except* ValueError:
                self.check()
            except* KeyError:
                self.check()
            self.check()

        self.repeat(use, checks=3)

    def test_through_c(self):
        def raiser(_):
            raise KeyError

        def use():
            for call in (lambda: sorted([1, 2], key=raiser),
                         lambda: list(map(raiser, [1])),
                         lambda: functools.partial(raiser, 1)(),
                         lambda: _testperf.call(lambda: raiser(1), 3)):
                with self.assertRaises(KeyError):
                    call()
                self.check()

        self.repeat(use, checks=4)

    def test_unraisable(self):
        class Object:
            def __del__(self):
                raise KeyError

        def use():
            Object()
            self.check()

        def hook(unraisable):
            self.check()

        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = hook
        self.repeat(use, checks=2)

    def test_recursion_error(self):
        def recurse(depth):
            # Near the limit there is no room for a check.
            try:
                return recurse(depth + 1)
            except RecursionError:
                if depth > 200:
                    raise
                self.check()
                if depth > 190:
                    raise

        def use():
            recurse(0)
            self.check()

        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(900)
        before = self.checker.count
        for _ in range(5):
            use()
            self.assert_checked()
        self.assertEqual(self.checker.count - before, 5 * 12)

    def test_recursion_error_in_a_callback(self):
        def recurse(_):
            sorted([1], key=recurse)

        def use():
            with self.assertRaises(RecursionError):
                recurse(0)
            self.check()

        self.repeat(use)


@requires_trampoline
class TraceTest(PerfTestCase):

    def traced(self):
        """Something of everything, to be traced."""
        def generator():
            yield 1
            with contextlib.suppress(KeyError):
                raise KeyError
            yield 2

        def recurse(n):
            return n and recurse(n - 1)

        sum(generator())
        recurse(5)
        sorted([2, 1], key=lambda x: -x)
        return [x for x in generator()]

    def test_settrace(self):
        def trace(frame, event, arg):
            self.check()
            return trace

        def use():
            sys.settrace(trace)
            try:
                self.traced()
            finally:
                sys.settrace(None)

        self.addCleanup(sys.settrace, sys.gettrace())
        for _ in range(5):
            use()
        self.assert_checked(at_least=5 * 50)

    def test_setprofile(self):
        def profile(frame, event, arg):
            self.check()

        def use():
            sys.setprofile(profile)
            try:
                self.traced()
            finally:
                sys.setprofile(None)

        self.addCleanup(sys.setprofile, sys.getprofile())
        for _ in range(5):
            use()
        self.assert_checked(at_least=5 * 30)

    def test_trace_functions_that_raise(self):
        def make(install, raise_at):
            events = 0

            def trace(frame, event, arg):
                nonlocal events
                self.check()
                events += 1
                if events == raise_at:
                    raise ZeroDivisionError
                return trace

            def use():
                try:
                    install(trace)
                    self.traced()
                    install(None)
                except ZeroDivisionError:
                    install(None)
                    return True
                return False

            return use

        self.addCleanup(sys.settrace, sys.gettrace())
        self.addCleanup(sys.setprofile, sys.getprofile())
        for install in sys.settrace, sys.setprofile:
            raise_at = 1
            while make(install, raise_at)():
                self.check()
                raise_at += 1
            self.assertGreater(raise_at, 20)
        self.assert_checked(at_least=1000)


@requires_trampoline
class ThreadTest(PerfTestCase):

    def test_threads(self):
        def recurse(n):
            if n == 0:
                self.check()
            else:
                recurse(n - 1)
            self.check()

        threads = [threading.Thread(target=recurse, args=(n,))
                   for n in (1, 30, 70, 100)]
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-5)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assert_checked()
        self.assertEqual(self.checker.count, 1 + 30 + 70 + 100 + 2 * 4)

    def test_thread_that_c_creates(self):
        def function():
            self.check()
            sorted([1], key=self.check)

        for stack_size in 0, 256 * 1024:
            _testperf.call_in_thread(function, stack_size)
        self.assert_checked()
        self.assertEqual(self.checker.count, 4)

    def test_thread_that_ran_before(self):
        # It waits in functions without label, and then calls one that has one.
        self.run_script(textwrap.dedent("""
            import sys, threading
            from test.support.perf_walk import StackChecker

            checker = StackChecker()
            ready, go = threading.Event(), threading.Event()

            def old():
                frame = sys._getframe()
                while frame:
                    checker.called_while_off(frame)
                    frame = frame.f_back
                ready.set()
                while not go.wait(0.01):
                    pass
                new()

            def new():
                checker.check()

            thread = threading.Thread(target=old)
            thread.start()
            ready.wait()
            sys.activate_stack_trampoline("perf")
            go.set()
            thread.join()
            checker.finish(at_least=1)
            """))

    def test_small_stack(self):
        # The smallest that threading allows: recursion as deep as unprofiled.
        self.run_script(textwrap.dedent("""
            import os, sys, threading
            import _testperf
            from test.support.perf_walk import LabelNames

            def recurse(n):
                if n == 0:
                    found.append(_testperf.labels())
                    return 0
                return 1 + recurse(n - 1)

            def run():
                results.append(recurse(depth))

            found, results, names = [], [], LabelNames()
            size = max(32 * 1024, os.sysconf("SC_THREAD_STACK_MIN"))
            while True:
                try:
                    threading.stack_size(size)
                    break
                except ValueError:
                    size += 4096
            sys.activate_stack_trampoline("perf")
            for limit, depth in (1000, 900), (10_000, 9000):
                sys.setrecursionlimit(limit)
                for _ in range(5):
                    thread = threading.Thread(target=run)
                    thread.start()
                    thread.join()
            assert results == [900] * 5 + [9000] * 5, results
            for labels in found:
                name = names.function_of(labels[0])
                assert name == f"py::recurse:{__file__}", name
            """))

    def test_subinterpreters(self):
        interpreters = import_helper.import_module(
            "test.support.perf_interpreters")
        source = textwrap.dedent("""
            import sys
            from test.support.perf_walk import StackChecker

            checker = StackChecker()

            def function(n):
                if not sys.is_stack_trampoline_active():
                    checker.called_while_off()
                if n == 0:
                    checker.check(below=below.split("\\n"))
                else:
                    sorted([n - 1], key=function)

            {activate}
            function(0)
            function(3)
            report = checker.report()
            if report:
                raise Exception(report)
            """)
        frame = sys._getframe()

        def shared():
            return {"below": "\n".join(self.checker.expected(frame))}

        activation = ("sys.activate_stack_trampoline('perf', "
                      f"lines={self.lines})")
        for activate in "", activation:
            interpreter = interpreters.create(isolated=False)
            try:
                text = source.format(activate=activate).replace(
                    "StackChecker()", f"StackChecker(lines={self.lines})")
                result = interpreters.run_string(interpreter, text, shared())
                interpreters.raise_failure(result)
            finally:
                interpreters.destroy(interpreter)
        self.check()
        self.assert_checked()


also_with_details(globals())


if __name__ == "__main__":
    unittest.main()
