"""Random programs: at every step the walk has to show the running functions.

A seed gives a program of functions of many kinds that call each other in many
ways, raise, and switch the trampoline on and off (perf_random.py in support/).
Each of them keeps a model of the stack (perf_model.py there), which verify()
compares with the labels that a walk finds, and now and then with the
interpreter's own stack.

PERF_TEST_SEED=number in the environment repeats a failure.
"""

import contextlib
import functools
import gc
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

from test import support
from test.support import os_helper
from test.support.perf_base import uses_jit
from test.support.perf_helper import (EMULATOR, remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_model import Chain, LinesModel, Mismatch, Model, Oops
from test.support.perf_random import Writer
from test.support.perf_walk import LabelNames, Native, symbol

import _testperf

COMPARISONS = 20_000 if EMULATOR else 200_000
COMPARISONS_A_PROGRAM = 10_000
# In an emulator, a walk through a deep stack takes about as long as the time
# between two of these: the program would hardly get on.
SAMPLER_HZ = 1000 if EMULATOR else 10_000


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
@unittest.skipIf(uses_jit(), "WithoutJitTest runs it")
class RandomTest(unittest.TestCase):

    back_end = "perf"
    comparisons = COMPARISONS
    model = Model

    def activate(self):
        sys.activate_stack_trampoline(self.back_end,
                                      lines=self.model is LinesModel)

    def setUp(self):
        was_active = sys.is_stack_trampoline_active()
        self.activate()
        if not was_active:
            self.addCleanup(sys.deactivate_stack_trampoline)
        self.addCleanup(sys.setrecursionlimit, sys.getrecursionlimit())
        sys.setrecursionlimit(2000)
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = self.ignore_oops
        # Generators must not be collected in the midst of the model's code.
        self.addCleanup(gc.enable)
        gc.disable()
        self.seed = int(os.environ.get("PERF_TEST_SEED",
                                       random.SystemRandom().getrandbits(32)))

    @staticmethod
    def ignore_oops(unraisable):
        """A generator that is collected may call functions, too."""
        if not isinstance(unraisable.exc_value, (Oops, Mismatch)):
            sys.__unraisablehook__(unraisable)

    def run_program(self, seed, comparisons):
        """Return the model after at least so many comparisons."""
        model = self.model(random.Random(seed), self.back_end)
        file = f"<random {seed}>"
        source = "\n".join(Writer(model.rng).program()).replace("FILE", file)
        names = {"Oops": Oops, "model": model, "rng": model.rng,
                 "chain": lambda: Chain(model),
                 "call": _testperf.call, "pattern": re.compile("a"),
                 "reduce": functools.reduce, "partial": functools.partial}
        for name in ("enter", "verify", "leave", "once", "more", "toggle",
                     "may_inline_always", "in_thread", "deeper", "shallower"):
            names[name] = getattr(model, name)
        exec(compile(source, file, "exec"), names)
        model.start()
        try:
            while model.comparisons < comparisons and model.failure is None:
                model.fuel = 400
                with contextlib.suppress(Oops):
                    names["main"]()
            model.fuel = 0
            gc.collect()
        except Mismatch:
            pass
        finally:
            self.activate()
        if model.failure is not None:
            self.fail(f"PERF_TEST_SEED={seed} (after {model.comparisons} "
                      f"comparisons): {model.failure}")
        return model

    def test_every_node(self):
        comparisons, labels, seed = 0, 0, self.seed
        while comparisons < self.comparisons:
            model = self.run_program(seed, COMPARISONS_A_PROGRAM)
            comparisons += model.comparisons
            labels += model.labels
            seed += 1
        self.assertGreater(labels, 5 * comparisons)

    def test_under_a_sampler(self):
        _testperf.start_sampler(SAMPLER_HZ, *Native().area_code())
        try:
            for seed in range(self.seed, self.seed + 4):
                self.run_program(seed, COMPARISONS_A_PROGRAM)
        finally:
            sampled = _testperf.stop_sampler()
        message = f"PERF_TEST_SEED={self.seed}: {sampled}"
        self.assertEqual(sampled["bad"], 0, message)
        self.assertEqual(sampled["lost_labels"], 0, message)
        self.assertGreater(sampled["walks"], 500, message)
        if support.verbose:
            print(f"{self.back_end}: {sampled['walks']} walks")
        sys.activate_stack_trampoline("perf")           # lists all symbols
        names = LabelNames().of_all(sampled["labels"])
        self.assertFalse([name for name in names
                          if not name.startswith("py::")], message)
        self.assertGreater(len(names), 50)
        self.assertTrue(any(name.startswith(symbol(Model.verify.__code__))
                            for name in names))


class JitdumpRandomTest(RandomTest):
    """Labels that have unwind information."""

    back_end = "perf_jit"
    comparisons = COMPARISONS // 4

    @classmethod
    def setUpClass(cls):
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        environment = cls.enterClassContext(os_helper.EnvironmentVarGuard())
        environment["JITDUMPDIR"] = directory


class LinesRandomTest(RandomTest):
    """Labels that move with the lines."""

    model = LinesModel


class LinesJitdumpRandomTest(JitdumpRandomTest):

    model = LinesModel


@requires_trampoline
@unittest.skipUnless(uses_jit(), "the tests above run")
class WithoutJitTest(unittest.TestCase):
    """In a process without a JIT compiler.

    Traces that are on the stack when the trampoline is switched on have no
    name, as in CPython, and some end the chain of frame pointers.
    """

    def test_all(self):
        subprocess.run([sys.executable, "-m", "unittest",
                        "test.test_perf_random"],
                       env=os.environ | {"PYTHON_JIT": "0"}, check=True,
                       timeout=support.LONG_TIMEOUT)


if __name__ == "__main__":
    unittest.main()
