"""Which tasks of asyncio's event loops the time went to.

A task is known by its coroutine, the outermost one on the stack, and by its
name if that was chosen; all that have both in common are one kind.  A callback
is known by its function.  Called by run.py and report.py, below the table.
"""

from perfpy import columns
from perfpy.fold import LOOP, is_loop, is_loop_helper
from perfpy.marks import kind_of_task
from perfpy.profile import NO_STACK, Kind
from perfpy.table import (TABLE_SHARE, fit_name, fit_place, percent,
                          printable, width_of)

MOST = 12


def seconds_of(profile):
    """Return {(name, frame): seconds} of tasks, callbacks and the loop itself.

    The name is None if there is none.  Empty if there is no event loop.
    """
    profile = profile.functions()
    frames = [LOOP if is_loop(frame) else frame for frame in profile.frames]
    is_helper = list(map(is_loop_helper, frames))
    loop = (None, LOOP)
    found = {}
    owners = []             # of each stack: None outside of loops
    weights = profile.stack_weights()
    for stack, (parent, number) in enumerate(profile.stacks):
        frame = frames[number]
        owner = None if parent == NO_STACK else owners[parent]
        if frame == LOOP:
            owner = loop
        elif (owner is not None and owner[1] in (LOOP, None)
              and not is_helper[number]
              and frame.kind is not Kind.INTERPRETER):
            name = kind_of_task(frame)
            owner = (owner[0], frame) if name is None else (name, None)
        owners.append(owner)
        if owner and weights[stack]:
            found[owner] = found.get(owner, 0) + weights[stack]
    return found


def _name(owner):
    name, frame = owner
    if frame is None:
        return printable(name)
    return printable(frame.name if name is None else f"{name}: {frame.name}")


def write(profile, file):
    """Write a row for each kind of task, if there are tasks."""
    found = seconds_of(profile)
    whole = profile.duration()
    rows = sorted(((_name(owner), owner[1], seconds)
                   for owner, seconds in found.items()
                   if seconds > TABLE_SHARE * whole),
                  key=lambda row: (-row[2], row[0]))[:MOST]
    if all(frame == LOOP for _, frame, _ in rows):
        return
    head = "task, or callback"
    names = [name for name, _, _ in rows]
    name_width = max(map(columns.count, [head, *names]))
    width = width_of(file)
    if width:
        name_width = min(name_width, max(len(head), width // 2))
    left = width and max(width - 12 - name_width, 16)
    print(f"{'total':>8}  {head:{name_width}}  file", file=file)
    for name, frame, seconds in rows:
        place = fit_place(profile, frame, left) if frame else ""
        print(f"{percent(seconds, whole)}  "
              f"{fit_name(name, name_width, width)}  {place}".rstrip(),
              file=file)
