"""Whose code a function is: the program's own, a package's, Python's, ...

This is not in a recording, but follows from the names of files and from
meta["stdlib"], the directories of the interpreter's standard library.

Called by all that shows functions.
"""

import enum
import os
import re

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


# For people, in a column of a table.
LABELS = {
    Origin.OWN: "own",
    Origin.PACKAGES: "package",
    Origin.LIBRARY: "stdlib",
    Origin.NATIVE: "native",
    Origin.INTERPRETER: "interpreter",
    Origin.KERNEL: "kernel",
    Origin.MARK: "",
}

_BY_KIND = {
    Kind.NATIVE: Origin.NATIVE,
    Kind.INTERPRETER: Origin.INTERPRETER,
    Kind.KERNEL: Origin.KERNEL,
    Kind.MARK: Origin.MARK,
}

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/", re.DOTALL)
_LIBRARY = re.compile(r".*/lib(?:32|64)?/python3\.\d+t?/", re.DOTALL)

# NumPy compiles its functions under such a name.
_OF_PACKAGES = ("<__array_function__ internals>",)


def _library_of(profile):
    """Return where the standard library is, as prefixes of file names."""
    places = profile.meta.get("stdlib", "").split(os.pathsep)
    return tuple(place.rstrip("/") + "/" for place in places if place)


def _origin(frame, library):
    if frame.kind is not Kind.PYTHON:
        return _BY_KIND[frame.kind]
    if _PACKAGES.match(frame.file) or frame.file in _OF_PACKAGES:
        return Origin.PACKAGES
    if (frame.file.startswith(("<frozen ", *library))
            or not library and _LIBRARY.match(frame.file)):
        return Origin.LIBRARY
    return Origin.OWN


def origins(profile):
    """Return the Origin of each of the profile's frames, by its index."""
    library = _library_of(profile)
    return [_origin(frame, library) for frame in profile.frames]


def short_file(profile, file):
    """Return a file's name relative to what is obvious.

    That is the package it is in, the standard library, or the directory in
    which the program was started.
    """
    for pattern in _PACKAGES, _LIBRARY:
        if match := pattern.match(file):
            return file[match.end():]
    here = profile.meta.get("directory", "").rstrip("/") + "/"
    for place in (*_library_of(profile), here):
        if place != "/" and file.startswith(place):
            return file[len(place):]
    return file
