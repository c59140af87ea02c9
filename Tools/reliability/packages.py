#!/usr/bin/env python3
"""Use compiled packages that others have built in our interpreter.

Runs each job of package_job.py in the interpreter that its packages are for
and in ours, with profiling off, with a map and with a jitdump, and compares
the results, test by test.  The packages are Debian's, for Debian's Python of
the same version as ours, or PyPI's wheels, for which the unpatched base stands
in.  A job whose results differ runs again, up to twice: what does not differ
each time depends on time or chance.  Prints a table, and what differs; fails
if a result differs each time.  Called by hand.

usage: Tools/reliability/packages.py [--install] [--python PYTHON]
                                     [--modes MODES] [--tmp DIRECTORY]
                                     [JOB ...]
       Tools/reliability/packages.py --wheels BASE_PYTHON [--python PYTHON]
                                     [--modes MODES] [--tmp DIRECTORY]
                                     [JOB ...]
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "Lib" / "test" / "support"))
import own_tmp
import package_sources
import perf_jitdump

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
SECONDS = 1800
AGAIN = 2

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
    "anyio_tests": ["anyio", "pytest", "trio", "hypothesis", "trustme",
                    "psutil", "uvloop", "pytest-mock", "truststore"],
    "attrs_tests": ["attrs", "pytest", "hypothesis", "cloudpickle", "pympler",
                    "psutil"],
    "cffi": ["cffi"],
    "cffi_tests": ["cffi", "pytest", "setuptools"],
    "coverage_tests": ["coverage", "pytest", "hypothesis", "flaky",
                       "setuptools", "gevent"],
    "cryptography": ["cryptography"],
    "cryptography_tests": ["cryptography", "cryptography-vectors", "pytest",
                           "certifi", "pretend"],
    "debugpy": ["debugpy"],
    "django_tests": ["django", "jinja2"],
    "gevent": ["gevent"],
    "gevent_tests": ["gevent", "psutil", "dnspython", "objgraph"],
    "greenlet": ["greenlet", "objgraph", "psutil"],
    "lxml": ["lxml"],
    "lxml_tests": ["lxml", "cssselect"],
    "memray": ["memray"],
    "msgpack": ["msgpack"],
    "networkx": ["networkx", "pytest"],
    "numpy": ["numpy", "pytest", "hypothesis"],
    "orjson": ["orjson"],
    "pandas": ["pandas", "pytest", "hypothesis"],
    "psycopg2": ["psycopg2-binary"],
    "pybind11_tests": ["pybind11", "pytest"],
    "pydantic_core": ["pydantic_core"],
    "pydantic_tests": ["pydantic", "pytest", "pytest-mock", "dirty-equals",
                       "jsonschema", "pytz", "packaging", "cloudpickle",
                       "email-validator", "pytest-benchmark",
                       "pytest-examples", "faker", "tzdata",
                       "pytest-run-parallel"],
    "scalene": ["scalene>=2"],
    "sqlalchemy_asyncio": ["sqlalchemy", "greenlet", "aiosqlite", "pytest"],
    "sqlalchemy_tests": ["sqlalchemy", "greenlet", "pytest"],
    "tornado": ["tornado"],
    "trio": ["trio", "pytest", "trustme", "pyopenssl", "jedi", "astor",
             "async-generator"],
    "zmq": ["pyzmq", "pytest", "tornado"],
}
# Those whose tests are not in the wheel, and the package they are of.
SOURCES = {
    "anyio_tests": "anyio",
    "attrs_tests": "attrs",
    "cffi_tests": "cffi",
    "coverage_tests": "coverage",
    "cryptography_tests": "cryptography",
    "django_tests": "django",
    "lxml_tests": "lxml",
    "pybind11_tests": "pybind11",
    "pydantic_tests": "pydantic",
    "sqlalchemy_asyncio": "sqlalchemy",
    "sqlalchemy_tests": "sqlalchemy",
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


def install_wheels(requirements, python, directory):
    """Put wheels for python there, by another's pip; return how that ended."""
    version = ask(python, "'%d.%d' % sys.version_info[:2]")
    abi = "cp" + ask(python,
                     "sysconfig.get_config_var('SOABI').split('-')[1]")
    options = ["--quiet", "--only-binary", ":all:", "--python-version",
               version]
    for name in abi, "abi3", "abi3t", "none":
        options += ["--abi", name]
    newest = int(os.confstr("CS_GNU_LIBC_VERSION").rpartition(".")[2])
    # 2014 is another name of _2_17.
    for glibc in "2014", *(f"_2_{minor}" for minor in range(17, newest + 1)):
        options += ["--platform", f"manylinux{glibc}_{os.uname().machine}"]

    def pip(*arguments):
        return subprocess.run([sys.executable, "-m", "pip", *arguments],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)

    # Only where it downloads does pip compare what packages require with that
    # version, and not with its own interpreter's.
    with tempfile.TemporaryDirectory() as wheels:
        result = pip("download", *options, "--dest", wheels, *requirements)
        if result.returncode == 0:
            result = pip("install", *options, "--target", directory,
                         "--no-compile", "--no-deps",
                         "--ignore-requires-python",
                         *pathlib.Path(wheels).iterdir())
    return result


