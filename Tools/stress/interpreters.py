#!/usr/bin/env python3
"""Let interpreters make new functions all at once, while they switch.

Where interpreters have a GIL each, the table of symbols and the file are the
only things that they share.  Each address must have one name then, each name
one address, and no line be torn.  Run it with the interpreter to test.

Called by hand and, for a short time, by Lib/test/test_perf_stress.py.
"""

import argparse
import sys
import threading

from check_map import check_map
from test.support import perf_interpreters as interpreters

FILES = 7

PROGRAM = """\
import sys
for turn in range(3):
    sys.activate_stack_trampoline("perf")
    for number in range({functions}):
        name = f"of_interpreter_{tag}_{{number}}"
        exec(compile(f"def {{name}}(): pass\\n{{name}}()",
                     f"file{{number % {files}}}", "exec"), {{}})
    if turn == 1:
        sys.deactivate_stack_trampoline()
"""


def make_functions(tag, functions, failures):
    interpreter = interpreters.create()
    try:
        interpreters.raise_failure(interpreters.run_string(
            interpreter, PROGRAM.format(tag=tag, functions=functions,
                                        files=FILES)))
    except BaseException as error:
        failures.append(error)
    finally:
        interpreters.destroy(interpreter)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interpreters", type=int, default=6,
                        help="how many at a time (%(default)s)")
    parser.add_argument("--functions", type=int, default=3000,
                        help="of each (%(default)s)")
    options = parser.parse_args()
    sys.activate_stack_trampoline("perf")
    failures = []
    threads = [threading.Thread(target=make_functions,
                                args=(tag, options.functions, failures))
               for tag in range(options.interpreters)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(f"interpreters: one failed: {failures[0]!r}")
    names = check_map(
        f"py::of_interpreter_{tag}_{number}:file{number % FILES}"
        for tag in range(options.interpreters)
        for number in range(options.functions))
    print(f"{names} names of {options.interpreters} interpreters")


if __name__ == "__main__":
    main()
