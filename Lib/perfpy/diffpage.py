"""A page that compares two recordings: a differential flame graph, and lines.

It is the page of both at once, as if they were two threads: the widths are
those of the later one, or of the earlier one if that is chosen, and the
colours say by how much each function has changed there.

Lines are those of the later recording's files.  Those of the earlier one are
compared with them where its file is known: because it has not been changed
since, or because it is another one, which is still there.  Then equal text is
the same line.  Called by diff.py.
"""

import collections
import difflib
import tokenize

from perfpy import classify, html, table
from perfpy.profile import NO_STACK, Profile

AFTER, BEFORE = "after", "before"


MOST_LINES = 20_000         # of a file, to compare it...
FEW_LINES = 2_000           # ...and to do that exactly


def write(before, after, file, has_source=True):
    html.write(combined(before, after), file, has_source=has_source,
               is_diff=True, summary=f"{BEFORE}: {table.summary(before)}; "
               f"{AFTER}: {table.summary(after)}")


def combined(before, after):
    """Return a Profile with a thread for each, of functions by their names."""
    result = Profile()
    result.meta.update(after.meta)
    result.meta["command"] = after.meta.get("command", "profile")
    for name in "command", "started":
        if name in before.meta:
            result.meta[f"{name} {BEFORE}"] = before.meta[name]
    frames = {}             # name and file, wherever that is: Frame
    for number, (name, profile) in enumerate(
            [(AFTER, after), (BEFORE, before)]):
        line_of = None
        if name == BEFORE:
            line_of = _Lines(before, after).line_of
        _add(result, profile, frames,
             result.thread(number, number, name, name), line_of)
    result.end_of_stacks()
    return result


def _add(result, profile, frames, thread, line_of):
    numbers = []
    for frame in profile.frames:
        key = (frame.name, classify.short_file(profile, frame.file),
               frame.kind)
        function = frames.setdefault(key, frame.function)
        line = line_of(frame, function) if line_of else frame.line
        numbers.append(result.add_frame(function._replace(line=line)))
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


class _Lines:
    """Which lines of the later files those of the earlier ones are."""

    def __init__(self, before, after):
        self._before, self._after = before, after
        self._known = {}            # two paths: {line: line}, or None

    def line_of(self, frame, function):
        """Return the line, given the earlier frame and the later function;
        0 if it is in no line there, or nobody knows.
        """
        if not frame.line:
            return 0
        paths = (classify.path_of(self._before, frame.file),
                 classify.path_of(self._after, function.file))
        if paths not in self._known:
            self._known[paths] = _alike(*paths, self._before)
        known = self._known[paths]
        return frame.line if known is None else known.get(frame.line, 0)


def _alike(before, after, profile):
    """Return {line before: line after}, or None if all are the same."""
    try:
        if before == after:
            return {} if classify.has_changed(profile, after) else None
        texts = []
        for path in before, after:
            with tokenize.open(path) as file:
                texts.append(file.read().splitlines())
    except (OSError, SyntaxError, ValueError):
        return {}
    if texts[0] == texts[1]:
        return None
    if max(map(len, texts)) > MOST_LINES:
        return {}
    matcher = difflib.SequenceMatcher(
        None, *texts, autojunk=max(map(len, texts)) > FEW_LINES)
    return {old + number + 1: new + number + 1
            for old, new, size in matcher.get_matching_blocks()
            for number in range(size)}
