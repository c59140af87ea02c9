"""Frames that are no functions, but say what a stack is.

Put into stacks by perfscript.py, wholestacks.py and walltime.py.
"""

from perfpy.profile import Frame, Kind

# Outermost: callers are beyond what was recorded, ...
CUT = Frame("(cut)", "", Kind.MARK)
# ... or there is no Python function because of what the interpreter does, or
# for a reason that nobody knows.
START_UP = Frame("(start-up)", "", Kind.MARK)
SHUTDOWN = Frame("(shutdown)", "", Kind.MARK)
NO_CALLERS = Frame("(no callers)", "", Kind.MARK)
# ... or the Python functions have been running since the process named none.
SINCE_BEFORE = Frame("(running since before)", "", Kind.MARK)

# What the functions inside it do.
GARBAGE_COLLECTION = Frame("(garbage collection)", "", Kind.MARK)

# Innermost: a thread does not run, for this reason.
GIL = Frame("(waiting for the GIL)", "", Kind.WAIT)
LOCK = Frame("(waiting for a lock)", "", Kind.WAIT)
IO = Frame("(waiting for I/O)", "", Kind.WAIT)
SLEEP = Frame("(sleeping)", "", Kind.WAIT)
READY = Frame("(ready to run)", "", Kind.WAIT)
WAITING = Frame("(waiting)", "", Kind.WAIT)     # for something unknown

_TASK = "task "


def task(kind):
    """Return what stands above the coroutine of a task whose name was chosen.

    Tasks whose names differ in numbers only are of one kind: worker-#.
    """
    return Frame(_TASK + kind, "", Kind.MARK)


def kind_of_task(frame):
    """Return the kind of such a task, or None if the frame is no task's."""
    if frame.kind is Kind.MARK and frame.name.startswith(_TASK):
        return frame.name[len(_TASK):]
    return None
