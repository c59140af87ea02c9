"""Write a profile to the file and in the format that the user wants.

Called by run.py, report.py and diff.py.
"""

import importlib
import os
import sys

from perfpy import recording
from perfpy.formats import FORMATS

DEFAULT_NAME = "profile"
PAGE, NEXT_BEST = "html", "speedscope"
STANDARD_OUTPUT = "-"


def program_name():
    """Return how the user calls perfpy."""
    name = os.path.basename(sys.argv[0])
    if name == "__main__.py":
        return f"{os.path.basename(sys.executable)} -m perfpy"
    return name


class OutputError(Exception):
    """The file cannot be written.  The text is for the user."""


class Progress:
    """A line on a terminal's standard error that tells what is going on."""

    def __init__(self, quiet=False):
        self._on = not quiet and sys.stderr.isatty()

    def __call__(self, text):
        if self._on:
            print(f"\r\033[Kperfpy: {text}", end="", file=sys.stderr,
                  flush=True)

    def samples(self, count):
        self(f"reading samples: {count:,}")

    def clear(self):
        if self._on:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def has_viewer():
    """Return whether this Python was built with the viewer of the page."""
    return importlib.import_module("perfpy.html").is_available()


def choose_format(name, path):
    """Return the name of the format: as told, or as the file's ending says.

    Without either it is a page, or data for a viewer elsewhere if this Python
    has none.  Raise OutputError for a page that could not be made.
    """
    if not name:
        endings = {format.suffix: format.name for format in FORMATS.values()}
        for ending in sorted(endings, key=len, reverse=True):
            if path and path.endswith(ending):
                name = endings[ending]
                break
    if not name:
        return PAGE if has_viewer() else NEXT_BEST
    if name == PAGE and not has_viewer():
        raise OutputError("this Python was built without the viewer that a "
                          f"page contains; use --format {NEXT_BEST}")
    return name


def default_path(name):
    return DEFAULT_NAME + FORMATS[name].suffix


def recording_path(path, name):
    """Return the name of the recording that belongs to an output file."""
    suffix = FORMATS[name].suffix if name in FORMATS else ""
    stem = path.removesuffix(suffix) if suffix else path
    return stem + recording.SUFFIX


def check_writable(path):
    """Raise OutputError unless a file of this name could be written."""
    if path == STANDARD_OUTPUT:
        return
    directory = os.path.dirname(path) or "."
    if os.path.isdir(path):
        problem = "it is a directory"
    elif not os.path.isdir(directory):
        problem = f"there is no directory {directory}"
    elif not os.access(path if os.path.exists(path) else directory, os.W_OK):
        problem = "permission denied"
    else:
        return
    raise OutputError(f"cannot write {path}: {problem}; "
                      "choose another file with -o")


def write(profile, name, path):
    """Write the profile in the format called name."""
    if path == STANDARD_OUTPUT:
        FORMATS[name].write(profile, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        with open(path, "wb") as file:
            FORMATS[name].write(profile, file)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def how_to_view(name, path):
    """Yield lines that say what was written, and what to do with it."""
    if name in FORMATS:
        yield FORMATS[name].how_to_view.format(path)
    else:
        yield f"Look at it with perf report -i {path}."
