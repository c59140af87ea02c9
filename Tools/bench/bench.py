#!/usr/bin/env python3
"""Measure what the perf trampoline costs.

Runs every script under three interpreters: the unpatched base, the patched one
with the trampoline off, and with it on.  The runs are interleaved, because
these machines are noisy: only ratios within one call of this program mean
anything.  Times are user + system CPU time, the least of all rounds.

With --callgrind it counts instructions instead, which is exact and slow.
"""

import argparse
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
VARIANTS = ("base", "off", "on")


def interpreter(args, variant):
    if variant == "base":
        return [args.base]
    if variant == "off":
        return [args.python]
    return [args.python, "-X", args.option]


def environment(directory):
    """Nothing that changes how an interpreter starts or runs.

    Jitdumps go to directory.
    """
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    env["PYTHONHASHSEED"] = "0"
    env["JITDUMPDIR"] = directory
    return env


def cpu_seconds(command):
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                   env=environment(directory))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    remove_map(process.pid)
    if process.returncode != 0:
        sys.exit(f"bench: exit status {process.returncode}: {command}")
    return usage.ru_utime + usage.ru_stime


def remove_map(pid):
    pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)


def instructions(command):
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            ["valgrind", "--tool=callgrind",
             f"--callgrind-out-file={directory}/out", *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=environment(directory))
        _, log = process.communicate()
        remove_map(process.pid)
    match = re.search(r"Collected : (\d+)", log)
    if process.returncode != 0 or not match:
        sys.exit(f"bench: valgrind failed: {command}\n{log}")
    return int(match.group(1))


def measure(args, script):
    measured = {variant: [] for variant in VARIANTS}
    for _ in range(args.rounds):
        for variant in VARIANTS:
            command = interpreter(args, variant) + script
            value = (instructions(command) if args.callgrind
                     else cpu_seconds(command))
            measured[variant].append(value)
    return {variant: min(values) for variant, values in measured.items()}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="the unpatched interpreter")
    parser.add_argument("python", help="the patched interpreter")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--callgrind", action="store_true",
                        help="count instructions; one round")
    parser.add_argument("--option", default="perf",
                        help="what -X switches on (default: perf)")
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="measure this script only")
    parser.add_argument("--startup", type=int, default=100, metavar="ROUNDS",
                        help="rounds of -c pass (default: 100; 0: none)")
    parser.add_argument("--max-off", type=float, metavar="RATIO",
                        help="fail if off/base is higher for a script")
    parser.add_argument("--max-on", type=float, metavar="RATIO",
                        help="fail if on/off is higher for a script")
    parser.add_argument("--max-mean", type=float, metavar="RATIO",
                        help="fail if the mean of on/off is higher")
    args = parser.parse_args()
    if args.callgrind:
        args.rounds = 1

    unit = "instructions" if args.callgrind else "seconds"
    print(f"{'script':<12} {'base ' + unit:>18} {'off/base':>9} {'on/off':>9}")
    failed = False
    on_ratios = []
    jobs = [(script.stem, [str(script)], args.rounds)
            for script in sorted(SCRIPTS.glob("*.py"))]
    if args.startup:
        jobs.append(("(start-up)", ["-c", "pass"], args.startup))
    for name, script, rounds in jobs:
        if args.only and name not in args.only:
            continue
        if not args.callgrind:
            args.rounds = rounds
        result = measure(args, script)
        off = result["off"] / result["base"]
        on = result["on"] / result["off"]
        base = result["base"]
        shown = f"{base:18,d}" if args.callgrind else f"{base:18.4f}"
        print(f"{name:<12} {shown} {off:9.4f} {on:9.4f}", flush=True)
        if name != "(start-up)":
            on_ratios.append(on)
        failed |= bool(args.max_off and off > args.max_off
                       or args.max_on and on > args.max_on)
    if on_ratios:
        mean = geometric_mean(on_ratios)
        print(f"{'geom. mean':<12} {'':>18} {'':>9} {mean:9.4f}")
        failed |= bool(args.max_mean and mean > args.max_mean)
    if failed:
        sys.exit("bench: over the limit")


if __name__ == "__main__":
    main()
