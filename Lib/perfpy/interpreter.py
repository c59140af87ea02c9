"""Find out what an interpreter can do for profilers, by asking it."""

import json
import os
import shutil
import subprocess
import sys
import typing

from perfpy import returnpoints

_QUESTION = """
import json, os, sys, sysconfig

def has_trampoline():
    # Build variables may be those of another build that shares the library.
    # Only an interpreter that has one goes on to look at the name.
    try:
        sys.activate_stack_trampoline("none of these")
    except AttributeError:
        return False
    except ValueError as error:
        return "not available" not in str(error)

def is_guest():
    # Whether the library is another build's, as in a package of ours.  Then
    # the flags are not ours, and ours has frame pointers.
    return "cpython-perf" in sys.version and has_trampoline() and (
        sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") is None)

flags = " ".join(str(sysconfig.get_config_var(name))
                 for name in ("CFLAGS", "PY_CFLAGS", "PY_CORE_CFLAGS"))
print(json.dumps({
    "version": sys.version.split()[0],
    "kind": "%d.%d" % sys.version_info[:2] + sys.abiflags,
    "has_trampoline": has_trampoline(),
    "has_frame_pointers": "-fno-omit-frame-pointer" in flags
        or is_guest(),
    "file": os.path.realpath("/proc/self/exe"),
    "mapped": sorted({line.split(maxsplit=5)[-1].rstrip() for line
                      in open("/proc/self/maps", errors="surrogateescape")
                      if " r-xp " in line and "/" in line}),
    "stdlib": os.pathsep.join({os.path.dirname(os.__file__): 0,
        os.path.realpath(os.path.dirname(os.__file__)): 0}),
}))
"""


class InterpreterError(Exception):
    """There is no such interpreter.  The text is for the user."""


class Interpreter(typing.NamedTuple):
    command: str                # how to start it
    version: str
    kind: str                   # 3.13t: what packages must be made for
    has_trampoline: bool        # -X perf works
    has_frame_pointers: bool
    file: str                   # the program, links resolved
    stdlib: str                 # its standard library, as sys.path has it
    program: str                # what to execute under the command's name
    mapped: list                # the same, and libraries
    options: tuple              # that it needs for that

    @property
    def has_labels(self):
        """Whether perfpy finds its functions in copies of its stack."""
        return has_labels(self.mapped)


def has_labels(files):
    """Return whether the code of an interpreter with labels is in one."""
    return any(map(returnpoints.of_file, files))


def ask(command=None, executable=None, options=()):
    """Return the Interpreter behind a command, or the one that runs this.

    executable is the program that runs under the command's name, if that is
    another one, with options that it needs for that.
    """
    name = command or sys.executable
    command = shutil.which(name)
    if not command:
        raise InterpreterError(f"cannot run {name}: there is no such program")
    try:
        answer = subprocess.run([command, *options, "-I", "-c", _QUESTION],
                                executable=executable, text=True,
                                stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
    except OSError as error:
        raise InterpreterError(
            f"cannot run {command}: {os.strerror(error.errno)}") from error
    try:
        return Interpreter(command=command, program=executable or command,
                           options=options, **json.loads(answer.stdout))
    except (ValueError, TypeError) as error:
        raise InterpreterError(f"{command} is not a Python interpreter that "
                               "works") from error