def fetch_wheels(job, python, directory):
    """Put the wheels for python there.  Return why not, or None."""
    if os.path.exists(directory):
        return fetch_source(job, directory)
    with tempfile.TemporaryDirectory() as new:
        result = install_wheels(WHEEL_JOBS[job], python, f"{new}/wheels")
        if result.returncode != 0:
            return result.stdout.strip().splitlines()[-1]
        shutil.copytree(f"{new}/wheels", directory)
    return fetch_source(job, directory)


def source_directory(packages):
    """Where the sources of a directory of wheels are."""
    return f"{packages}.source"


def fetch_source(job, directory):
    if job in SOURCES:
        try:
            package_sources.fetch(SOURCES[job], directory,
                                  source_directory(directory))
        except (OSError, package_sources.Failure) as error:
            return str(error)
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
            "PACKAGE_JOB_MODE": mode,
            "PACKAGE_JOB_SOURCES": source_directory(packages)}
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


def differences(results, expected):
    """Yield (test, what differs)."""
    for name in sorted(results.keys() | expected.keys()):
        one, other = results.get(name), expected.get(name)
        if one != other:
            yield name, f"{str(one)[:200]} instead of {str(other)[:200]}"


def summary(results):
    """Return what the table says of them: counts of outcomes, or of steps."""
    outcomes = list(results.values())
    kinds = "passed", "skipped", "failed", "error"
    if not all(outcome in kinds for outcome in map(str, outcomes)):
        return f"{len(outcomes)} results"
    return ", ".join(f"{outcomes.count(kind)} {kind}" for kind in kinds
                     if kind in outcomes)


def compare(job, pythons, packages, modes):
    """Run one job in all modes, print a line, return what differs."""
    found, kept, seconds, announced = [], {}, [], []
    for mode in modes:
        results, duration, symbols = run(job, mode, pythons[mode],
                                         packages)
        if not results:
            sys.exit(f"packages: {job}, {mode}: no results")
        kept[mode] = results
        seconds.append(f"{duration:9.1f}")
        if symbols is not None:
            announced.append(symbols)
            if symbols < 50:
                found.append(f"{job}, {mode}: only {symbols} symbols")
    first = modes[0]
    print(f"{job:<20}{summary(kept[first]):<38}", *seconds,
          *(f"{symbols:9}" for symbols in announced), sep="", flush=True)
    for mode in modes[1:]:
        found += repeat(job, mode, pythons, packages, kept[mode], first,
                        kept[first])
    return found


def repeat(job, mode, pythons, packages, results, first, expected):
    """Run what differs again; return what differs each time."""
    found = dict(differences(results, expected))
    if not found:
        return []
    runs = {first: [expected], mode: [results]}
    for _ in range(AGAIN):
        for which in runs:
            runs[which].append(run(job, which, pythons[which], packages)[0])
        for name in list(found):
            ours, theirs = ([one.get(name) for one in kept]
                            for kept in (runs[mode], runs[first]))
            if any(one in theirs for one in ours):
                print(f"    not each time: {mode}: {name}: {found.pop(name)}",
                      flush=True)
        if not found:
            break
    return [f"{job}, {mode}: {name}: {what}" for name, what in found.items()]


def main():
    # A shell's background job ignores these, and so would all the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
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
    parser.add_argument("--modes", default=",".join(MODES),
                        help="what to compare with the first of them "
                             "(%(default)s)")
    parser.add_argument("--tmp", help="a directory to be /tmp for all that "
                        "runs, and for nobody else; needs root")
    arguments = parser.parse_args()
    if arguments.tmp:
        own_tmp.use(arguments.tmp)
    modes = arguments.modes.split(",")
    if unknown := set(modes) - MODES.keys():
        parser.error(f"no such modes: {' '.join(sorted(unknown))}")
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
    announcing = [mode for mode in modes if mode.startswith("perf")]
    print(f"{'':<58}{'seconds':^{9 * len(modes)}}"
          f"{'symbols':^{9 * len(announcing)}}")
    print(f"{'package':<20}{'result in all modes':<38}",
          *(f"{mode:>9}" for mode in modes + announcing), sep="", flush=True)
    found = []
    for job in jobs:
        packages = DEBIAN_PACKAGES
        if arguments.wheels:
            packages = pathlib.Path(ours).parent / "wheels" / job
            failure = fetch_wheels(job, ours, packages)
            if failure:
                print(f"{job:<20}{failure}", flush=True)
                continue
        found += compare(job, pythons, packages, modes)
    if found:
        sys.exit("\n".join(["packages: results differ:", *found]))


if __name__ == "__main__":
    main()
