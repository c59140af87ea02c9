"""Collapsed stacks: a line for each different stack, with its weight.

The input of flamegraph.pl, inferno and many others: the names from the
outermost to the innermost, separated by semicolons, then a space and a whole
number, here microseconds, or how often an event happened.  The first name is
the thread's.  Functions of the kernel end in ``_[k]``, by which flamegraph.pl
colours them.
"""

import collections

from perfpy.formats import function_name, thread_name
from perfpy.profile import Kind

# What separates names, stacks and numbers must not be in a name.
_HARMLESS = {ord(";"): ":", **dict.fromkeys([*range(32), 127], " ")}


def _clean(name):
    # splitlines() of some readers knows more line ends than these.
    name = " ".join(name.translate(_HARMLESS).splitlines())
    return name or "?"


def write(profile, file):
    scale = 1 if "unit" in profile.meta else 1e6
    names = []
    for frame in profile.frames:
        kernel = "_[k]" if frame.kind is Kind.KERNEL else ""
        names.append(_clean(function_name(frame)) + kernel)
    for thread in profile.threads:
        seconds = collections.Counter()
        for stack, weight in zip(thread.stacks, thread.weights):
            seconds[stack] += weight
        root = _clean(thread_name(thread))
        for stack, weight in seconds.items():
            path = [root, *map(names.__getitem__, profile.frames_of(stack))]
            text = f"{';'.join(path)} {round(weight * scale)}\n"
            file.write(text.encode("utf-8", "backslashreplace"))
