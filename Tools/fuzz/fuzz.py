#!/usr/bin/env python3
"""Fuzz the writers of the map and the jitdump, and the jitdump's reader.

Builds what is needed in build-fuzz/, with the interpreter of `make` and clang,
and lets libFuzzer run each target for a while.  It begins with the inputs in
Tools/fuzz/corpus/, and keeps new ones in build-fuzz/corpus/.  Prints a table,
and fails if an input breaks a property; the input is kept.  With BASE=3.14 in
the environment it is that base's interpreter, and build-fuzz-3.14/.  Called by
CI and by hand.
"""

import argparse
import concurrent.futures
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
CORPUS = HERE / "corpus"


def directories_of_base():
    """Return where its interpreter is, its sources, and ours for it."""
    result = subprocess.run(
        ["sh", "-c", ". Tools/base/base.sh && "
         'echo "$build $tree build-fuzz$suffix"'],
        cwd=TOP, text=True, stdout=subprocess.PIPE)
    if result.returncode != 0:          # it has said why
        sys.exit(1)
    return [TOP / name for name in result.stdout.split()]


PYTHON_BUILD, TREE, BUILD = directories_of_base()
FOUND = BUILD / "found"
REQUIREMENTS = HERE / "requirements.txt"

# The sources of each beside those that all share.
WRITERS = {"map": ["map.c", "harness.c"],
           "jitdump": ["jitdump.c", "harness.c"],
           "lines": ["lines.c"]}
READER = "reader"
TARGETS = [*WRITERS, READER]

# Only these are instrumented; forget_symbols.c includes perf_labels.c.
OURS = ["Objects/codesymbol.c", "Python/perf_file.c", "Python/perf_hook.c",
        "Python/perf_jitdump.c", "Python/perf_lines.c", "Python/perf_map.c",
        "Python/perf_process.c", "Python/perf_trampoline.c",
        "Tools/fuzz/forget_symbols.c"]
COVERAGE = ["-fsanitize-coverage=inline-8bit-counters,pc-table"]
SANITIZERS = ["-g", "-O1", "-Wall", "-fno-omit-frame-pointer",
              "-fsanitize=address,undefined",
              "-fno-sanitize-recover=undefined"]
DEBIAN_PACKAGES = "clang libclang-rt-dev"

MAX_INPUT = 2048
MAX_INPUT_KEPT = 512            # in the repository
SECONDS_AN_INPUT = 20
MEBIBYTES = 2048


def fail(message):
    sys.exit(f"fuzz: {message}")


def run(command):
    command = [str(word) for word in command]
    try:
        status = subprocess.run(command).returncode
    except OSError as error:
        fail(f"cannot run {command[0]}: {error.strerror}")
    if status != 0:
        fail(f"failed: {shlex.join(command)}")


# --- Building ----------------------------------------------------------------

def compile_file(compiler, source, flags):
    into = BUILD / pathlib.Path(source).with_suffix(".o").name
    run([compiler, *SANITIZERS, *flags, "-DPy_BUILD_CORE",
         f"-I{PYTHON_BUILD}", f"-I{TREE}/Include",
         f"-I{TREE}/Include/internal",
         f"-I{TREE}/Include/internal/mimalloc",
         f'-DSTANDARD_LIBRARY="{TREE}/Lib"',
         "-c", TOP / source, "-o", into])
    return into


@functools.cache
def build_shared_objects(compiler):
    if shutil.which(compiler) is None:
        fail(f"there is no {compiler}; Debian has it in the packages "
             f"{DEBIAN_PACKAGES}, and --compiler names another one")
    return [*(compile_file(compiler, source, COVERAGE) for source in OURS),
            compile_file(compiler, "Tools/fuzz/interpreter.c", [])]


def build_writer(target, compiler):
    libraries = list(PYTHON_BUILD.glob("libpython3.*.a"))
    if not libraries:
        fail(f"there is no {PYTHON_BUILD.name}/libpython3.X.a; `./configure "
             "&& make`, without --enable-shared, makes it")
    run([compiler, *SANITIZERS, "-fsanitize=fuzzer", "-Wl,--export-dynamic",
         "-o", BUILD / target, *build_shared_objects(compiler),
         *(compile_file(compiler, f"Tools/fuzz/{source}", [])
           for source in WRITERS[target]),
         *libraries, "-ldl", "-lm", "-lutil"])


def fetch_atheris(python):
    """Return the directory that has it, for that interpreter."""
    version = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    into = TOP / "base" / f"atheris-{version}"
    known = into / REQUIREMENTS.name
    if known.exists() and known.read_bytes() == REQUIREMENTS.read_bytes():
        return into
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory() as download:
        run(["python3", "-m", "pip", "download", "--quiet", "--no-deps",
             "--only-binary", ":all:", "--python-version", version,
             "--require-hashes", "-r", REQUIREMENTS, "-d", download])
        for wheel in pathlib.Path(download).iterdir():
            zipfile.ZipFile(wheel).extractall(into)
    shutil.copy(REQUIREMENTS, known)
    return into


def build_reader():
    python = PYTHON_BUILD / "python"
    if not python.exists():
        fail(f"there is no {python}; `make` builds it")
    into = BUILD / READER
    arguments = shlex.join(["env", f"PYTHONPATH={fetch_atheris(python)}",
                            str(python), str(HERE / "reader.py")])
    # To merge, libFuzzer starts this again and again.
    into.write_text(f'#!/bin/sh\nexec {arguments} "$0" "$@"\n')
    into.chmod(0o755)


