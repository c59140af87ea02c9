#!/usr/bin/env python3
"""Measure what -X perf costs on every base, in CPython itself and in ours.

For each base an interpreter of ours and an unpatched one, built with the same
compiler and flags, run each script with and without -X perf.  All of them take
turns.  Times are user + system CPU time, the least of all rounds; only ratios
within one call of this program mean anything.

usage: peers.py [OPTION ...] VERSION=OURS,UNPATCHED ...

Called by Tools/bench/peers.sh.
"""

import argparse
import math
import pathlib
import subprocess
import sys

import bench

OPTION = ["-X", "perf"]

# What there is of each base, in this order, as ratios to the first.
UNPATCHED, UNPATCHED_ON, OURS, OURS_ON = (
    "unpatched", "unpatched -X perf", "ours", "ours -X perf")


def knows_option(python):
    """Does the interpreter have the feature, by whoever's hands?"""
    code = ("import sys, sysconfig; sys.exit(not (hasattr(sys, "
            "'activate_stack_trampoline') and "
            "sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE')))")
    return subprocess.run([python, "-I", "-c", code]).returncode == 0


class Base:
    """A version of CPython, and how to run it."""

    def __init__(self, text):
        self.version, _, paths = text.partition("=")
        ours, _, unpatched = paths.partition(",")
        if not unpatched:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not VERSION=OURS,UNPATCHED")
        self.paths = {"ours": ours, "unpatched": unpatched}
        self.commands = {UNPATCHED: [unpatched],
                         UNPATCHED_ON: [unpatched, *OPTION],
                         OURS: [ours], OURS_ON: [ours, *OPTION]}
        if not knows_option(ours):
            raise argparse.ArgumentTypeError(f"{ours} does not know -X perf")
        if not knows_option(unpatched):
            del self.commands[UNPATCHED_ON]
        self.seconds = {}           # script: its time, unpatched and off
        self.ratios = {way: {} for way in self.commands if way != UNPATCHED}

    def add(self, script, result):
        self.seconds[script] = result[UNPATCHED]
        for way, ratios in self.ratios.items():
            ratios[script] = result[way] / result[UNPATCHED]

    def mean(self, way):
        """Of the scripts; starting up is no script."""
        return bench.geometric_mean([
            ratio for script, ratio in self.ratios[way].items()
            if script != bench.STARTUP])

    def worst(self, way):
        return max(ratio for script, ratio in self.ratios[way].items()
                   if script != bench.STARTUP)

    def cost_of_option(self):
        """Return its mean and worst in ours, against ours without it."""
        ratios = [self.ratios[OURS_ON][script] / self.ratios[OURS][script]
                  for script in self.seconds if script != bench.STARTUP]
        return bench.geometric_mean(ratios), max(ratios)


def print_rest_table(head, rows):
    """Print a simple table of reStructuredText."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    rule = "  ".join("=" * width for width in widths)

    def text(row):
        return "  ".join(map(str.ljust, row, widths)).rstrip()

    print(rule, text(head), rule, *map(text, rows), rule, sep="\n")


def print_details(base):
    """Print the ratios of each script."""
    print(f"\nCPython {base.version}: seconds, then times that of unpatched")
    ways = list(base.ratios)
    head = ["script", "seconds", *ways]
    rows = [[script, f"{seconds:.4f}",
             *(f"{base.ratios[way][script]:.4f}" for way in ways)]
            for script, seconds in base.seconds.items()]
    rows.append(["geom. mean", "", *(f"{base.mean(way):.4f}"
                                     for way in ways)])
    print_rest_table(head, rows)


def print_summary(bases):
    """Print the table of the README."""
    def pair(mean, worst):
        return f"{mean:.2f} ({worst:.2f})"

    rows = []
    for base in bases:
        theirs = (pair(base.mean(UNPATCHED_ON), base.worst(UNPATCHED_ON))
                  if UNPATCHED_ON in base.ratios else "has none")
        rows.append([base.version, "1", theirs,
                     pair(base.mean(OURS), base.worst(OURS)),
                     pair(base.mean(OURS_ON), base.worst(OURS_ON))])
    print("\nMean of all scripts, and the worst one in brackets")
    print_rest_table(["CPython", UNPATCHED, UNPATCHED_ON, OURS, OURS_ON],
                     rows)


def measure(bases, job):
    """Let all interpreters of all bases take turns."""
    variants = {(number, way): command for number, base in enumerate(bases)
                for way, command in base.commands.items()}
    least = bench.measure(variants, job, bench.cpu_seconds)
    for number, base in enumerate(bases):
        base.add(job.name, {way: least[number, way] for way in base.commands})


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bases", nargs="+", type=Base,
                        metavar="VERSION=OURS,UNPATCHED")
    parser.add_argument("--pyperformance", type=pathlib.Path, metavar="DIR",
                        help="add benchmarks of pyperformance, which is, "
                             "with pyperf, unpacked in DIR")
    parser.add_argument("--rounds", type=int, default=7,
                        help="rounds of each script (default: %(default)s)")
    parser.add_argument("--startup", type=int, default=100, metavar="ROUNDS",
                        help="rounds of -c pass (default: 100; 0: none)")
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="measure this script only")
    parser.add_argument("--max-on", type=float, metavar="RATIO",
                        help="fail if ours takes more with -X perf than "
                             "without it, for a script")
    parser.add_argument("--max-mean", type=float, metavar="RATIO",
                        help="fail if the mean of these is higher")
    return parser.parse_args()


def main():
    args = parse_arguments()
    jobs = bench.all_jobs(args)
    if not jobs:
        sys.exit(f"peers: there is no script called {args.only[0]}")
    for base in args.bases:
        for whose, python in base.paths.items():
            print(f"{whose}: {bench.describe(python)}")
    for job in jobs:
        print(f"measuring {job.name}", file=sys.stderr)
        measure(args.bases, job)
    for base in args.bases:
        print_details(base)
    if all(script == bench.STARTUP for script in args.bases[0].seconds):
        return
    print_summary(args.bases)
    failed = False
    for base in args.bases:
        mean, worst = base.cost_of_option()
        print(f"CPython {base.version}: -X perf takes {mean:.4f} times as "
              f"long in ours, {worst:.4f} at worst")
        failed |= (mean > (args.max_mean or math.inf)
                   or worst > (args.max_on or math.inf))
    if failed:
        sys.exit("peers: over the limit")


if __name__ == "__main__":
    main()
