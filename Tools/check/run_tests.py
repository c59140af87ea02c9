"""Run CPython's regression tests with the interpreter that runs this script.

Called by `make test` and `make testall` with build/python.  Everything is left
to regrtest; this adds the choice of tests, the cases known to fail on some
machines whatever the interpreter (Tools/check/known-failures.txt), and a last
line that says how many test files passed and failed.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
KNOWN_FAILURES = HERE / "known-failures.txt"
OUR_TESTS = "test_perf*.py"
# An emulator of programs gets those that need no profiler.  Ours of the others
# skip themselves there; the base's does not.
EMULATED_TESTS = "test_perf_*.py"
NOT_EMULATED = "test_perf_profiler"
BASE = "{}.{}".format(*sys.version_info)
IS_EMULATED = "PERF_TEST_EMULATOR" in os.environ

# What the patches touch: the evaluator and frames, sys, start-up, fork, code
# objects, specialisation, and their observers (debugger, tracing, traceback).
STOCK_TESTS = """
    test__interpchannels test__interpreters test__xxsubinterpreters
    test_asyncgen test_atexit test_audit test_capi test_class test_cmd_line
    test_cmd_line_script test_code test_concurrent_futures test_contextlib
    test_coroutines test_ctypes test_descr test_dis test_embed
    test_exceptions test_extcall test_external_inspection test_faulthandler
    test_fork1 test_frame test_free_threading test_gdb test_generator_stop
    test_generators test_getpath test_inspect test_interpreters
    test_monitoring test_multiprocessing_fork
    test_multiprocessing_forkserver test_multiprocessing_spawn test_opcache
    test_opcodes test_os test_posix test_profiling test_raise
    test_samply_profiler test_scope test_subprocess test_super test_support
    test_sys test_sys_setprofile test_sys_settrace test_sysconfig
    test_thread test_threadedtempfile test_threading test_threading_local
    test_threadsignals test_trace test_traceback test_tracemalloc test_with
    test_yield_from
    """.split()

# What bases beside the machine's own get in a run of CI: all of ours but the
# rings that take minutes or do not depend on the base, and CPython's own tests
# of this feature.
NOT_QUICK = """
    test_perf_branch_protection test_perf_container
    test_perf_doc test_perf_faults test_perf_fuzz_corpus test_perf_hostile
    test_perf_record_jit test_perf_stress test_perf_truth test_perfpy_advice
    test_perfpy_clean test_perfpy_diff test_perfpy_formats test_perfpy_html
    test_perfpy_page test_perfpy_page_access test_perfpy_page_large
    test_perfpy_perfscript test_perfpy_profile test_perfpy_report
    """.split()
STOCK_QUICK = """
    test_embed test_external_inspection test_gdb test_interpreters
    test_monitoring test_profiling test_samply_profiler test_sys
    """.split()

# CPython's own that, at the end of each case, remove every map below /tmp that
# was not there at its beginning, also those of other tests, which would miss
# them: they run last, one at a time.
REMOVE_MAPS = ["test_perf_profiler", "test_samply_profiler"]

# What switches profiling on in each interpreter that the tests start.
PROFILING = {
    "off": {},
    "map": {"PYTHONPERFSUPPORT": "1"},
    "jit": {"PYTHON_PERF_JIT_SUPPORT": "1"},
}

# Without the network and whatever asks for a person, a screen or gigabytes.
RESOURCES = "all,-audio,-gui,-largefile,-network,-urlfetch"
SECONDS_A_FILE = 1200

SUMMARY = re.compile(r"^(?:All )?(\d+) (re-run )?tests? ?(.*?)[.:]$")
# Not what else is running meanwhile, which stands in the same place.
SKIPPED = re.compile(
    r"^(?:.*\] )?(test_\w+) skipped -- (?!running(?: \(\d+\))?: )(.*)$")


def test_directory():
    return pathlib.Path(os.__file__).parent / "test"


def our_tests():
    pattern = EMULATED_TESTS if IS_EMULATED else OUR_TESTS
    names = {path.stem for path in test_directory().glob(pattern)}
    return sorted(names - {NOT_EMULATED} if IS_EMULATED else names)


def has_test(name):
    """Does this base have a test file, or a package, of the name?"""
    return ((test_directory() / f"{name}.py").exists()
            or (test_directory() / name).is_dir())


def stock_tests():
    return [] if IS_EMULATED else list(filter(has_test, STOCK_TESTS))


def chosen_tests(profiling):
    if profiling == "off":
        return our_tests() + stock_tests()
    # Ours choose for themselves when they are profiled.
    return stock_tests()


def quick_tests():
    stock = [name for name in STOCK_QUICK if name in stock_tests()]
    return [name for name in our_tests() if name not in NOT_QUICK] + stock


def runs_of(tests, jobs):
    """Yield the arguments of each run of regrtest; no tests means all."""
    alone = [name for name in filter(has_test, REMOVE_MAPS)
             if name in tests or not tests]
    others = [name for name in tests if name not in alone]
    if not tests and alone:
        others = ["-x", *alone]
    if others or not tests:
        yield ["-j", str(jobs), *others]
    if alone:
        yield ["-j", "1", *alone]


def known_failures(profiling="off"):
    """Yield (pattern, reason) of the lines that hold here."""
    holds = {"always": True, "root": os.geteuid() == 0,
             "profiled": profiling != "off", "jit": profiling == "jit",
             BASE: hasattr(sys, "seal_stack_trampoline")}
    for line in KNOWN_FAILURES.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            condition, pattern, reason = line.split(maxsplit=2)
            if holds.get(condition, False):
                yield pattern, reason


def test_environment(module_path):
    """Without PYTHON* variables, which change what tests see."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    if module_path:
        env["PYTHONPATH"] = str(module_path.resolve())
    return env


