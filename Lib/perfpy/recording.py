"""Keep a Profile in a file, from which every format can be made at any time.

Such a *recording* needs nothing besides: neither perf's own data, whose names
are in files in /tmp that others remove, nor the machine it was made on.

It is text compressed by gzip, one JSON value a line: first {"perfpy": 2,
"meta": {...}}; then any number of {"frames": [[name, file, kind], ...]}, in
which a line of a function has its number as fourth item, and
{"stacks": [distances, frames]}; then, for each thread, {"thread": [pid, tid,
process name, name]} followed by any number of {"samples": [times, stacks,
weights]}, times as nanoseconds since the sample before, weights in
nanoseconds.  A distance is by how much the number of the stack's parent, -1
for none, is smaller than its own.

In version 1, which is still read, it was {"stacks": [[parent, frame], ...]}.
"""

import array
import gzip
import itertools
import json
import operator
import zlib

from perfpy import files
from perfpy.profile import NO_STACK, Frame, Kind, Profile

VERSION = 2
SUFFIX = ".perfpy"
CHUNK = 10_000      # items a line


class RecordingError(Exception):
    """The file is no recording, or unreadable.  The text is for the user."""


def _chunks(items):
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk


def _nanoseconds(seconds):
    return round(seconds * 1e9)


def _lines(profile):
    yield {"perfpy": VERSION, "meta": profile.meta}
    for frames in _chunks(profile.frames):
        yield {"frames": [[frame.name, frame.file, frame.kind.value,
                           *([frame.line] if frame.line else ())]
                          for frame in frames]}
    for start in range(0, len(profile.stacks), CHUNK):
        part = slice(start, start + CHUNK)
        yield {"stacks": [
            [stack - parent for stack, parent
             in enumerate(profile.parents[part], start)],
            list(profile.stack_frames[part])]}
    for thread in profile.threads:
        yield {"thread": [thread.pid, thread.tid, thread.process_name,
                          thread.name]}
        before = 0
        for start in range(0, len(thread.times), CHUNK):
            part = slice(start, start + CHUNK)
            times = [_nanoseconds(time) for time in thread.times[part]]
            yield {"samples": [
                [time - previous for previous, time
                 in zip(itertools.chain([before], times), times)],
                list(thread.stacks[part]),
                [_nanoseconds(weight) for weight in thread.weights[part]]]}
            before = times[-1]


def save(profile, path):
    """Write the profile to a file, which is there in whole or not at all."""
    with (files.replaced(path) as name,
          gzip.open(name, "wt", encoding="ascii", compresslevel=6) as file):
        for line in _lines(profile):
            json.dump(line, file, separators=(",", ":"))
            file.write("\n")


def load(path):
    """Return the Profile in a file; raise RecordingError."""
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            return _parse(json.loads(line) for line in file)
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, TypeError,
            AttributeError, KeyError, IndexError, OverflowError) as error:
        raise RecordingError(
            f"{path}: not a recording of perfpy, or damaged") from error
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error


def _parse(values):
    head = next(values, {})
    version = head["perfpy"]
    if version not in (1, VERSION):
        raise ValueError("version")
    profile = Profile()
    profile.meta.update({str(name): str(value)
                         for name, value in head["meta"].items()})
    thread = None
    for value in values:
        ((what, items),) = value.items()
        if what == "frames":
            for name, file, kind, *line in items:
                profile.add_frame(Frame(str(name), str(file), Kind(kind),
                                        *map(int, line)))
        elif what == "stacks":
            if version == 1:
                distances = [stack - parent for stack, (parent, _)
                             in enumerate(items, len(profile.stacks))]
                items = distances, [frame for _, frame in items]
            _add_stacks(profile, *items)
        elif what == "thread":
            thread = profile.thread(*items)
        elif what == "samples":
            _add_samples(profile, thread, *items)
        else:
            raise ValueError(what)
    return profile


def _add_stacks(profile, distances, frames):
    first = len(profile.stacks)
    if len(distances) != len(frames) or not frames:
        raise ValueError("stacks")
    parents = array.array("i", map(operator.sub, itertools.count(first),
                                   distances))
    if not (min(distances) > 0 and min(parents) >= NO_STACK
            and 0 <= min(frames) and max(frames) < len(profile.frames)):
        raise ValueError("stack")
    profile.extend_stacks(parents, frames)


def _add_samples(profile, thread, times, stacks, weights):
    if not len(times) == len(stacks) == len(weights):
        raise ValueError("samples")
    if not all(NO_STACK <= stack < len(profile.stacks) for stack in stacks):
        raise ValueError("stack")
    now = thread.times[-1] if thread.times else 0
    base = _nanoseconds(now)
    for distance, stack, weight in zip(times, stacks, weights):
        base += distance
        thread.add_sample(base / 1e9, stack, weight / 1e9)
