#!/usr/bin/env python3
"""Use compiled packages that others have built in our interpreter.

Runs each job of package_job.py in the interpreter that its packages are for
and in ours, with profiling off, with a map and with a jitdump, and compares
the results, test by test.  The packages are Debian's, for Debian's Python of
the same version as ours, or PyPI's wheels, for which the unpatched base stands
in.  Prints a table; fails if a result differs.  Called by hand.

usage: Tools/reliability/packages.py [--install] [--python PYTHON] [JOB ...]
       Tools/reliability/packages.py --wheels BASE_PYTHON [--python PYTHON]
                                     [JOB ...]
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "Lib" / "test" / "support"))
import perf_jitdump

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
SECONDS = 1800

# Job: packages.
DEBIAN_JOBS = {
    "PIL": ["python3-pil"],
    "cffi": ["python3-cffi"],
    "cryptography": ["python3-cryptography"],
    "gevent": ["python3-gevent"],
    "greenlet": ["python3-greenlet", "python3-objgraph", "python3-psutil"],
    "lxml": ["python3-lxml"],
    "msgpack": ["python3-msgpack"],
    "numpy": ["python3-numpy", "python3-pytest", "python3-hypothesis"],
    "psycopg2": ["python3-psycopg2"],
    "zmq": ["python3-zmq", "python3-pytest", "python3-tornado"],
}
WHEEL_JOBS = {
    "PIL": ["pillow"],
    "cffi": ["cffi"],
    "cryptography": ["cryptography"],
    "gevent": ["gevent"],
    "greenlet": ["greenlet", "objgraph", "psutil"],
    "lxml": ["lxml"],
    "msgpack": ["msgpack"],
    "numpy": ["numpy", "pytest", "hypothesis"],
    "orjson": ["orjson"],
    "psycopg2": ["psycopg2-binary"],
    "pydantic_core": ["pydantic_core"],
    "zmq": ["pyzmq", "pytest", "tornado"],
}
MODES = {
    "theirs": {},
    "off": {},
    "perf": {"PYTHONPERFSUPPORT": "1"},
    "perf_jit": {"PYTHON_PERF_JIT_SUPPORT": "1"},
}


def missing(packages):
    """Return those that are not installed."""
    result = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n",
         *packages], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True)
    there = {line.split()[0] for line in result.stdout.splitlines()
             if line.endswith(" installed")}
    return [package for package in packages if package not in there]


def provide(packages, install):
    absent = missing(packages)
    if not absent:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *absent]
    if os.geteuid() != 0:
        command.insert(0, "sudo")
    if not install:
        sys.exit(f"packages: missing: {' '.join(absent)}\n"
                 f"packages: install them with: {' '.join(command)}\n"
                 f"packages: or give --install")
    subprocess.run(command, check=True)


def ask(python, expression):
    """Return what an expression with sys and sysconfig is in python."""
    return subprocess.run(
        [python, "-c", f"import sys, sysconfig; print({expression})"],
        stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def fetch_wheels(job, python, directory):
    """Put the wheels for python there.  Return why not, or None."""
    if os.path.exists(directory):
        return None
    version = ask(python, "'%d.%d' % sys.version_info[:2]")
    abi = "cp" + ask(python,
                     "sysconfig.get_config_var('SOABI').split('-')[1]")
    options = []
    for name in abi, "abi3", "abi3t", "none":
        options += ["--abi", name]
    for glibc in 17, 24, 27, 28:
        options += ["--platform", f"manylinux_2_{glibc}_{os.uname().machine}"]
    with tempfile.TemporaryDirectory() as new:
        result = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target",
             f"{new}/wheels", "--only-binary", ":all:", "--no-compile",
             "--python-version", version, *options, *WHEEL_JOBS[job]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode != 0:
            return result.stdout.strip().splitlines()[-1]
        shutil.copytree(f"{new}/wheels", directory)
    return None


def count_symbols(mode, pid, directory):
    """Return how many symbols process pid has announced; remove its map."""
    if mode == "perf":
        path = pathlib.Path(f"/tmp/perf-{pid}.map")
        data = path.read_bytes()
        path.unlink()
        return data.count(b"\n")
    if mode == "perf_jit":
        data = pathlib.Path(directory, f"jit-{pid}.dump").read_bytes()
        return len(perf_jitdump.Jitdump(data).loads)
    return None


def remove_maps_of_children(since):
    """Those that were forked inherit the symbols of the job, and are gone."""
    for path in pathlib.Path("/tmp").glob("perf-*.map"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < since or path.is_symlink():
                continue
            pid = path.name[len("perf-"):-len(".map")]
            if (not os.path.exists(f"/proc/{pid}")
                    and str(HERE / "package_job.py").encode()
                    in path.read_bytes()):
                path.unlink()


def run(job, mode, python, packages):
    """Return {name: outcome}, seconds and the number of symbols."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("PYTHON")}
    start = time.time()
    with tempfile.TemporaryDirectory() as directory:
        environment |= MODES[mode] | {
            "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0", "JITDUMPDIR": directory,
            "PACKAGE_JOB_MODE": mode}
        with (open(f"{directory}/out", "w+") as out,
              open(f"{directory}/err", "w+") as err,
              subprocess.Popen([python, HERE / "package_job.py", job],
                               env=environment, cwd=directory, stdout=out,
                               stderr=err) as process):
            try:
                status = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                status = f"none after {SECONDS} seconds"
        if status != 0:
            text = pathlib.Path(directory, "err").read_text(errors="replace")
            sys.exit(f"packages: {job}, {mode}: exit status {status}\n"
                     f"{text[-3000:]}")
        lines = pathlib.Path(directory, "out").read_text().splitlines()
        symbols = count_symbols(mode, process.pid, directory)
        remove_maps_of_children(start)
    return json.loads(lines[-1]), time.time() - start, symbols


