#!/usr/bin/env python3
"""Measure how deep recursion through C gets before the C stack is used up.

Each way in which C enters Python functions recurses, in a thread with a stack
of each size, until the process dies of it; the depth that it had reached is in
a file.  That is done by each interpreter given, and compared with the first.

usage: c_stack.py [--most PERCENT] BASE [INTERPRETER [OPTION ...]] ...

A further interpreter begins at each word with a slash, as in

    c_stack.py build-base/python build/python -X perf
"""

import argparse
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap

KIBI = 1024
SIZES = [64 * KIBI, 128 * KIBI, 256 * KIBI, 512 * KIBI, 1024 * KIBI,
         2048 * KIBI, 8192 * KIBI]
UNLIMITED = 0       # the size of a thread by default, `ulimit -s unlimited`

# Each defines go(depth), which calls enter(depth) and recurses through C.
WAYS = {
    "generators": """
        def numbers(depth):
            enter(depth)
            yield from numbers(depth + 1)
        def go(depth):
            next(numbers(depth))
        """,
    "getattr": """
        class Attributes:
            def __getattr__(self, name):
                self.depth += 1
                enter(self.depth)
                return getattr(self, "another")
        def go(depth):
            attributes = Attributes()
            attributes.depth = depth
            attributes.first
        """,
    "repr": """
        class Item:
            def __repr__(self):
                self.depth += 1
                enter(self.depth)
                return repr(self)
        def go(depth):
            item = Item()
            item.depth = depth
            repr(item)
        """,
    "sort": """
        def go(depth):
            enter(depth)
            sorted([depth + 1], key=go)
        """,
    "json": """
        import json
        class Default(json.JSONEncoder):
            def default(self, depth):
                enter(depth.real)
                return [Number(depth.real + 1)]
        class Number:
            def __init__(self, real):
                self.real = real
        def go(depth):
            json.dumps(Number(depth), cls=Default, indent=1,
                       check_circular=False)
        """,
    "partial": """
        import functools
        def go(depth):
            enter(depth)
            functools.partial(go, depth + 1)()
        """,
}

PROGRAM = """\
import mmap, struct, sys, threading
path, size = sys.argv[1], int(sys.argv[2])
with open(path, "r+b") as file:
    memory = mmap.mmap(file.fileno(), 8)
store = struct.Struct("q").pack_into
def enter(depth):
    store(memory, 0, depth)
{way}
sys.setrecursionlimit(10**8)
if size:
    threading.stack_size(size)
thread = threading.Thread(target=go, args=(1,))
thread.start()
thread.join()
"""


def depth_of(command, way, size):
    """Return how deep a command gets."""
    def unlimit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if size == UNLIMITED:
            resource.setrlimit(resource.RLIMIT_STACK,
                               (resource.RLIM_INFINITY,) * 2)

    program = PROGRAM.format(way=textwrap.dedent(WAYS[way]))
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        answer = subprocess.run(
            [*command, "-c", program, file.name, str(size)],
            preexec_fn=unlimit, text=True, capture_output=True, timeout=300)
        if answer.returncode != -signal.SIGSEGV:
            sys.exit(f"c_stack: {' '.join(command)}: {way} ended with "
                     f"{answer.returncode}:\n{answer.stderr[-1000:]}")
        with open(file.name, "rb") as result:
            return struct.unpack("q", result.read(8))[0]


def split(words):
    """Return the interpreters with their options."""
    commands = []
    for word in words:
        if "/" in word:
            commands.append([])
        elif not commands:
            sys.exit("c_stack: begin with the path of an interpreter")
        commands[-1].append(word)
    return commands


def size_name(size):
    return f"{size // KIBI} KiB" if size else "unlimited"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, metavar="PERCENT",
                        help="fail if any depth is smaller by more")
    parser.add_argument("--sizes", metavar="KIB", type=int, nargs="+",
                        help="default: 64 to 8192, and unlimited (0)")
    parser.add_argument("interpreters", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    base, *others = split(options.interpreters)
    sizes = ([size * KIBI for size in options.sizes] if options.sizes
             else [*SIZES, UNLIMITED])
    worst = 0
    for command in others:
        print(" ".join(command))
        print(f"{'':12}", *(f"{size_name(size):>16}" for size in sizes))
        for way in WAYS:
            cells = []
            for size in sizes:
                expected = depth_of(base, way, size)
                depth = depth_of(command, way, size)
                loss = 100 * (1 - depth / expected)
                # One level, at the bottom of a small stack, is no percentage.
                worst = max(worst, loss if expected - depth > 1 else 0)
                cells.append(f"{depth:>8} {-loss:+6.1f}%")
            print(f"{way:12}", *(f"{cell:>16}" for cell in cells), flush=True)
    print(f"c_stack: at most {worst:.1f} % less")
    if options.most is not None and worst > options.most:
        sys.exit(1)


if __name__ == "__main__":
    os.environ.pop("PYTHONPERFSUPPORT", None)
    main()