def build(target, compiler):
    """Make build-fuzz/TARGET, a program that takes libFuzzer's arguments."""
    BUILD.mkdir(exist_ok=True)
    FOUND.mkdir(exist_ok=True)
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    if target == READER:
        build_reader()
    else:
        build_writer(target, compiler)


# --- Running -----------------------------------------------------------------

def run_target(target, log, *arguments):
    """Run it with libFuzzer's arguments; return its status and output."""
    with (tempfile.TemporaryDirectory() as directory,
          open(log, "w+", errors="replace") as output):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("PYTHON")}
        environment["JITDUMPDIR"] = directory
        # Freed memory is watched until the end of an input: that is not much.
        environment["ASAN_OPTIONS"] = "quarantine_size_mb=16"
        with subprocess.Popen(
                [str(BUILD / target), *map(str, arguments)], env=environment,
                cwd=directory, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output) as process:
            status = process.wait()
        # One that has crashed cannot remove it.
        pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)
        output.seek(0)
        return status, output.read()


def last(pattern, text, default="-"):
    return ([default] + re.findall(pattern, text))[-1]


def fuzz(target, seconds):
    """Return whether all went well."""
    kept = BUILD / "corpus" / target
    kept.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{target}.log"
    status, output = run_target(
        target, log, kept, CORPUS / target, f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT}", f"-timeout={SECONDS_AN_INPUT}",
        f"-report_slow_units={SECONDS_AN_INPUT}",
        f"-rss_limit_mb={MEBIBYTES}", f"-artifact_prefix={FOUND}/{target}-",
        "-print_final_stats=1")
    found = last(r"Test unit written to (\S+)", output, None)
    edges = last(r"Loaded \d+ modules +\((\d+) inline", output, None)
    print(f"{target:<10}{last(r'number_of_executed_units: (.*)', output):>12}"
          f"{last(r'cov: ([0-9]+)', output):>8}"
          f"{' of ' + edges if edges else '':<9}"
          f"{len(list(kept.iterdir())):>8}"
          f"{last(r'peak_rss_mb: +([0-9]+)', output):>8} MiB"
          f"   {'nothing' if status == 0 else found or 'no start'}",
          flush=True)
    if found:
        print(f"fuzz: run it again with: {sys.argv[0]} --input {found} "
              f"{target}", file=sys.stderr)
    elif status != 0:
        print(f"fuzz: {target} ended with status {status}: see {log}",
              file=sys.stderr)
    return status == 0


def minimise(target):
    """Replace target's corpus by as few and as small inputs as cover as much.

    Those with names given by people stay.
    """
    with tempfile.TemporaryDirectory() as directory:
        merged = pathlib.Path(directory)
        for path in (CORPUS / target).iterdir():
            if not re.fullmatch("[0-9a-f]{40}", path.name):
                shutil.copy(path, merged)
        log = BUILD / f"{target}-merge.log"
        # Edges only: how often each was taken would keep hundreds of inputs.
        status, _ = run_target(target, log, "-merge=1", "-use_counters=0",
                               f"-max_len={MAX_INPUT_KEPT}", merged,
                               CORPUS / target, BUILD / "corpus" / target)
        if status != 0:
            fail(f"cannot merge {target}: see {log}")
        for path in (CORPUS / target).iterdir():
            path.unlink()
        for path in merged.iterdir():
            shutil.copy(path, CORPUS / target)
    paths = list((CORPUS / target).iterdir())
    print(f"{target}: {len(paths)} inputs, "
          f"{sum(path.stat().st_size for path in paths)} bytes")


def show_input(target, path):
    """Run one input; return whether all went well."""
    with tempfile.TemporaryDirectory() as directory:
        status, output = run_target(target, f"{directory}/log",
                                    path.resolve())
    print(output, end="")
    return status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET",
                        help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60,
                        help="for each target (%(default)s)")
    parser.add_argument("--at-once", action="store_true",
                        help="run the targets at the same time instead of "
                        "one after the other")
    parser.add_argument("--minimise", action="store_true",
                        help="instead of fuzzing, make the corpus in the "
                        "repository anew from all inputs that were kept")
    parser.add_argument("--input", type=pathlib.Path, metavar="FILE",
                        help="instead of fuzzing, run this input of a target")
    parser.add_argument("--compiler", default="clang",
                        help="a clang with libFuzzer (%(default)s)")
    arguments = parser.parse_args()
    for target in arguments.targets:
        if target not in TARGETS:
            parser.error(f"no target {target!r}; there are "
                         f"{', '.join(TARGETS)}")
    targets = arguments.targets or TARGETS
    if arguments.input and len(targets) != 1:
        parser.error("--input needs the one target that it is for")
    if arguments.input and not arguments.input.is_file():
        parser.error(f"no file {arguments.input}")
    for target in targets:
        build(target, arguments.compiler)
    if arguments.input:
        well = show_input(targets[0], arguments.input)
    elif arguments.minimise:
        for target in targets:
            minimise(target)
        well = True
    else:
        print(f"{'target':<10}{'executions':>12}{'edges':>12}{'inputs':>13}"
              f"{'memory':>12}   found")
        workers = len(targets) if arguments.at_once else 1
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            well = all(list(pool.map(
                functools.partial(fuzz, seconds=arguments.seconds),
                targets)))
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
