"""Switch on, and off again, the names of functions in a running process.

Since CPython 3.14 a process runs a script that another one names, when its
main thread comes to the next safe point (PEP 768).  Only who may trace a
process can do that; the interpreter is asked by one of the same kind, the
program that the process runs.

Called by run.py and top.py, for processes that do not name their functions.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from perfpy import attach, family

PATIENCE = 5.0          # seconds in which a main thread comes to a safe point
MOST_NAMES = 8

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


class ActivationError(attach.AttachError):
    """It cannot be switched on.  The text is for the user."""


def _ask(program, code, *arguments):
    return subprocess.run([program, "-I", "-c", code, *arguments], text=True,
                          errors="backslashreplace", timeout=30,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def can_activate(pid):
    """Return whether the process runs a Python that can be asked to."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        if not _PYTHON.fullmatch(os.path.basename(program)):
            return False
        # In a container, it may be another one that is called so here.
        if not os.path.samefile(program, f"/proc/{pid}/exe"):
            return False
        answer = _ask(program, "import sys; print(hasattr(sys, "
                      "'remote_exec') and "
                      "hasattr(sys, 'activate_stack_trampoline'))")
    except (OSError, subprocess.SubprocessError):
        return False
    return answer.stdout.strip() == "True"


def _run_in(pid, text):
    """Let a process run a script; return what it answers."""
    root = f"/proc/{pid}/root"
    directory = None
    try:
        directory = tempfile.mkdtemp(prefix="perfpy-", dir=f"{root}/tmp")
        status = os.stat(f"/proc/{pid}")
        if os.geteuid() == 0:
            os.chown(directory, status.st_uid, status.st_gid)
        path = os.path.join(directory, "script.py")
        inside = path.removeprefix(root)
        with open(path, "w") as file:
            file.write(f"PATH = {inside!r}\n{text}")
        os.chmod(path, 0o644)
        answer = _ask(os.readlink(f"/proc/{pid}/exe"), "import sys; "
                      "sys.remote_exec(int(sys.argv[1]), sys.argv[2])",
                      str(pid), inside)
        if answer.returncode:
            said = answer.stderr.strip().splitlines() or ["no reason"]
            raise ActivationError(
                f"process {pid} cannot be asked to name its Python functions "
                f"({said[-1]}); who may trace it can, such as root")
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(path + ".answer"):
            if time.monotonic() > deadline:
                raise ActivationError(
                    f"the main thread of process {pid} has not come to a safe "
                    f"point for {PATIENCE:g} s, so it does not name its "
                    "Python functions; it may wait for something")
            if not os.path.exists(f"/proc/{pid}"):
                raise ActivationError(f"process {pid} has ended")
            time.sleep(0.01)
        with open(path + ".answer") as file:
            return json.load(file)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ActivationError(f"process {pid} cannot be asked to name its "
                              f"Python functions: {error}") from error
    finally:
        if directory:
            shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def activated(pids, say, keep_names=False):
    """Let processes and their children name their functions, until the end.

    That is, those that can and do not.  say(text) tells the user what cannot
    be shown.  keep_names leaves the files with the names where they are.
    """
    done = []
    try:
        for pid in family.with_children(pids):
            try:
                attach.find(pid)
            except attach.NamelessError:
                if can_activate(pid):
                    answer = _run_in(pid, _ON)
                    if "error" in answer:
                        raise ActivationError(
                            f"process {pid} cannot name its Python functions: "
                            f"{answer['error']}") from None
                    done.append(pid)
                    _tell(pid, answer.get("running", []), say)
            except attach.AttachError:
                if pid in pids:
                    raise
        yield
    finally:
        for pid in done:
            with contextlib.suppress(attach.AttachError):
                _run_in(pid, _OFF)
            if not keep_names:
                # It would look as if the process still named its functions.
                with contextlib.suppress(OSError):
                    os.unlink(attach.map_of(pid))


def _tell(pid, names, say):
    say(f"process {pid} names its Python functions while it is recorded")
    if names:
        more = f" and {len(names) - MOST_NAMES} more"
        say("not shown until they are called anew, as they have been running "
            f"since before: {', '.join(map(str, names[:MOST_NAMES]))}"
            + (more if len(names) > MOST_NAMES else ""))
