"""perfpy diff: which functions take more of the time in another recording.

Called by cli.py.
"""

import sys

from perfpy import recording, table
from perfpy.profile import Kind


LEAST_CHANGE = 0.005     # share of the time that is worth a line


def shares(profile):
    """Return each function's shares of the time: name: (self, total)."""
    whole = profile.duration() or 1
    result = {}
    for frame, (own, total) in zip(profile.frames, profile.totals()):
        result[frame] = (own / whole, total / whole)
    return result


def changes(before, after, kinds=frozenset({Kind.PYTHON})):
    """Return (frame, shares before, shares after), the largest change first.

    Functions whose shares hardly change are left out.  A share is of the time
    of all samples, so that recordings of different length can be compared.
    """
    absent = (0.0, 0.0)
    before, after = shares(before), shares(after)
    rows = [(frame, before.get(frame, absent), after.get(frame, absent))
            for frame in before.keys() | after.keys() if frame.kind in kinds]
    rows = [(frame, old, new) for frame, old, new in rows
            if max(abs(new[0] - old[0]), abs(new[1] - old[1])) > LEAST_CHANGE]
    rows.sort(key=lambda row: (-abs(row[2][0] - row[1][0]),
                               -abs(row[2][1] - row[1][1]),
                               row[0].name, row[0].file))
    return rows


def write(rows, file, count):
    width = table.width_of(file)
    rows = rows[:count]
    if not rows:
        print("no Python function's share changed", file=file)
        return
    names = [table.printable(frame.name) for frame, _, _ in rows]
    column = min(max(map(len, names + ["function"])), 50)
    print(table.fit(f"{'self':>7} {'before':>7} {'change':>7}   "
                    f"{'total':>7} {'before':>7} {'change':>7}   "
                    f"{'function':{column}}  file", width), file=file)
    for (frame, old, new), name in zip(rows, names):
        numbers = "   ".join(
            f"{100 * now:6.2f}% {100 * then:6.2f}% {100 * (now - then):+6.2f}%"
            for then, now in zip(old, new))
        print(table.fit(f"{numbers}   {name:{column}}  "
                        f"{table.printable(frame.file)}", width), file=file)


def main(options):
    profiles = []
    for path in options.before, options.after:
        try:
            profiles.append(recording.load(path).folded())
        except recording.RecordingError as error:
            print(f"perfpy: {error}", file=sys.stderr)
            return 1
    for path, profile in zip((options.before, options.after), profiles):
        print(f"{path}: {table.summary(profile)}")
    write(changes(*profiles), sys.stdout, options.top)
    return 0
