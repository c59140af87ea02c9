"""Which tasks of asyncio's event loops the time went to.

A task is known by its coroutine, the outermost one on the stack, and so are
all that run the same one: what Task.get_name() says is in no stack.  A
callback is known by its function.  Called by run.py and report.py, below the
table.
"""

from perfpy.fold import LOOP, is_loop, is_loop_helper
from perfpy.profile import NO_STACK, Kind
from perfpy.table import (TABLE_SHARE, fit_place, percent, printable,
                          width_of)

MOST = 12


def seconds_of(profile):
    """Return {frame: seconds} of tasks and callbacks, and of the loop itself.

    Empty if there is no event loop.
    """
    profile = profile.functions()
    frames = [LOOP if is_loop(frame) else frame for frame in profile.frames]
    is_helper = list(map(is_loop_helper, frames))
    found = {}
    owners = []             # of each stack: None outside of loops
    weights = profile.stack_weights()
    for stack, (parent, number) in enumerate(profile.stacks):
        frame = frames[number]
        owner = None if parent == NO_STACK else owners[parent]
        if frame == LOOP:
            owner = LOOP
        elif (owner == LOOP and not is_helper[number]
              and frame.kind is not Kind.INTERPRETER):
            owner = frame
        owners.append(owner)
        if owner and weights[stack]:
            found[owner] = found.get(owner, 0) + weights[stack]
    return found


def write(profile, file):
    """Write a row for each kind of task, if there are tasks."""
    found = seconds_of(profile)
    whole = profile.duration()
    rows = sorted(found.items(), key=lambda item: (-item[1], item[0].name))
    rows = [row for row in rows if row[1] > TABLE_SHARE * whole][:MOST]
    if not any(frame != LOOP for frame, _ in rows):
        return
    names = [printable(frame.name) for frame, _ in rows]
    head = "task, or callback"
    width = max(map(len, [head, *names]))
    columns = width_of(file)
    left = columns and max(columns - 12 - width, 16)
    print(f"{'total':>8}  {head:{width}}  file", file=file)
    for name, (frame, seconds) in zip(names, rows):
        print(f"{percent(seconds, whole)}  {name:{width}}  "
              f"{fit_place(profile, frame, left)}".rstrip(), file=file)
