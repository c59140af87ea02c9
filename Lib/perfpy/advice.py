"""What a user should be told of a profile that is not as good as it could be.

Called by run.py.
"""

import collections
import posixpath

from perfpy import marks, units, walltime
from perfpy.profile import NO_STACK, UNKNOWN, Kind

MANY_LOST = 0.01            # share of samples
MANY_ESTIMATED = 0.05       # share of waits
MANY_ORPHANS = 0.1          # shares of time
MANY_CUT = 0.03

# A thread with less of Python than this runs something else.
LEAST_PYTHON = 0.01


def orphans(profile):
    """Return the share of time without known callers, and where most of it is.

    That is time in stacks without any Python function, of threads that run
    Python, but not before the first nor after the last one of the process.
    """
    in_python = profile.in_python()
    span = {}           # process: times of its first and last Python function
    for thread in profile.threads:
        times = [time for time, stack in zip(thread.times, thread.stacks)
                 if stack != NO_STACK and in_python[stack]]
        if times:
            first, last = span.get(thread.pid, (times[0], times[0]))
            span[thread.pid] = min(first, *times), max(last, *times)
    found = collections.Counter()
    for thread in profile.threads:
        first, last = span.get(thread.pid, (0, 0))
        python, lost = 0, collections.Counter()
        for time, stack, weight in zip(thread.times, thread.stacks,
                                       thread.weights):
            if stack == NO_STACK or in_python[stack]:
                python += weight
            elif first < time < last and (file := _file(profile, stack)):
                lost[file] += weight
        if python > LEAST_PYTHON * sum(thread.weights):
            found.update(lost)
    if not found:
        return 0, None
    return (sum(found.values()) / profile.duration(),
            found.most_common(1)[0][0])


def _file(profile, stack):
    """Return where a stack's innermost function outside the kernel is.

    Return None if there is none, and for a stack whose callers are known to be
    missing.
    """
    frames = [profile.frames[frame] for frame in profile.frames_of(stack)]
    if frames[0] in (marks.CUT, marks.SINCE_BEFORE):
        return None
    for frame in reversed(frames):
        if frame.kind in (Kind.NATIVE, Kind.INTERPRETER):
            return frame.file
    return None


def share_of(profile, mark):
    """Return the share of the time that is below a mark."""
    return sum(total for frame, (_, total)
               in zip(profile.frames, profile.totals())
               if frame == mark) / (profile.duration() or 1)


def _advice_on_waits(profile, lost):
    whole = profile.duration() - walltime.running_seconds(profile)
    estimated = float(profile.meta["estimated waits"])
    if lost:
        yield (f"threads were switched too often to see all of it: {lost:,} "
               "records are lost, and the times are not exact")
    elif estimated > MANY_ESTIMATED * whole:
        yield (f"threads were switched so often that {estimated / whole:.0%} "
               "of the time in which they did not run is put to where they "
               "stopped at other times, for as long")
    woken = int(profile.meta.get("lost wake-ups", 0))
    if woken:
        yield (f"{woken:,} wake-ups are lost: some of the time in which "
               "threads were ready to run counts as waiting")


def advice(profile):
    """Yield lines for the user."""
    samples = sum(len(thread.times) for thread in profile.threads)
    lost = int(profile.meta["lost samples"])
    if walltime.is_wall(profile):
        yield from _advice_on_waits(profile, lost)
    elif lost > MANY_LOST * (samples + lost):
        remedy = ("a larger --count" if "period" in profile.meta
                  else "a lower --frequency")
        yield (f"{lost:,} samples are lost, {lost / (samples + lost):.0%} of "
               f"all; {remedy} may help")
    what = units.noun(profile) if "unit" in profile.meta else "the time"
    share, file = orphans(profile)
    if share > MANY_ORPHANS:
        place = posixpath.basename(file)
        if profile.meta["unwinding"] != "fp":
            yield (f"{share:.0%} of {what} has no known callers, most of it "
                   f"in {place if file != UNKNOWN else 'unknown code'}")
        else:
            name = (f"in {place}, which has no frame pointers or is called by "
                    "code without them" if file != UNKNOWN
                    else "in code without frame pointers")
            yield (f"{share:.0%} of {what} has no known callers, most of it "
                   f"{name}; --unwind copy finds them")
    share = share_of(profile, marks.CUT)
    if share > MANY_CUT:
        yield (f"{share:.0%} of {what} is in stacks that are deeper than "
               "what perf copies of them; they stand below "
               f"{marks.CUT.name}, without their outermost functions")
