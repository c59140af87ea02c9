"""Profiles for the tests of what perfpy writes.  Their figures are chosen."""

import random

from perfpy import walltime
from perfpy.profile import NO_STACK, Frame, Kind, Profile

EXAMPLE = "/home/me/example.py"
LIBRARY = "/usr/lib/libwork.so.1"
PYTHON = "/usr/bin/python3.11"
KERNEL = "[kernel.kallsyms]"

MAIN = Frame("main", PYTHON, Kind.INTERPRETER)
EVAL = Frame("_PyEval_EvalFrameDefault", PYTHON, Kind.INTERPRETER)
MODULE = Frame("<module>", EXAMPLE, Kind.PYTHON)
FOO = Frame("foo", EXAMPLE, Kind.PYTHON)
BAR = Frame("Thing.bar", EXAMPLE, Kind.PYTHON)
WORK = Frame("work", LIBRARY, Kind.NATIVE)
UNKNOWN = Frame("[unknown]", LIBRARY, Kind.NATIVE)
FAULT = Frame("clear_page", KERNEL, Kind.KERNEL)


def add(profile, thread, frames, count, start=0.0):
    """Add count samples of a millisecond with these frames."""
    stack = NO_STACK
    for frame in frames:
        stack = profile.add_stack(stack, profile.add_frame(frame))
    for number in range(count):
        thread.add_sample(start + number / 1000, stack, 0.001)


def example():
    """A second of one thread and half a second of another.

    Self and total seconds of the first: bar 0.6, of the evaluator in it, 0.6;
    work 0.1, 0.4; clear_page 0.3, 0.3; foo 0, 1; main 0, 1.  The second
    thread has 0.5 in [unknown], which foo calls.
    """
    profile = Profile()
    profile.meta.update({
        "command": "example.py --fast", "event": "cpu-clock",
        "frequency": "1000", "started": "2026-01-31T10:20:30+00:00",
        "duration": "1.0", "python": "3.11.2"})
    main = profile.thread(100, 100, "python3.11", "python3.11")
    add(profile, main, [MAIN, MODULE, FOO, BAR, EVAL], 600)
    add(profile, main, [MAIN, MODULE, FOO, EVAL, WORK], 100, start=0.6)
    add(profile, main, [MAIN, MODULE, FOO, EVAL, WORK, FAULT], 300, start=0.7)
    worker = profile.thread(100, 101, "python3.11", "worker")
    add(profile, worker, [MAIN, FOO, UNKNOWN], 500)
    return profile


def mixed():
    """Code of every origin, 100 ms in each of five, and in an import."""
    get = Frame("get", "/srv/venv/lib/python3.11/site-packages/web.py",
                Kind.PYTHON)
    loads = Frame("loads", "/usr/lib/python3.11/json/__init__.py",
                  Kind.PYTHON)
    find = Frame("_find_and_load", "<frozen importlib._bootstrap>",
                 Kind.PYTHON)
    scan = Frame("scan", LIBRARY, Kind.NATIVE)
    read = Frame("read", KERNEL, Kind.KERNEL)
    profile = Profile()
    thread = profile.thread(1, 1, "python3.11", "python3.11")
    for frames in ([MAIN, MODULE], [MAIN, MODULE, get],
                   [MAIN, MODULE, get, loads],
                   [MAIN, MODULE, get, loads, scan],
                   [MAIN, MODULE, get, read], [MAIN, MODULE, find, MAIN]):
        add(profile, thread, frames, 100)
    return profile


def waiting():
    """Wall-clock time: a thread that runs, and waits for each reason."""
    profile = Profile()
    profile.meta.update({"clock": "wall", "duration": "0.7",
                         "gil": "[[1,1,2,0.1]]"})
    thread = profile.thread(1, 1, "python3.11", "python3.11")
    add(profile, thread, [MAIN, MODULE, FOO], 100)
    for mark in walltime.STATES:
        add(profile, thread, [MAIN, MODULE, FOO, mark], 100)
    return profile


HOSTILE_NAMES = (
    "</script><script>document.title = 'injected'</script>",
    "<img src=x onerror=\"document.title = 'injected'\">",
    "<!--<script>",
    "]]>&lt;&amp;{{data}}",
    "a;b\nc\r\nd\x00e\x1bf\x85g",
    "line\u2028paragraph\u2029end",
    "surrogate \udc80\ud800",
    "right \u202e to left",
    "",
    " ",
    "__proto__",
    "constructor",
    "long" * 16384,
)


def hostile():
    """Every place where a name can be has every hostile name."""
    profile = Profile()
    for number, name in enumerate(HOSTILE_NAMES):
        profile.meta[f"key {name}"] = name
        thread = profile.thread(number, number, name, name)
        for kind in Kind:
            add(profile, thread, [FOO, Frame(name, name, kind)], 1 + number)
    profile.meta["command"] = HOSTILE_NAMES[0]
    return profile


LINES_OF_FUNCTION = 30


def large_text(functions=1000):
    """The text of the functions of large()."""
    body = "".join(f"    number += {line} * number\n"
                   for line in range(1, LINES_OF_FUNCTION))
    return "".join(f"def python_{number}(number):\n{body}"
                   for number in range(functions))


def large(samples=200_000, different_stacks=20_000, file=None):
    """As many samples and stacks as a long recording of a big program.

    With a file, which has large_text(), three lines of each function are seen.
    """
    chance = random.Random(1)
    profile = Profile()
    pools = []
    for kind, count, share in ((Kind.PYTHON, 3000, 11),
                               (Kind.INTERPRETER, 200, 6),
                               (Kind.NATIVE, 500, 3)):
        if file and kind is Kind.PYTHON:
            frames = [Frame(f"{kind.value}_{number // 3}", file, kind,
                            LINES_OF_FUNCTION * (number // 3)
                            + 2 + 9 * (number % 3))
                      for number in range(count)]
        else:
            frames = [Frame(f"{kind.value}_{number}",
                            f"/srv/file{number % 211}", kind)
                      for number in range(count)]
        frames = list(map(profile.add_frame, frames))
        pools += [frames] * share
    stacks = set()
    while len(stacks) < different_stacks:
        stack = NO_STACK
        for _ in range(chance.randint(5, 35)):
            # Most stacks of a program go the same few ways.
            way = int(chance.paretovariate(1))
            pool = chance.choice(pools)
            frame = pool[(7 * stack + way) % len(pool)]
            stack = profile.add_stack(stack, frame)
        stacks.add(stack)
    chosen = list(stacks)
    chosen += chance.choices(
        chosen, weights=[chance.paretovariate(0.8) for _ in chosen],
        k=samples - len(chosen))
    threads = [profile.thread(100, 100 + number, "server", f"worker-{number}")
               for number in range(4)]
    for number, stack in enumerate(chosen):
        threads[number % 4].add_sample(number / 999, stack, 1 / 999)
    return profile
