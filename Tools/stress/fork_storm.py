#!/usr/bin/env python3
"""Fork a profiled process with many symbols many times.

A child ends before it calls a function, or after one call, or is profiled
further, or forks again, or becomes another program.  The first must leave no
file, the others a complete one, no process may keep a descriptor too many, and
the memory of the parent must not grow.  The same is done with profiling off:
the difference is what a fork costs.

Called by hand and, with smaller numbers, by Lib/test/test_perf_stress.py.
"""

import argparse
import contextlib
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "Lib" / "test" / "support"))
import perf_jitdump

MODES = "off", "perf", "perf_jit"
NEW_FUNCTIONS = 20
# Parse the file of one child in so many; of the others, names are counted.
PARSED = 25


def template():
    pass


def call(name):
    code = template.__code__.replace(co_qualname=name, co_filename="storm")
    type(call)(code, {})()


def path_of(mode, pid):
    if mode == "perf":
        return f"/tmp/perf-{pid}.map"
    return f"{os.environ['JITDUMPDIR']}/jit-{pid}.dump"


def descriptors():
    """Return what the descriptors of this process are, without that of the
    directory that is being read."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(found)


def memory():
    """Resident memory in KiB."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def fail(message):
    sys.exit(f"fork_storm: {message}")


# --- Children: what they do, and the names that their files then have more ---

def end(mode, others):
    raise AssertionError("is not to be called")


def call_once(mode, others):
    return 0


def go_on(mode, others):
    for number in range(NEW_FUNCTIONS):
        call(f"of_child_{number}")
    # One file, which is the child's own, in place of the parent's.
    files = [name for name in descriptors() if name not in others]
    expected = [] if mode == "off" else [path_of(mode, os.getpid())]
    return files != expected or len(descriptors()) != len(others) + len(files)


def fork_again(mode, others):
    pid = os.fork()
    if pid == 0:
        os._exit(go_on(mode, others))
    _, status = os.waitpid(pid, 0)
    if mode != "off":
        os.unlink(path_of(mode, pid))
    return status != 0


def become_another(mode, others):
    # What it inherits of ours would show here.
    os.execl("/bin/sh", "sh", "-c",
             "! ls -l /proc/self/fd |"
             " grep -e 'perf-.*[.]map' -e 'jit-.*[.]dump'")


KINDS = [call_once, go_on, end, fork_again, call_once, become_another, end]


def check_file(mode, pid, kind, symbols, is_parsed):
    """Is the file of a child complete?  Return its size."""
    path = path_of(mode, pid)
    data = pathlib.Path(path).read_bytes()
    os.unlink(path)
    expected = symbols + (NEW_FUNCTIONS if kind is go_on else 0)
    if is_parsed and mode == "perf":
        names = [line.split(b" ", 2)[2] for line in data.split(b"\n")[:-1]]
        found = sum(name.endswith(b":storm") for name in names)
        found = found if len(set(names)) == len(names) else "repeated"
    elif is_parsed:
        names = [load.name for load in perf_jitdump.Jitdump(data).loads]
        found = sum(name.endswith(":storm") for name in names)
        found = found if len(set(names)) == len(names) else "repeated"
    else:
        found = data.count(b":storm" + (b"\n" if mode == "perf" else b"\0"))
    if found != expected:
        fail(f"{path} of a child that did {kind.__name__} has {found} "
             f"symbols, not {expected}")
    return len(data)


def is_newer(path, began):
    """Is there a file, not left from an earlier process of that number?"""
    try:
        return os.stat(path).st_mtime > began - 0.01    # a tick of the kernel
    except FileNotFoundError:
        return False


# --- One mode ----------------------------------------------------------------

def storm(mode, forks, symbols):
    """Print microseconds of CPU time that fork() takes in the parent, that a
    child takes which ends before it calls a function, and one that calls one,
    and the size of its file; then how much the parent's memory has grown."""
    others = descriptors()
    if mode != "off":
        sys.activate_stack_trampoline(mode)
    for number in range(symbols):
        call(f"function_number_{number}")
    before = descriptors()
    in_parent, in_child, size, early = [], {end: [], call_once: []}, 0, None
    for number in range(forks):
        kind = KINDS[number % len(KINDS)]
        began = time.time()
        start = time.process_time()
        pid = os.fork()
        if pid == 0:
            if kind is end:
                os._exit(0)
            os._exit(kind(mode, others))
        forked = time.process_time()
        _, status, usage = os.wait4(pid, 0)
        if status != 0:
            fail(f"{mode}: child {number} did {kind.__name__} and ended with "
                 f"{os.waitstatus_to_exitcode(status)}")
        in_parent.append(forked - start)
        if kind in in_child:
            in_child[kind].append(usage.ru_utime + usage.ru_stime)
        if mode == "off":
            pass
        elif kind is end:
            if is_newer(path_of(mode, pid), began):
                fail(f"{mode}: a child that called nothing has a file")
        else:
            length = check_file(mode, pid, kind, symbols,
                                number % PARSED == 0)
            size = length if kind is call_once else size
        if number == forks // 4:
            early = memory()
    growth = memory() - early
    if descriptors() != before:
        fail(f"{mode}: descriptors were {before} and are {descriptors()}")
    print(*(round(1e6 * statistics.median(times))
            for times in (in_parent, *in_child.values())), size, growth)


def run_mode(mode, options):
    with subprocess.Popen(
            [sys.executable, __file__, "--mode", mode,
             "--forks", str(options.forks), "--symbols", str(options.symbols)],
            stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate()
    pathlib.Path(path_of("perf", process.pid)).unlink(missing_ok=True)
    if process.returncode != 0:
        fail(f"{mode} ended with {process.returncode}")
    return map(int, out.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--forks", type=int, default=5000)
    parser.add_argument("--symbols", type=int, default=5000)
    parser.add_argument("--growth", type=int, default=1024, metavar="KIB",
                        help="memory that the parent may take more "
                        "(%(default)s)")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mode:
        storm(options.mode, options.forks, options.symbols)
        return
    print(f"{options.forks} forks of a process with {options.symbols} "
          "symbols; medians of CPU time")
    print(f"{'':10}{'parent':>10}{'child that ends':>18}"
          f"{'that calls':>14}{'its file':>16}{'memory':>12}")
    for mode in MODES:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["JITDUMPDIR"] = directory
            parent, ends, calls, size, growth = run_mode(mode, options)
        print(f"{mode:10}{parent:7} us{ends:15} us{calls:11} us{size:10} bytes"
              f"{growth:+8} KiB", flush=True)
        if growth > options.growth:
            fail(f"{mode}: memory has grown by {growth} KiB")


if __name__ == "__main__":
    main()
