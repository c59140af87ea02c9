"""Let a running process of CPython 3.14 or newer name its functions.

It runs a script that another process names, when its main thread comes to
the next safe point (PEP 768).  Only who may trace a process can do that; the
interpreter is asked by one of the same kind, the program that it runs.

Called by activate.py.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time

PATIENCE = 5.0          # seconds in which a main thread comes to a safe point

_PYTHON = re.compile(r"(lib)?python[0-9.]*\w*")

# What it runs on itself.  It tells what has been running since before.
_ON = """
import json, os, sys
answer = {}
try:
    frames = sys._current_frames().values()
    names = set()
    for frame in frames:
        while frame is not None:
            if frame.f_globals is not globals():
                names.add(frame.f_code.co_qualname)
            frame = frame.f_back
    del frames, frame
    answer["running"] = sorted(names)
    try:
        sys.activate_stack_trampoline("perf", lines=LINES)
    except TypeError:           # CPython's own knows no lines
        sys.activate_stack_trampoline("perf")
except Exception as error:
    answer["error"] = str(error)
with open(PATH + ".new", "w") as file:
    json.dump(answer, file)
os.replace(PATH + ".new", PATH + ".answer")
"""
_OFF = """
import sys
sys.deactivate_stack_trampoline()
with open(PATH + ".answer", "w") as file:
    file.write("{}")
"""


class RemoteError(Exception):
    """It cannot be done.  The text is for the user."""


def _ask(program, code, *arguments):
    return subprocess.run([program, "-I", "-c", code, *arguments], text=True,
                          errors="backslashreplace", timeout=30,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def program_of(pid):
    """Return the interpreter that a process runs, or None if it has another
    file by this name, as in a container, or is called like none.
    """
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        if (_PYTHON.fullmatch(os.path.basename(program))
                and os.path.samefile(program, f"/proc/{pid}/exe")):
            return program
    except OSError:
        pass
    return None


def can_be_asked(pid):
    """Return whether the process runs a Python that can be asked to."""
    program = program_of(pid)
    try:
        return bool(program) and _ask(
            program, "import sys; print(hasattr(sys, 'remote_exec') and "
            "hasattr(sys, 'activate_stack_trampoline'))"
            ).stdout.strip() == "True"
    except (OSError, subprocess.SubprocessError):
        return False


def _has_ended(pid):
    """Return whether the process is gone, or dead and not yet waited for."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return True
    return False


def _run_in(pid, text, lines=False, patience=PATIENCE):
    """Let a process run a script; return what it answers."""
    place = directory = None
    is_asked = False        # and has not obeyed
    try:
        # Its root is not to be found any more when the process has ended.
        place = os.open(f"/proc/{pid}/root/tmp", os.O_PATH)
        parent = f"/proc/self/fd/{place}"
        directory = tempfile.mkdtemp(prefix=f"perfpy-{pid}-", dir=parent)
        status = os.stat(f"/proc/{pid}")
        if os.geteuid() == 0:
            os.chown(directory, status.st_uid, status.st_gid)
        path = os.path.join(directory, "script.py")
        inside = "/tmp" + path.removeprefix(parent)
        with open(path, "w") as file:
            file.write(f"PATH = {inside!r}\nLINES = {lines}\n{text}")
        os.chmod(path, 0o644)
        answer = _ask(os.readlink(f"/proc/{pid}/exe"), "import sys; "
                      "sys.remote_exec(int(sys.argv[1]), sys.argv[2])",
                      str(pid), inside)
        if answer.returncode:
            said = answer.stderr.strip().splitlines() or ["no reason"]
            if "not enabled" in said[-1]:
                raise RemoteError(
                    f"process {pid} lets nobody switch anything on in it: "
                    "-X disable-remote-debug or PYTHON_DISABLE_REMOTE_DEBUG")
            raise RemoteError(
                f"process {pid} cannot be asked to name its Python functions "
                f"({said[-1]}); who may trace it can, such as root")
        is_asked = True
        deadline = time.monotonic() + patience
        while not os.path.exists(path + ".answer"):
            if time.monotonic() > deadline:
                raise RemoteError(
                    f"the main thread of process {pid} has not come to a safe "
                    f"point for {patience:g} s, so it does not name its "
                    "Python functions; it may wait for something")
            if _has_ended(pid):
                raise RemoteError(f"process {pid} has ended")
            time.sleep(0.01)
        is_asked = False
        with open(path + ".answer") as file:
            return json.load(file)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise RemoteError(f"process {pid} cannot be asked to name its "
                          f"Python functions: {error}") from error
    finally:
        if is_asked and not _has_ended(pid):
            # It may still come to it: off is right at any time, on is not.
            # perfpy clean removes what is left.
            if text is not _OFF:
                open(path, "w").close()
        elif directory:
            shutil.rmtree(directory, ignore_errors=True)
        if place is not None:
            os.close(place)


def switch_on(pid, lines):
    """Return the names of what is running."""
    answer = _run_in(pid, _ON, lines)
    if "error" in answer:
        raise RemoteError(f"process {pid} cannot name its Python functions: "
                          f"{answer['error']}")
    return answer["running"]


def switch_off(pid, is_on):
    """Wait for it only if the process is known to have switched on."""
    _run_in(pid, _OFF, patience=PATIENCE if is_on else 0)
