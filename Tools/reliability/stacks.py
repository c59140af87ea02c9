#!/usr/bin/env python3
"""Measure how much of the time of real programs has its whole Python stack.

Records each program of programs/ by perfpy, once as it does by default and
once by frame pointers, and looks at the time between the first and the last
line of the script, in threads that run Python: which share has Python
functions down to the script or to the start of the thread?  py-spy records the
program, too: the share of each function must be the same.  Prints a table.
Called by hand.

usage: Tools/reliability/stacks.py --packages DIR [--python PYTHON]
           [--perf PERF] [PROGRAM ...]

DIR is where pip has installed (--target) what the programs import and py-spy.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
PROGRAMS = HERE / "programs"
sys.path.insert(0, str(TOP / "Lib"))
from perfpy import recording
from perfpy.profile import NO_STACK, Kind

# The outermost functions of threads and greenlets.
STARTS = {"Thread._bootstrap", "task", "Hub.run", "ping.<locals>.<lambda>"}
SECONDS = 600
# A function with a smaller share of the time is not compared.
LARGE = 0.05
FREQUENCY_OF_PY_SPY = 200


def run(command, environment, directory):
    done = subprocess.run(command, env=environment, cwd=directory,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS)
    if done.returncode:
        sys.exit(f"stacks: {command} failed:\n{done.stdout}")
    return done.stdout


def python_names(profile, script):
    """Return for each stack its Python functions, outermost first."""
    result = []
    for parent, frame in profile.stacks:
        frame = profile.frames[frame]
        above = result[parent] if parent != NO_STACK else ()
        if frame.kind is Kind.PYTHON:
            above = (*above, (frame.name, os.path.basename(frame.file)))
        elif frame.name == "(cut)":
            above = (("(cut)", ""),)
        result.append(above)
    return result


def judge(profile, script):
    """Return (share without Python, share that is cut, shares of functions).

    Of the time between the first and last line of the script.
    """
    names = python_names(profile, script)
    top = ("<module>", script)
    times = [time for thread in profile.threads
             for time, stack in zip(thread.times, thread.stacks)
             if stack != NO_STACK and top in names[stack]]
    first, last = min(times), max(times)
    whole = nothing = cut = 0
    functions = collections.Counter()
    for thread in profile.threads:
        inside = [(stack, weight) for time, stack, weight in zip(
            thread.times, thread.stacks, thread.weights)
            if first <= time <= last]
        if not any(stack != NO_STACK and names[stack] for stack, _ in inside):
            continue        # a thread without Python
        for stack, weight in inside:
            found = names[stack] if stack != NO_STACK else ()
            whole += weight
            functions.update(dict.fromkeys(found, weight))
            if not found:
                nothing += weight
            elif not is_whole(found):
                cut += weight
    for name in functions:
        functions[name] /= whole
    return nothing / whole, cut / whole, functions


def is_whole(names):
    """Return whether the outermost function is where Python begins."""
    name, file = names[0]
    return (name in STARTS
            or name == "<module>" and not file.startswith("<"))


def shares_of_py_spy(path):
    """Return the share of each function in what py-spy has counted."""
    functions, whole = collections.Counter(), 0
    for line in open(path):
        stack, _, count = line.rstrip("\n").rpartition(" ")
        names = {frame.rpartition(" (")[0] for frame in stack.split(";")}
        whole += int(count)
        functions.update(dict.fromkeys(names, int(count)))
    for name in functions:
        functions[name] /= whole
    return functions


def largest_difference(ours, theirs):
    """Return (difference, function) of the share that differs most.

    py-spy's functions have no file: those of one name are not compared.
    """
    shares_of = collections.defaultdict(list)
    for (name, _), share in ours.items():
        shares_of[name].append(share)
    return max(((abs(shares[0] - theirs[name]), name)
                for name, shares in shares_of.items()
                if len(shares) == 1 and name[0] != "<"
                and max(shares[0], theirs[name]) > LARGE),
               default=(0, "-"))


def measure(program, options, directory):
    script = str(PROGRAMS / f"{program}.py")
    environment = {**os.environ, "PYTHONPATH": options.packages,
                   "PYTHONDONTWRITEBYTECODE": "1"}
    row = [program]
    for method in "fp", "copy":
        output = os.path.join(directory, f"{program}-{method}.perfpy")
        run([options.python, "-m", "perfpy", "run", "-q", "-F", "499",
             "--unwind", method, "--perf", options.perf, "-o", output,
             script], environment, directory)
        nothing, cut, functions = judge(recording.load(output),
                                        f"{program}.py")
        row += [nothing, cut]
    counts = os.path.join(directory, "py-spy.txt")
    run([os.path.join(options.packages, "bin", "py-spy"), "record",
         "--rate", str(FREQUENCY_OF_PY_SPY), "--format", "raw",
         "--function", "-o", counts, "--",
         options.python, script], environment, directory)
    return [*row, *largest_difference(functions, shares_of_py_spy(counts))]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n\n")[0])
    programs = sorted(path.stem for path in PROGRAMS.glob("*.py"))
    parser.add_argument("--packages", required=True)
    parser.add_argument("--python", default=str(TOP / "build" / "python"))
    parser.add_argument("--perf", default=os.environ.get("PERF", "perf"))
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        default=programs)
    options = parser.parse_args()
    print(f"{'':10} {'frame pointers':>19}   {'copies':>19}   py-spy")
    print(f"{'program':10} {'nothing':>9} {'cut':>9}   "
          f"{'nothing':>9} {'cut':>9}   largest difference")
    for program in options.programs:
        with tempfile.TemporaryDirectory() as directory:
            name, *shares, difference, function = measure(
                program, options, directory)
        print(f"{name:10} {shares[0]:9.1%} {shares[1]:9.1%}   "
              f"{shares[2]:9.1%} {shares[3]:9.1%}   {difference:5.1%} "
              f"{function}", flush=True)


if __name__ == "__main__":
    main()
