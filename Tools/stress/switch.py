#!/usr/bin/env python3
"""Switch the perf trampoline on and off while much goes on.

Four threads call, raise, generate, recurse and run new code; a fifth makes and
destroys interpreters that switch for themselves; the main thread switches, now
to one back end, now to the other.  Then interpreters end while daemon threads
do the same.  Run it with the interpreter to test; a build with
--with-address-sanitizer says most.  Nothing may be reported, and memory must
not grow.

Called by hand and, for a short time, by Lib/test/test_perf_stress.py.
"""

import argparse
import gc
import itertools
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

from test.support import perf_interpreters as interpreters

THREADS = 4
BACK_ENDS = "perf", "perf_jit"
SECONDS_AN_END = 300


# --- What the threads do -----------------------------------------------------

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def recurse(n):
    return n and 1 + recurse(n - 1)


def numbers(n):
    try:
        for number in range(n):
            yield number
    finally:
        fib(2)


def forwarding(n):
    return (yield from numbers(n))


async def wait_for(n):
    return n and 1 + await wait_for(n - 1)


def expect(value, expected):
    if value != expected:
        raise AssertionError(f"{value!r} instead of {expected!r}")


def work_once(thread, turn):
    # A name for each of some functions: the table of symbols only grows.
    name = f"f_{thread}_{turn % 50}"
    namespace = {"fib": fib}
    exec(f"def {name}(n): return fib(n)", namespace)
    expect(namespace[name](6), 8)
    expect(sum(forwarding(5)), 10)
    expect(sorted([3, 1, 2], key=lambda n: -n), [3, 2, 1])
    expect(recurse(turn % 700), turn % 700)
    next(forwarding(3))
    generator = forwarding(3)
    next(generator)
    try:
        generator.throw(KeyError)
    except KeyError:
        pass
    try:
        wait_for(5).send(None)
    except StopIteration as stop:
        expect(stop.value, 5)
    try:
        [].pop(fib(3))
    except IndexError:
        pass


# --- Switching ---------------------------------------------------------------

class Crowd:
    """Threads that work until they are told to stop."""

    def __init__(self):
        self.errors = []
        self.turns = [0] * THREADS
        self.interpreters = 0
        self._stop = False
        self._threads = [threading.Thread(target=self._guard,
                                          args=[self._work, number])
                         for number in range(THREADS)]
        self._threads.append(threading.Thread(target=self._guard,
                                              args=[self._interpret]))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop = True
        for thread in self._threads:
            thread.join()

    def _guard(self, function, *args):
        try:
            function(*args)
        except BaseException as error:
            self.errors.append(error)
            raise

    def _work(self, thread):
        while not self._stop:
            work_once(thread, self.turns[thread])
            self.turns[thread] += 1

    def _interpret(self):
        while not self._stop:
            # Some bases give back no memory of isolated ones.
            interpreter = interpreters.create(isolated=False)
            for back_end in BACK_ENDS:
                interpreters.raise_failure(interpreters.run_string(
                    interpreter,
                    "import sys\n"
                    f"sys.activate_stack_trampoline({back_end!r})\n"
                    "def f(n): return n and f(n - 1)\n"
                    "f(50)\n"
                    "sys.deactivate_stack_trampoline()\n"
                    "f(50)\n"
                    "sys.activate_stack_trampoline('perf')\n"))
            interpreters.destroy(interpreter)
            self.interpreters += 1
            time.sleep(0.01)


def memory():
    """Resident memory in KiB."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def switch(seconds, switches, growth):
    """Switch for so long and so often; return a line that says how it was."""
    start = time.monotonic()
    done, early = 0, None
    sys.setswitchinterval(1e-4)
    with Crowd() as crowd:
        while not crowd.errors:
            elapsed = time.monotonic() - start
            if elapsed >= seconds and done >= switches:
                break
            if early is None and elapsed > seconds / 2:
                early = memory()
            for turn in range(100):
                # Another back end costs a file more than a switch does.
                sys.activate_stack_trampoline(BACK_ENDS[turn % 50 == 0])
                fib(1)
                sys.deactivate_stack_trampoline()
            done += 100
            time.sleep(0.001)                   # let the others work
        late = memory()
    if crowd.errors:
        sys.exit(f"switch: a thread ended: {crowd.errors[0]!r}")
    if min(crowd.turns) == 0 or crowd.interpreters == 0:
        sys.exit(f"switch: a thread did not get to work: {crowd.turns}, "
                 f"{crowd.interpreters} interpreters")
    if late - early > growth:
        sys.exit(f"switch: memory has grown from {early} to {late} KiB")
    return (f"{done} switches in {time.monotonic() - start:.0f} s, "
            f"{sum(crowd.turns)} turns of {THREADS} threads, "
            f"{crowd.interpreters} interpreters, "
            f"memory {late - early:+} KiB of {late}")


# --- Ends --------------------------------------------------------------------

def end_among_daemons(back_end):
    """What an interpreter of end_many() does."""
    def work(thread):
        for turn in itertools.count():
            work_once(thread, turn)

    def switch():
        while True:
            sys.activate_stack_trampoline(back_end)
            sys.deactivate_stack_trampoline()

    sys.setswitchinterval(1e-4)
    for target, args in ((work, [0]), (work, [1]), (switch, [])):
        threading.Thread(target=target, args=args, daemon=True).start()
    interpreter = interpreters.create()
    interpreters.raise_failure(interpreters.run_string(
        interpreter, "def f(): pass\nf()"))
    time.sleep(random.uniform(0, 0.03))


def end_many(ends):
    for number in range(ends):
        back_end = BACK_ENDS[number % 2]
        options = ["-X", back_end] if number % 4 < 2 else []
        # It ends with an interpreter, of which some bases warn.
        options += ["-W", "ignore:remaining:RuntimeWarning"]
        with subprocess.Popen([sys.executable, *options, __file__,
                               "--end-among-daemons", back_end],
                              stderr=subprocess.PIPE) as process:
            try:
                _, errors = process.communicate(timeout=SECONDS_AN_END)
            except subprocess.TimeoutExpired:
                process.kill()
                sys.exit(f"switch: interpreter {number} does not end")
            finally:
                remove_map(process.pid)
        if process.returncode != 0 or errors:
            sys.exit(f"switch: interpreter {number} ended with "
                     f"{process.returncode}:\n{errors.decode()}")
    return f"{ends} ends among daemon threads"


def remove_map(pid):
    pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60,
                        help="how long to switch, at least (%(default)s)")
    parser.add_argument("--switches", type=int, default=100_000,
                        help="how often to switch, at least (%(default)s)")
    parser.add_argument("--ends", type=int, default=100,
                        help="how many interpreters to end (%(default)s)")
    parser.add_argument("--growth", type=int, default=1024, metavar="KIB",
                        help="memory that may be added (%(default)s)")
    parser.add_argument("--end-among-daemons", metavar="BACK_END",
                        help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.end_among_daemons:
        end_among_daemons(options.end_among_daemons)
        return
    with tempfile.TemporaryDirectory() as directory:
        os.environ["JITDUMPDIR"] = directory
        try:
            print(switch(options.seconds, options.switches, options.growth),
                  flush=True)
            print(end_many(options.ends))
        finally:
            # The file stays open, and nobody wants it.
            remove_map(os.getpid())


if __name__ == "__main__":
    main()
