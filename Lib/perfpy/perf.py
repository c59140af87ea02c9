"""Linux perf, as installed: find it, ask what it can do, and run it.

Called by run.py, collect.py and doctor.py.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile

# What this user may record: the best of cycles and a timer, with the kernel or
# without.  A virtual machine has no counters, and perf_event_paranoid of 2,
# usual for users other than root, keeps the kernel out.
EVENTS = ("cycles", "cpu-clock", "cycles:u", "cpu-clock:u")

OLDEST = (5, 13)            # older ones cannot be told when to start and stop

# A program that runs long enough to be sampled.
BUSY = [sys.executable, "-I", "-S", "-c", "for _ in range(1_000_000): pass"]

# Nothing goes into the cache in the home directory, and no BPF programs are
# listened for: to stop that takes root's perf a second.
QUICKLY = ["--no-buildid-cache", "--no-bpf-event"]


class PerfError(Exception):
    """perf is missing or failed.  The text is for the user."""


def _text(version):
    return ".".join(map(str, version))


def _environment():
    """Return ours without what changes perf's output."""
    return {**os.environ, "LC_ALL": "C", "PERF_CONFIG": os.devnull,
            "PAGER": "cat"}


def highest_frequency():
    """Return how many samples a second the kernel allows.

    It lowers this when samples take it too long.
    """
    try:
        with open("/proc/sys/kernel/perf_event_max_sample_rate") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 100_000


def last_lines(text, count=5):
    """Return the end of a program's messages, without its usage, indented."""
    lines = [line for line in text.partition("\n Usage: ")[0].splitlines()
             if line.strip()]
    return "\n".join("    " + line for line in lines[-count:])


