"""What a user should be told of a profile that is not as good as it could be.

Called by run.py.
"""

import collections
import posixpath

from perfpy.profile import NO_STACK, UNKNOWN, Kind

MANY_LOST = 0.01            # share of samples
MANY_ORPHANS = 0.1          # share of time

# A process with less of Python than this runs something else.
LEAST_PYTHON = 0.01


def orphans(profile):
    """Return the share of time without known callers, and where most of it is.

    That is time in libraries, not in the interpreter, in stacks without any
    Python function, of processes that run Python.
    """
    in_python = profile.in_python()
    library_of = {}     # stack: library, if it has no Python function
    for stack in range(len(profile.stacks)):
        if not in_python[stack]:
            library_of[stack] = _library(profile, stack)
    python, whole = collections.Counter(), collections.Counter()
    libraries = collections.defaultdict(collections.Counter)
    for thread in profile.threads:
        for stack, weight in zip(thread.stacks, thread.weights):
            whole[thread.pid] += weight
            if stack == NO_STACK:
                continue
            if in_python[stack]:
                python[thread.pid] += weight
            elif library := library_of[stack]:
                libraries[thread.pid][library] += weight
    found = collections.Counter()
    for pid, seconds in whole.items():
        if python[pid] > LEAST_PYTHON * seconds:
            found.update(libraries[pid])
    if not found:
        return 0, None
    return (sum(found.values()) / sum(whole.values()),
            found.most_common(1)[0][0])


def _library(profile, stack):
    """Return the innermost library of a stack without Python functions.

    Return None if the interpreter or the dynamic linker is in it, which is the
    beginning or the end of the process, and if nothing but the kernel is.
    """
    result = None
    for frame in reversed(profile.frames_of(stack)):
        frame = profile.frames[frame]
        if (frame.kind is Kind.INTERPRETER
                or posixpath.basename(frame.file).startswith("ld-linux")):
            return None
        if frame.kind is Kind.NATIVE and result is None:
            result = frame.file
    return result


def advice(profile, perf):
    """Yield lines for the user."""
    samples = sum(len(thread.times) for thread in profile.threads)
    lost = int(profile.meta["lost samples"])
    if lost > MANY_LOST * (samples + lost):
        yield (f"{lost:,} samples are lost; a lower --frequency may help")
    share, library = orphans(profile)
    if share > MANY_ORPHANS and profile.meta["unwinding"] == "fp":
        name = (f"in {posixpath.basename(library)}, which has no frame "
                "pointers" if library != UNKNOWN
                else "in code without frame pointers")
        yield (f"{100 * share:.0f} % of the time has no known callers, most "
               f"of it {name}; --unwind dwarf finds them"
               + ("" if perf.can_unwind_jitted
                  else ", with perf 6.8 or newer"))
