"""Programs that write a perf map, each in a process of its own.

For test_perf_map and others.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import unittest

from test import support
from test.support.perf_helper import map_path

LINE = re.compile(rb"([0-9a-f]+) ([0-9a-f]+) (\S.*)")
TIMEOUT = support.SHORT_TIMEOUT

# What programs and launchers below may use.
PRELUDE = """\
import errno, os, sys
MAP = f"/tmp/perf-{os.getpid()}.map"

def make_function(name, filename="made.py"):
    code = (lambda: None).__code__
    code = code.replace(co_name=name, co_qualname=name, co_filename=filename)
    return type(make_function)(code, {})

def descriptor_of_map():
    return next(int(fd) for fd in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{fd}")
                and os.readlink(f"/proc/self/fd/{fd}") == MAP)
"""


class Result:
    """What a program wrote, and the map that it left."""

    def __init__(self, process, stdout, stderr, data):
        self.pid = process.pid
        self.returncode = process.returncode
        self.stdout = stdout.decode()
        self.stderr = stderr.decode()
        self.map = data                 # None: there is no file

    @property
    def lines(self):
        return self.map.splitlines()

    @property
    def names(self):
        """Symbols in the order of the file, b"py::" left out."""
        return [LINE.fullmatch(line)[3].removeprefix(b"py::")
                for line in self.map.removesuffix(b"\n").split(b"\n")]


def remove(path):
    """Remove whatever stands at path."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def run(program, *options, before=None, wrapper=(), read=True,
        prelude=PRELUDE):
    """Run program; before is Python code for the launcher, which has PRELUDE.

    wrapper is a command that ends by running the command that follows it.
    """
    # A debug build shows warnings that others ignore.
    command = [sys.executable, "-I", "-W", "ignore", *options, "-c",
               prelude + textwrap.dedent(program)]
    if before is not None:
        launcher = (f"{PRELUDE}{textwrap.dedent(before)}\n"
                    f"os.execv(sys.executable, {command!r})\n")
        command = [sys.executable, "-I", "-W", "ignore", "-c", launcher]
    # Another process with this pid may have left its map.
    with subprocess.Popen([*wrapper, *command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE,
                          preexec_fn=lambda: remove(map_path(os.getpid()))
                          ) as process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            data = None
            path = map_path(process.pid)
            if read and os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
            remove(path)
    return Result(process, stdout, stderr, data)


class MapTestCase(unittest.TestCase):

    def run_well(self, program, *options, **kwargs):
        result = run(program, *options, **kwargs)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result

    def assert_whole_lines(self, data):
        """Return [(start, size)] of the lines."""
        self.assertTrue(data.endswith(b"\n"), data[-200:])
        ranges = []
        for line in data.removesuffix(b"\n").split(b"\n"):
            match = LINE.fullmatch(line)
            self.assertIsNotNone(match, line)
            ranges.append((int(match[1], 16), int(match[2], 16)))
        return ranges

    def assert_one_warning(self, result):
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, r"\Apython: ")
        self.assertIn(map_path(result.pid), result.stderr)


def mount_command(options):
    """A wrapper that runs a command with an own /tmp, or a reason why not."""
    if os.path.realpath(sys.executable).startswith("/tmp/"):
        return None, "the interpreter lies in /tmp"
    if shutil.which("unshare") is None:
        return None, "needs unshare(1)"
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    wrapper = [*unshare, "sh", "-c", f'mount {options} && exec "$@"', "sh"]
    probe = subprocess.run([*wrapper, "true"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    if probe.returncode != 0:
        return None, f"cannot mount: {probe.stdout.strip()}"
    return wrapper, None
