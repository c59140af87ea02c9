"""What a terminal shows: a table of functions, and a tree of calls."""

import fnmatch
import linecache
import shutil
import typing

from perfpy import (classify, columns, marks, rundelay, totals, units,
                    walltime)
from perfpy.classify import LABELS, Origin
from perfpy.fold import LOOP, is_import, is_loop
from perfpy.formats import thread_name
from perfpy.marks import START_UP
from perfpy.profile import NO_STACK, Frame, Kind

# Shares of the time that are not worth a line.
TABLE_SHARE = 0.01
TREE_SHARE = 0.02

WIDEST_NAME = 50
NARROWEST_FILE = 16

# A program that runs for less of the time than this mostly waits.
MOSTLY_WAITING = 0.5

# Of the time for which a program could run, if others did not.
MUCH_QUEUED = 0.1

MOST_THREADS = 12
MOST_HOLDERS = 3

MINE = "mine"

# The program's own functions cause so much more than they take.
MOSTLY_OTHERS = 2

# How a program begins, which is one row unless asked for.
BEGINNING = Frame("(start-up and imports)", "see --imports", Kind.MARK)


def printable(text):
    """Escape what could move the cursor: names come from anywhere."""
    return "".join(
        char if char.isprintable()
        else char.encode("unicode_escape").decode("ascii") for char in text)


def percent(part, whole):
    return f"{100 * part / whole if whole else 0:6.2f} %"


def fit_place(profile, frame, width):
    """Return the file's name and the line, which is known for some."""
    if not frame.line:
        return fit_file(profile, frame.file, width)
    line = f":{frame.line}"
    place = fit_file(profile, frame.file, width and width - len(line)) + line
    # A long name leaves room for the line, rather than the other way round.
    return columns.end(place, width) if width else place


def fit_file(profile, file, width):
    """Return the file's name, shortened from the front to a width."""
    shown = printable(file)
    if width is None or columns.count(shown) <= width:
        return shown
    shown = printable(classify.short_file(profile, file))
    while columns.count(shown) > width:
        _, slash, shown = shown.removeprefix("…/").partition("/")
        if not slash:       # the name alone is too long: nobody can help it
            return printable(file).rpartition("/")[2]
        shown = "…/" + shown
    return shown


def width_of(file):
    """Return the columns of a terminal, or None for any other file."""
    return shutil.get_terminal_size().columns if file.isatty() else None


def count_of(number, noun, plural="s"):
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def summary(profile):
    """Return one line that says how much there is."""
    samples = sum(len(thread.times) for thread in profile.threads)
    processes = len({thread.pid for thread in profile.threads})
    amount = units.amount(profile, profile.duration())
    if "unit" in profile.meta:
        amount = amount.removesuffix(" " + profile.meta["unit"])
        text = f"{amount} {units.noun(profile)}"
    else:
        text = f"{amount} of {units.noun(profile)},"
    text = (f"{count_of(samples, 'sample')}, {text.rstrip(',')}"
            f"{_elapsed(profile)}, in "
            f"{count_of(len(profile.threads), 'thread')} of "
            f"{count_of(processes, 'process', 'es')}")
    if _is_mostly_waiting(profile):
        text += "; mostly waiting, which is not in the profile"
    return text


def _elapsed(profile):
    seconds = float(profile.meta.get("duration", 0))
    queued = float(profile.meta.get("queued", 0))
    text = f" in {seconds:.2f} s" if seconds else ""
    if queued > MUCH_QUEUED * seconds:
        text += f" ({queued:.2f} s of it waiting for a processor)"
    return text


def _is_mostly_waiting(profile):
    seconds = (float(profile.meta.get("duration", 0))
               - float(profile.meta.get("queued", 0)))
    return (units.noun(profile) == "CPU time"
            and profile.duration() < MOSTLY_WAITING * seconds)


class Row(typing.NamedTuple):
    """A line of the table."""

    frame: Frame
    own: float
    total: float
    origin: Origin


class Choice(typing.NamedTuple):
    """Which functions have rows, and in which order."""

    sort: str = "self"      # or "total" or "name"
    native: bool = False    # functions of libraries and the kernel, too
    only: str = ""          # "mine", or a pattern of names or files
    imports: bool = False   # what runs before the program and in its imports
    top: int | None = 15    # how many rows, or None for all
    lines: bool = False     # a row for each line of a function
    loops: bool = False     # the functions of event loops, too

    def has_row(self, frame, origin):
        if frame.kind is Kind.MARK:
            return not self.only
        if frame.kind is Kind.WAIT:
            return False        # it is the time of the function that waits
        if frame.kind is not Kind.PYTHON and not (
                self.native and frame.kind is not Kind.INTERPRETER):
            return False
        if self.only == MINE:
            return origin is Origin.OWN
        return not self.only or matches(self.only, frame)


