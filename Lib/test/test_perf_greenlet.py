"""Native profilers see each Python function once where C stacks are switched.

greenlet lets functions run in turns on one C stack.  What the next one needs
the room for is copied to the heap, and back to the same addresses before it
goes on.  Records of the trampoline lie on that stack, so they move along.

Each test compares the labels found by walking the frame pointers with the
frames of sys._getframe().  For both, a greenlet's stack ends where greenlet
called its function.
"""

import gc
import importlib
import importlib.util
import random
import sys
import textwrap
import threading
import unittest

from test.support import check_sanitizer, swap_attr
from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import Native, PerfTestCase, run_script

import _testperf

# Debian's packages serve any build of CPython 3.11 with its ABI.
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"


def find(name):
    """Import a module, if need be from Debian's packages."""
    with swap_attr(sys, "path", [*sys.path, DEBIAN_PACKAGES]):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise unittest.SkipTest(
                f"{name} cannot be imported, not from {DEBIAN_PACKAGES} "
                f"(package python3-{name}) either: {error}") from error


if check_sanitizer(address=True, memory=True):
    raise unittest.SkipTest("greenlet copies whole stacks, which the "
                            "sanitizer takes for an overflow")
greenlet = find("greenlet")


def setUpModule():
    remove_own_map_at_exit()


def switch_to_parent(*args):
    return greenlet.getcurrent().parent.switch(*args)


def recurse(depth, function):
    """Call function below that many calls from Python to Python."""
    return recurse(depth - 1, function) if depth else function()


def recurse_in_c(depth, function):
    """Call function below that many calls through C."""
    if depth:
        return _testperf.call(lambda: recurse_in_c(depth - 1, function))
    return function()


@requires_trampoline
class GreenletTest(PerfTestCase):

    def test_before_during_and_after(self):
        def body():
            self.check()
            switch_to_parent()
            self.check()

        def main():
            self.check()
            child = greenlet.greenlet(body)
            child.switch()
            self.check()
            child.switch()
            self.check()

        self.repeat(main, checks=5)

    def test_other_depth_at_each_switch(self):
        # Started from one depth, resumed from others: its part of the stack is
        # copied away when the caller's grows over it.
        depths = 20, 0, 50, 3, 200, 1

        def body():
            for number, _ in enumerate(depths):
                (recurse, recurse_in_c)[number % 2](number * 15, turn)

        def turn():
            self.check()
            switch_to_parent()
            self.check()

        def resume():
            self.check()
            child.switch()
            self.check()

        for descend in recurse, recurse_in_c:
            child = greenlet.greenlet(body)
            for depth in depths:
                descend(depth, resume)
            recurse(7, resume)
            self.assertTrue(child.dead)
        self.assert_checked(2 * 4 * len(depths))

    def test_full_area(self):
        # More functions than slots, in each of many greenlets at a time.
        def body():
            recurse(700, turn)

        def turn():
            for _ in range(3):
                self.check()
                switch_to_parent()

        children = [greenlet.greenlet(body) for _ in range(10)]
        while children:
            for child in children:
                child.switch()
                self.check()
            children = [child for child in children if not child.dead]
        self.assert_checked(2 * 3 * 10)

    def test_greenlet_of_a_greenlet(self):
        def body(depth):
            self.check()
            if depth:
                child = greenlet.greenlet(body)
                child.switch(depth - 1)
                self.check()
                child.switch()
            switch_to_parent()
            self.check()

        def main():
            child = greenlet.greenlet(body)
            child.switch(5)
            self.check()
            child.switch()
            self.check()

        self.repeat(main, checks=19)

    def test_generator_that_switches(self):
        def numbers():
            for number in range(3):
                self.check()
                switch_to_parent(number)
                self.check()
                yield number

        def body():
            return sum(number for number in numbers())

        def main():
            child = greenlet.greenlet(body)
            result = child.switch()
            while not child.dead:
                self.check()
                result = child.switch()
            self.assertEqual(result, 3)

        self.repeat(main, checks=9)

    def test_generator_in_turns(self):
        # The same generator, resumed by two greenlets and their parent.
        def endless():
            while True:
                self.check()
                yield

        def body():
            for _ in range(3):
                next(generator)
                switch_to_parent()
                self.check()

        generator = endless()
        children = [greenlet.greenlet(body) for _ in range(2)]
        for _ in range(4):
            for child in children:
                child.switch()
                next(generator)
                self.check()
        self.assert_checked(2 * 3 * 2 + 2 * 8)

    def test_thrown_into(self):
        class Oops(Exception):
            pass

        def body():
            try:
                recurse(40, switch_to_parent)
            except Oops:
                self.check()
                raise
            finally:
                self.check()

        def main():
            child = greenlet.greenlet(body)
            child.switch()
            self.check()
            with self.assertRaises(Oops):
                child.throw(Oops)
            self.check()

        self.repeat(main, checks=4)

    def test_collected(self):
        # It ends when it is garbage, by GreenletExit where it stands.
        def body():
            try:
                recurse(40, switch_to_parent)
            finally:
                self.check()

        def main():
            child = greenlet.greenlet(body)
            child.switch()
            del child
            gc.collect()
            self.check()

        self.repeat(main, checks=2)

    def test_trace_function(self):
        # greenlet calls it in the middle of a switch.  Below it is greenlet's
        # code, where walks end.
        def trace(event, arguments):
            self.check(depth=2)

        self.addCleanup(greenlet.settrace, greenlet.settrace(trace))

        def body():
            switch_to_parent()

        def main():
            child = greenlet.greenlet(body)
            child.switch()
            child.switch()

        self.repeat(main, checks=4)

    def test_switched_off_and_on(self):
        # What ran when it was called decides about a function's label, in each
        # greenlet for itself.
        def body():
            if not sys.is_stack_trampoline_active():
                self.checker.called_while_off()
            for _ in range(4):
                self.check()
                switch_to_parent()
                if sys.is_stack_trampoline_active():
                    recurse(40, self.check)

        def toggle():
            if sys.is_stack_trampoline_active():
                sys.deactivate_stack_trampoline()
            else:
                self.activate()

        self.addCleanup(self.activate)
        children = [greenlet.greenlet(body) for _ in range(7)]
        for _ in range(5):
            for child in children:  # their number is odd: both states for each
                child.switch()
                self.check()
                toggle()
        self.assertTrue(all(child.dead for child in children))
        self.assert_checked(7 * (4 + 5 + 2))


