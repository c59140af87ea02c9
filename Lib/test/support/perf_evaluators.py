"""Let tools with evaluators of their own come and go, in all orders.

A program is a word.  Its letters, executed from left to right:

    1 0          switch the trampoline on, off
    A B P        such a tool installs its evaluator (_testperf_evaluators)
    a b p        and removes it
    W X          a tool writes its evaluator into the interpreter's state
    w x          and what it found there before
    ( [ {        call a function of Python, from C, resume a generator: what
                 follows, up to ), happens in there

After each letter a model of plain PEP 523, in which there is no trampoline, is
asked which evaluator is installed and which tools get to see a frame; the
interpreter must say the same.  The trampoline must be on if it was switched on
last, and the stack must show each function that was called while it was on.

Tools that write do not see what the others are told.  In words with W or X,
functions must run, switches have effect, and it is said truly what is on.

No tool is installed that is called already: tools that remember each other
never end, whether there is a trampoline or not.

usage: python -m test.support.perf_evaluators all LETTERS LENGTH
       python -m test.support.perf_evaluators random LETTERS LENGTH COUNT SEED
       python -m test.support.perf_evaluators words WORD...

Each word is written to standard output before it is run: the last one is the
one that failed.
"""

import itertools
import os
import random
import sys

import _testperf
import _testperf_evaluators as evaluators
from test.support.perf_walk import StackChecker

TOOLS = "ABP"
WRITERS = "WX"


class Model:
    """PEP 523: one place, and what each tool remembers."""

    def __init__(self):
        self.installed = None
        self.before = dict.fromkeys(TOOLS + WRITERS)
        self.remembers = dict.fromkeys(TOOLS + WRITERS, False)

    def step(self, letter):
        tool = letter.upper()
        if tool == "P":
            if letter == "P" and self.installed is None:
                self.installed = "P"
            elif letter == "p" and self.installed == "P":
                self.installed = None
        elif letter == tool:
            if tool not in self.called():
                self.before[tool] = self.installed
                self.remembers[tool] = True
                self.installed = tool
        elif (self.installed == tool if tool in WRITERS
              else self.remembers[tool]):
            self.installed = self.before[tool]
            self.before[tool] = None
            self.remembers[tool] = False

    def called(self):
        """Return the tools that see a frame."""
        tools = []
        tool = self.installed
        while tool is not None:
            tools.append(tool)
            tool = self.before[tool]
        return tools


class Failure(Exception):
    """The interpreter did not do what the model says."""


def leaf(*_):
    return 1


def resumed():
    yield 1


def probe():
    """Call functions in some ways: six frames to evaluate."""
    leaf()
    sorted([1], key=leaf)
    for _ in resumed():
        pass


PROBED_FRAMES = 6


class Run:
    """The execution of one word."""

    def __init__(self, word):
        self.letters = iter(word)
        self.has_writers = not set(word.upper()).isdisjoint(WRITERS)
        self.model = Model()
        self.is_on = False
        self.checker = StackChecker()

    def run(self):
        self.checker.called_while_off()
        try:
            self.follow()
        finally:
            sys.deactivate_stack_trampoline()
            evaluators.reset()
        if evaluators.effective() is not None:
            raise Failure(f"left behind: {evaluators.effective()}")
        report = self.checker.report()
        self.checker.forget_frames()
        if report is not None:
            raise Failure(report)

    def follow(self):
        """Do what the letters say up to a closing one, or the end."""
        if not sys.is_stack_trampoline_active():
            self.checker.called_while_off()
        for letter in self.letters:
            if letter == ")":
                break
            self.do(letter)
            if self.has_writers:
                self.check_switches(letter)
            else:
                self.compare()

    def do(self, letter):
        if not sys.is_stack_trampoline_active():
            self.checker.called_while_off()
        if letter == "1":
            sys.activate_stack_trampoline("perf")
            self.is_on = True
        elif letter == "0":
            sys.deactivate_stack_trampoline()
            self.is_on = False
        elif letter == "(":
            self.follow()
        elif letter == "[":
            _testperf.call(self.follow)
        elif letter == "{":
            for _ in self.generator():
                pass
        else:
            self.model.step(letter)
            if letter.isupper():
                evaluators.install(letter)
            else:
                evaluators.uninstall(letter.upper())

    def generator(self):
        if not sys.is_stack_trampoline_active():
            self.checker.called_while_off()
        self.follow()
        yield 1

    def compare(self):
        # No function of Python is called between the two counts but these.
        before = evaluators.frames()
        probe()
        after = evaluators.frames()
        seen = {tool: after[tool] - before[tool] for tool in TOOLS}
        expected = dict.fromkeys(TOOLS, 0)
        for tool in self.model.called():
            expected[tool] = PROBED_FRAMES
        self.equal("frames", seen, expected)
        self.equal("installed", evaluators.installed(), self.model.installed)
        self.equal("active", sys.is_stack_trampoline_active(), self.is_on)
        self.equal("effective", evaluators.effective(),
                   "somebody else's" if self.is_on else self.model.installed)
        if not sys.is_stack_trampoline_active():
            self.checker.called_while_off()
        self.checker.check()

    def check_switches(self, letter):
        probe()
        is_active = sys.is_stack_trampoline_active()
        self.equal("active", is_active,
                   evaluators.effective() == "somebody else's")
        if letter in "10":
            self.equal("active after a switch", is_active, self.is_on)

    def equal(self, what, actual, expected):
        if actual != expected:
            raise Failure(f"{what}: {actual}, not {expected}")


def run(words):
    for word in words:
        os.write(1, (word + "\n").encode())
        try:
            Run(word).run()
        except Failure as error:
            sys.exit(f"{word}: {error}")


def all_words(letters, length):
    for word in itertools.product(letters, repeat=length):
        yield "".join(word)


def random_words(letters, length, count, seed):
    numbers = random.Random(seed)
    for _ in range(count):
        yield "".join(numbers.choices(letters, k=length))


def main(arguments):
    match arguments:
        case ["all", letters, length]:
            words = all_words(letters, int(length))
        case ["random", letters, length, count, seed]:
            words = random_words(letters, int(length), int(count), seed)
        case ["words", *words]:
            pass
        case _:
            sys.exit(__doc__)
    run(words)


if __name__ == "__main__":
    main(sys.argv[1:])
