"""How much time each row of a list of functions stands for.

A row is a function, or several that are shown as one.  Its own time is that of
its code and of all code it calls that has no row: so the own times of all rows
add up to the whole, whatever is shown and whatever is not.

Called by profile.py, table.py and diff.py.  Takes time and memory by the
number of different stacks, of which there may be millions.
"""

import array

from perfpy.profile import NO_STACK

NO_ROW = -1


def of_rows(profile, row_of, closed=(), threads=None):
    """Return (own, total) time of each row.

    row_of   for each frame the number of its row, or NO_ROW
    closed   rows that take all that they call, so that no row is below them

    A row that is in a stack several times counts once for its total.
    """
    rows, owners = _own_rows(profile, row_of, frozenset(closed))
    seconds = profile.stack_weights(threads)
    count = max(row_of, default=NO_ROW) + 1
    own = [0.0] * count
    for owner, weight in zip(owners, seconds):
        if weight and owner != NO_ROW:
            own[owner] += weight
    del owners
    return list(zip(own, _totals(profile.parents, rows, seconds, count)))


def _own_rows(profile, row_of, closed):
    """Return the row of each stack's innermost frame, and who owns its time.
    """
    rows = array.array("i", map(row_of.__getitem__, profile.stack_frames))
    owners = array.array("i")
    add = owners.append
    for stack, (parent, row) in enumerate(zip(profile.parents, rows)):
        if parent != NO_STACK:
            owner = owners[parent]
            if owner in closed:
                rows[stack] = NO_ROW
                row = owner
            elif row == NO_ROW:
                row = owner
        add(row)
    return rows, owners


def _totals(parents, rows, seconds, count):
    """Return the time of each row with all below it; change seconds."""
    children = array.array("i", [NO_STACK]) * len(parents)      # the first
    siblings = array.array("i", [NO_STACK]) * len(parents)      # the next
    root = NO_STACK
    stack = len(parents)
    for parent in reversed(parents):
        stack -= 1
        if parent == NO_STACK:
            siblings[stack], root = root, stack
        else:
            seconds[parent] += seconds[stack]
            siblings[stack] = children[parent]
            children[parent] = stack
    total = [0.0] * count
    active = [0] * count        # how often each is on the way to the stack
    stack = root
    while stack != NO_STACK:
        row = rows[stack]
        if row != NO_ROW:
            if not active[row]:
                total[row] += seconds[stack]
            active[row] += 1
        child = children[stack]
        if child != NO_STACK:
            stack = child
            continue
        while True:
            row = rows[stack]
            if row != NO_ROW:
                active[row] -= 1
            sibling = siblings[stack]
            if sibling != NO_STACK:
                stack = sibling
                break
            stack = parents[stack]
            if stack == NO_STACK:
                return total
    return total
