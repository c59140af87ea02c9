"""Fold the lines of each function to one frame, the function.

A recording with lines has a frame for each line of a function that was seen.
What shows functions, or knows nothing of lines, works with what this makes.
Called by Profile.functions().
"""

import array

from perfpy import profile as model
from perfpy.profile import NO_STACK


def functions(profile):
    """Return a Profile without lines: the same one if it has none."""
    if not any(frame.line for frame in profile.frames):
        return profile
    result = model.Profile()
    result.meta.update(profile.meta)
    frames = [result.add_frame(frame.function) for frame in profile.frames]
    place = array.array("i")            # index here: index in the result
    for parent, frame in profile.stacks:
        above = NO_STACK if parent == NO_STACK else place[parent]
        place.append(result.add_stack(above, frames[frame]))
    result.end_of_stacks()
    result.copy_threads(profile, place)
    return result
