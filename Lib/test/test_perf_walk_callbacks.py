"""Native profilers see Python functions that C calls, by itself or for others.

As in test_perf_walk: the labels that a walk finds are compared with the frames
of sys._getframe().
"""

import contextlib
import functools
import gc
import itertools
import re
import signal
import textwrap
import unittest
import weakref

from test.support import import_helper
from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import PerfTestCase, also_with_details

import _testperf


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
class CallbackTest(PerfTestCase):

    def test_callbacks_from_c(self):
        check = self.check

        def callback(*_):
            check()
            return 0

        def use():
            sorted([2, 1], key=callback)
            max([2, 1], key=callback)
            list(map(callback, [1, 2]))
            list(filter(callback, [1, 2]))
            functools.reduce(callback, [1, 2, 3])
            functools.partial(callback, 1)()
            sorted([2, 1], key=functools.cmp_to_key(callback))
            re.sub("a", lambda match: callback() or "b", "aa")
            list(itertools.takewhile(callback, [1]))
            list(itertools.groupby([1, 2], callback))
            next(iter(callback, 1))
            {}.get(0) or dict.fromkeys(map(callback, [1]))
            type("C", (), {"__hash__": callback})().__hash__()
            "".join(map(lambda _: str(callback()), "ab"))

        self.repeat(use, checks=22)

    def test_callback_below_c_frames(self):
        for frames in 0, 1, 10, 100:
            self.repeat(lambda: _testperf.call(self.check, frames))

    def test_ctypes_callback(self):
        # libffi keeps no frame pointers, so profilers do not get past it.
        ctypes = import_helper.import_module("ctypes")

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
        def callback(number):
            return inner(number)

        def inner(number):
            self.check(depth=3)
            return number

        def use():
            self.assertEqual(callback(5), 5)
            self.check()

        self.repeat(use, checks=2)

    def test_destructors_and_weak_references(self):
        check = self.check

        class Object:
            def __del__(self):
                check()

        def use():
            Object()                            # at once, in the evaluator
            instance = Object()
            reference = weakref.ref(instance, check)
            weakref.finalize(instance, check)
            del instance
            cycle = Object()
            cycle.itself = cycle
            del cycle
            gc.collect()
            return reference

        with self.gc_callback():
            self.repeat(use, checks=7)

    @contextlib.contextmanager
    def gc_callback(self):
        def on_collection(phase, info):
            self.check()

        # A collection of its own would add to the checks.
        gc.collect()
        gc.disable()
        gc.callbacks.append(on_collection)
        try:
            yield
        finally:
            gc.callbacks.remove(on_collection)
            gc.enable()

    def test_signal_handler(self):
        def handler(number, frame):
            self.check()

        self.addCleanup(signal.signal, signal.SIGUSR1,
                        signal.signal(signal.SIGUSR1, handler))

        def use():
            signal.raise_signal(signal.SIGUSR1)
            self.check()

        self.repeat(use, checks=2)

    def test_audit_hook_and_atexit(self):
        self.run_script(textwrap.dedent("""
            import atexit, os, sys
            from test.support.perf_walk import StackChecker

            checker = StackChecker()

            def hook(event, args):
                if event == "our event":
                    checker.check()

            def at_exit():
                checker.check()
                inner()
                checker.finish(at_least=4)

            def inner():
                checker.check()

            class AtEnd:
                def __del__(self, checker=checker, exit=os._exit):
                    checker.check()
                    if checker.mismatches:
                        exit(9)

            sys.addaudithook(hook)
            atexit.register(at_exit)
            sys.activate_stack_trampoline("perf")
            sys.audit("our event")
            def function():
                sys.audit("our event")
            function()
            sys.kept = AtEnd()
            """))


also_with_details(globals())


if __name__ == "__main__":
    unittest.main()
