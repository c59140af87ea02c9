"""What the tests of the jitdump back end share: scripts in processes of their
own, whose jitdumps go to a temporary directory.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from test import support
from test.support import perf_jitdump
from test.support.perf_helper import (map_path, remove_map,
                                      requires_trampoline)

# Every script starts with this.
PRELUDE = """\
import errno, os, sys, time
from types import FunctionType

def path(pid):
    return os.path.join(os.environ["JITDUMPDIR"], f"jit-{pid}.dump")

def template():
    pass

def run(qualname, filename="made"):
    '''Run a function of that name.'''
    code = template.__code__.replace(co_qualname=qualname,
                                     co_filename=filename)
    FunctionType(code, {})()

"""


def symbol_of(qualname, filename="made"):
    return f"py::{qualname}:{filename}"


def clean_environment(**variables):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON") and name != "JITDUMPDIR"}
    return env | variables


# Code that is dumped without being a label, for its unwind information.
AREA_CODE = ["_PyPerf_EnterAreaWithUnwindInfo",
             "_PyPerf_ShareAreaWithUnwindInfo"]


class Result:
    """A process that has ended."""

    def __init__(self, process, out, err, directory, map_data):
        self.map = map_data             # None: there was no such file
        self.pid = process.pid
        self.status = process.returncode
        self.out = out
        self.err = err
        self.path = os.path.join(directory, f"jit-{self.pid}.dump")


@requires_trampoline
class JitdumpTestCase(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="test_perf_jitdump-")
        self.addCleanup(shutil.rmtree, self.directory)

    def run_command(self, command, directory=None, variables=None, **kwargs):
        directory = directory or self.directory
        env = clean_environment(**{"JITDUMPDIR": directory,
                                   **(variables or {})})
        prepare = kwargs.pop("preexec_fn", lambda: None)

        def forget_others():
            # Another process with this pid may have left its map.
            remove_map(os.getpid())
            prepare()

        with subprocess.Popen(command, env=env, text=True,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=forget_others, **kwargs) as process:
            try:
                out, err = process.communicate(timeout=support.LONG_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                map_data = None
                if os.path.isfile(map_path(process.pid)):
                    with open(map_path(process.pid), "rb") as file:
                        map_data = file.read()
                remove_map(process.pid)
        return Result(process, out, err, directory, map_data)

    def command(self, script, *options):
        file = os.path.join(self.directory, "script.py")
        with open(file, "w") as script_file:
            script_file.write(PRELUDE + textwrap.dedent(script))
        # A debug build shows warnings that others ignore.
        return [sys.executable, "-W", "ignore", *options, file]

    def run_script(self, script, *options, status=0, err="", **kwargs):
        """Run script.  Return its Result, checked for status and errors."""
        result = self.run_command(self.command(script, *options), **kwargs)
        self.assertEqual((result.status, result.err), (status, err),
                         result.out)
        return result

    def dump_of(self, script, *options, **kwargs):
        """Run script with -X perf_jit; return the Jitdump."""
        options = options or ("-X", "perf_jit")
        return perf_jitdump.read(self.run_script(script, *options,
                                                 **kwargs).path)

    def assert_has(self, dump, *qualnames, times=1):
        names = [load.name for load in dump.loads]
        for qualname in qualnames:
            self.assertEqual(names.count(symbol_of(qualname)), times, qualname)

    def assert_lacks(self, dump, *qualnames):
        self.assert_has(dump, *qualnames, times=0)
