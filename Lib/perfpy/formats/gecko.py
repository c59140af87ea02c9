"""JSON for the Firefox Profiler, in its processed format.

Version 48, the last whose changes are documented; the profiler brings older
versions up to date when it loads them.  Each thread has tables of its own.

Python functions are declared as JavaScript, so that the profiler's choice of
stacks, "JavaScript", shows these alone.
"""

import datetime
import json
import os
import statistics

from perfpy.formats import function_name, title
from perfpy.profile import NO_STACK, Kind

# The profiler's names of colours; grey must be one of them.
CATEGORIES = {
    Kind.PYTHON: ("Python", "blue"),
    Kind.NATIVE: ("Native", "orange"),
    Kind.INTERPRETER: ("Interpreter", "grey"),
    Kind.KERNEL: ("Kernel", "purple"),
    Kind.MARK: ("Mark", "yellow"),
    Kind.WAIT: ("Waiting", "transparent"),
}
CATEGORY_NUMBER = {kind: number for number, kind in enumerate(CATEGORIES)}
LIBRARY = 1     # the type of a resource


def write(profile, file):
    top = {
        "meta": _meta(profile),
        "libs": [],
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
    }
    file.write(_compact(top)[:-1] + b',"threads":[')
    for number, thread in enumerate(profile.threads):
        file.write((b"," if number else b"")
                   + _compact(_thread(profile, thread)))
    file.write(b"]}\n")


def _compact(value):
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _meta(profile):
    started = profile.meta.get("started")
    start = (datetime.datetime.fromisoformat(started).timestamp() * 1000
             if started else 0)
    weights = [weight for thread in profile.threads
               for weight in thread.weights[:100]]
    return {
        "interval": (1 if "unit" in profile.meta
                     else statistics.median(weights or [0.001]) * 1000),
        "startTime": start,
        "processType": 0,
        "product": title(profile),
        "importedFrom": "perfpy",
        "arguments": "",
        "stackwalk": 1,
        "debug": False,
        "version": 24,
        "preprocessedProfileVersion": 48,
        "symbolicated": True,
        "sampleUnits": {"time": "ms", "eventDelay": "ms",
                        "threadCPUDelta": "ns"},
        "usesOnlyOneStackType": False,
        "doesNotUseFrameImplementation": True,
        "sourceCodeIsNotOnSearchfox": True,
        "markerSchema": [],
        "categories": [{"name": name, "color": color,
                        "subcategories": ["Other"]}
                       for name, color in CATEGORIES.values()],
        "extra": [{"label": "Recording", "entries": [
            {"label": name, "format": "string", "value": value}
            for name, value in profile.meta.items()]}],
    }


class _Numbers(dict):
    """Gives each key a number, in the order in which they are looked up."""

    def __missing__(self, key):
        self[key] = number = len(self)
        return number


def _used_stacks(profile, thread):
    """Return the stacks of a thread's samples, and their parents, in order."""
    used = set()
    for stack in set(thread.stacks):
        while stack != NO_STACK and stack not in used:
            used.add(stack)
            stack = profile.stacks[stack][0]
    return sorted(used)     # a parent precedes its children


def _thread(profile, thread):
    is_count = "unit" in profile.meta
    strings = _Numbers()
    numbers = _Numbers()        # by the frame's number in the profile
    resources = _Numbers()      # by file
    stack_number = {NO_STACK: None}
    stack_table = {"prefix": [], "frame": [], "category": [],
                   "subcategory": []}
    for stack in _used_stacks(profile, thread):
        parent, frame = profile.stacks[stack]
        stack_number[stack] = len(stack_number) - 1
        kind = profile.frames[frame].kind
        stack_table["prefix"].append(stack_number[parent])
        stack_table["frame"].append(numbers[frame])
        stack_table["category"].append(CATEGORY_NUMBER[kind])
        stack_table["subcategory"].append(0)
    frames = [profile.frames[frame] for frame in numbers]
    functions = _Numbers()
    function_of = [functions[frame.function] for frame in frames]
    times = [time * 1000 for time in thread.times]
    return {
        "processType": "default",
        "processName": thread.process_name,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": thread.name or thread.process_name,
        "isMainThread": thread.tid == thread.pid,
        "pid": str(thread.pid),
        "tid": thread.tid,
        "samples": _table(
            len(times),
            stack=[stack_number[stack] for stack in thread.stacks],
            time=times,
            weight=[round(weight) if is_count else weight * 1000
                    for weight in thread.weights],
            weightType="samples" if is_count else "tracing-ms",
            # A sample stands for time in which the thread ran, so the
            # profiler can tell work from waiting.
            threadCPUDelta=[0 if is_count else round(weight * 1e9)
                            for weight in thread.weights]),
        "markers": _table(0, data=[], name=[], startTime=[], endTime=[],
                          phase=[], category=[]),
        "stackTable": _table(len(stack_table["frame"]), **stack_table),
        "frameTable": _frame_table(frames, function_of),
        "funcTable": _function_table(list(functions), strings, resources),
        "resourceTable": _table(
            len(resources),
            lib=[None] * len(resources),
            name=[strings[os.path.basename(file) or file]
                  for file in resources],
            host=[None] * len(resources),
            type=[LIBRARY] * len(resources)),
        "nativeSymbols": _table(0, libIndex=[], address=[], name=[],
                                functionSize=[]),
        "stringArray": list(strings),
    }


def _table(length, **columns):
    return {"length": length, **columns}


def _frame_table(frames, function_of):
    """Return a frame for each line of a function; addresses are unknown."""
    length = len(frames)
    nothing = [None] * length
    return _table(
        length, address=[-1] * length, inlineDepth=[0] * length,
        category=[CATEGORY_NUMBER[frame.kind] for frame in frames],
        subcategory=[0] * length, func=function_of,
        nativeSymbol=nothing, innerWindowID=[0] * length,
        implementation=nothing,
        line=[frame.line or None for frame in frames], column=nothing)


def _function_table(frames, strings, resources):
    is_python = [frame.kind is Kind.PYTHON for frame in frames]
    nothing = [None] * len(frames)
    return _table(
        len(frames),
        name=[strings[frame.name if frame.kind is Kind.PYTHON
                      else function_name(frame)] for frame in frames],
        isJS=is_python,
        relevantForJS=[False] * len(frames),
        resource=[-1 if frame.kind is Kind.PYTHON or not frame.file
                  else resources[frame.file] for frame in frames],
        fileName=[strings[frame.file] if frame.kind is Kind.PYTHON else None
                  for frame in frames],
        lineNumber=nothing, columnNumber=nothing)
