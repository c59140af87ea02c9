"""Names of a process in a container: with numbers and a /tmp of its own.

Instead of a container engine, unshare gives a program new namespaces, as an
engine does.  The statements are those of Doc/howto/perf_servers.rst.
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from test import support
from test.support.perf_helper import map_path, remove_map, requires_trampoline
from test.test_perf_doc import why_perf_fails

TIMEOUT = support.LONG_TIMEOUT

# As an ordinary user, a container takes a user namespace, too.
UNSHARE = ["unshare", "--pid", "--mount", "--fork", "--kill-child",
           "--mount-proc",
           *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]

# The interpreter itself may lie below /tmp, so the program hides that late.
SERVER = """\
import subprocess
import sys

def work():
    return sum(number * number for number in range(100_000))

def serve():
    work()
    print("ready", flush=True)
    while True:
        work()

subprocess.run(["mount", "-t", "tmpfs", "none", "/tmp"], check=True)
sys.activate_stack_trampoline("perf")
serve()
"""


def environment():
    return {name: value for name, value in os.environ.items()
            if not name.startswith("PYTHON")}


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, env=environment(),
                          stderr=subprocess.PIPE, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=TIMEOUT)


def why_not():
    if not shutil.which("unshare"):
        return "unshare is not installed"
    probe = run(*UNSHARE, "mount", "-t", "tmpfs", "none", "/tmp")
    if probe.returncode != 0:
        return f"no namespaces here: {probe.stderr.strip()}"
    return why_perf_fails()


@requires_trampoline
class ContainerTests(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="test_perf_container-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.data = os.path.join(self.directory, "perf.data")

    def start_server(self):
        """Start SERVER in a container, and return its number outside."""
        server = subprocess.Popen([*UNSHARE, sys.executable, "-c", SERVER],
                                  stdout=subprocess.PIPE, text=True,
                                  stdin=subprocess.DEVNULL, env=environment())
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline(), "ready\n")
        children = f"/proc/{server.pid}/task/{server.pid}/children"
        return server, int(pathlib.Path(children).read_text())

    def record(self, *target):
        result = run("perf", "record", "-F", "999", "-g", "-o", self.data,
                     *target)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def report(self, *prefix):
        result = run(*prefix, "perf", "report", "-i", self.data, "--stdio",
                     "--no-inline", "--children", "-g", "none")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_from_outside(self):
        left = set(glob.glob("/tmp/perf-*.map"))
        server, pid = self.start_server()
        while map_path(pid) in left:    # of an ended process of that number
            server, pid = self.start_server()
        inside = pathlib.Path(f"/proc/{pid}/root/tmp/perf-1.map")
        self.assertIn("py::serve:", inside.read_text())
        self.assertFalse(os.path.exists(map_path(pid)))
        self.record("-p", str(pid), "--", "sleep", "1")

        # The process is running: perf looks into its /tmp, which takes root.
        if os.geteuid() == 0:
            self.assertIn("py::work:", self.report())

        # It has ended: the names are gone, unless the map was copied.
        symbols = inside.read_text()
        server.kill()
        server.wait()
        deadline = time.monotonic() + TIMEOUT
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertNotIn("py::", self.report())
        self.addCleanup(remove_map, pid)
        pathlib.Path(map_path(pid)).write_text(symbols)
        self.assertIn("py::work:", self.report())

    def test_number_in_container(self):
        _, pid = self.start_server()
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        self.assertRegex(status, rf"\nNSpid:.*\b{pid}\b.*\b1\n")

    def test_from_inside(self):
        # The map is in the /tmp of all, so choose a number that nobody has.
        number = 100_000 + os.getpid()
        script = os.path.join(self.directory, "script.py")
        with open(script, "w") as file:
            file.write(textwrap.dedent("""\
                import os
                def work():
                    return sum(number * number for number in range(2_000_000))
                def main():
                    print(os.getpid())
                    work()
                main()
                """))
        inside = ("echo $1 >/proc/sys/kernel/ns_last_pid && shift && "
                  "perf record -F 999 -g -o \"$@\"")
        result = run(*UNSHARE, "sh", "-c", inside, "sh", str(number),
                     self.data, "--", sys.executable, "-X", "perf", script)
        if "ns_last_pid" in result.stderr:
            self.skipTest("process numbers cannot be chosen here")
        self.assertEqual(result.returncode, 0, result.stderr)
        pid = int(result.stdout)
        self.addCleanup(remove_map, pid)
        self.assertGreater(pid, number)
        self.assertIn("py::work:", self.report(*UNSHARE))


if __name__ == "__main__":
    unittest.main()
