"""What a terminal shows: a table of functions, and a tree of calls."""

import shutil

from perfpy.profile import NO_STACK, Kind

# Shares of the time that are not worth a line.
TABLE_SHARE = 0.01
TREE_SHARE = 0.02


def printable(text):
    """Escape what could move the cursor: names come from anywhere."""
    return "".join(
        char if char.isprintable()
        else char.encode("unicode_escape").decode("ascii") for char in text)


def percent(part, whole):
    return f"{100 * part / whole if whole else 0:6.2f} %"


def fit(line, width):
    if width and len(line) > width:
        return line[:width - 1] + "…"
    return line


def width_of(file):
    """Return the columns of a terminal, or None for any other file."""
    return shutil.get_terminal_size().columns if file.isatty() else None


def summary(profile):
    """Return one line that says how much there is."""
    samples = sum(len(thread.times) for thread in profile.threads)
    processes = len({thread.pid for thread in profile.threads})
    return (f"{samples:,} samples, {profile.duration():.2f} s of CPU time, in "
            f"{_count(len(profile.threads), 'thread')} of "
            f"{_count(processes, 'process', 'es')}")


def _count(number, noun, plural="s"):
    return f"{number} {noun}{'' if number == 1 else plural}"


def functions(profile, count, kinds=frozenset({Kind.PYTHON})):
    """Return the frames with most time of their own, with their times."""
    least = TABLE_SHARE * profile.duration()
    rows = [(own, total, frame) for (own, total), frame
            in zip(profile.totals(), profile.frames)
            if frame.kind in kinds and total > least]
    rows.sort(key=lambda row: (-row[0], -row[1], row[2].name, row[2].file))
    return rows[:count]


def write_functions(profile, file, count):
    """Write the table of the hottest Python functions of a folded profile."""
    whole = profile.duration()
    width = width_of(file)
    rows = functions(profile, count)
    if not rows:
        print("no Python function in any sample", file=file)
        return
    names = [printable(frame.name) for _, _, frame in rows]
    column = min(max(map(len, names + ["function"])), 50)
    print(fit(f"{'self':>8} {'total':>8}  {'function':{column}}  file",
              width), file=file)
    for (own, total, frame), name in zip(rows, names):
        print(fit(f"{percent(own, whole)} {percent(total, whole)}  "
                  f"{name:{column}}  {printable(frame.file)}", width),
              file=file)


def write_tree(profile, file, share=TREE_SHARE):
    """Write who calls whom, with the share of time, outermost first."""
    whole = profile.duration()
    width = width_of(file)
    seconds = profile.stack_weights()
    children = {}
    for stack in range(len(profile.stacks) - 1, -1, -1):
        parent = profile.stacks[stack][0]
        children.setdefault(parent, []).append(stack)
        if parent != NO_STACK:
            seconds[parent] += seconds[stack]
    pending = [(stack, 0) for stack in sorted(
        children.get(NO_STACK, ()), key=seconds.__getitem__)]
    while pending:
        stack, depth = pending.pop()
        if seconds[stack] < share * whole:
            continue
        frame = profile.frames[profile.stacks[stack][1]]
        print(fit(f"{percent(seconds[stack], whole)}  {'  ' * depth}"
                  f"{printable(frame.name)}  ({printable(frame.file)})",
                  width), file=file)
        pending.extend((child, depth + 1) for child in sorted(
            children.get(stack, ()), key=seconds.__getitem__))
