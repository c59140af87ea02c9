#!/usr/bin/env python3
"""Run CPython's tests in the unpatched base and in ours; compare the cases.

Ours, which runs this, runs each test file with the feature off, and with
everything profiled through the map, with lines in it, and through the jitdump;
the base runs it, too.  A file and a way at a time, and what is done is kept in
a directory: the next call goes on from there, so that the whole can be run in
pieces.  Several calls at once share the work: each leaves out the files that
another one has begun.  A case that ends otherwise than in the base runs again,
alone in both, up to three times.

usage: build-3.14/python Tools/reliability/regrtest.py build-base-3.14/python
           [--ways off,map,lines,jit] [--base all|failing|none] [--hours H]
           [--kept DIRECTORY] [--tmp DIRECTORY] [--resources RESOURCES]
           [--leave-out FILE,...] [FILE ...]

With --base failing, the base runs only the files that have a failing case in
one of the ways, or a case that is not skipped in all of them; with --base none
it runs nothing.

With --tmp, which needs root, that directory is /tmp for all that runs, and for
nobody else: the maps of programs that have ended are removed there.

Prints a line for each difference, and a table.  The exit status is 1 if there
is a difference that Tools/check/known-failures.txt does not list.
"""

import argparse
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Tools" / "check"))
import own_tmp
import run_tests

WAYS = "off", "map", "lines", "jit"
PROFILING = run_tests.PROFILING | {"lines": {"PYTHONPERFSUPPORT": "lines"}}
# They wait for ever in virtual machines, the base's as well.
IGNORED = "*.ThreadedVSOCK*"
SECONDS_A_FILE = run_tests.SECONDS_A_FILE
AGAIN = 3

# regrtest's file of results has no name for a case of which a subtest fails.
FAILED = re.compile(r"^(?:FAIL|ERROR): \S+ \(([\w.]+)\)", re.M)


def environment(way, jitdumps):
    env = run_tests.test_environment(None)
    env["JITDUMPDIR"] = jitdumps
    return env | PROFILING.get(way, {})


def run_file(interpreter, way, name, resources, *options):
    """Run a test file; return what regrtest says and {case: outcome}."""
    with tempfile.TemporaryDirectory() as directory:
        results = pathlib.Path(directory, "results.xml")
        # Since 3.13 the first of patterns says what becomes of other cases.
        command = [interpreter, "-m", "test", "-v", "-u", resources,
                   "--timeout", str(SECONDS_A_FILE), *options,
                   "--ignore", IGNORED, "--junit-xml", results, name]
        maps = (run_tests.removing_new_maps() if way in ("map", "lines")
                else contextlib.nullcontext())
        with maps, subprocess.Popen(
                command, env=environment(way, directory), text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, errors="replace") as process:
            try:
                said = process.communicate(timeout=SECONDS_A_FILE + 60)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                return "does not end", {}
        if not results.exists():
            return f"ended with {process.returncode}", {}
        failed = dict.fromkeys(map(short_name, FAILED.findall(said)), "failed")
        return summary(said), cases_of(results) | failed


def summary(said):
    """Return regrtest's word for the file: SUCCESS, FAILURE and the like."""
    match = re.search(r"^(?:== Tests result|Result): (.*?)(?: ==)?$", said,
                      re.M)
    return match[1] if match else "says no result"


def short_name(case):
    """Return a case's name from its file on."""
    return re.sub(r"^[\w.]*?(?=test_\w+)", "", case)


def cases_of(results):
    """Return {case: outcome}; cases of one name count as one."""
    cases = {}
    for case in xml.etree.ElementTree.parse(results).iter("testcase"):
        outcome = "passed"
        for child in case:
            if child.tag in ("failure", "error"):
                outcome = "failed"
            elif child.tag == "skipped":
                outcome = "skipped"
        if case.get("result") not in (None, "completed", "run"):
            outcome = case.get("result")
        name = short_name(case.get("name", ""))
        if name and cases.get(name) != "failed":
            cases[name] = outcome
    return cases


