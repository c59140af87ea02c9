#!/usr/bin/env python3
"""Let PyTorch compile functions while the trampoline is switched.

torch.compile() installs a frame evaluation function (PEP 523) for as long as a
compiled function runs in any thread.  Threads call compiled functions, with
the back ends "eager" and "aot_eager", that call others which torch leaves to
the interpreter; some of these switch the trampoline, and so does a thread of
its own.  Compares the results with those of the functions as they are, the
labels on the C stack with the functions that run, and what
is_stack_trampoline_active() says with the last switch.

Runs this in processes of their own, off, on all the time, and switched, and
prints a table; fails if one fails.  Called by hand.

usage: Tools/reliability/torch_compile.py --torch DIRECTORY [--install]
                                          [--python PYTHON] [--seconds N]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TORCH = "torch==2.15.0"
MODES = ("off", "perf", "perf_jit", "switched")
THREADS = 3


# --- In a process of its own -------------------------------------------------

def job(mode, seconds):
    import random
    import threading
    import time
    import warnings
    warnings.simplefilter("ignore")
    import _testperf
    import torch
    from test.support.perf_walk import LabelNames, symbol

    counts = dict.fromkeys(["calls", "checks", "shown", "switches", "below"],
                           0)
    counting = threading.Lock()
    wrong = []
    is_switched = mode == "switched"
    random_numbers = threading.local()

    def count(what, number=1):
        with counting:
            counts[what] += number

    if mode == "perf_jit":
        sys.activate_stack_trampoline("perf_jit")
    elif mode != "off":
        sys.activate_stack_trampoline("perf")
    names = LabelNames() if mode in ("perf", "switched") else None

    def compare():
        """Labels are those of running functions, in their order."""
        functions = []
        frame = sys._getframe()
        while frame is not None:
            functions.append(symbol(frame.f_code))
            frame = frame.f_back
        labels = _testperf.labels()
        count("checks")
        if names is None:
            return
        labels = names.of_all(labels)
        rest = iter(functions)
        if not all(label in rest for label in labels):
            wrong.append(f"{labels} of {functions}")
        count("shown", len(labels))

    @torch._dynamo.disable
    def left_alone(x):
        compare()
        if is_switched and random_numbers.own.random() < 0.3:
            count("below")
            if random_numbers.own.random() < 0.5:
                sys.deactivate_stack_trampoline()
            else:
                sys.activate_stack_trampoline("perf")
            compare()
        return x + 1

    def inner(x, n):
        return torch.sin(x) * n if n % 2 else torch.cos(x) + n

    def outer(x, n):
        y = inner(x, n)
        y = left_alone(y)
        for i in range(3):
            y = y + inner(y, i)
        return left_alone(y).sum()

    compiled = [torch.compile(outer, backend=backend, dynamic=dynamic)
                for backend in ("eager", "aot_eager")
                for dynamic in (True, False)]
    end = time.monotonic() + seconds

    def work(seed):
        rng = random_numbers.own = random.Random(seed)
        while time.monotonic() < end and not wrong:
            n = rng.randrange(4)
            x = torch.arange(rng.randrange(1, 5), dtype=torch.float64)
            x.requires_grad_(rng.random() < 0.5)
            function = rng.choice(compiled)
            result = function(x, n)
            expected = outer(x, n)
            if not torch.allclose(result, expected):
                wrong.append(f"{result}, not {expected}")
            if x.requires_grad:
                result.backward()
            count("calls")

    def switch():
        rng = random.Random(0)
        while time.monotonic() < end and not wrong:
            sys.deactivate_stack_trampoline()
            time.sleep(rng.random() / 1000)
            sys.activate_stack_trampoline("perf")
            time.sleep(rng.random() / 1000)
            count("switches", 2)

    def guarded(function, *arguments):
        try:
            function(*arguments)
        except BaseException as error:
            wrong.append(f"{type(error).__name__}: {error}")

    # The first call of each compiles it, for some seconds.
    random_numbers.own = random.Random(0)
    for function in compiled:
        for n in range(4):
            function(torch.ones(3, dtype=torch.float64), n)
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=guarded, args=[work, seed])
               for seed in range(THREADS)]
    if is_switched:
        threads.append(threading.Thread(target=guarded, args=[switch]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_switched = False
    for on in (False, True, False):
        if on:
            sys.activate_stack_trampoline("perf")
        else:
            sys.deactivate_stack_trampoline()
        compiled[0](torch.ones(3, dtype=torch.float64), 1)
        if sys.is_stack_trampoline_active() != on:
            wrong.append(f"active: {not on} after a compiled function")
    if torch._dynamo.utils.counters["frames"]["ok"] < len(compiled):
        wrong.append("torch has compiled nothing")
    print(json.dumps({"wrong": wrong[:3], **counts}))


# --- The processes -----------------------------------------------------------

def run(python, torch, mode, seconds):
    """Return what the job found, or how it ended."""
    with tempfile.TemporaryDirectory() as directory:
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("PYTHON")}
        env.update({
            "PYTHONPATH": os.pathsep.join(
                [str(python.parent / "ext"), str(torch)]),
            "JITDUMPDIR": directory, "TORCHINDUCTOR_CACHE_DIR": directory})
        with subprocess.Popen([python, __file__, "--job", mode,
                               "--seconds", str(seconds)], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE
                              ) as process:
            try:
                out, err = process.communicate(timeout=120 + 10 * seconds)
            except subprocess.TimeoutExpired:
                return {"wrong": ["does not end"]}
            finally:
                process.kill()
                pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(
                    missing_ok=True)
    if process.returncode != 0:
        return {"wrong": [f"exit status {process.returncode}", err[-2000:]]}
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=str(TOP / "build" / "python"))
    parser.add_argument("--torch", type=pathlib.Path, help="where torch is")
    parser.add_argument("--install", action="store_true",
                        help=f"install {TORCH} there, with pip")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        job(args.job, args.seconds)
        return
    if args.torch is None:
        parser.error("--torch DIRECTORY says where torch is")
    if args.install:
        import packages
        result = packages.install_wheels([TORCH], args.python, args.torch)
        if result.returncode != 0:
            sys.exit(f"torch_compile: pip failed:\n{result.stdout[-2000:]}")
    failed = False
    print(f"{'mode':10} {'calls':>7} {'stacks':>7} {'labels':>8} "
          f"{'switches':>8} {'below':>6}")
    for mode in [args.mode] if args.mode else MODES:
        result = run(pathlib.Path(args.python).absolute(),
                     args.torch.absolute(), mode, args.seconds)
        wrong = result.pop("wrong")
        print(f"{mode:10} {result.get('calls', 0):7} "
              f"{result.get('checks', 0):7} {result.get('shown', 0):8} "
              f"{result.get('switches', 0):8} {result.get('below', 0):6}")
        for text in wrong:
            print("   ", text[-300:])
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
