#!/usr/bin/env python3
"""Measure calls in a loop at each depth, also where an area of labels is full.

A function that loops calls another one; how long a call takes is compared with
the median of all depths.  Where the loop's own label is in the last slot of an
area, each of its calls enters another evaluator.  The interpreter itself has
such depths, too, where a piece of its stack of frames ends: they are found by
the same without profiling, and left out.

usage: Tools/reliability/area_ends.py [--most RATIO] [--to DEPTH] PYTHON
           [OPTION ...]           such as -X perf, the default

Prints the depths at which a call takes more than 1.1 times the median, and the
ratio.  With --most, the exit status is 1 if one is larger.
"""

import argparse
import json
import os
import subprocess
import sys

PROGRAM = """\
import json, sys, time
first, last, calls, rounds = map(int, sys.argv[1:])
sys.setrecursionlimit(last + 1000)

def callee():
    pass

def loop():
    function = callee
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start

def at(depth):
    return at(depth - 1) if depth else loop()

best = {}
for _ in range(rounds):
    for depth in range(first, last):
        best[depth] = min(best.get(depth, 1e9), at(depth))
print(json.dumps(best))
"""

FIRST = 90
CALLS = 2000
ROUNDS = 12
NOTABLE = 1.1


def ratios(python, options, last):
    """Return {depth: its time by the median's}, and the latter in ns."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    run = subprocess.run(
        [python, *options, "-c", PROGRAM, *map(str, (FIRST, last, CALLS,
                                                     ROUNDS))],
        env=env, check=True, text=True, stdout=subprocess.PIPE)
    times = {int(depth): time
             for depth, time in json.loads(run.stdout).items()}
    median = sorted(times.values())[len(times) // 2]
    return ({depth: time / median for depth, time in times.items()},
            1e9 * median / CALLS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float)
    parser.add_argument("--to", type=int, default=540, metavar="DEPTH")
    parser.add_argument("python")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    off, _ = ratios(options.python, ["-X", "perf=0"], options.to)
    on, median = ratios(options.python, options.options or ["-X", "perf"],
                        options.to)
    own = {near for depth, ratio in off.items() if ratio > NOTABLE
           for near in (depth - 1, depth, depth + 1)}
    slow = {depth: ratio for depth, ratio in on.items()
            if ratio > NOTABLE and depth not in own}
    print(f"{median:.1f} ns a call; more at:",
          *(f"{depth} ({ratio:.2f})" for depth, ratio in slow.items()))
    if options.most and max(slow.values(), default=0) > options.most:
        sys.exit(1)


if __name__ == "__main__":
    main()
