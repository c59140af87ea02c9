#!/usr/bin/env python3
"""Measure what the perf trampoline costs.

Runs every script with the trampoline off and on, and as well, if asked to,
under the unpatched base (--base).  The runs are interleaved, because these
machines are noisy: only ratios within one call of this program mean anything.
Times are user + system CPU time, the least of all rounds.

With --callgrind it counts instructions instead, which is exact and slow.
"""

import argparse
import dataclasses
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pyperformance_jobs

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
STARTUP = "(start-up)"


@dataclasses.dataclass
class Job:
    """What each interpreter runs."""

    name: str
    arguments: list
    rounds: int
    variables: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Column:
    """A value of one variant or, with a divisor, the ratio of two."""

    title: str
    variant: str
    divisor: str = ""


def environment(job, directory):
    """Nothing that changes how an interpreter starts or runs.

    Jitdumps go to directory.
    """
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    env["PYTHONHASHSEED"] = "0"
    env["JITDUMPDIR"] = directory
    return env | job.variables


def cpu_seconds(prefix, job):
    command = prefix + job.arguments
    with (tempfile.TemporaryDirectory() as directory,
          tempfile.TemporaryFile() as errors):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                   stderr=errors,
                                   env=environment(job, directory))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"bench: exit status {process.returncode}: {command}\n"
                     + errors.read().decode(errors="replace"))
    remove_map(process.pid)
    return usage.ru_utime + usage.ru_stime


def remove_map(pid):
    pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)


def instructions(prefix, job):
    command = prefix + job.arguments
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            ["valgrind", "--tool=callgrind",
             f"--callgrind-out-file={directory}/out", *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=environment(job, directory))
        _, log = process.communicate()
        remove_map(process.pid)
    match = re.search(r"Collected : (\d+)", log)
    if process.returncode != 0 or not match:
        sys.exit(f"bench: valgrind failed: {command}\n{log}")
    return int(match.group(1))


def measure(variants, job, take):
    """Return the least value of each variant; they take turns in a round."""
    least = dict.fromkeys(variants, math.inf)
    for _ in range(job.rounds):
        for name, prefix in variants.items():
            least[name] = min(least[name], take(prefix, job))
    return least


def describe(python):
    """Return an interpreter's version and how it was compiled."""
    code = ("import platform, sysconfig as s; get = s.get_config_var;"
            "print('CPython', platform.python_version(), 'by',"
            " platform.python_compiler(), *dict.fromkeys(' '.join("
            "get(n) or '' for n in ('OPT', 'BASECFLAGS')).split()))")
    run = subprocess.run([python, "-I", "-c", code], stdout=subprocess.PIPE,
                         text=True, check=True)
    return run.stdout.strip()


def table(args):
    """Return the variants, each with its command, and the columns."""
    option = ["-X", args.option]
    variants = {"off": [args.python], "on": [args.python, *option]}
    unit = "instructions" if args.callgrind else "seconds"
    if args.base:
        variants = {"base": [args.base]} | variants
        columns = [Column(f"base {unit}", "base"),
                   Column("off/base", "off", "base"),
                   Column("on/off", "on", "off")]
    else:
        columns = [Column(unit, "off"), Column("on/off", "on", "off")]
    return variants, columns


def all_jobs(args):
    jobs = [Job(path.stem, [str(path)], args.rounds)
            for path in sorted(SCRIPTS.glob("*.py"))]
    if args.pyperformance:
        variables = {"PYTHONPATH": str(args.pyperformance)}
        jobs += [Job(f"pp:{name}", arguments, args.rounds, variables)
                 for name, arguments
                 in pyperformance_jobs.commands(args.pyperformance)]
    if args.startup:
        jobs.append(Job(STARTUP, ["-c", "pass"], args.startup))
    if args.only:
        jobs = [job for job in jobs if job.name in args.only]
    return jobs


def value_of(column, result):
    if column.divisor:
        return result[column.variant] / result[column.divisor]
    return result[column.variant]


def format_value(column, value):
    width = max(9, len(column.title))
    if isinstance(value, int):
        return f"{value:>{width},d}"
    if isinstance(value, float):
        return f"{value:>{width}.4f}"
    return f"{value:>{width}}"


def print_row(name, columns, values):
    print(f"{name:<20}", *map(format_value, columns, values), flush=True)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", help="the patched interpreter")
    parser.add_argument("--base", help="the unpatched interpreter")
    parser.add_argument("--pyperformance", type=pathlib.Path, metavar="DIR",
                        help="add benchmarks of pyperformance, which is, "
                             "with pyperf, unpacked in DIR")
    parser.add_argument("--rounds", type=int, default=7,
                        help="rounds of each script (default: %(default)s)")
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
    if args.max_off and not args.base:
        parser.error("--max-off needs --base")
    return args


def main():
    args = parse_arguments()
    variants, columns = table(args)
    jobs = all_jobs(args)
    if args.callgrind:
        for job in jobs:
            job.rounds = 1
    if not jobs:
        sys.exit(f"bench: there is no script called {args.only[0]}")
    for name in ("base", "python"):
        if python := getattr(args, name):
            print(f"{name}: {describe(python)}")
    print_row("script", columns, [column.title for column in columns])

    limits = {"off/base": args.max_off, "on/off": args.max_on}
    failed = False
    ratios = {column.title: [] for column in columns
              if column.variant.endswith("on")}
    for job in jobs:
        result = measure(variants, job,
                         instructions if args.callgrind else cpu_seconds)
        values = [value_of(column, result) for column in columns]
        print_row(job.name, columns, values)
        for column, value in zip(columns, values):
            limit = limits.get(column.title)
            failed |= bool(limit and value > limit)
            if column.title in ratios and job.name != STARTUP:
                ratios[column.title].append(value)
    if ratios["on/off"]:
        means = {title: geometric_mean(values)
                 for title, values in ratios.items()}
        print_row("geom. mean", columns,
                  [means.get(column.title, "") for column in columns])
        failed |= bool(args.max_mean and means["on/off"] > args.max_mean)
    if failed:
        sys.exit("bench: over the limit")


if __name__ == "__main__":
    main()
