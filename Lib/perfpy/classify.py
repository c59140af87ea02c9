"""Whose code a function is: the program's own, a package's, Python's, ...

This is not in a recording, but follows from the names of files and from
meta["stdlib"], the directories of the interpreter's standard library, and
meta["packages"], those of packages besides site-packages.

Called by all that shows functions, and by run.py for what it records.
"""

import datetime
import enum
import glob
import os
import re

from perfpy import marks
from perfpy.profile import Kind


class Origin(enum.Enum):
    """Whose code it is, in the order in which legends have it."""

    OWN = "own"                    # Python of the program itself
    PACKAGES = "packages"          # Python that was installed for it
    LIBRARY = "library"            # Python's standard library
    NATIVE = "native"
    INTERPRETER = "interpreter"
    KERNEL = "kernel"
    MARK = "mark"                  # no code: Kind.MARK
    GIL = "gil"                    # no code either: Kind.WAIT, for each reason
    LOCK = "lock"
    IO = "io"
    SLEEP = "sleep"
    READY = "ready"


# For people, in a column of a table.
LABELS = {
    Origin.OWN: "own",
    Origin.PACKAGES: "package",
    Origin.LIBRARY: "stdlib",
    Origin.NATIVE: "native",
    Origin.INTERPRETER: "interpreter",
    Origin.KERNEL: "kernel",
    Origin.MARK: "",
    Origin.GIL: "",
    Origin.LOCK: "",
    Origin.IO: "",
    Origin.SLEEP: "",
    Origin.READY: "",
}

_BY_KIND = {
    Kind.NATIVE: Origin.NATIVE,
    Kind.INTERPRETER: Origin.INTERPRETER,
    Kind.KERNEL: Origin.KERNEL,
    Kind.MARK: Origin.MARK,
}

_BY_WAIT = {
    marks.GIL: Origin.GIL,
    marks.LOCK: Origin.LOCK,
    marks.IO: Origin.IO,
    marks.SLEEP: Origin.SLEEP,
    marks.READY: Origin.READY,
}

WAITS = frozenset(_BY_WAIT.values())

# Modules that are compiled into the interpreter.
_FROZEN = re.compile(r"<frozen ([\w.]+)>")

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/", re.DOTALL)
_LIBRARY = re.compile(r".*/lib(?:32|64)?/python3\.\d+t?/", re.DOTALL)

# NumPy compiles its functions under such a name.
_OF_PACKAGES = ("<__array_function__ internals>",)


def places_of_packages(search_path):
    """Return the directories of a path into which packages were installed."""
    return os.pathsep.join(
        place for place in search_path.split(os.pathsep)
        if place and glob.glob(f"{glob.escape(place)}/*.dist-info/METADATA"))


def _prefixes(profile, name):
    """Return the directories that meta has, as prefixes of file names."""
    places = profile.meta.get(name, "").split(os.pathsep)
    return tuple(place.rstrip("/") + "/" for place in places if place)


def _origin(frame, library, packages):
    if frame.kind is Kind.WAIT:
        return _BY_WAIT.get(frame, Origin.MARK)
    if frame.kind is not Kind.PYTHON:
        return _BY_KIND[frame.kind]
    if (_PACKAGES.match(frame.file) or frame.file in _OF_PACKAGES
            or frame.file.startswith(packages)):
        return Origin.PACKAGES
    if (frame.file.startswith(("<frozen ", *library))
            or not library and _LIBRARY.match(frame.file)):
        return Origin.LIBRARY
    return Origin.OWN


def origins(profile):
    """Return the Origin of each of the profile's frames, by its index."""
    library = _prefixes(profile, "stdlib")
    packages = _prefixes(profile, "packages")
    return [_origin(frame, library, packages) for frame in profile.frames]


def path_of(profile, file):
    """Return where the text of a file is, if it is anywhere."""
    if match := _FROZEN.fullmatch(file):
        name = match[1].replace(".", "/")
        for place in _prefixes(profile, "stdlib"):
            for path in f"{place}{name}.py", f"{place}{name}/__init__.py":
                if os.path.exists(path):
                    return path
    return os.path.join(profile.meta.get("directory", ""), file)


def has_changed(profile, path):
    """Return whether a file is newer than the recording; raise OSError."""
    try:
        started = datetime.datetime.fromisoformat(profile.meta["started"])
    except (KeyError, ValueError):
        return False
    # The recording has whole seconds.
    return os.stat(path).st_mtime > started.timestamp() + 1


def short_file(profile, file):
    """Return a file's name relative to what is obvious.

    That is the package it is in, the standard library, or the directory in
    which the program was started.
    """
    for pattern in _PACKAGES, _LIBRARY:
        if match := pattern.match(file):
            return file[match.end():]
    here = profile.meta.get("directory", "").rstrip("/") + "/"
    for place in (*_prefixes(profile, "packages"),
                  *_prefixes(profile, "stdlib"), here):
        if place != "/" and file.startswith(place):
            return file[len(place):]
    return file
