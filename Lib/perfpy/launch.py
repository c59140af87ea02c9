"""Run a command while perf records it, without getting in its way.

perf is not the command's parent, as it is with `perf record COMMAND`: there a
Ctrl-C ends the command by SIGTERM before it can clean up.  Here the command is
a child of perfpy that waits before its exec until perf is attached to it.  It
has our standard streams and our terminal, and perf a session of its own.

Called by run.py and top.py; what is about signals that end programs also by
cli.py, attach.py and activate.py.
"""

import os
import resource
import signal
import sys

from perfpy import family

# What ends programs.
ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

# What others send us is meant for the command.
FORWARDED = ENDS | {signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}

# siginfo's si_code of what a terminal sends, and it sends it to the command
# too, which is in the same process group.
SI_KERNEL = 0x80

CANNOT_EXECUTE = 126    # as a shell says it


class Command:
    """A child that waits until it is released."""

    queued = 0.0        # seconds for which it waited for a processor

    def __init__(self, arguments, environment, program=None):
        # From here on nothing but wait() takes signals.
        self._mask = signal.pthread_sigmask(
            signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
        gate, self._gate = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._gate)
                if not os.read(gate, 1):
                    os._exit(CANNOT_EXECUTE)
                _forget_handlers()
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
                os.execve(program or arguments[0], arguments, environment)
            finally:
                os._exit(CANNOT_EXECUTE)
        os.close(gate)
        self._queued_before = 0.0

    def release(self):
        """Let the command begin."""
        self._queued_before = family.queued_seconds(self.pid)
        os.write(self._gate, b"x")
        os.close(self._gate)

    def cancel(self):
        """End the child instead."""
        os.close(self._gate)
        self.wait()

    def wait(self):
        """Wait for its end, handing on signals; return os.waitpid's status."""
        while True:
            if os.waitid(os.P_PID, self.pid,
                         os.WEXITED | os.WNOHANG | os.WNOWAIT):
                # Only now it is complete, and soon it is gone.
                self.queued = (family.queued_seconds(self.pid)
                               - self._queued_before)
                status = os.waitpid(self.pid, 0)[1]
                break
            signals = FORWARDED | {signal.SIGCHLD}
            info = signal.sigwaitinfo(signals)
            if info.si_signo in FORWARDED and info.si_code != SI_KERNEL:
                os.kill(self.pid, info.si_signo)
        # Those that came too late are not for us either.
        while signal.sigtimedwait(FORWARDED, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return status


def _forget_handlers():
    """Undo what Python does to signals when it starts."""
    for number in signal.SIGPIPE, signal.SIGXFSZ:
        signal.signal(number, signal.SIG_DFL)
    handle_ends(signal.SIG_DFL)


def handle_ends(handler):
    """Let signals that end programs be handled so, if they are not ignored.

    Whoever starts a job in the background may let it ignore Ctrl-C, and nohup
    the end of the terminal.
    """
    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def exit_like(status):
    """End this process as the status of os.waitpid says."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))
