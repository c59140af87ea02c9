"""Whether a map that many have written to at a time is whole.

Used by interpreters.py and threads.py.
"""

import os
import sys


def check_map(expected):
    """Exit unless this process's map has one line for each symbol, each with
    an address of its own, and all that are expected.  Return their number."""
    with open(f"/tmp/perf-{os.getpid()}.map") as file:
        lines = [line.rstrip("\n").split(" ", 2) for line in file]
    torn = [line for line in lines if len(line) != 3]
    addresses = {line[0] for line in lines}
    names = {line[-1] for line in lines}
    missing = set(expected) - names
    if torn or missing or not len(lines) == len(addresses) == len(names):
        sys.exit(f"check_map: {len(lines)} lines, {len(torn)} torn, "
                 f"{len(addresses)} addresses, {len(names)} names, "
                 f"{len(missing)} missing")
    return len(names)
