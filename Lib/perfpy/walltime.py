"""Wall-clock time: where threads run, and what they wait for.

A profile of it has the samples of CPU time, and one for each wait, that stands
for the time until the thread ran again.  The innermost frame of such a stack
says what the thread waited for (marks.py).

perfscript.py puts the waits of a recording (waits.py) into its profile here,
and all that shows profiles asks here for the sums.
"""

import json
import re

from perfpy import marks
from perfpy.profile import NO_STACK

EVENT = "context-switches"      # of which perf's samples tell the stacks

# What a thread waits for is told by the kernel's functions, if their names are
# to be had, or by what it calls in the C library.
_GIL = re.compile(r"take_gil")
_KERNEL = (
    (marks.SLEEP, re.compile(r"do_nanosleep|hrtimer_nanosleep")),
    (marks.LOCK, re.compile(r"futex_|__futex|do_futex|rt_mutex|"
                            r"sem[a-z]*timedop|flock_lock|fcntl_setlk")),
)
_USER = (
    (marks.SLEEP, re.compile(r".*nanosleep|usleep|sleep|pause")),
    (marks.LOCK, re.compile(r".*(futex|lll_lock|pthread_(cond|mutex|rwlock|"
                            r"join|clockjoin|barrier)|sem_(clock|timed)?wait|"
                            r"sem_wait|sem_timedwait|new_sem_wait).*")),
)

STATES = (marks.GIL, marks.LOCK, marks.IO, marks.SLEEP, marks.READY,
          marks.WAITING)
HEADS = ("running", "GIL", "lock", "I/O", "sleep", "ready", "unknown")


def reason(kernel, user):
    """Return the mark of a wait, given the names of functions around it."""
    if any(map(_GIL.match, user)):
        return marks.GIL
    for names, patterns in (kernel, _KERNEL), (user, _USER):
        for mark, pattern in patterns:
            if any(map(pattern.match, names)):
                return mark
    return marks.IO


def add_waits(profile, waits, stacks):
    """Put the waits into a profile that has the samples of CPU time.

    stacks has for each site (index of the stack, mark of the wait).  The times
    of all samples change if there was a wait before the first of them.
    """
    start = profile.start
    ready = profile.add_frame(marks.READY)
    finished = {}

    def stack_of(site, is_ready):
        key = site, is_ready
        if key not in finished:
            stack, mark = stacks.get(site, (NO_STACK, marks.WAITING))
            if site in waits.gil_sites:
                mark = marks.GIL
            frame = ready if is_ready else profile.add_frame(mark)
            finished[key] = profile.add_stack(stack, frame)
        return finished[key]

    begin = min((thread.times[0] for thread in waits.threads if thread.times),
                default=start)
    begin = start if start is None else min(begin, start)
    processes = {thread.pid: thread.process_name
                 for thread in profile.threads}
    holders, estimated = [], 0
    for thread in waits.threads:
        if not thread.times and not thread.running:
            continue
        pid, tid = thread.process.pid, thread.tid
        target = profile.thread(pid, tid)
        target.name = target.name or waits.names.get(tid, "")
        target.process_name = (target.process_name or processes.get(pid)
                               or waits.names.get(pid, ""))
        _scale(target, thread.running / 1e9)
        samples = list(zip(target.times, target.stacks, target.weights))
        if start is not None and begin != start:
            shift = (start - begin) / 1e9
            samples = [(time + shift, stack, weight)
                       for time, stack, weight in samples]
        samples += [
            ((time - (begin or 0)) / 1e9, stack_of(site, bool(is_ready)),
             duration / 1e9)
            for time, site, is_ready, duration in zip(
                thread.times, thread.sites, thread.ready, thread.durations)]
        samples.sort()
        for name in "times", "stacks", "weights":
            del getattr(target, name)[:]
        for sample in samples:
            target.add_sample(*sample)
        estimated += thread.estimated
        holders += [[pid, tid, holder,
                     round(time / 1e9, 6)]
                    for holder, time in thread.held_by.most_common()]
    profile.meta["clock"] = "wall"
    profile.meta["estimated waits"] = f"{estimated / 1e9:.6f}"
    if holders:
        profile.meta["gil"] = json.dumps(holders, separators=(",", ":"))


def _scale(thread, seconds):
    """Let a thread's samples of CPU time stand for so many seconds."""
    whole = sum(thread.weights)
    if whole:
        for index, weight in enumerate(thread.weights):
            thread.weights[index] = weight * seconds / whole
    elif seconds:
        thread.add_sample(0, NO_STACK, seconds)


def is_wall(profile):
    return profile.meta.get("clock") == "wall"


def states_of(profile, threads=None):
    """Return for each thread the seconds running, and in each of STATES."""
    number = {profile.frames.index(mark): place for place, mark
              in enumerate(STATES, 1) if mark in profile.frames}
    state_of = [number.get(frame, 0) for frame in profile.stack_frames]
    result = []
    for thread in profile.threads if threads is None else threads:
        seconds = [0.0] * (1 + len(STATES))
        for stack, weight in zip(thread.stacks, thread.weights):
            seconds[0 if stack == NO_STACK else state_of[stack]] += weight
        result.append(seconds)
    return result


def running_seconds(profile):
    """Return the time on a processor of all threads."""
    return sum(seconds[0] for seconds in states_of(profile))


def holders(profile):
    """Return {(pid, tid): {tid of who had the GIL meanwhile: seconds}}."""
    result = {}
    try:
        for pid, tid, holder, seconds in json.loads(
                profile.meta.get("gil", "[]")):
            result.setdefault((pid, tid), {})[holder] = float(seconds)
    except (ValueError, TypeError):
        pass            # a recording that was tampered with
    return result
