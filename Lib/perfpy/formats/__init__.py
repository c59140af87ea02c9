"""The formats in which perfpy writes a profile, by name.

Each module here writes one of them, by ``write(profile, file)``, to a binary
file.  They all call a function and a thread by the names made here.
"""

import importlib
import typing

from perfpy.profile import UNKNOWN, Kind


class Format(typing.NamedTuple):
    """How to write a profile, and what to do with what was written."""

    name: str
    suffix: str
    module: str
    how_to_view: str    # one sentence; {} stands for the file
    has_lines: bool = False     # it tells lines of functions

    def write(self, profile, file, **options):
        """Write profile to file, a writable binary file."""
        importlib.import_module(self.module).write(profile, file, **options)


FORMATS = {format.name: format for format in (
    Format("html", ".html", "perfpy.html",
           "Open {} in a browser.", has_lines=True),
    Format("collapsed", ".collapsed.txt", "perfpy.formats.collapsed",
           "Make a picture of it with flamegraph.pl {} >flame.svg, or open it"
           " at https://www.speedscope.app."),
    Format("speedscope", ".speedscope.json", "perfpy.formats.speedscope",
           "Open {} at https://www.speedscope.app; it stays on your machine.",
           has_lines=True),
    Format("gecko", ".gecko.json", "perfpy.formats.gecko",
           "Open {} at https://profiler.firefox.com; it stays on your machine"
           " unless you upload it there.", has_lines=True),
    Format("pprof", ".pb.gz", "perfpy.formats.pprof",
           "Look at it with go tool pprof -http=: {}.", has_lines=True),
)}


def function_name(frame):
    """Return how to call a frame where there is one name and no colours."""
    if frame.kind is Kind.PYTHON:
        return f"{frame.name} ({frame.file})"
    if frame.name == UNKNOWN:
        return f"{UNKNOWN} ({frame.file})"
    return frame.name


def title(profile):
    """Return what was recorded, and what was counted if it is not time."""
    command = profile.meta.get("command", "perfpy")
    unit = profile.meta.get("unit")
    return f"{command} (numbers of {unit})" if unit else command


def thread_name(thread):
    """Return a name for a thread that tells it from all others."""
    program = thread.process_name or thread.name or "?"
    if thread.name and thread.name != program:
        return f"{program} {thread.pid}, thread {thread.name} {thread.tid}"
    if thread.tid != thread.pid:
        return f"{program} {thread.pid}, thread {thread.tid}"
    return f"{program} {thread.pid}"
