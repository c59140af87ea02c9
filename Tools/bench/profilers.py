#!/usr/bin/env python3
"""Compare perfpy with other profilers, on programs that know the truth.

The programs in known/ measure how much CPU time their functions take.  Each
profiler records each of them, 499 times a second, in turns with the program
alone; every interpreter is that which the profiler is made for.  Printed is

slower      by how much longer the program takes, best of all rounds: its CPU
            time, and that in which the profiler has stopped it
profiler    CPU time of the profiler itself, in percent of the program's
error       of the functions' shares, the largest one, in points of percent,
            worst of all rounds

usage: profilers.py --ours PYTHON --base PYTHON [--newer PYTHON]
                    [--py-spy PROGRAM] [--austin PROGRAM] [--rounds N]
                    [--programs NAME ...]

Only ratios within one call mean anything.  What is not given is left out.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

KNOWN = pathlib.Path(__file__).parent / "known"
PROGRAMS = ("functions", "extension", "threads")
RATE = 499


def perfpy(options, program, out, *more):
    return [[options.ours, "-m", "perfpy", "run", "-q", "-F", str(RATE), *more,
             "-o", f"{out}.perfpy", *program],
            [options.ours, "-m", "perfpy", "report", "--format", "collapsed",
             "-o", out, f"{out}.perfpy"]]


def py_spy(options, program, out, *more):
    return [[options.py_spy, "record", "-r", str(RATE), "-f", "raw", "-o", out,
             *more, "--", options.base, *program]]


def austin(options, program, out):
    return [[options.austin, "-i", str(1_000_000 // RATE), "-o", out,
             options.base, *program]]


def sampling(options, program, out, *more):
    return [[options.newer, "-m", "profiling.sampling", "run", "-r", str(RATE),
             "-a", *more, "--collapsed", "-o", out, *program]]


# Name, the option that has to be given, how to run it, more options for that.
PROFILERS = [
    ("perfpy", "ours", perfpy, ()),
    ("perfpy --no-lines", "ours", perfpy, ("--no-lines",)),
    ("py-spy", "py_spy", py_spy, ()),
    ("py-spy --native", "py_spy", py_spy, ("--native",)),
    ("py-spy --nonblocking", "py_spy", py_spy, ("--nonblocking",)),
    ("Austin", "austin", austin, ()),
    ("Austin --sleepless", "austin", lambda *args: [
        [args[0].austin, "-s", *austin(*args)[0][1:]]], ()),
    ("profiling.sampling", "newer", sampling, ()),
    ("profiling.sampling cpu", "newer", sampling, ("--mode", "cpu")),
]
PYTHON_OF = {"ours": "ours", "py_spy": "base", "austin": "base",
             "newer": "newer"}


def run(command):
    """Run a command; return the CPU seconds of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        sys.exit(f"{' '.join(command)}: {result.stdout.strip()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime
            - before.ru_utime - before.ru_stime)


def shares(text, names):
    """Return the share of each function in the stacks that have one."""
    found = dict.fromkeys(names, 0)
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        for word in re.findall(r"\w+", stack):
            if word in found and count.isdecimal():
                found[word] += int(count)
                break
    whole = sum(found.values()) or 1
    return {name: value / whole for name, value in found.items()}


def measure(commands, truth_file, out):
    """Return (truth, CPU seconds of the profiler, error, stacks)."""
    truth_file.unlink(missing_ok=True)
    seconds = sum(run(command) for command in commands)
    truth = json.loads(truth_file.read_text())
    if out is None:
        return truth, 0, 0, ""
    text = pathlib.Path(out).read_text(errors="replace")
    known = truth["functions"]
    whole = sum(known.values())
    error = max(abs(share - known[name] / whole)
                for name, share in shares(text, known).items())
    return truth, max(seconds - truth["cpu"], 0), error, text


def compare(options, name, directory):
    """Print a table for a program."""
    truth_file = directory / "truth.json"
    program = [str(KNOWN / f"{name}.py"), str(truth_file)]
    alone, results = {}, {}
    ways = [way for way in PROFILERS if getattr(options, way[1])]
    for _ in range(options.rounds):
        for python in {getattr(options, PYTHON_OF[way[1]]) for way in ways}:
            truth, *_ = measure([[python, *program]], truth_file, None)
            alone[python] = min(alone.get(python, 1e9), truth["busy"])
        for title, option, how, more in ways:
            out = str(directory / "out")
            results.setdefault(title, []).append(measure(
                how(options, program, out, *more), truth_file, out))
    print(f"\n{name:24}  slower   profiler  error")
    for title, option, *_ in ways:
        base = alone[getattr(options, PYTHON_OF[option])]
        rounds = results[title]
        best = min(truth["busy"] for truth, *_ in rounds)
        own = min(seconds / truth["cpu"] for truth, seconds, *_ in rounds)
        error = max(error for _, _, error, _ in rounds)
        print(f"{title:24}  {100 * (best / base - 1):+5.1f} %  "
              f"{100 * own:5.1f} %   {100 * error:4.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--base", required=True)
    parser.add_argument("--newer")
    parser.add_argument("--py-spy")
    parser.add_argument("--austin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS,
                        default=PROGRAMS)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # profiling.sampling leaves the script's directory out of the path.
    os.environ["PYTHONPATH"] = str(KNOWN.resolve())
    with tempfile.TemporaryDirectory() as directory:
        for name in options.programs:
            compare(options, name, pathlib.Path(directory))


if __name__ == "__main__":
    main()
