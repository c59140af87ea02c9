"""Which interpreter a command is for, and what it runs.

The interpreter is that of the virtual environment that is active, as it is for
everything else that is typed there, or that a command is installed in.  If
that one is none of ours, but of the same version, ours runs under its name: by
that name, and the pyvenv.cfg beside it, an interpreter finds its
packages.  Ours keeps its own standard library, by -X perf_home, and leaves the
environment as it is: what was never imported there is not cached, either.

Called by run.py and doctor.py.
"""

import os
import re
import shutil
import sys

from perfpy.interpreter import InterpreterError, ask

PYTHON = re.compile(r"python(3(\.\d+t?)?)?$")


def interpreter(python=None, name=None):
    """Return the Interpreter to use.

    python  what the user asked for, or None
    name    the interpreter in whose place ours runs, or None for that of the
            environment that is active
    """
    if python:
        return ask(python)
    if not name:
        environment = os.environ.get("VIRTUAL_ENV")
        if not environment or not _is_environment(environment):
            return ask()
        name = interpreter_of(environment)
    its_own = ask(name)
    ours = ask()
    # Without labels, -X perf is slower, and finds less.
    if its_own.has_labels or not ours.has_labels:
        return its_own
    if its_own.kind != ours.kind:
        raise InterpreterError(
            f"{name} is Python {its_own.kind}, and {ours.command} is Python "
            f"{ours.kind}: what is installed for the one does not work with "
            f"the other. It needs a cpython-perf of Python {its_own.kind}; "
            f"--python {name} records it as it is")
    if not environment_of(name):
        return ours
    home = os.path.dirname(ours.file)
    return ask(name, ours.file, ("-B", "-X", f"perf_home={home}"))._replace(
        has_frame_pointers=ours.has_frame_pointers)


def interpreter_of(environment):
    return os.path.join(environment, "bin", "python")


def _is_environment(directory):
    return os.path.exists(os.path.join(directory, "pyvenv.cfg"))


def environment_of(path):
    """Return the environment that a file in its bin is of, or None."""
    for place in os.path.abspath(path), os.path.realpath(path):
        directory, name = os.path.split(os.path.dirname(place))
        if name == "bin" and _is_environment(directory):
            return directory
    return None


def command(name):
    """Return what a command's first word means, and its environment or None.

    It is a file, or a command on the path such as pytest.
    """
    if os.path.exists(name) or os.sep in name:
        return name, environment_of(name)
    places = [os.environ.get("PATH", os.defpath)]
    if environment := os.environ.get("VIRTUAL_ENV"):
        places.insert(0, os.path.join(environment, "bin"))
    else:
        places.append(os.path.dirname(sys.executable))
    found = [path for place in os.pathsep.join(places).split(os.pathsep)
             if (path := shutil.which(name, path=place or os.curdir))]
    # A shim of pyenv's, say, is in shell, and comes before the script.
    scripts = [path for path in found if not is_program(path)]
    path = [*scripts, *found, name][0]
    return path, environment_of(path)


def is_program(path):
    """Return whether a file is to be executed, and is no Python script."""
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as file:
        first, second = file.readline(200), file.readline(200)
    # pip writes the second line where the first would be too long.
    if second.startswith(b"'''exec' "):
        first += second
    return first.startswith(b"\x7fELF") or (
        first.startswith(b"#!") and b"python" not in first)


def is_interpreter(path):
    """Return whether a program is called like an interpreter."""
    return bool(PYTHON.match(os.path.basename(path)))
