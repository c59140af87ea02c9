"""JSON for speedscope: each thread's samples in the order of time.

Equal neighbours are one sample with the sum of their weights.  Time in which
a thread did not run takes no room, so shares are shares of the running time.
"""

import itertools
import json

from perfpy.formats import function_name, thread_name, title
from perfpy.profile import Kind

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write(profile, file):
    frames = []
    for frame in profile.frames:
        name = (frame.name if frame.kind is Kind.PYTHON
                else function_name(frame))
        place = {"line": frame.line} if frame.line else {}
        frames.append({"name": name, "file": frame.file, **place})
    beginning = {
        "$schema": SCHEMA,
        "name": title(profile),
        "exporter": "perfpy",
        "activeProfileIndex": _busiest(profile.threads),
        "shared": {"frames": frames},
    }
    _write_json(file, beginning, end=',"profiles":[')
    for number, thread in enumerate(profile.threads):
        _write_thread(profile, thread, file, separator="," if number else "")
    file.write(b"]}\n")


def _busiest(threads):
    return max(range(len(threads)),
               key=lambda number: sum(threads[number].weights), default=0)


def _write_json(file, members, end):
    """Write an object that stays open."""
    file.write((json.dumps(members, separators=(",", ":"))[:-1]
                + end).encode("ascii"))


def _write_thread(profile, thread, file, separator):
    """Write a thread sample by sample: all at once would be too much."""
    file.write(separator.encode("ascii"))
    weights = []
    _write_json(file, {"type": "sampled", "name": thread_name(thread),
                       "unit": ("none" if "unit" in profile.meta
                                else "seconds"), "startValue": 0,
                       "endValue": sum(thread.weights)}, end=',"samples":[')
    samples = zip(thread.stacks, thread.weights)
    for stack, group in itertools.groupby(samples, key=lambda pair: pair[0]):
        text = json.dumps(profile.frames_of(stack), separators=(",", ":"))
        file.write((f",{text}" if weights else text).encode("ascii"))
        weights.append(sum(weight for _, weight in group))
    text = json.dumps(weights, separators=(",", ":"))
    file.write(f'],"weights":{text}}}'.encode("ascii"))
