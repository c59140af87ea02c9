#!/usr/bin/env python3
"""Run the programs of Tools/stress under a sanitizer, and compare its reports.

Each program runs in our interpreter with profiling on, through the map and
through the jitdump, and in the unpatched base without: there, switching does
nothing, so that the threads do the same work.  All are builds with
ThreadSanitizer, or all with AddressSanitizer.  Prints how often each kind of
report has come, and fails if there is one that the base has not; one whose
access is made, or called, by a function of ours is marked.  Races are a matter
of chance: a kind that is not marked may be one that the base had not this
time.  Called by Tools/reliability/tsan.sh.

usage: Tools/reliability/races.py BASE_PYTHON PYTHON [--turns N] [PROGRAM ...]
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
STRESS = TOP / "Tools" / "stress"
SECONDS = 3600

# The innermost functions of an access, which are the sanitizer's own.
LIBRARY_CODE = re.compile(
    r"__tsan_|__sanitizer_|__interceptor_|__asan_|mem(cpy|move|set|cmp)$")
OURS = re.compile(r"/(perf_\w+|codesymbol|_testperf\w*)\.[cS]:|"
                  r"/pycore_(perf|ceval_labels)\w*\.h:")
# The same source compiled again.
EVALUATOR = re.compile(r"(_PyEval_EvalFrameDefault)_\w+$")
BEGINNING = re.compile(r"^(?:WARNING|==\d+==ERROR): \w+Sanitizer: (.*?)"
                       r"(?: \(pid=\d+\)| on .*)?$")
FRAME = re.compile(r"^ +#\d+ (?:0x[0-9a-f]+ in )?(\S+) (\S*)")

# In the place of sys's functions, in each interpreter: nothing is switched.
NOTHING_IS_SWITCHED = """\
import sys
for name in ("activate_stack_trampoline", "deactivate_stack_trampoline"):
    setattr(sys, name, lambda *args, **options: None)
sys.is_stack_trampoline_active = lambda: False
"""

MODES = "base", "perf", "perf_jit"


def programs(turns):
    """Return the arguments of each program, by name."""
    return {
        "threads": [STRESS / "threads.py", "--turns", turns],
        "interpreters": [STRESS / "interpreters.py", "--functions",
                         turns * 10],
        "switch": [STRESS / "switch.py", "--seconds", turns,
                   "--switches", turns * 10, "--ends", turns // 4,
                   "--growth", "1000000"],
    }


class Reports:
    """What a sanitizer has written, by kind."""

    def __init__(self):
        self.counts = collections.Counter()
        self.examples = {}
        self.ours = set()

    def read(self, path):
        lines = None
        for line in path.read_text(errors="replace").splitlines():
            if BEGINNING.match(line):
                lines = []
            if lines is not None:
                lines.append(line)
            if line.startswith("SUMMARY:"):
                self._add(lines)
                lines = None
        if lines is not None:
            self._add(lines)

    def _add(self, lines):
        """A daemon thread's report is cut off where the process ends: it may
        have no stacks."""
        stacks = list(stacks_of(lines))
        names = {EVALUATOR.sub(r"\1", stack[0][0]) for stack in stacks}
        kind = (f"{BEGINNING.match(lines[0])[1]}: "
                f"{', '.join(sorted(names)) or 'unknown'}")
        self.counts[kind] += 1
        self.examples.setdefault(kind, lines)
        if any(is_ours(stack) for stack in stacks):
            self.ours.add(kind)


def is_ours(stack):
    """Does a function of ours make the access, or call what does?  Hooks call
    each evaluator, which is CPython's."""
    count = 1 if EVALUATOR.match(stack[0][0]) else 2
    return any(OURS.search(place) for _, place in stack[:count])


def stacks_of(lines):
    """Yield each stack that tells of an access, innermost first, without the
    sanitizer's own functions: names and places."""
    stack = []
    for line in [*lines, ""]:
        match = FRAME.match(line)
        if match is None:
            if stack:
                yield stack
            stack = []
        elif stack or not LIBRARY_CODE.match(match[1]):
            stack.append(match.groups())
        if line.lstrip().startswith(("Thread ", "Location ", "Mutex ",
                                     "As if ")):
            return


