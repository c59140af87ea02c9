"""Leave out of a profile what is the interpreter's own business.

A stack that has a Python function loses its INTERPRETER frames, so that their
time counts for the Python function around them, and C functions of other
libraries stand directly below their Python caller.  It also loses the way into
the interpreter: all that is outside of the outermost Python function, if this
is nothing but the interpreter, the C library, and functions without a name.
The functions by which the interpreter imports a module become one mark,
"(import)".

The stack of a task of asyncio begins with the task, if its name was chosen, or
with its coroutine, and that of a callback with this: who has started the event
loop, and its own functions, are the same for all of them.  What the loop
itself does, or waits for, is below the mark "(event loop)".

A stack without Python functions stays as it is.  There the internals are all
there is to see.  Marks stay everywhere.

Called by Profile.folded().
"""

import array
import posixpath
import re

from perfpy import profile as model
from perfpy.marks import kind_of_task
from perfpy.profile import NO_STACK, UNKNOWN, Frame, Kind

IMPORT = Frame("(import)", "", Kind.MARK)
LOOP = Frame("(event loop)", "", Kind.MARK)

_C_LIBRARY = re.compile(r"(libc|libpthread|ld-linux.*|ld-musl.*|ld)[.-].*")
_IMPORTLIB = "<frozen importlib._bootstrap"

_ASYNCIO = re.compile(r".*/(asyncio/(base_events|events|runners|tasks|"
                      r"selector_events|unix_events)|uvloop/__init__)\.py",
                      re.DOTALL)
_MACHINERY = re.compile(r"run(\.<locals>\.wrapper)?|(Runner|BaseEventLoop|"
                        r"BaseSelectorEventLoop|_UnixSelectorEventLoop|"
                        r"(Timer)?Handle|Task)\.\w+")
# What the loop calls to wait.
_SELECTORS = re.compile(r".*/selectors\.py", re.DOTALL)

# What becomes of a frame below a Python function, and of that.
_STAYS, _GOES, _IMPORTS, _LOOPS = range(4)


def is_import(frame):
    """Return whether the function is part of how modules are imported."""
    return frame == IMPORT or (frame.kind is Kind.PYTHON
                               and frame.file.startswith(_IMPORTLIB))


def is_loop(frame):
    """Return whether the function is part of an event loop of asyncio's."""
    return frame == LOOP or frame.kind is Kind.PYTHON and bool(
        _ASYNCIO.fullmatch(frame.file) and _MACHINERY.fullmatch(frame.name))


def _fate(frame):
    if frame.kind is Kind.INTERPRETER:
        return _GOES
    if is_import(frame):
        return _IMPORTS
    return _LOOPS if is_loop(frame) else _STAYS


def is_loop_helper(frame):
    """Return whether what the loop has called is still its own business."""
    return (frame.kind in (Kind.NATIVE, Kind.KERNEL, Kind.WAIT)
            or frame.kind is Kind.MARK and kind_of_task(frame) is None
            or bool(_SELECTORS.fullmatch(frame.file)))


def folded(profile):
    result = model.Profile()
    result.meta.update(profile.meta)
    fate = list(map(_fate, profile.frames))
    is_helper = list(map(is_loop_helper, profile.frames))
    loop = NO_STACK                     # the mark's stack in the result
    new_frame = [None] * len(fate)      # made when one is needed
    in_python = profile.in_python()
    needed = _needed(profile, in_python)
    surroundings = {NO_STACK: NO_STACK}
    place = array.array("i")            # index here: index in the result
    add_place, add_stack = place.append, result.add_stack
    marks = {_IMPORTS: IMPORT, _LOOPS: LOOP}
    mark_numbers = {}                   # of those that are in the result
    stack = -1
    for parent, frame in profile.stacks:
        stack += 1
        if not needed[stack]:
            add_place(NO_STACK)
            continue
        what = fate[frame] if in_python[stack] else _STAYS
        if what == _GOES:
            add_place(place[parent])
            continue
        if parent == NO_STACK:
            above = NO_STACK
        elif not in_python[stack] or in_python[parent]:
            above = place[parent]
        else:
            above = surroundings.get(parent)
            if above is None:
                above = surroundings[parent] = _add_surroundings(
                    profile, result, parent)
        if what == _LOOPS:
            above = NO_STACK
        elif above == loop != NO_STACK and not is_helper[frame]:
            above = NO_STACK            # a task, or a callback
        if what in marks:
            number = mark_numbers.get(what)
            if number is None:
                number = mark_numbers[what] = result.add_frame(marks[what])
            if above != NO_STACK and result.stack_frames[above] == number:
                add_place(above)
                continue
            if what == _LOOPS:
                loop = add_stack(NO_STACK, number)
        else:
            number = new_frame[frame]
            if number is None:
                number = new_frame[frame] = result.add_frame(
                    profile.frames[frame])
        add_place(add_stack(above, number))
    result.end_of_stacks()
    result.copy_threads(profile, place)
    return result


def _needed(profile, in_python):
    """Return for each stack whether a sample's stack is made from it."""
    needed = bytearray(len(in_python))
    for thread in profile.threads:
        for stack in thread.stacks:
            if stack != NO_STACK:
                needed[stack] = True
    stack = len(in_python)
    for parent in reversed(profile.parents):
        stack -= 1
        if (needed[stack] and parent != NO_STACK
                and in_python[parent] == in_python[stack]):
            needed[parent] = True
    return needed


def _add_surroundings(profile, result, stack):
    """Add what stays of a stack into which Python was entered."""
    frames = [profile.frames[frame] for frame in profile.frames_of(stack)]
    if all(map(_is_way_in, frames)):
        frames = [frame for frame in frames if frame.kind is Kind.MARK]
    parent = NO_STACK
    for frame in frames:
        if frame.kind is not Kind.INTERPRETER:
            parent = result.add_stack(parent, result.add_frame(frame))
    return parent


def _is_way_in(frame):
    """Return whether a frame only tells how a program or thread starts."""
    return (frame.kind in (Kind.INTERPRETER, Kind.MARK)
            or frame.name == UNKNOWN or frame.kind is Kind.NATIVE
            and _C_LIBRARY.fullmatch(posixpath.basename(frame.file)))