def put_profilers_into_path(env, directory):
    """What PERF and SAMPLY name for our tests, CPython's look for in PATH."""
    commands = {}
    if "PERF" in env:
        perf = shutil.which(env["PERF"]) or env["PERF"]
        commands["perf"] = [os.path.abspath(perf)]
    if "SAMPLY" in env:
        from test.support import perf_samply
        commands["samply"] = perf_samply.command(directory)
    for name, words in commands.items():
        program = pathlib.Path(directory, name)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
    env["PATH"] = f"{directory}{os.pathsep}{env['PATH']}"


def run_regrtest(arguments, env):
    """Run regrtest, pass its output through, and return its lines."""
    command = [sys.executable, "-m", "test", *arguments]
    lines = []
    with subprocess.Popen(command, env=env, text=True, errors="replace",
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return process.returncode, lines


class Outcome:
    """What regrtest's closing summaries say of each test file."""

    # The heading's words, as they begin, and what they mean for us.
    MEANING = {
        "OK": "passed",
        "failed": "failed",
        "altered the execution environment": "failed",
        "skipped": "skipped",
        "run no tests": "skipped",
        "omitted": "skipped",
        "had no tests": "skipped",
    }

    def __init__(self):
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.names = {"passed": set(), "failed": set(), "skipped": set(),
                      "re-run": set()}
        self.reasons = {}

    def add(self, lines):
        """Read what one run has printed."""
        meaning = None
        start = max((number for number, line in enumerate(lines)
                     if line.startswith("== Tests result:")), default=0)
        for line in lines[:start]:
            if match := SKIPPED.match(line):
                self.reasons.setdefault(match[1], match[2])
        for line in lines[start:]:
            if meaning and line.startswith("    "):
                self.names[meaning].update(line.split())
                continue
            meaning = None
            if match := SUMMARY.match(line):
                meaning = "re-run" if match[2] else self._meaning(match[3])
                if meaning in self.counts:
                    self.counts[meaning] += int(match[1])

    def _meaning(self, words):
        for beginning, meaning in self.MEANING.items():
            if words.startswith(beginning):
                return meaning
        return None

    @property
    def accounted(self):
        return sum(self.counts.values())


def show(title, names, reasons):
    if names:
        print(f"{title}:")
        for name in sorted(names):
            print(f"    {name}: {reasons[name]}" if name in reasons
                  else f"    {name}")


def expected_files(tests):
    """Return how many files regrtest will report for tests."""
    try:
        from test.libregrtest.findtests import split_test_packages
    except ImportError:     # only newer ones split a package into its files
        return len(tests)
    return len(list(split_test_packages(tests)))


def run(tests, jobs, env, profiling):
    """Run the tests, report, and return whether all is well."""
    known = list(known_failures(profiling))
    outcome = Outcome()
    statuses = set()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as ignored:
        ignored.writelines(f"{pattern}\n" for pattern, _ in known)
        ignored.flush()
        for arguments in runs_of(tests, jobs):
            status, lines = run_regrtest(
                ["-w", "-u", RESOURCES, "--timeout", str(SECONDS_A_FILE),
                 "--ignorefile", ignored.name, *arguments], env)
            outcome.add(lines)
            statuses.add(status)
    print()
    show("left out, see Tools/check/known-failures.txt",
         [pattern for pattern, _ in known], dict(known))
    show("skipped", outcome.names["skipped"], outcome.reasons)
    show("passed only when run again, alone",
         outcome.names["re-run"] - outcome.names["failed"], {})
    show("failed", outcome.names["failed"], outcome.reasons)
    unknown = expected_files(tests) - outcome.accounted if tests else 0
    if outcome.accounted == 0 or unknown:
        print(f"run_tests: {unknown} of {len(tests)} test files are missing "
              "from regrtest's summary above; counted as failed")
        outcome.counts["failed"] += max(unknown, 1)
    elif any(statuses) and not outcome.counts["failed"]:
        print(f"run_tests: regrtest ended with status {max(statuses)}, see "
              "above; counted as a failure")
        outcome.counts["failed"] += 1
    line = "{passed} passed, {failed} failed".format(**outcome.counts)
    if outcome.counts["skipped"]:
        line += f", {outcome.counts['skipped']} skipped"
    print(line)
    return outcome.counts["failed"] == 0


@contextlib.contextmanager
def removing_new_maps():
    """Thousands of programs leave their maps, some as another user, whose maps
    would prevent those of later processes with the same numbers."""
    def maps():
        return set(pathlib.Path("/tmp").glob("perf-[0-9]*.map"))

    before = maps()
    yield
    for path in maps() - before:
        pid = path.stem.removeprefix("perf-")
        if not pathlib.Path("/proc", pid).exists():
            with contextlib.suppress(OSError):      # not ours, or gone
                path.unlink()


def verify_known(env):
    """Return whether each known failure still fails; else it must go."""
    fixed = []
    for pattern, _ in known_failures():
        file = pattern.removeprefix("test.").split(".")[0]
        status, _ = run_regrtest(["-u", RESOURCES, "-m", pattern, file],
                                 env)
        if status == 0:
            fixed.append(pattern)
    for pattern in fixed:
        print(f"run_tests: {pattern} does not fail here: "
              f"remove it from {KNOWN_FAILURES}")
    return not fixed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", help="default: ours, and the "
                        "stock tests that the patches could touch; with "
                        "--perf, only the latter")
    parser.add_argument("--all", action="store_true",
                        help="all that regrtest knows")
    parser.add_argument("--quick", action="store_true",
                        help="those that take seconds, and the stock tests of "
                        "this feature")
    parser.add_argument("--verify-known", action="store_true",
                        help="fail if a known failure does not fail")
    parser.add_argument("--perf", choices=PROFILING, default="off",
                        help="run all of it while profiled, through the map "
                        "or the jitdump (%(default)s)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(),
                        help="test files at a time (%(default)s)")
    parser.add_argument("--module-path", type=pathlib.Path,
                        help="where our tests find _testperf")
    options = parser.parse_args()
    # A shell's background job ignores these, and so would all the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    env = test_environment(options.module_path) | PROFILING[options.perf]
    if options.verify_known:
        well = verify_known(env)
    else:
        tests = ([] if options.all else quick_tests() if options.quick
                 else options.tests or chosen_tests(options.perf))
        cleaning = (removing_new_maps() if options.perf == "map"
                    else contextlib.nullcontext())
        with cleaning, tempfile.TemporaryDirectory() as jitdumps, \
                tempfile.TemporaryDirectory() as programs:
            put_profilers_into_path(env, programs)
            if options.perf == "jit":
                env["JITDUMPDIR"] = jitdumps
            well = run(tests, options.jobs, env, options.perf)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
