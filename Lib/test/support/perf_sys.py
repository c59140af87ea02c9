"""Programs that switch the perf trampoline, each in a process of its own and
in an environment without PYTHON* variables other than those of the test.

For test_perf_sys, test_perf_options and test_perf_programs.
"""

import os
import site
import subprocess
import sys
import textwrap
import unittest

from test import support
from test.support.perf_helper import map_path, read_map, remove_map

TIMEOUT = support.LONG_TIMEOUT
SITE = site.main.__code__.co_filename

PRELUDE = """\
import os, sys
MAP = f"/tmp/perf-{os.getpid()}.map"
is_active = sys.is_stack_trampoline_active
activate = sys.activate_stack_trampoline
deactivate = sys.deactivate_stack_trampoline
def names():
    with open(MAP) as file:
        return [line.split(" ", 2)[2].rstrip("\\n") for line in file]
def is_known(function):
    code = function.__code__
    return f"py::{code.co_qualname}:{code.co_filename}" in names()
"""


class Result:
    """How a program ended, what it wrote and which symbols its map has."""

    def __init__(self, process, stdout, stderr):
        self.pid = process.pid
        self.returncode = process.returncode
        self.stdout = stdout.decode()
        self.stderr = stderr.decode()
        self.symbols = None             # there is no map
        if os.path.isfile(map_path(process.pid)):
            self.symbols = [name for _, _, name in read_map(process.pid)]


def run_command(command, variables=(), cwd=None):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    env.update(variables)
    # Another process with this pid may have left its map.
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, cwd=cwd,
                          stderr=subprocess.PIPE,
                          preexec_fn=lambda: remove_map(os.getpid())
                          ) as process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
            return Result(process, stdout, stderr)
        finally:
            process.kill()
            if os.path.isdir(map_path(process.pid)):
                os.rmdir(map_path(process.pid))
            else:
                remove_map(process.pid)


def run(program, *options, prelude=PRELUDE, **kwargs):
    return run_command([sys.executable, *options, "-c",
                        prelude + textwrap.dedent(program)], **kwargs)


class SysTestCase(unittest.TestCase):

    def run_well(self, program, *options, **kwargs):
        result = run(program, *options, **kwargs)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result