def _name_of(row):
    return row.frame.name, row.frame.file, row.frame.line


_ORDER = {
    "self": lambda row: (-row.own, -row.total, _name_of(row)),
    "total": lambda row: (-row.total, -row.own, _name_of(row)),
    "name": _name_of,
}
SORTS = tuple(_ORDER)


def matches(pattern, frame):
    """Return whether a pattern, as a shell has it, is in a name or file."""
    pattern = f"*{pattern.lower()}*"
    return (fnmatch.fnmatchcase(frame.name.lower(), pattern)
            or fnmatch.fnmatchcase(frame.file.lower(), pattern))


def rows_of(profile, choice):
    """Return all Rows in the order of the choice.

    The interpreter's own functions have none, so that their time counts for
    the Python function that they work for, as that of all which is not chosen
    does.
    """
    if not choice.lines:
        profile = profile.functions()
    if choice.native:       # without the way into the interpreter
        profile = profile.folded()
    origins = classify.origins(profile)
    row_of, frames = [], []
    shared = {}             # rows of several functions

    def share(frame):
        if frame not in shared:
            shared[frame] = len(frames)
            frames.append((frame, Origin.MARK))
        return shared[frame]

    for frame, origin in zip(profile.frames, origins):
        if not choice.imports and (is_import(frame)
                                   or frame == START_UP):
            row_of.append(share(BEGINNING))
        elif not (choice.loops or choice.only) and is_loop(frame):
            row_of.append(share(LOOP))
        elif choice.has_row(frame, origin):
            row_of.append(len(frames))
            frames.append((frame, origin))
        else:
            row_of.append(totals.NO_ROW)
    closed = [shared[frame] for frame in shared if frame == BEGINNING]
    times = totals.of_rows(profile, row_of, closed)
    rows = [Row(frame, own, total, origin) for (frame, origin), (own, total)
            in zip(frames, times) if total]
    rows.sort(key=_ORDER[choice.sort])
    return rows


