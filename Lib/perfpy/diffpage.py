"""A page that compares two recordings: a differential flame graph.

It is the page of both at once, as if they were two threads: the widths are
those of the later one, or of the earlier one if that is chosen, and the
colours say by how much each function has changed there.  Called by diff.py.
"""

import collections

from perfpy import classify, html, table
from perfpy.profile import NO_STACK, Profile

AFTER, BEFORE = "after", "before"


def write(before, after, file):
    html.write(combined(before, after), file, has_source=False, is_diff=True)


def combined(before, after):
    """Return a Profile with a thread for each, of functions by their names."""
    result = Profile()
    result.meta.update(after.meta)
    result.meta["command"] = after.meta.get("command", "profile")
    frames = {}             # name and file, wherever that is: Frame
    for number, (name, profile) in enumerate(
            [(AFTER, after), (BEFORE, before)]):
        profile = profile.functions()
        if name == BEFORE:
            result.meta["before"] = table.summary(profile)
        _add(result, profile, frames,
             result.thread(number, number, name, name))
    result.end_of_stacks()
    return result


def _add(result, profile, frames, thread):
    numbers = []
    for frame in profile.frames:
        key = (frame.name, classify.short_file(profile, frame.file),
               frame.kind)
        numbers.append(result.add_frame(frames.setdefault(key, frame)))
    place = []
    for parent, frame in profile.stacks:
        above = NO_STACK if parent == NO_STACK else place[parent]
        place.append(result.add_stack(above, numbers[frame]))
    weights = collections.Counter()
    for each in profile.threads:
        for stack, weight in zip(each.stacks, each.weights):
            weights[NO_STACK if stack == NO_STACK else place[stack]] += weight
    for stack, weight in sorted(weights.items()):
        thread.add_sample(0, stack, weight)
