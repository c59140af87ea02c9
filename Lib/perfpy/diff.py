"""perfpy diff: which functions take more or less time in another recording.

A time is estimated from samples, and so is a change: n samples of weight w
are n * w seconds, off by about sqrt(n) * w.  What changed by many times its
error comes first, for it is the most certain; so a function that is gone comes
before those that called it, whose time shrank by as much but is known less
well.

Called by cli.py.
"""

import math
import sys
import typing

from perfpy import (classify, columns, diffpage, files, output, recording,
                    table, units, walltime)
from perfpy.profile import Frame

SURE = 3.0              # errors by which a change that is listed exceeds 0
LEAST_CHANGE = 0.002    # share of the time that is worth a line

WORSE = 3               # the exit code of --fail-above

# What two recordings should have in common, and what it is called.
ALIKE = {"event": "events", "frequency": "frequencies",
         "period": "shares of events",
         "unwinding": "ways to find callers", "python": "Pythons",
         "perf": "versions of perf", "command": "commands"}


class Change(typing.NamedTuple):
    """A time before and after, with the error of their difference."""

    before: float
    after: float
    error: float

    @property
    def seconds(self):
        return self.after - self.before

    @property
    def certainty(self):
        """How many errors the change is large."""
        return abs(self.seconds) / self.error if self.error else 0

    @property
    def is_sure(self):
        return self.certainty > SURE


class Row(typing.NamedTuple):
    """A function, and how its times changed."""

    frame: Frame
    own: Change
    total: Change


class Times:
    """The times of a recording's functions, and how exact they are."""

    def __init__(self, profile):
        self.profile = profile
        self.whole = profile.duration()
        squares = sum(weight * weight for thread in profile.threads
                      for weight in thread.weights)
        # What a typical sample stands for.
        self.weight = squares / self.whole if self.whole else 0
        self.functions = {}
        choice = table.Choice()
        for row in table.rows_of(profile, choice):
            # Another checkout, or another environment, is no change.
            key = row.frame.name, classify.short_file(profile, row.frame.file)
            own, total = self.functions.get(key, (0, 0))[:2]
            self.functions[key] = (own + row.own, total + row.total,
                                   row.frame, row.origin)


def changes(before, after, only=""):
    """Return the Rows of two Times that changed surely, the surest first."""
    def change(old, new):
        variance = old * before.weight + new * after.weight
        return Change(old, new, math.sqrt(variance))

    choice = table.Choice(only=only)
    least = LEAST_CHANGE * max(before.whole, after.whole)
    rows = []
    for key in before.functions.keys() | after.functions.keys():
        old = before.functions.get(key)
        new = after.functions.get(key)
        frame, origin = (new or old)[2:]
        if frame != table.BEGINNING and not choice.has_row(frame, origin):
            continue
        old, new = old or (0, 0), new or (0, 0)
        row = Row(frame, change(old[0], new[0]), change(old[1], new[1]))
        if any(part.is_sure and abs(part.seconds) > least
               for part in (row.own, row.total)):
            rows.append(row)
    rows.sort(key=lambda row: (
        -max(row.own.certainty, row.total.certainty),
        -abs(row.total.seconds), row.frame[:2]))
    return rows, change(before.whole, after.whole)


def relative(change):
    """Return a sure change as a share of what was before."""
    if not change.is_sure:
        return ""
    if not change.before:
        return "new" if change.after else ""
    if not change.after:
        return "gone"
    return f"{100 * change.seconds / change.before:+.0f} %"


def seconds_text(change, unit):
    """Return a change with its error, but nothing if nothing was there."""
    if not (change.before or change.after):
        return ""
    if unit:
        return f"{change.seconds:+,.0f} ±{change.error:,.0f}"
    return f"{change.seconds:+.2f} ±{change.error:.2f}"


def write(rows, profile, file, count):
    """Write the table of changes; profile is the later one."""
    width = table.width_of(file)
    unit = profile.meta.get("unit", "")
    shown = rows[:count]
    if not shown:
        print("no function changed by more than the error of the estimate",
              file=file)
        return
    cells = [(seconds_text(row.total, unit), relative(row.total),
              seconds_text(row.own, unit), relative(row.own))
             for row in shown]
    name_unit = unit or "s"
    head = (f"total ({name_unit})", "", f"self ({name_unit})", "")
    widths = [max(map(len, column)) for column in zip(head, *cells)]
    names = [table.printable(row.frame.name) for row in shown]
    name_width = min(max(map(columns.count, [*names, "function"])),
                     table.WIDEST_NAME)
    left = width and max(width - sum(widths) - 8 - name_width - 2,
                         table.NARROWEST_FILE)
    def line(cells):
        return "  ".join(cell.rjust(size)
                         for cell, size in zip(cells, widths))
    print(f"{line(head)}  {'function':{name_width}}  file", file=file)
    for row, name, texts in zip(shown, names, cells):
        place = table.fit_file(profile, row.frame.file, left)
        print(f"{line(texts)}  {table.fit_name(name, name_width, width)}  "
              f"{place}".rstrip(), file=file)
    if len(rows) > len(shown):
        print(f"and {table.count_of(len(rows) - len(shown), 'other')}, "
              "see --top", file=file)


def differences(before, after):
    """Yield how two recordings were made differently, for the user."""
    if walltime.is_wall(before) != walltime.is_wall(after):
        yield ("one recording is of wall-clock time, with --wall, and the "
               "other is not")
    for name, noun in ALIKE.items():
        old, new = before.meta.get(name), after.meta.get(name)
        if old != new:
            yield (f"the recordings have different {noun}: "
                   f"{old or 'unknown'} and {new or 'unknown'}")


def is_worse(rows, whole, share):
    """Return whether something surely takes longer by more than the share."""
    limit = share * whole.before
    return any(part.is_sure and part.seconds > limit
               for part in (whole, *(row.total for row in rows)))


def main(options):
    profiles = []
    for path in options.before, options.after:
        try:
            profiles.append(recording.load(path))
        except recording.RecordingError as error:
            print(f"perfpy: {error}", file=sys.stderr)
            return 1
    before, after = profiles
    if options.output:
        try:
            output.check_page(options.output)
        except output.OutputError as error:
            print(f"perfpy: {error}", file=sys.stderr)
            return 1
    for path, profile in zip((options.before, options.after), profiles):
        print(f"{path}: {table.summary(profile)}")
    if before.meta.get("unit") != after.meta.get("unit"):
        print(f"perfpy: {units.noun(before)} cannot be compared with "
              f"{units.noun(after)}", file=sys.stderr)
        return 1
    for line in differences(before, after):
        print(f"perfpy: {line}", file=sys.stderr)
    rows, whole = changes(Times(before), Times(after), options.only)
    unit = after.meta.get("unit", "")
    print(f"change: {seconds_text(whole, unit)} "
          f"{'' if unit else 's of '}{units.noun(after)}"
          + (f", {relative(whole)}" if whole.is_sure else ""))
    write(rows, after, sys.stdout, options.top)
    if options.output:
        try:
            with files.replaced(options.output) as new, open(
                    new, "wb") as file:
                diffpage.write(before, after, file,
                               not options.no_source)
        except OSError as error:
            print(f"perfpy: {error}", file=sys.stderr)
            return 1
        print(f"perfpy: Open {options.output} in a browser.", file=sys.stderr)
    if (options.fail_above is not None
            and is_worse(rows, whole, options.fail_above)):
        print(f"perfpy: slower than before by more than "
              f"{options.fail_above:.1%} of its time", file=sys.stderr)
        return WORSE
    return 0
