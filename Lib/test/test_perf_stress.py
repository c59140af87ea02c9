"""The programs of Tools/stress, for a short time.

How long they have run at length is in Doc/design/reliability.rst.
"""

import os
import pathlib
import subprocess
import sys
import unittest
from test import support
from test.support.perf_base import KEEPS_MEMORY
from test.support.perf_helper import (EMULATOR, remove_map,
                                      requires_trampoline)

try:
    import _testperf
except ImportError:
    _testperf = None            # `make test` builds it: less is tested

# Under a sanitizer, freed memory is kept for a while.  An emulator's own
# memory counts as the program's, and grows.
GROWTH = ("1000000" if support.check_sanitizer(address=True) or EMULATOR
          or KEEPS_MEMORY else "2048")


@requires_trampoline
class StressTest(unittest.TestCase):

    def run_tool(self, name, *arguments):
        # Ours are links from the tree that is built to the repository.
        here = pathlib.Path(__file__).resolve()
        tool = here.parents[2] / "Tools" / "stress" / name
        if not tool.exists():
            self.skipTest(f"Tools/stress/{name} is only in the source tree")
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("PYTHON")}
        if _testperf is not None:
            env["PYTHONPATH"] = os.path.dirname(_testperf.__file__)
        with subprocess.Popen([sys.executable, str(tool), *arguments],
                              env=env, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(timeout=support.LONG_TIMEOUT)
            finally:
                process.kill()
                remove_map(process.pid)
        self.assertEqual((process.returncode, err), (0, ""), out)
        if support.verbose:
            print(out)

    def test_switch(self):
        self.run_tool("switch.py", "--seconds", "3", "--switches", "3000",
                      "--ends", "8", "--growth", GROWTH)

    def test_fork_storm(self):
        self.run_tool("fork_storm.py", "--forks", "60", "--symbols", "1000",
                      "--growth", GROWTH)

    def test_interpreters(self):
        self.run_tool("interpreters.py", "--functions", "500")

    def test_threads(self):
        self.run_tool("threads.py", "--turns", "40")


if __name__ == "__main__":
    unittest.main()
