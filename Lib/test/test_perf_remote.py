"""Switching the trampoline on in another process (PEP 768)."""

import os
import subprocess
import sys
import textwrap
import unittest
from test.support import SHORT_TIMEOUT, os_helper
from test.support.perf_helper import (map_path, read_map, remove_map,
                                      requires_trampoline)

SCRIPT = """
    import sys

    def inner():
        return sum(range(100))

    def loop():
        print("ready", flush=True)
        while not sys.is_stack_trampoline_active():
            inner()
        for _ in range(1000):
            inner()

    loop()
    def called_later():
        pass
    called_later()
    """


@requires_trampoline
@unittest.skipUnless(hasattr(sys, "remote_exec"), "needs sys.remote_exec()")
class RemoteTest(unittest.TestCase):

    def remote_exec(self, pid, script):
        path = os_helper.TESTFN + ".py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        self.addCleanup(os_helper.unlink, path)
        try:
            sys.remote_exec(pid, os.path.abspath(path))
        except PermissionError as error:
            self.skipTest(f"may not write to another process: {error}")

    def test_activate(self):
        # What ran before is an evaluator without labels, which must call
        # functions through the hook from then on.
        with subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(SCRIPT)],
                stdout=subprocess.PIPE, text=True) as process:
            self.addCleanup(remove_map, process.pid)
            self.addCleanup(process.kill)
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assertFalse(os.path.exists(map_path(process.pid)))
            self.remote_exec(process.pid, """if True:
                import sys
                sys.activate_stack_trampoline("perf")
                """)
            self.assertEqual(process.wait(SHORT_TIMEOUT), 0)
        names = [name for _, _, name in read_map(process.pid)]
        self.assertIn("py::inner:<string>", names)
        self.assertIn("py::called_later:<string>", names)
        # It was entered before, once for all.
        self.assertNotIn("py::loop:<string>", names)


if __name__ == "__main__":
    unittest.main()