class Crowd:
    """Greenlets of one thread that switch to one another at random."""

    def __init__(self, seed, switches, check):
        self.rng = random.Random(seed)
        self.left = switches
        self.check = check
        self.main = greenlet.getcurrent()
        self.members = []

    def run(self):
        while self.left:
            self.members = [member for member in self.members
                            if not member.dead]
            while len(self.members) < 30:
                self.members.append(greenlet.greenlet(self.body))
                # Started here, since it inherits the depth of its starter.
                self.members[-1].switch()
            recurse(self.rng.randrange(100), self.turn)
        for member in self.members:
            while not member.dead:
                member.switch()

    def body(self):
        switch_to_parent()
        for _ in range(self.rng.randrange(1, 4)):
            descend = self.rng.choice([recurse, recurse_in_c])
            descend(self.rng.randrange(60), self.turn)

    def turn(self):
        for _ in range(self.rng.randrange(1, 4)):
            if not self.left:
                return
            self.left -= 1
            self.check()
            member = self.rng.choice(self.members)
            (self.main if member.dead else member).switch()
            self.check()


@requires_trampoline
class CrowdTest(PerfTestCase):

    SWITCHES = 3000

    def test_threads(self):
        def run(seed):
            Crowd(seed, self.SWITCHES, self.check).run()
            finished.append(seed)

        finished = []
        threads = [threading.Thread(target=run, args=(seed,))
                   for seed in range(4)]
        for thread in threads:
            thread.start()
        run(4)
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(finished), [0, 1, 2, 3, 4])
        self.assert_checked(4 * self.SWITCHES)

    def test_sampled(self):
        # At any instruction, those of a switch included.
        _testperf.start_sampler(10_000, *Native().area_code())
        try:
            Crowd(0, 20 * self.SWITCHES, lambda: None).run()
        finally:
            sampled = _testperf.stop_sampler()
        self.assertEqual((sampled["bad"], sampled["bad_walks"]), (0, set()))
        names = {self.checker.names.of(label) for label in sampled["labels"]}
        self.assertLessEqual({f"py::{function.__qualname__}:{__file__}"
                              for function in (Crowd.body, Crowd.turn,
                                               recurse)}, names)
        self.assertEqual([name for name in names
                          if not name.startswith("py::")], [])
        self.assertGreater(sampled["walks"], 100)


@requires_trampoline
class GeventTest(unittest.TestCase):
    """The hub is in Cython, and its greenlets each run Python functions."""

    def test_pool(self):
        with swap_attr(sys, "path", [*sys.path, DEBIAN_PACKAGES]):
            if importlib.util.find_spec("gevent") is None:
                self.skipTest("gevent is not installed, not in "
                              f"{DEBIAN_PACKAGES} (package python3-gevent) "
                              "either")
        # In a process of its own: a hub stays in the thread that used it.
        run_script(textwrap.dedent("""\
            import sys, threading
            from test.support.perf_walk import StackChecker
            from test.test_perf_greenlet import find, recurse

            gevent = find("gevent")
            Pool = find("gevent.pool").Pool
            checker = StackChecker()
            sys.activate_stack_trampoline("perf")

            def work(number):
                for _ in range(number % 4 + 1):
                    recurse(number % 40, checker.check)
                    gevent.sleep(0)
                    checker.check()
                return number

            def use_hub():
                assert Pool(10).map(work, range(100)) == list(range(100))
                checker.check()
                finished.append(True)

            finished = []
            threads = [threading.Thread(target=use_hub) for _ in range(3)]
            for thread in threads:
                thread.start()
            use_hub()
            for thread in threads:
                thread.join()
            assert len(finished) == 4
            checker.finish(at_least=3 * 500)
            """))


if __name__ == "__main__":
    unittest.main()
