"""Switch on, and off again, the names of functions in running processes.

Interpreters of ours are asked as request.py has it, others as remote.py, which
takes CPython 3.14.  Either takes the right to trace the process.

Called by run.py and top.py, for processes that do not name their functions.
"""

import contextlib
import os
import signal

from perfpy import (attach, family, interpreter, launch, perfscript,
                    remote, request, table)

PATIENCE = 5.0          # seconds in which a process comes to a safe point
LAST_PATIENCE = 1.0     # at the end: it obeys later as well
MOST_NAMES = 8


class ActivationError(attach.AttachError):
    """It cannot be switched on.  The text is for the user."""


class _Session:
    """What is switched on, and in which way."""

    def __init__(self, lines, say):
        self._lines = lines
        self._say = say
        self._by_request = []       # numbers of processes
        self._by_script = {}        # number: whether it is known to be on
        self._maps = []             # of them: (directory, name)
        self._is_off = False

    def switch_on(self, pids):
        with contextlib.ExitStack() as stack:
            requests = []
            for pid in family.with_children(pids):
                try:
                    attach.find(pid)
                except attach.NamelessError:
                    if found := request.find(pid):
                        stack.callback(found.close)
                        requests.append(found)
                        self._note_map(pid)
                    elif remote.can_be_asked(pid):
                        self._by_script[pid] = False
                        self._note_map(pid)
                        names = remote.switch_on(pid, self._lines)
                        self._by_script[pid] = True
                        self._tell(pid, names)
                    elif pid in pids:
                        _check_python(pid)
                except attach.AttachError:
                    if pid in pids:
                        raise
            self._ask(requests)

    def _ask(self, requests):
        self._by_request += [asked.pid for asked in requests]
        waiting = request.ask(
            requests, request.ON + request.LINES * self._lines, PATIENCE)
        if requests and len(waiting) == len(requests):
            raise ActivationError(
                f"process {waiting[0].pid} has not come to a safe point for "
                f"{PATIENCE:g} s, so it does not name its Python functions; "
                "it may wait for something")
        for asked in requests:
            if asked in waiting:
                self._say(f"process {asked.pid} waits for something; it names "
                          "its Python functions as soon as it runs")
                continue
            with contextlib.suppress(OSError):      # it has ended
                symbols, left_out = asked.answer()
                self._tell(asked.pid, map(_name_of, symbols), left_out)

    def _tell(self, pid, names, left_out=0):
        self._say(f"process {pid} names its Python functions while it is "
                  "recorded")
        names = sorted(set(map(table.printable, names)))
        left_out += max(len(names) - MOST_NAMES, 0)
        if names:
            more = f" and {left_out} more" if left_out else ""
            self._say("not shown until they are called anew, as they have "
                      "been running since before: "
                      f"{', '.join(names[:MOST_NAMES])}{more}")

    def switch_off(self):
        """Whoever is asked by a request obeys, sooner or later."""
        if self._is_off:
            return
        # Nor may a Ctrl-C end a program that is run for it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, launch.ENDS)
        try:
            self._is_off = True
            for pid, is_on in self._by_script.items():
                with contextlib.suppress(remote.RemoteError):
                    remote.switch_off(pid, is_on)
            self._withdraw()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _note_map(self, pid):
        """Remember where it is, which cannot be told of a process that ended.
        """
        with contextlib.suppress(OSError):
            directory, name = os.path.split(attach.map_of(pid))
            self._maps.append((os.open(directory, os.O_PATH), name))

    def remove_names(self):
        """It would look as if the processes still named their functions."""
        for directory, name in self._maps:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=directory)
            os.close(directory)
        self._maps.clear()

    def _withdraw(self):
        with contextlib.ExitStack() as stack:
            requests = []
            # Those that were forked meanwhile have the request, too.
            for pid in family.with_children(self._by_request):
                with contextlib.suppress(request.RequestError, OSError):
                    if found := request.find(pid):
                        stack.callback(found.close)
                        if found.is_on:
                            requests.append(found)
                            if pid not in self._by_request:
                                self._by_request.append(pid)
                                self._note_map(pid)
            request.ask(requests, request.OFF, LAST_PATIENCE)


def _check_python(pid):
    """Raise ActivationError if the process runs a Python without -X perf."""
    program = remote.program_of(pid)
    with contextlib.suppress(interpreter.InterpreterError):
        if program and not interpreter.ask(program).has_trampoline:
            raise ActivationError(
                f"process {pid} runs a Python that cannot name its functions "
                f"({program}): start the program by perfpy run, or with -X "
                "perf in another Python")


def _name_of(symbol):
    return perfscript.make_frame("", symbol, "").name


@contextlib.contextmanager
def activated(pids, say, lines=True, keep_names=False):
    """Let processes and their children name their functions, until the end.

    That is, those that can and do not.  Return a function that ends it early;
    the files with the names are there until the end, and, with keep_names,
    afterwards.  say(text) tells the user what cannot be shown.
    """
    session = _Session(lines, say)
    try:
        try:
            session.switch_on(pids)
        except (request.RequestError, remote.RemoteError) as error:
            raise ActivationError(str(error)) from error
        yield session.switch_off
    finally:
        try:
            session.switch_off()
        finally:
            if not keep_names:
                session.remove_names()