def differences(job, mode, results, expected):
    for name in sorted(results.keys() | expected.keys()):
        one, other = results.get(name), expected.get(name)
        if one != other:
            yield (f"{job}, {mode}: {name}: {str(one)[:200]} instead of "
                   f"{str(other)[:200]}")


def summary(results):
    """Return what the table says of them: counts of outcomes, or of steps."""
    outcomes = list(results.values())
    kinds = "passed", "skipped", "failed", "error"
    if not all(outcome in kinds for outcome in map(str, outcomes)):
        return f"{len(outcomes)} results"
    return ", ".join(f"{outcomes.count(kind)} {kind}" for kind in kinds
                     if kind in outcomes)


def compare(job, pythons, packages):
    """Run one job in all modes, print a line, return what differs."""
    expected, found, seconds, announced = None, [], [], []
    for mode in MODES:
        results, duration, symbols = run(job, mode, pythons[mode],
                                         packages)
        if not results:
            sys.exit(f"packages: {job}, {mode}: no results")
        if expected is None:
            expected = results
        found += differences(job, mode, results, expected)
        seconds.append(f"{duration:9.1f}")
        if symbols is not None:
            announced.append(symbols)
            if symbols < 50:
                found.append(f"{job}, {mode}: only {symbols} symbols")
    print(f"{job:<14}{summary(expected):<38}", *seconds,
          *(f"{symbols:9}" for symbols in announced), sep="", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB",
                        help=f"of {', '.join(WHEEL_JOBS)} (default: all)")
    parser.add_argument("--python", default=TOP / "build" / "python",
                        help="our interpreter (default: build/python)")
    parser.add_argument("--install", action="store_true",
                        help="install the packages that are missing, with apt")
    parser.add_argument("--wheels", metavar="BASE_PYTHON",
                        help="use PyPI's wheels, fetched by this Python's "
                             "pip, and compare with the unpatched base")
    arguments = parser.parse_args()
    available = WHEEL_JOBS if arguments.wheels else DEBIAN_JOBS
    for job in arguments.jobs:
        if job not in available:
            parser.error(f"no job {job!r}; there are {', '.join(available)}")
    ours = os.path.abspath(arguments.python)
    if not os.access(ours, os.X_OK):
        parser.error(f"no interpreter {ours}; `make` builds it")
    version = ask(ours, "'%d.%d' % sys.version_info[:2]")
    theirs = os.path.abspath(arguments.wheels or f"/usr/bin/python{version}")
    if not os.access(theirs, os.X_OK):
        parser.error(f"no interpreter {theirs}; `make base` builds the base, "
                     f"the package python{version} is Debian's, if it has one")
    jobs = arguments.jobs or list(available)
    if not arguments.wheels:
        provide(sorted({package for job in jobs
                        for package in available[job]}), arguments.install)

    pythons = {mode: ours for mode in MODES} | {"theirs": theirs}
    print(f"{'':<52}{'seconds':^36}{'symbols':^18}")
    print(f"{'package':<14}{'result in all modes':<38}",
          *(f"{mode:>9}" for mode in MODES), f"{'map':>9}{'jitdump':>9}",
          sep="", flush=True)
    found = []
    for job in jobs:
        packages = DEBIAN_PACKAGES
        if arguments.wheels:
            packages = pathlib.Path(ours).parent / "wheels" / job
            failure = fetch_wheels(job, ours, packages)
            if failure:
                print(f"{job:<14}{failure}", flush=True)
                continue
        found += compare(job, pythons, packages)
    if found:
        sys.exit("\n".join(["packages: results differ:", *found]))


if __name__ == "__main__":
    main()
