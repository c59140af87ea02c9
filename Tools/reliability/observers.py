#!/usr/bin/env python3
"""Let py-spy and Austin look at programs of ours while these are profiled.

Both read the interpreter's own frames from outside, by what they know of its
memory.  A program calls, recurses, generates and has two threads.  Of its
samples, as many must show whole and right stacks while it is profiled, by each
back end and with lines, as with profiling off: from its start down to a
function that works, with the lines that it has there.  Prints a table; fails
where fewer than 95 % are so.  Called by hand; needs to be root.

usage: Tools/reliability/observers.py --packages DIR [--python PYTHON]
           [--austin COMMAND] [--seconds S]

DIR is where pip has installed (--target) py-spy, austin-dist and
austin-python.  --austin is for a machine whose C library is too old for the
austin there: the command that runs it.
"""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
MODES = {
    "off": {},
    "perf": {"PYTHONPERFSUPPORT": "1"},
    "perf=lines": {"PYTHONPERFSUPPORT": "lines"},
    "perf_jit": {"PYTHON_PERF_JIT_SUPPORT": "1"},
}
SHARE = 0.95
FREQUENCY = 100
PROGRAM = """\
import threading
def work(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
def items(n):
    for _ in range(n):
        yield work(3000)
def recurse(depth):
    if depth:
        return recurse(depth - 1)
    return sum(items(20))
def main():
    while True:
        recurse(30)
threading.Thread(target=main, daemon=True).start()
print("ready", flush=True)
main()
"""
# Outermost first, as function:line.  A thread that has just begun a function
# stands in its first line.
STACK = re.compile(r"(<module>:19|.*\bThread.run:\d+) main:1[4-6]"
                   r"(( recurse:12){0,30}( recurse:1[0-3])?"
                   r"|( recurse:12){30} recurse:13 items:[7-9]"
                   r"( work:[2-6])?)")


def stacks_of_py_spy(packages, pid, seconds, directory):
    """Yield (stack, number of samples)."""
    out = f"{directory}/py-spy"
    subprocess.run([f"{packages}/bin/py-spy", "record", "--threads", "-f",
                    "raw", "-r", str(FREQUENCY), "-d", str(seconds), "-o",
                    out, "--pid", str(pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for line in pathlib.Path(out).read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        frames = [re.sub(r"(.*) \(.*:(\d+)\)", r"\1:\2", frame)
                  for frame in stack.split(";")
                  if not re.match("process |thread ", frame)]
        yield frames, int(count)


def stacks_of_austin(command, pid, seconds, directory):
    """Yield (stack, number of samples)."""
    from austin.format.mojo import MojoStreamReader
    from austin.events import AustinSample
    out = f"{directory}/austin"
    # Its exit status tells that the program has not ended.
    result = subprocess.run([*command, "-i", str(1_000_000 // FREQUENCY), "-x",
                             str(seconds), "-o", out, "-p", str(pid)],
                            stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    if not os.path.exists(out):
        sys.exit(f"observers: {' '.join(command)} has written nothing: "
                 f"{result.stderr.strip()}")
    with open(out, "rb") as file:
        for event in MojoStreamReader(file):
            if isinstance(event, AustinSample):
                yield [f"{frame.function}:{frame.line}"
                       for frame in event.frames or ()], 1


def observe(python, mode, script, look):
    """Return how many samples there are, and how many are right."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory() as directory:
        environment |= MODES[mode] | {"JITDUMPDIR": directory}
        with subprocess.Popen([python, script], env=environment,
                              stdout=subprocess.PIPE) as process:
            try:
                process.stdout.readline()
                counts = {False: 0, True: 0}
                wrong = None
                for frames, count in look(process.pid, directory):
                    stack = " ".join(frames)
                    right = STACK.fullmatch(stack) is not None
                    counts[right] += count
                    if not right:
                        wrong = stack
            finally:
                process.kill()
                process.wait()
                pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(
                    missing_ok=True)
    return sum(counts.values()), counts[True], wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", required=True)
    parser.add_argument("--python", default=TOP / "build" / "python")
    parser.add_argument("--austin")
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    packages = os.path.abspath(options.packages)
    sys.path.append(packages)
    austin = shlex.split(options.austin or f"{packages}/bin/austin")

    def by_py_spy(pid, directory):
        return stacks_of_py_spy(packages, pid, options.seconds, directory)

    def by_austin(pid, directory):
        return stacks_of_austin(austin, pid, options.seconds, directory)

    failed = []
    print(f"{'observer':<10}{'mode':<12}{'samples':>8}{'whole, right':>14}")
    with tempfile.TemporaryDirectory() as directory:
        script = pathlib.Path(directory, "program.py")
        script.write_text(PROGRAM)
        for name, look in ("py-spy", by_py_spy), ("austin", by_austin):
            for mode in MODES:
                samples, right, wrong = observe(options.python, mode, script,
                                                look)
                share = right / samples if samples else 0
                print(f"{name:<10}{mode:<12}{samples:8}{share:14.1%}",
                      flush=True)
                if share < SHARE:
                    failed.append(f"{name}, {mode}: such as {wrong}"
                                  if samples else f"{name}, {mode}: nothing")
    sys.exit("\n".join(failed) or 0)


if __name__ == "__main__":
    main()
