"""Which interpreter a command is for, and which script it means.

The interpreter is that of the virtual environment that is active, as it is for
everything else that is typed there.  If that one has no -X perf, but ours is
of the same version, ours runs under its name: by that name, and the
pyvenv.cfg beside it, an interpreter finds its packages.

Called by run.py and doctor.py.
"""

import os
import shutil
import sys

from perfpy.interpreter import InterpreterError, ask


def interpreter(python=None, environment=None):
    """Return the Interpreter to use.

    python        what the user asked for, or None
    environment   the directory of a virtual environment, or None for the one
                  that is active
    """
    environment = environment or os.environ.get("VIRTUAL_ENV")
    if python or not environment or not _is_environment(environment):
        return ask(python)
    name = os.path.join(environment, "bin", "python")
    its_own = ask(name)
    ours = ask()
    if its_own.has_trampoline or not ours.has_trampoline or (
            its_own.version.split(".")[:2] != ours.version.split(".")[:2]):
        return its_own
    # There it reads what its_own was built with.
    return ask(name, executable=ours.file)._replace(
        has_trampoline=True, has_frame_pointers=ours.has_frame_pointers)


def _is_environment(directory):
    return os.path.exists(os.path.join(directory, "pyvenv.cfg"))


def script(name):
    """Return the path of a script, and its virtual environment or None.

    It is a file, or a command on the path such as pytest, if that is a Python
    script.
    """
    if os.path.exists(name) or os.sep in name:
        return name, None
    places = [os.environ.get("PATH", os.defpath)]
    if environment := os.environ.get("VIRTUAL_ENV"):
        places.insert(0, os.path.join(environment, "bin"))
    else:
        places.append(os.path.dirname(sys.executable))
    found = None
    for place in os.pathsep.join(places).split(os.pathsep):
        path = shutil.which(name, path=place or os.curdir)
        if path and _is_python(path):
            break
        found = found or path   # such as a shim of pyenv's, in shell
    else:
        if found:
            raise InterpreterError(f"{found} is not a Python script; perfpy "
                                   "records nothing else. If it starts one, "
                                   "give the name of that, or -m MODULE")
        return name, None
    environment = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    return path, environment if _is_environment(environment) else None


def _is_python(path):
    """Return whether the first lines of a script name an interpreter."""
    with open(path, "rb") as file:
        # pip writes the second line where the first would be too long.
        start = file.readline(200) + file.readline(200)
    return start.startswith(b"#!") and b"python" in start