class Kept:
    """What was run, one JSON file for a test file and a way."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)

    def path(self, name, way):
        return self.directory / f"{name}.{way}.json"

    def get(self, name, way):
        try:
            return json.loads(self.path(name, way).read_text())
        except FileNotFoundError:
            return None

    def put(self, name, way, result):
        new = self.path(name, way).with_suffix(".new")
        new.write_text(json.dumps(result))
        new.rename(self.path(name, way))

    @contextlib.contextmanager
    def begin(self, name):
        """Yield whether no other process has begun the file."""
        with open(self.directory / f"{name}.lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def list_files(resources):
    """Return the base's test files, as regrtest names them.

    Raises CalledProcessError when regrtest, which tells why on standard error,
    takes no such resources: no file would run, in the base as little as here.
    """
    listing = subprocess.run([sys.executable, "-m", "test", "-u", resources,
                              "--list-tests"],
                             env=run_tests.test_environment(None), text=True,
                             check=True, stdout=subprocess.PIPE).stdout
    return [name for name in listing.split()
            if not (ROOT / "Lib" / "test" / f"{name}.py").exists()]


def is_known(case, way):
    """Is it in the list?  There, names begin with the package: test."""
    return any(pattern.removeprefix("test.") == case for pattern, _ in
               run_tests.known_failures("off" if way in ("base", "off")
                                        else way))


class Comparison:
    """Runs what is not kept, and says what differs."""

    def __init__(self, base, kept, ways, base_runs, resources):
        self.interpreters = collections.defaultdict(lambda: sys.executable,
                                                    base=base)
        self.kept = kept
        self.ways = ways
        self.base_runs = base_runs
        self.resources = resources
        self.files = collections.Counter()
        self.cases = collections.Counter()
        self.seconds = collections.Counter()
        self.differences = collections.defaultdict(list)

    def run(self, name):
        """Run a file in all ways, and in the base if that is wanted."""
        for way in self.ways:
            self.run_way(name, way)
        if self.base_runs == "all" or (self.base_runs == "failing"
                                       and self.is_failing(name)):
            self.run_way(name, "base")
        if self.base_runs != "none" and self.kept.get(name, "base"):
            for way in self.ways:
                self.run_again(name, way)

    def run_way(self, name, way):
        if self.kept.get(name, way) is None:
            start = time.monotonic()
            said, cases = run_file(self.interpreters[way], way, name,
                                   self.resources)
            self.kept.put(name, way, {
                "said": said, "cases": cases, "again": {},
                "seconds": round(time.monotonic() - start, 1)})

    def is_failing(self, name):
        """Does it fail in one of the ways, or end otherwise in another?"""
        runs = [self.kept.get(name, way) for way in self.ways]
        return any(run["cases"] != runs[0]["cases"]
                   or "failed" in run["cases"].values()
                   or not (run["said"] == "ended with 0"
                           or "SUCCESS" in run["said"])
                   for run in runs)

    def run_again(self, name, way):
        """What differs runs alone, until it does as in the base."""
        ours = self.kept.get(name, way)
        for case in self.different_cases(name, way):
            method = case.split()[0].rpartition(".")[2]
            for _ in range(AGAIN):
                outcomes = []
                for which in way, "base":
                    cases = run_file(self.interpreters[which], which, name,
                                     self.resources, "-m",
                                     f"*.{method}")[1]
                    outcomes.append(cases.get(case, "missing"))
                if outcomes[0] == outcomes[1]:
                    break
            ours["again"][case] = outcomes
        self.kept.put(name, way, ours)

    def different_cases(self, name, way):
        """Yield the cases that end otherwise than in the base, at last."""
        base, ours = self.kept.get(name, "base"), self.kept.get(name, way)
        if base is None:
            return
        for case in sorted(base["cases"].keys() | ours["cases"].keys()):
            outcomes = ours["again"].get(case)
            if outcomes is None:
                outcomes = [which["cases"].get(case, "missing")
                            for which in (ours, base)]
            if outcomes[0] != outcomes[1]:
                yield case

    def count(self, name):
        base = self.kept.get(name, "base")
        for way in ["base", *self.ways] if base else self.ways:
            kept = self.kept.get(name, way)
            self.files[way] += 1
            self.seconds[way] += kept["seconds"]
            self.cases.update((way, outcome)
                              for outcome in kept["cases"].values())
            if way == "base" or base is None:
                continue
            for case in self.different_cases(name, way):
                self.differences[way].append(case)
                known = " (known)" if is_known(case, way) else ""
                print(f"{way}: {name}: {case}: "
                      f"{kept['cases'].get(case, 'missing')}, in the base "
                      f"{base['cases'].get(case, 'missing')}{known}",
                      flush=True)
            if (kept["said"] != base["said"] and "failed" not in
                    {*kept["cases"].values(), *base["cases"].values()}):
                self.differences[way].append(name)
                print(f"{way}: {name}: {kept['said']}, in the base "
                      f"{base['said']}", flush=True)

    def show(self):
        print(f"{'way':<6}{'files':>7}{'minutes':>9}{'passed':>9}"
              f"{'skipped':>9}{'failed':>8}{'different':>11}")
        for way in "base", *self.ways:
            counts = [self.cases[way, outcome]
                      for outcome in ("passed", "skipped", "failed")]
            print("{:<6}{:>7}{:>9.0f}{:>9}{:>9}{:>8}{:>11}".format(
                way, self.files[way], self.seconds[way] / 60, *counts,
                len(self.differences[way])))

    @property
    def unknown(self):
        return [case for way, cases in self.differences.items()
                for case in cases if not is_known(case, way)]


def main():
    # A shell's background job ignores these, and so would all the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="the unpatched interpreter")
    parser.add_argument("files", nargs="*", help="default: all of them")
    parser.add_argument("--ways", default=",".join(WAYS),
                        help="some of them, separated by commas")
    parser.add_argument("--base", choices=("all", "failing", "none"),
                        default="all", dest="base_runs",
                        help="which files the base runs (%(default)s)")
    parser.add_argument("--hours", type=float, default=1000,
                        help="begin no further file after so long")
    parser.add_argument("--kept", help="default: regrtest, in the directory "
                        "of the interpreter that runs this")
    parser.add_argument("--tmp", help="to be /tmp for all that runs")
    parser.add_argument("--resources", default=run_tests.RESOURCES,
                        help="what regrtest is to use (%(default)s)")
    parser.add_argument("--leave-out", default="",
                        help="test files, separated by commas")
    options = parser.parse_intermixed_args()
    if options.tmp:
        own_tmp.use(options.tmp)
    if not hasattr(sys, "seal_stack_trampoline"):
        parser.error("run it with the patched interpreter")
    ways = options.ways.split(",")
    if unknown := set(ways) - set(WAYS):
        parser.error(f"no such ways: {' '.join(sorted(unknown))}")
    base = os.path.abspath(options.base)
    try:
        files = list_files(options.resources)
    except subprocess.CalledProcessError:
        parser.error("regrtest does not run, see above")
    if unknown := set(options.files) - set(files):
        parser.error(f"no such test files: {' '.join(sorted(unknown))}")
    kept = Kept(options.kept or pathlib.Path(sys.executable).parent
                / "regrtest")
    comparison = Comparison(base, kept, ways, options.base_runs,
                            options.resources)
    wanted = [name for name in options.files or files
              if name not in options.leave_out.split(",")]
    end = time.monotonic() + 3600 * options.hours
    done = 0
    for name in wanted:
        if time.monotonic() > end and any(kept.get(name, way) is None
                                          for way in ways):
            continue
        with kept.begin(name) as begun:
            if begun:
                comparison.run(name)
                comparison.count(name)
                done += 1
    comparison.show()
    left = len(wanted) - done
    if left:
        print(f"regrtest: {left} files are left; call it again")
    sys.exit(1 if comparison.unknown else 0)


if __name__ == "__main__":
    main()
