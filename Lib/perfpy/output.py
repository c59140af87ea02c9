"""Write a profile to the file and in the format that the user wants.

Called by run.py, report.py and diff.py.
"""

import os
import pathlib
import sys
import tempfile

from perfpy import files, recording
from perfpy.formats import FORMATS

DEFAULT_NAME = "profile"
PAGE = "html"
STANDARD_OUTPUT = "-"
VERSION = pathlib.Path(__file__).parent / "VERSION"


def program_name():
    """Return how the user calls perfpy."""
    name = os.path.basename(sys.argv[0])
    if name == "__main__.py":
        return f"{os.path.basename(sys.executable)} -m perfpy"
    return name


def build_name():
    """Return which version of ours this is, and which Python."""
    version = VERSION.read_text().strip()
    return (f"cpython-perf {version}, Python {sys.version.split()[0]} at "
            f"{sys.executable}"
            + ("" if hasattr(sys, "activate_stack_trampoline") else
               ", which has no -X perf"))


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


def choose_format(name, path):
    """Return the name of the format: as told, or as the file's ending says.

    Without either it is a page.  Raise OutputError for an ending that says
    nothing, and for the name of a recording.
    """
    if path and path.endswith(recording.SUFFIX):
        raise OutputError(f"{path} would be taken for a recording; choose a "
                          "name with another ending")
    if not name and path:
        name = _format_of(path)
    return name or PAGE


def _format_of(path):
    endings = {format.suffix: format.name for format in FORMATS.values()}
    for ending in sorted(endings, key=len, reverse=True):
        if path.endswith(ending):
            return endings[ending]
    if path == STANDARD_OUTPUT:
        raise OutputError("say which --format standard output gets: "
                          + ", ".join(FORMATS))
    raise OutputError(f"the ending of {path} names no format; use one of "
                      f"{', '.join(endings)}, or --format")


def default_path(name, recording_name=None):
    """Return the name of a file in a format, like that of its recording."""
    stem = (recording_name.removesuffix(recording.SUFFIX) if recording_name
            else DEFAULT_NAME)
    return stem + FORMATS[name].suffix


def recording_path(path, name):
    """Return the name of the recording that belongs to an output file."""
    suffix = FORMATS[name].suffix if name in FORMATS else ""
    stem = path.removesuffix(suffix) if suffix else path
    return stem + recording.SUFFIX


def check_page(path):
    """Raise OutputError unless a page of this name can be written."""
    if not path.endswith(FORMATS[PAGE].suffix):
        raise OutputError(f"{path} would be a page; choose a name that ends "
                          f"with {FORMATS[PAGE].suffix}")
    check_writable(path)


def check_writable(path):
    """Raise OutputError unless a file of this name can be written."""
    if path == STANDARD_OUTPUT:
        return
    directory = os.path.dirname(path) or "."
    if os.path.isdir(path):
        problem = "it is a directory"
    elif not os.path.isdir(directory):
        problem = f"there is no directory {directory}"
    else:
        try:    # permissions do not tell all: there are /proc, full disks, ...
            if os.path.exists(path):
                open(path, "ab").close()
            else:
                tempfile.TemporaryFile(prefix=os.path.basename(path)[:99],
                                       dir=directory).close()
            return
        except OSError as error:
            problem = error.strerror.lower()
    raise OutputError(f"cannot write {path}: {problem}; "
                      "choose another file with -o")


def write(profile, name, path, interpreter=False, source=True):
    """Write the profile in the format called name.

    It is folded unless interpreter says otherwise; a page has both.  A page
    has the text of functions, unless source says otherwise.
    """
    options = {} if source or name != PAGE else {"has_source": False}
    if not FORMATS[name].has_lines:
        profile = profile.functions()
    if name != PAGE and not interpreter:
        profile = profile.folded()
    if path == STANDARD_OUTPUT:
        FORMATS[name].write(profile, sys.stdout.buffer, **options)
        sys.stdout.buffer.flush()
        return
    try:
        with files.replaced(path) as new, open(new, "wb") as file:
            FORMATS[name].write(profile, file, **options)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def how_to_view(name, path):
    """Yield lines that say what was written, and what to do with it."""
    if name in FORMATS:
        yield FORMATS[name].how_to_view.format(path)
    else:
        yield f"Look at it with perf report -i {path}."
