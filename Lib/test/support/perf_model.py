"""A model of what runs, for programs that keep it and compare it with labels.

Used by Lib/test/test_perf_random.py, with the programs of perf_random.py.
"""

import sys
from test.support.perf_walk import (LabelNames, symbol, symbol_and_line,
                                    without_line)

import _testperf

# Functions deeper than this call no further ones, but for recursive functions,
# which add up to MAX_RECURSION: more than one area holds.
MAX_DEPTH = 45
MAX_RECURSION = 400


class Oops(Exception):
    """Passes through a number of functions that could catch it."""

    def __init__(self, functions):
        self.functions = functions


class Mismatch(BaseException):
    """Not caught by the programs."""


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
