#!/usr/bin/env python3
"""Let threads make and call functions all at once, while others switch.

Without a GIL, nothing but our own locks keeps them apart.  All call the same
functions for the first time at the same moment, make others of the same names,
and others still of their own; generators go from thread to thread; the
trampoline goes off and on, shows native functions or not, and sometimes
another tool has the place of the evaluator.  Each address must have one name
then, each name one address, no line be torn, and at the end each thread must
see its own functions on its C stack.  Run it with the interpreter to test.

Called by hand and, for a short time, by Lib/test/test_perf_stress.py.
"""

import argparse
import sys
import threading

from check_map import check_map

try:
    import _testperf
except ImportError:
    _testperf = None            # `make test` builds it: no walks, no tool

COMMON = 40                     # functions of each turn that all threads call


def define(names, file):
    """Return new functions."""
    scope = {}
    source = "\n".join(f"def {name}(n): return n and {name}(n - 1)"
                       for name in names)
    exec(compile(source, file, "exec"), scope)
    return [scope[name] for name in names]


def numbers(n):
    for number in range(n):
        yield number


class Crowd:

    def __init__(self, threads, turns):
        self.threads = threads
        self.turns = turns
        self.failures = []
        self.done = False
        self.barrier = threading.Barrier(threads)
        self.common = []        # functions that all call, made by one thread
        self.generator = None
        self.lock = threading.Lock()

    def run(self, *targets):
        """Run them, each in a thread, to their end."""
        threads = [threading.Thread(target=self.guard, args=target)
                   for target in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            sys.exit(f"threads: one failed: {self.failures[0]!r}")

    def guard(self, function, *args):
        try:
            function(*args)
        except BaseException as error:
            self.failures.append(error)
            self.barrier.abort()

    # --- Work ---

    def work(self, tag):
        for turn in range(self.turns):
            if tag == 0:
                self.common = define([f"common_{turn}_{number}"
                                      for number in range(COMMON)], "common")
                self.generator = numbers(1000)
            self.barrier.wait()
            for function in self.common:
                function(3)
            # Code of its own, with the names of others' code.
            for function in define([f"same_{turn}_{number}"
                                    for number in range(COMMON)], "same"):
                sorted([2, 1], key=function)
            define([f"own_{tag}_{turn}"], "own")[0](200)
            for _ in range(50):
                # CPython 3.14 has races where two threads resume one.
                with self.lock:
                    next(self.generator, None)
            self.barrier.wait()

    def work_and_tell(self, tag):
        try:
            self.work(tag)
        finally:
            self.done = True

    def switch(self, has_tool):
        turn = 0
        while not self.done:
            turn += 1
            sys.activate_stack_trampoline("perf", native=turn % 3 == 0)
            if turn % 2:
                sys.deactivate_stack_trampoline()
            sys.is_stack_trampoline_active()
            if has_tool and turn % 5 == 0:
                _testperf.install_evaluator()
                _testperf.remove_evaluator()
        sys.activate_stack_trampoline("perf")

    # --- Walks ---

    def walk(self, tag):
        from test.support.perf_walk import StackChecker
        checker = StackChecker()

        def recurse(depth):
            if depth:
                return recurse(depth - 1)
            checker.check()

        def resume(depth):
            yield sorted([1], key=lambda _: recurse(depth))

        for turn in range(30):
            self.barrier.wait()
            next(resume(10 * turn))
        checker.finish(at_least=30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=8,
                        help="how many at a time (%(default)s)")
    parser.add_argument("--turns", type=int, default=200,
                        help="of each (%(default)s)")
    options = parser.parse_args()
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)
    had_gil = has_gil()
    sys.activate_stack_trampoline("perf")
    sys.setswitchinterval(1e-5)
    crowd = Crowd(options.threads, options.turns)
    crowd.run((crowd.switch, False), (crowd.switch, _testperf is not None),
              *((crowd.work_and_tell if tag == 0 else crowd.work, tag)
                for tag in range(options.threads)))
    # The last calls may have been while it was off.
    for turn in range(options.turns):
        for kind in "common", "same":
            for function in define([f"{kind}_{turn}_{number}"
                                    for number in range(COMMON)], kind):
                function(0)
        for tag in range(options.threads):
            define([f"own_{tag}_{turn}"], "own")[0](0)
    names = check_map(
        [f"py::{kind}_{turn}_{number}:{kind}" for turn in range(options.turns)
         for kind in ("common", "same") for number in range(COMMON)]
        + [f"py::own_{tag}_{turn}:own" for turn in range(options.turns)
           for tag in range(options.threads)])
    if _testperf is not None:
        crowd.run(*((crowd.walk, tag) for tag in range(options.threads)))
    if has_gil() != had_gil:
        sys.exit("threads: the GIL has come back")
    print(f"{names} names of {options.threads} threads, "
          f"with{'' if had_gil else 'out'} a GIL")


if __name__ == "__main__":
    main()