class Perf:
    """An installed perf."""

    def __init__(self, path, version):
        self.path = path
        self.version = version

    @classmethod
    def find(cls, name=None):
        """Return the perf called name, $PERF or "perf"; raise PerfError."""
        name = name or os.environ.get("PERF") or "perf"
        path = shutil.which(name)
        if not path:
            raise PerfError(f"{name} is not installed: apt install linux-perf "
                            "(Ubuntu: linux-tools-generic, "
                            "Fedora, Arch and others: perf)")
        answer = subprocess.run([path, "--version"], env=_environment(),
                                stdin=subprocess.DEVNULL, text=True,
                                errors="backslashreplace",
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        match = re.search(r"perf version (\d+)\.(\d+)", answer.stdout)
        if answer.returncode or not match:
            raise PerfError(f"{path} does not work; it says:\n"
                            + last_lines(answer.stdout))
        version = int(match[1]), int(match[2])
        if version < OLDEST:
            raise PerfError(f"{path} is perf {_text(version)}; perfpy needs "
                            f"{_text(OLDEST)} or newer")
        return cls(path, version)

    @property
    def version_text(self):
        return _text(self.version)

    def run(self, *arguments):
        """Run to the end; return the CompletedProcess, with text."""
        return subprocess.run([self.path, *arguments], text=True,
                              env=_environment(), errors="backslashreplace",
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def inject(self, data, injected):
        """Merge jitdumps into a recording; raise PerfError."""
        # It would put what it makes of them into the cache of build-ids, too.
        answer = self.run("--buildid-dir", os.path.dirname(injected),
                          "inject", "--jit", "-i", data, "-o", injected)
        if answer.returncode:
            raise PerfError("perf inject failed; it says:\n"
                            + last_lines(answer.stderr))

    def try_event(self, event, directory):
        """Return None if samples come in, else what perf says."""
        data = os.path.join(directory, "try.data")
        try:
            # A small buffer: other profilers of this user may have used up
            # most of the memory that perf may lock.
            answer = self.run("record", "-q", "-F", "999", "-g", *QUICKLY,
                              "-m", "16K",
                              "-e", event, "-o", data, "--", *BUSY)
            if answer.returncode:
                return answer.stderr or "perf record failed"
            answer = self.run("script", "-i", data, "-F", "ip")
            if answer.returncode:
                return answer.stderr or "perf script failed"
            return None if answer.stdout.strip() else "no samples came in\n"
        finally:
            for name in data, data + ".old":
                if os.path.exists(name):
                    os.unlink(name)

    def find_event(self, directory):
        """Return the best event that can be recorded; raise PerfError."""
        complaint = ""
        for event in EVENTS:
            complaint = self.try_event(event, directory)
            if complaint is None:
                return event
        raise PerfError("perf may not record here; perfpy doctor tells more. "
                        "perf says:\n" + last_lines(complaint))

    def record(self, pid, data, *options, reduce=None, enable=True):
        """Start to record a process, None for all; return a Recorder.

        Unless told otherwise, it is enabled: it records from now on.

        With reduce, a function that makes a Reducer of a descriptor and a
        file's name, that writes the file, and it is a stream.
        """
        recorder = Recorder(self, pid, data, options, reduce)
        recorder.tell("enable" if enable else "ping")
        return recorder

    def script(self, data, *options, is_stream=False):
        """Yield the lines that perf script prints; raise PerfError."""
        with (open(data if is_stream else os.devnull, "rb") as stream,
              tempfile.TemporaryFile("w+", errors="backslashreplace") as said):
            command = [self.path, "script", "-i", "-" if is_stream else data,
                       "--no-inline", *options]
            with subprocess.Popen(command, env=_environment(), text=True,
                                  encoding="utf-8", errors="backslashreplace",
                                  stdin=stream,
                                  stdout=subprocess.PIPE,
                                  stderr=said) as process:
                # Only a line feed ends a line; names may have other breaks.
                process.stdout.reconfigure(newline="\n")
                try:
                    yield from process.stdout
                except BaseException:
                    process.kill()
                    raise
            if process.returncode:
                said.seek(0)
                raise PerfError("perf script failed; it says:\n"
                                + last_lines(said.read()))


class Recorder:
    """A perf record that is attached to a process, or to the machine."""

    def __init__(self, perf, pid, data, options, reduce):
        self._said = tempfile.TemporaryFile("w+", errors="backslashreplace")
        command_read, self._command = os.pipe()
        self._answer, answer_write = os.pipe()
        self.reducer, output = None, self._said
        if reduce:
            stream_read, output = os.pipe()
            _enlarge(output)
            self.reducer = reduce(stream_read, data)
            self.reducer.start()
        # In a session of its own: a Ctrl-C is for the script.
        self.process = subprocess.Popen(
            [perf.path, "record", *QUICKLY, *options,
             "-o", "-" if reduce else data,
             "-D", "-1", f"--control=fd:{command_read},{answer_write}",
             *(["-a"] if pid is None else ["-p", str(pid)])],
            env=_environment(), stdin=subprocess.DEVNULL,
            stdout=output, stderr=self._said,
            pass_fds=(command_read, answer_write), start_new_session=True)
        if reduce:
            os.close(output)
        os.close(command_read)
        os.close(answer_write)

    def tell(self, command):
        """Give perf a command; raise PerfError if it cannot obey."""
        if not self._tell(command):
            self.process.wait()
            raise PerfError("perf record failed; it says:\n"
                            + self._complaint())

    def ping(self):
        """Let perf write what it has; return whether it is still there."""
        return self._tell("ping")

    def _tell(self, command):
        try:
            os.write(self._command, command.encode() + b"\n")
            return b"ack" in os.read(self._answer, 100)
        except BrokenPipeError:
            return False

    def _complaint(self):
        self._said.seek(0)
        return last_lines(self._said.read(), count=40)

    def stop(self):
        """Let perf finish its file; raise PerfError if it cannot.

        It stops by itself when the process is gone.
        """
        self._tell("stop")
        os.close(self._command)
        os.close(self._answer)
        with self._said:
            if self.process.wait():
                raise PerfError("perf record failed; it says:\n"
                                + self._complaint())
        if self.reducer:
            try:
                self.reducer.finish()
            except OSError as error:
                raise PerfError("the recording is not complete: "
                                f"{error.strerror or error}") from error
            except Exception as error:
                raise PerfError("the recording is not complete: what perf "
                                f"wrote makes no sense ({error!r})") from error


def _enlarge(pipe):
    """Let a pipe hold what the kernel allows."""
    try:
        with open("/proc/sys/fs/pipe-max-size") as file:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, int(file.read()))
    except (OSError, ValueError):
        pass
