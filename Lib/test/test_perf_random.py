"""Random programs: at every step the walk has to show the running functions.

A seed gives a program of functions of many kinds that call each other in many
ways, raise, and switch the trampoline on and off.  Each of them keeps a model
of the stack, which verify() compares with the labels that a walk finds, and
now and then with the interpreter's own stack.

PERF_TEST_SEED=number in the environment repeats a failure.
"""

import contextlib
import functools
import gc
import os
import random
import re
import sys
import tempfile
import unittest

from test import support
from test.support import os_helper
from test.support.perf_base import INLINES_COMPREHENSIONS
from test.support.perf_helper import (EMULATOR, remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import (LabelNames, Native, symbol,
                                    symbol_and_line, without_line)

import _testperf

COMPARISONS = 20_000 if EMULATOR else 200_000
COMPARISONS_A_PROGRAM = 10_000
# In an emulator, a walk through a deep stack takes about as long as the time
# between two of these: the program would hardly get on.
SAMPLER_HZ = 1000 if EMULATOR else 10_000
FUNCTIONS_A_PROGRAM = 40

# Functions deeper than this call no further ones, but for recursive functions,
# which add up to MAX_RECURSION: more than one area holds.
MAX_DEPTH = 45
MAX_RECURSION = 400


def setUpModule():
    remove_own_map_at_exit()


class Oops(Exception):
    """Passes through a number of functions that could catch it."""

    def __init__(self, functions):
        self.functions = functions


class Mismatch(BaseException):
    """Not caught by the programs."""


# --- The model ---------------------------------------------------------------

OFF = "-"       # stands before the symbol of a function that has no label


class Model:
    """What should be on the stack, outermost first.

    A function starts with base = enter(symbol), says verify(base) when it
    wants to, and leave(base) at its end and before it is suspended.
    """

    def __init__(self, rng, back_end):
        self.rng = rng
        self.back_end = back_end
        self.shows_lines = False
        self.stack = []
        self.comparisons = 0
        self.labels = 0                 # compared, without those of the test
        self.failure = None
        self.fuel = 0                   # how many more functions may be called
        self.max_depth = MAX_DEPTH
        self._known = {}
        self._names = LabelNames()
        self._own_symbol = symbol(self.verify.__code__)
        self._outer_labels = []
        self._outer_functions = []

    def start(self):
        """The calling function is the outermost of the model."""
        self.stack.clear()
        self._outer_labels = self._named(_testperf.labels())[1:]
        self._outer_functions = _testperf.python_stack()[1:]

    def enter(self, name):
        # Whoever called was in the same state.
        if not sys.is_stack_trampoline_active():
            name = OFF + name
        self.stack.append(name)
        return len(self.stack)

    def leave(self, base):
        del self.stack[base - 1:]

    def verify(self, base):
        walked = self.walk()
        del self.stack[base:]
        actual = self._named(self.labels_of(walked))
        expected = [name for name in reversed(self.stack) if name[0] != OFF]
        self.labels += len(expected)
        expected += self._outer_labels
        if sys.is_stack_trampoline_active():
            expected.insert(0, self._own_symbol)
        if actual != expected:
            self._fail(difference(actual, expected))
        self.comparisons += 1
        if self.comparisons % 50 == 0:
            self._verify_model(_testperf.python_stack())

    walk = staticmethod(_testperf.labels)

    def labels_of(self, walked):
        """For LinesModel, which walks in another way."""
        return walked

    def _verify_model(self, functions):
        # Here, in verify(), and in what the model knows.
        expected = [name.removeprefix(OFF) for name in reversed(self.stack)]
        known = functions[1:len(expected) + 1]
        actual = [symbol(code) for code in known]
        outer = functions[len(expected) + 1:]
        if actual != expected or outer != self._outer_functions:
            self._fail("the model is wrong\n" + difference(actual, expected))

    def _fail(self, text):
        # Also to be found if the exception gets lost in a generator's end.
        self.failure = self.failure or text
        raise Mismatch(text)

    def _named(self, labels):
        # Not get(): without a GIL, CPython 3.13's locks the dict twice where
        # another thread has put the value there, and finds out by yielding the
        # processor 40 times.
        known = self._known
        names = [known[label] if label in known else None for label in labels]
        if None in names:
            self._list_symbols()
            names = self._names.of_all(labels)
            self._known.update(zip(labels, names))
        return names

    def _list_symbols(self):
        """Let the map name all labels, if another back end is in use."""
        if self.back_end != "perf":
            was_on = sys.is_stack_trampoline_active()
            for back_end in "perf", self.back_end:
                sys.activate_stack_trampoline(back_end, lines=self.shows_lines)
            if not was_on:
                sys.deactivate_stack_trampoline()

    def more(self):
        """Should the calling function call another one?"""
        self.fuel -= 1
        return (self.fuel > 0 and len(self.stack) < self.max_depth
                and self.rng.random() < 0.8)

    def once(self, name):
        """What a function that is a mere expression has to call."""
        base = self.enter(name)
        self.verify(self.enter(ONCE))
        self.leave(base)

    def toggle(self):
        draw = self.rng.random()
        if not sys.is_stack_trampoline_active() or draw < 0.2:
            self.choose_lines()
            sys.activate_stack_trampoline(self.back_end, native=draw < 0.1,
                                          lines=self.shows_lines)
        elif draw < 0.4:
            sys.deactivate_stack_trampoline()

    def choose_lines(self):
        """For LinesModel."""

    def may_inline_always(self, base):
        """Is it predictable what a specialised obj[i] or class() shows?

        The ordinary evaluator inlines __getitem__(), or __init__() since
        CPython 3.13, whatever the hook is: it has no label then, if its caller
        was called before the activation.
        """
        return (self.stack[base - 1][0] != OFF
                or not sys.is_stack_trampoline_active())

    def in_thread(self, function):
        """Call function from C in another thread."""
        saved = self.stack, self._outer_labels, self._outer_functions
        self.stack, self._outer_labels, self._outer_functions = [], [], []
        try:
            _testperf.call_in_thread(function)
        finally:
            self.stack, self._outer_labels, self._outer_functions = saved

    def deeper(self):
        """Allow some more functions where the calling function is."""
        before = self.max_depth
        if before == MAX_DEPTH:
            self.max_depth = len(self.stack) + 8
        return before

    def shallower(self, before):
        self.max_depth = before


ONCE = symbol(Model.once.__code__)


class LinesModel(Model):
    """Where lines are shown, most of the time: compares them, too.

    Frames that were entered while there were none have their names only.
    """

    def __init__(self, rng, back_end):
        super().__init__(rng, back_end)
        self.shows_lines = True
        self.without_lines = set()      # bases of functions

    def enter(self, name):
        base = super().enter(name)
        self.without_lines.discard(base)
        if not self.shows_lines:
            self.without_lines.add(base)
        return base

    walk = staticmethod(_testperf.labels_and_lines)

    def _named(self, labels):
        """Names alone: folded from those with lines."""
        return [without_line(name) for name in super()._named(labels)]

    def labels_of(self, walked):
        labels, lines = walked
        names = super()._named(labels)
        if sys.is_stack_trampoline_active():
            del names[0]                # verify()
        # Behind verify(), the innermost first.
        running = lines[1:][:len(self.stack)]
        expected = []
        for (code, line), name, base in zip(running, reversed(self.stack),
                                            range(len(self.stack), 0, -1)):
            if name[0] != OFF:
                if base in self.without_lines:
                    line = None
                expected.append(symbol_and_line(code, line))
        actual = names[:len(expected)]
        if actual != expected:
            self._fail(difference(actual, expected))
        return labels

    def choose_lines(self):
        self.shows_lines = self.rng.random() < 0.8

    def in_thread(self, function):
        saved = self.without_lines
        self.without_lines = set()
        try:
            super().in_thread(function)
        finally:
            self.without_lines = saved


def difference(actual, expected):
    while actual and expected and actual[-1] == expected[-1]:
        actual, expected = actual[:-1], expected[:-1]
    return (f"innermost first, without what is equal further out:\n"
            f"  labels   {actual}\n  expected {expected}")


class Chain:
    """Generators or coroutines that are suspended in one another.

    Those that delegate run no code when they are resumed: resume(), which
    resumes the outermost, enters them into the model.
    """

    def __init__(self, model):
        self._model = model
        self._delegating = []           # [symbol, base]

    def delegate(self, name, base):
        self._delegating.append([name, base])

    def base(self):
        """Return the base of the innermost that delegates."""
        base = self._delegating[-1][1]
        del self._model.stack[base:]
        return base

    def returned(self):
        base = self.base()
        self._delegating.pop()
        return base

    def resume(self, generator):
        """Return whether there is more to come."""
        base = self._model.enter(RESUME)
        for entry in self._delegating:
            entry[1] = self._model.enter(entry[0])
        try:
            generator.send(None)
            return True
        except StopIteration:
            return False
        finally:
            self._model.leave(base)


RESUME = symbol(Chain.resume.__code__)


# --- Programs ----------------------------------------------------------------

class Writer:
    """Writes a program, where FILE stands for the name of its file."""

    def __init__(self, rng):
        self.rng = rng
        self.calls = [["pass"]] * FUNCTIONS_A_PROGRAM
        kinds = [getattr(self, name) for name in dir(self)
                 if name.startswith("write_")]
        self.wanted = [rng.choice(kinds) for _ in range(FUNCTIONS_A_PROGRAM)]

    def program(self):
        """Return the lines of the program."""
        # Calls can only be written when it is known how to call each function:
        # write twice, with the same random numbers.
        state = self.rng.getstate()
        for _ in range(2):
            self.rng.setstate(state)
            written = [write(f"f{number}")
                       for number, write in enumerate(self.wanted)]
            self.calls = [calls for _, calls in written]
        lines = [line for source, _ in written for line in source]
        return lines + define("main", "", self.body(
            "main", *self.actions(FUNCTIONS_A_PROGRAM)))

    # Parts of functions.  Lines are indented by whoever uses them.

    def actions(self, count=None):
        """Return lines that call functions, from a function with a base b."""
        lines = []
        for _ in range(count or self.rng.randrange(1, 4)):
            choice = self.rng.random()
            if choice < 0.06:
                lines += ["if more():", "    toggle()", "verify(b)"]
            elif choice < 0.10:
                lines += ["if more():",
                          "    raise Oops(rng.randrange(6))"]
            else:
                lines += self.guarded_call()
        return lines

    def guarded_call(self):
        index = self.rng.randrange(FUNCTIONS_A_PROGRAM)
        which = self.rng.random()
        catches = self.rng.random() < 0.6
        calls = self.calls[index]
        call = calls[int(which * len(calls))].splitlines()
        if not catches:
            return ["if more():", *indent(call), "verify(b)"]
        return ["if more():",
                "    try:", *indent(call, 2),
                "    except Oops as oops:",
                "        verify(b)",
                "        if oops.functions > 0:",
                "            oops.functions -= 1",
                "            raise",
                "    verify(b)"]

    def body(self, qualname, *end):
        """Return the lines of an ordinary function."""
        return [f"b = enter('py::{qualname}:FILE')",
                "try:",
                "    verify(b)",
                *indent(self.actions()),
                *indent(end),
                "finally:",
                "    leave(b)"]

    # Kinds of functions: each returns its source and ways to call it.

    def write_function(self, name):
        parameters, calls = self.rng.choice([
            ("x, y", ["{0}(1, 2)", "{0}(y=1, x=2)", "{0}(*(1, 2))"]),
            ("x, y=2, z=3", ["{0}(1)", "{0}(1, 2)", "{0}(1, z=4)"]),
            ("", ["{0}()"]),
            ("x, /, *, y=1", ["{0}(1)", "{0}(1, y=2)"]),
            ("*args, **kwargs", ["{0}()", "{0}(1, 2)", "{0}(1, y=2)",
                                 "{0}(**{{'y': 2}})", "{0}(*'abc')"]),
        ])
        return (define(name, parameters, self.body(name)),
                [call.format(name) for call in calls])

    def write_method(self, name):
        source = [f"class {name}:",
                  *indent(define("m", "self, x", self.body(f"{name}.m"))),
                  "    @classmethod",
                  *indent(define("c", "cls", self.body(f"{name}.c"))),
                  "    @staticmethod",
                  *indent(define("s", "x=1", self.body(f"{name}.s"))),
                  f"class {name}Derived({name}):",
                  *indent(define("m", "self, x", self.body(
                      f"{name}Derived.m", "super().m(x)")))]
        return source, [f"{name}().m(1)", f"{name}Derived().m(2)",
                        f"{name}.c()", f"{name}().c()", f"{name}.s()",
                        f"m = {name}().m\nm(1)"]

    def write_special(self, name):
        method, parameters, end, call = self.rng.choice([
            ("__call__", "self", "pass", f"{name}()()"),
            ("__add__", "self, x", "return 1", f"{name}() + 1"),
            ("__init__", "self", "pass",
             f"if may_inline_always(b):\n    {name}()"),
            ("__len__", "self", "return 2", f"len({name}())"),
            ("__eq__", "self, x", "return True", f"{name}() == 1"),
            ("__getattr__", "self, x", "return 1", f"{name}().missing"),
            ("__iter__", "self", "return iter('a')", f"list({name}())"),
            ("__contains__", "self, x", "return 1", f"1 in {name}()"),
            ("__format__", "self, x", "return ''", f"f'{{{name}()}}'"),
            ("__hash__", "self", "return 1", f"{{{name}()}}"),
        ])
        return [f"class {name}:",
                *indent(define(method, parameters, self.body(
                    f"{name}.{method}", end)))], [call]

    def write_getitem(self, name):
        return ([f"class {name}:",
                 *indent(define("__getitem__", "self, i", self.body(
                     f"{name}.__getitem__", "return i")))],
                [f"if may_inline_always(b):\n    {name}()[1]"])

    def write_property(self, name):
        return ([f"class {name}:",
                 "    @property",
                 *indent(define("p", "self", self.body(f"{name}.p")))],
                [f"{name}().p"])

    def write_context_manager(self, name):
        return ([f"class {name}:",
                 *indent(define("__enter__", "self", self.body(
                     f"{name}.__enter__"))),
                 *indent(define("__exit__", "self, *error", self.body(
                     f"{name}.__exit__")))],
                [f"with {name}():\n    verify(b)",
                 f"with {name}():\n    raise Oops(2)"])

    def write_closure(self, name):
        inner = f"{name}.<locals>.inner"
        return define(name, "x=1", self.body(
            name, *define("inner", "y=x", self.body(inner)), "inner()",
            "verify(b)")), [f"{name}()"]

    def write_comprehension(self, name):
        kind, left, right = self.rng.choice([
            ("listcomp", "[", "]"), ("setcomp", "{", "}"),
            ("genexpr", "list(", ")")])
        inner = f"once('py::{name}.<locals>.<{kind}>:FILE')"
        if INLINES_COMPREHENSIONS and kind != "genexpr":
            inner = "verify(b)"
        return define(name, "", self.body(
            name, f"{left}{inner} for _ in range(3){right}",
            "verify(b)",
            f"(lambda: once('py::{name}.<locals>.<lambda>:FILE'))()",
            "verify(b)")), [f"{name}()"]

    def write_callback(self, name):
        return (define(name, "*_", self.body(name, "return 1")),
                [f"sorted([2, 1], key={name})",
                 f"list(map({name}, [1, 2]))",
                 f"list(filter({name}, [1, 2]))",
                 f"reduce({name}, [1, 2, 3])",
                 f"partial({name}, 1)()",
                 f"call({name})",
                 f"call({name}, {self.rng.randrange(20)})"])

    def write_substitution(self, name):
        return (define(name, "match", self.body(name, "return 'b'")),
                [f"pattern.sub({name}, 'aa')"])

    def write_thread(self, name):
        return (define(name, "", self.body(name)),
                [f"in_thread({name}) if rng.random() < 0.1 else {name}()"])

    def write_recursion(self, name):
        step = self.rng.randrange(20, 60)
        return define(name, "n", [
            f"b = enter('py::{name}:FILE')",
            "try:",
            f"    if n % {step} == 0:",
            "        verify(b)",
            "    if n > 0:",
            f"        {name}(n - 1)",
            "    else:",
            "        verify(b)",
            "        depth = deeper()",
            "        try:",
            *indent(self.actions(), 3),
            "        finally:",
            "            shallower(depth)",
            f"    if n % {step} == 0:",
            "        verify(b)",
            "finally:",
            "    leave(b)"]), [
                f"{name}(rng.randrange(5))",
                f"if rng.random() < 0.1 and len(model.stack) <= {MAX_DEPTH}:\n"
                f"    {name}(rng.randrange({MAX_RECURSION}))"]

    def write_generator(self, name):
        enter = f"b = enter('py::{name}:FILE')"
        return define(name, "", [
            enter,
            "try:",
            "    verify(b)",
            *indent(self.actions(1)),
            "    for i in range(3):",
            "        leave(b)",
            "        try:",
            "            yield i",
            "        except (Oops, GeneratorExit) as error:",
            f"            {enter}",
            "            verify(b)",
            *indent(self.actions(1), 3),
            "            if type(error) is GeneratorExit:",
            "                raise",
            "        else:",
            f"            {enter}",
            "        verify(b)",
            *indent(self.actions(1), 2),
            "finally:",
            "    leave(b)"]), [
                f"for _ in {name}():\n    verify(b)",
                f"list({name}())",
                f"sum({name}())",
                f"g = {name}()\nnext(g)\nverify(b)\ng.close()",
                f"g = {name}()\nnext(g)\nverify(b)\ndel g",
                f"g = {name}()\nnext(g)\nverify(b)\ng.throw(Oops(1))",
                f"g = {name}()\ng.close()"]

    def write_delegating_generator(self, name):
        inner = f"{name}_inner"
        return [*self.delegating(name, "", f"yield from {inner}(c)"),
                *define(inner, "c", self.suspended(inner, "yield"))], [
                    drive(name)]

    def write_coroutine(self, name):
        inner, pause = f"{name}_inner", f"{name}_Pause"
        await_name = f"{pause}.__await__"
        return [*self.delegating(name, "async ", f"await {inner}(c)"),
                *self.delegating(inner, "async ", f"await {pause}()"),
                f"class {pause}:",
                *indent(define("__await__", "self", self.suspended(
                    await_name, "yield")))], [drive(name)]

    def write_async_generator(self, name):
        items, pause = f"{name}_items", f"{name}_Pause"
        own, items_symbol = f"'py::{name}:FILE'", f"'py::{items}:FILE'"
        return [
            *define(name, "c", [
                f"b = enter({own})",
                "try:",
                "    verify(b)",
                f"    c.delegate({own}, b)",
                "    try:",
                f"        async for _ in {items}(c):",
                "            b = c.base()",
                "            verify(b)",
                *indent(self.actions(1), 3),
                "    finally:",
                "        b = c.returned()",
                "    verify(b)",
                "finally:",
                "    leave(b)"], "async "),
            *define(items, "c", [
                "for i in range(2):",
                f"    b = enter({items_symbol})",
                "    verify(b)",
                f"    c.delegate({items_symbol}, b)",
                "    try:",
                f"        await {pause}()",
                "    finally:",
                "        b = c.returned()",
                "    verify(b)",
                "    leave(b)",
                "    yield i"], "async "),
            f"class {pause}:",
            *indent(define("__await__", "self", self.suspended(
                f"{pause}.__await__", "yield")))], [drive(name)]

    def delegating(self, name, prefix, delegate):
        """Return a function that waits for an inner one, twice."""
        own = f"'py::{name}:FILE'"
        wait = [f"c.delegate({own}, b)",
                "try:",
                f"    {delegate}",
                "finally:",
                "    b = c.returned()",
                "verify(b)"]
        return define(name, "c", [
            f"b = enter({own})",
            "try:",
            "    verify(b)",
            *indent(wait),
            *indent(self.actions(1)),
            *indent(wait),
            "finally:",
            "    leave(b)"], prefix)

    def suspended(self, qualname, suspend):
        """Return lines that suspend a chain twice."""
        enter = f"b = enter('py::{qualname}:FILE')"
        return [enter,
                "try:",
                "    for i in range(2):",
                "        verify(b)",
                "        leave(b)",
                f"        {suspend}",
                f"        {enter}",
                "        verify(b)",
                *indent(self.actions(1), 2),
                "finally:",
                "    leave(b)"]


def indent(lines, levels=1):
    return ["    " * levels + line for line in lines]


def define(name, parameters, lines, prefix=""):
    return [f"{prefix}def {name}({parameters}):", *indent(lines)]


def drive(name):
    return (f"k = chain()\ng = {name}(k)\nwhile k.resume(g):\n    verify(b)")


@requires_trampoline
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


if __name__ == "__main__":
    unittest.main()