def tree_of(python):
    """Return the directory with python's sources."""
    return pathlib.Path(subprocess.run(
        [python, "-c", "import sysconfig;"
         "print(sysconfig.get_config_var('srcdir'))"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"TSAN_OPTIONS": "exitcode=0",
                          "ASAN_OPTIONS": "detect_leaks=0"},
        check=True).stdout.strip())


def options_of_sanitizer(tree, log):
    """Return the environment that lets a sanitizer write to log."""
    options = f"log_path={log} exitcode=0 halt_on_error=0"
    # The base's own lists, in one file, which is all that can be named.
    suppressions = pathlib.Path(f"{log}-suppressions")
    suppressions.write_text("\n".join(
        path.read_text() for path in
        sorted((tree / "Tools" / "tsan").glob("suppressions*.txt"))))
    return {"TSAN_OPTIONS": f"{options} suppressions={suppressions} "
                            "report_thread_leaks=0 history_size=4",
            "ASAN_OPTIONS": f"{options} detect_leaks=0"}


def run(python, tree, mode, arguments, reports):
    """Run one program, and read what is reported of it."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("PYTHON")}
        environment |= options_of_sanitizer(tree, f"{directory}/report")
        if mode == "base":
            # With our library, in which test.support has more.
            pathlib.Path(directory, "sitecustomize.py").write_text(
                NOTHING_IS_SWITCHED)
            path = [directory, str(tree / "Lib")]
            options = []
        else:
            path = [os.path.dirname(python) + "/ext"]   # _testperf
            options = ["-X", mode]
        environment |= {"PYTHONPATH": os.pathsep.join(path),
                        "JITDUMPDIR": directory}
        with (open(f"{directory}/out", "w+") as out,
              subprocess.Popen([python, *options, *map(str, arguments)],
                               env=environment, cwd=directory, stdout=out,
                               stderr=subprocess.STDOUT) as process):
            try:
                status = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                status = f"none after {SECONDS} seconds"
        for path in pathlib.Path(directory).glob("report.*"):
            reports.read(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/tmp/perf-{process.pid}.map")
        last = pathlib.Path(directory, "out").read_text(errors="replace")
        return status, (last.strip().splitlines() or [""])[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="the unpatched base's interpreter")
    parser.add_argument("python", help="ours")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        help=f"of {', '.join(programs(1))} (default: all)")
    parser.add_argument("--turns", type=int, default=40,
                        help="how much of the work to do (%(default)s)")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE",
                        help="write one whole report of each kind there")
    arguments = parser.parse_args()
    chosen = programs(arguments.turns)
    for name in arguments.programs:
        if name not in chosen:
            parser.error(f"no program {name!r}; there are "
                         f"{', '.join(chosen)}")
    pythons = {mode: os.path.abspath(arguments.python) for mode in MODES}
    pythons["base"] = os.path.abspath(arguments.base)
    tree = tree_of(pythons["perf"])
    found = {mode: Reports() for mode in MODES}
    well = True
    for name in arguments.programs or chosen:
        for mode in MODES:
            status, last = run(pythons[mode], tree, mode, chosen[name],
                               found[mode])
            print(f"{name}, {mode}: {status}, {last}", flush=True)
            # The base has no map for the programs to look at.
            well &= status == 0 or mode == "base"
    kinds = sorted(set().union(*(found[mode].counts for mode in MODES)))
    print(f"{'base':>8}{'perf':>8}{'jit':>8}  kind")
    for kind in kinds:
        # The base's own trampoline has files of the same names.
        is_ours = any(kind in found[mode].ours for mode in MODES[1:])
        counts = "".join(f"{found[mode].counts[kind]:8}" for mode in MODES)
        print(f"{counts}  {'OURS ' * is_ours}{kind}")
        well &= kind in found["base"].counts
    if arguments.report:
        arguments.report.write_text("\n\n".join(
            "\n".join(found[mode].examples[kind])
            for kind in kinds for mode in reversed(MODES)
            if kind in found[mode].examples) + "\n")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
