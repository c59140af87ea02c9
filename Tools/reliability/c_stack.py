#!/usr/bin/env python3
"""Measure how deep recursion through C gets before the C stack is used up.

Each way in which C enters Python functions recurses, in a thread with a stack
of each size, until the process dies of it; the depth that it had reached is in
a file.  That is done by each interpreter given, and compared with the first.

usage: c_stack.py [--most PERCENT] [--sizes KIB ... --]
                  BASE [INTERPRETER [OPTION ...]] ...

A further interpreter begins at each word with a slash, as in

    c_stack.py build-base/python build/python -X perf
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Lib" / "test" / "support"))
from perf_c_stack import KIBI, UNLIMITED, WAYS, depth_of, loss

SIZES = [64 * KIBI, 128 * KIBI, 256 * KIBI, 512 * KIBI, 1024 * KIBI,
         2048 * KIBI, 8192 * KIBI, UNLIMITED]


def split(words):
    """Return the interpreters with their options."""
    if words[:1] == ["--"]:
        words = words[1:]
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
             else SIZES)
    worst = 0
    for command in others:
        print(" ".join(command))
        print(f"{'':12}", *(f"{size_name(size):>16}" for size in sizes))
        for way in WAYS:
            cells = []
            for size in sizes:
                expected = depth_of(base, way, size)
                depth = depth_of(command, way, size)
                worst = max(worst, loss(depth, expected))
                change = 100 * (depth / expected - 1)
                cells.append(f"{depth:>8} {change:+6.1f}%")
            print(f"{way:12}", *(f"{cell:>16}" for cell in cells), flush=True)
    print(f"c_stack: at most {worst:.1f} % less")
    if options.most is not None and worst > options.most:
        sys.exit(1)


if __name__ == "__main__":
    main()