def write_functions(profile, file, choice=Choice()):
    """Write the table of the hottest functions of a profile."""
    whole = profile.duration()
    rows = rows_of(profile, choice)
    shown = [row for row in rows if row.total > TABLE_SHARE * whole]
    shown = shown[:choice.top]
    chosen = [row for row in rows if row.frame != BEGINNING or not choice.only]
    if not any(row in chosen for row in shown):
        what = "such" if choice.only else "Python"
        print(f"no {what} function in any sample" if not chosen else
              f"no {what} function has {TABLE_SHARE:.0%} of the time",
              file=file)
        return
    width = width_of(file)
    names = [printable(row.frame.name) for row in shown]
    widest = WIDEST_NAME
    if width:
        widest = max(20, min(widest, (width - 29) // 2))
    name_width = min(max(map(columns.count, names + ["function"])), widest)
    code_width = max(len(LABELS[row.origin]) for row in shown)
    code_width = max(code_width, len("code"))
    left = width and max(
        width - 19 - code_width - 2 - name_width - 2, NARROWEST_FILE)
    print(f"{'self':>8} {'total':>8}  {'code':{code_width}}  "
          f"{'function':{name_width}}  file", file=file)
    for row, name in zip(shown, names):
        print(f"{percent(row.own, whole)} {percent(row.total, whole)}  "
              f"{LABELS[row.origin]:{code_width}}  "
              f"{fit_name(name, name_width, width)}  "
              f"{fit_place(profile, row.frame, left)}".rstrip(),
              file=file)
        if row.frame.line and (text := _text_of(profile, row.frame)):
            text = printable(text)
            if width:
                text = columns.start(text, max(width - 22, 10))
            print(" " * 21 + text, file=file)
    _write_rest(shown, rows, whole, file,
                "elsewhere" if choice.only else "without a Python function")
    for name in sorted({row.frame.file for row in shown if row.frame.line}):
        if _has_changed(profile, name):
            print(f"{printable(name)} has changed since the recording",
                  file=file)


def _text_of(profile, frame):
    """Return the text of a line, as the file has it now."""
    path = classify.path_of(profile, frame.file)
    try:
        return linecache.getline(path, frame.line).strip()
    except (OSError, ValueError):
        return ""


def _has_changed(profile, file):
    try:
        return classify.has_changed(profile, classify.path_of(profile, file))
    except (OSError, ValueError):
        return False


def write_threads(profile, file, count=MOST_THREADS):
    """Write what the threads of a profile of wall-clock time did.

    Those that waited for the GIL come with those that had it meanwhile.
    """
    if not walltime.is_wall(profile):
        return
    found = sorted(zip(walltime.states_of(profile), profile.threads),
                   key=lambda item: (-item[0][0], -sum(item[0])))
    width = max(map(len, walltime.HEADS)) + 2
    heads = ["wall", *walltime.HEADS]
    if not any(seconds[-1] for seconds, _ in found):
        heads.pop()
    print("".join(f"{head:>{width}}" for head in heads) + "  thread",
          file=file)
    for seconds, thread in found[:count]:
        whole = sum(seconds)
        print(f"{whole:{width - 2}.2f} s"
              + "".join(f"{100 * part / (whole or 1):{width - 2}.1f} %"
                        for part in seconds[:len(heads) - 1])
              + f"  {printable(thread_name(thread))}", file=file)
    if len(found) > count:
        print(f"and {count_of(len(found) - count, 'other')}", file=file)
    _write_holders(profile, found[:count], file)
    _write_run_delay(profile, found, file)


def _write_holders(profile, found, file):
    """Write for those that waited for the GIL who had it meanwhile."""
    names = {thread.tid: f"{thread.name or 'thread'} {thread.tid}"
             for thread in profile.threads}
    holders = walltime.holders(profile)
    for seconds, thread in found:
        meanwhile = holders.get((thread.pid, thread.tid), {})
        whole = sum(meanwhile.values())
        if seconds[1] < TABLE_SHARE * sum(seconds) or not whole:
            continue
        shares = sorted(meanwhile.items(), key=lambda item: -item[1])
        texts = [f"{names.get(tid, 'none that ran')} {share / whole:.0%}"
                 for tid, share in shares[:MOST_HOLDERS]
                 if share > TABLE_SHARE * whole]
        print(printable(f"while {names[thread.tid]} waited for the GIL, it "
                        f"was with: {', '.join(texts) or 'many threads'}"),
              file=file)


def _write_run_delay(profile, found, file):
    """Write what is hidden in waits, if nothing told when they ended."""
    ready = 1 + walltime.STATES.index(marks.READY)
    delays = rundelay.of(profile)
    hidden = []
    for seconds, thread in found:
        more = delays.get((thread.pid, thread.tid), 0) - seconds[ready]
        if more > TABLE_SHARE * sum(seconds):
            hidden.append((more, thread))
    hidden.sort(key=lambda item: -item[0])
    if hidden:
        texts = [f"{more:.2f} s of {thread.name or 'thread'} {thread.tid}"
                 for more, thread in hidden[:MOST_HOLDERS]]
        print(printable("without permission to trace the machine, time from "
                        "the end of a wait until there is a processor counts "
                        f"as waiting: {', '.join(texts)}"), file=file)


def is_elsewhere(profile):
    """Return whether the program's own code causes more than it does."""
    def seconds(only):
        return sum(row.own for row in rows_of(profile, Choice(only=only))
                   if row.origin is Origin.OWN)
    return MOSTLY_OTHERS * seconds("") < seconds(MINE)


def fit_name(name, name_width, width):
    if width:
        name = columns.end(name, name_width)    # which tells it from others
    return columns.pad(name, name_width)


def _write_rest(shown, rows, whole, file, outside_text):
    """Write what the rows that are shown do not stand for."""
    missing = len(rows) - len(shown)
    rest = sum(row.own for row in rows) - sum(row.own for row in shown)
    outside = whole - sum(row.own for row in rows)
    if missing:
        print(f"{percent(rest, whole)} {'':8}  "
              f"in {count_of(missing, 'other function')}", file=file)
    if outside > 0.00005 * whole:
        print(f"{percent(outside, whole)} {'':8}  {outside_text}", file=file)


def write_tree(profile, file, share=TREE_SHARE):
    """Write who calls whom, with the share of time, outermost first."""
    whole = profile.duration()
    width = width_of(file)
    seconds = profile.stack_weights()
    children = {}
    for stack in range(len(profile.stacks) - 1, -1, -1):
        parent = profile.parents[stack]
        children.setdefault(parent, []).append(stack)
        if parent != NO_STACK:
            seconds[parent] += seconds[stack]
    pending = [(stack, 0) for stack in sorted(
        children.get(NO_STACK, ()), key=seconds.__getitem__)]
    while pending:
        stack, depth = pending.pop()
        if seconds[stack] < share * whole:
            continue
        frame = profile.frames[profile.stack_frames[stack]]
        line = (f"{percent(seconds[stack], whole)}  {'  ' * depth}"
                f"{printable(frame.name)}")
        if frame.file:
            left = width and max(width - columns.count(line) - 4,
                                 NARROWEST_FILE)
            line += f"  ({fit_place(profile, frame, left)})"
        print(line, file=file)
        pending.extend((child, depth + 1) for child in sorted(
            children.get(stack, ()), key=seconds.__getitem__))
