"""The documentation of the perf trampoline: its commands work as shown.

Each page is read from the source tree.  Files that a page shows (code blocks
with a caption) are written to a temporary directory, where the commands of its
shell sessions run in order.  A session that cannot run in a test has the
comment ``.. Not run: REASON`` before it.
"""

import contextlib
import doctest
import functools
import glob
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import unittest

from perfpy import permissions
from test import support
from test.support import (perf_base, perf_bpftrace, perf_helper,
                          perf_samply)
from test.support.script_helper import assert_python_ok

perf_helper.skip_module_if_emulated(
    "perf would see it, not the program it runs")

SOURCES = pathlib.Path(sysconfig.get_config_var("srcdir") or "")
PAGES = (
    "perf.rst",
    "c-api/perfmaps.rst",
    "design/benchmarks.rst",
    "design/frame_labels.rst",
    "design/index.rst",
    "design/reliability.rst",
    "design/upstream.rst",
    "design/whole_stacks.rst",
    "howto/perf_jitdump.rst",
    "howto/perf_packages.rst",
    "howto/perf_profiling.rst",
    "howto/perf_servers.rst",
    "howto/perfpy.rst",
)
NOT_RUN = ".. Not run: "

SAME_OUTPUT = functools.partial(
    doctest.OutputChecker().check_output,
    optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def indent_of(line):
    return len(line) - len(line.lstrip(" "))


def literal_blocks(lines):
    """Yield (line number, reason not to run, caption, text) of each block."""
    reason = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.strip().startswith(NOT_RUN):
            reason = line.strip().removeprefix(NOT_RUN)
        is_directive = line.strip().startswith(".. code-block::")
        if not is_directive and not line.endswith("::"):
            continue
        indent = indent_of(line)
        start = number
        while number < len(lines) and (not lines[number].strip()
                                       or indent_of(lines[number]) > indent):
            number += 1
        block = textwrap.dedent("\n".join(lines[start:number]))
        caption = re.match(r":caption: (.*)\n", block)
        if is_directive:
            block = re.sub(r"\A(:\w+:.*\n)*\n", "", block)
        text = block.strip("\n") + "\n"
        yield start + 1, reason, caption and caption[1], text
        reason = None


class Page:
    """The files and the shell sessions of a page."""

    def __init__(self, path):
        self.files = {}
        self.steps = []         # (line number, command, expected output)
        self.unexplained = []   # line numbers of sessions for root
        lines = path.read_text(encoding="utf-8").splitlines()
        for line, reason, caption, block in literal_blocks(lines):
            if caption:
                self.files[caption] = block
            elif reason is None:
                self._read_session(line, block)

    def _read_session(self, line, block):
        if re.match("# ", block):
            self.unexplained.append(line)
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = session.partition("\n")
            self.steps.append((line, command, expected))


def open_page(name):
    path = SOURCES / "Doc" / name
    if not path.exists():
        raise unittest.SkipTest(f"Doc/{name} is only in the source tree")
    return Page(path)


@functools.cache
def why_perf_fails():
    """Return why perf cannot record here, or None if it can."""
    if not shutil.which("perf"):
        return "perf is not installed"
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "perf.data")
        record = subprocess.run(
            ["perf", "record", "-F", "999", "-g", "-o", data, "--",
             sys.executable, "-c", "sum(range(3_000_000))"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=support.SHORT_TIMEOUT)
        if record.returncode != 0:
            return f"perf may not record here: {record.stderr.strip()}"
        script = subprocess.run(["perf", "script", "-i", data],
                                stdin=subprocess.DEVNULL, capture_output=True,
                                timeout=support.LONG_TIMEOUT)
        if not script.stdout.strip():
            return "perf records no samples here"
    return None


@functools.cache
def why_samply_fails():
    with tempfile.TemporaryDirectory() as directory:
        return perf_samply.why_not(directory)


def why_gunicorn_fails():
    if not os.path.exists("/usr/lib/python3/dist-packages/gunicorn"):
        return "Debian's package python3-gunicorn is not installed"
    if why_perf_fails():
        return "there is nothing to record a server with"
    return None


def why_not(command):
    """Return what is missing to run command here, or None."""
    if re.search(r"\bsamply record\b", command):
        return why_samply_fails()
    if re.search(r"\bbpftrace\b", command):
        return perf_bpftrace.why_not()
    if (re.search("gunicorn|shop|toggled", command)
            and (reason := why_gunicorn_fails())):
        return reason
    if "--wall" in command and not permissions.may_record_kernel():
        return "only root, or perf_event_paranoid of 1, may use --wall"
    if ("syscalls:" in command
            and not os.access("/sys/kernel/tracing/events", os.R_OK)):
        return "there are no tracepoints for this user"
    if re.search(r"\bperf (record|report|script)\b|\bperfpy", command):
        return why_perf_fails()
    if ("omit-frame-pointer" in command and "--without-frame-pointers"
            in (sysconfig.get_config_var("CONFIG_ARGS") or "")):
        return "built with --without-frame-pointers"
    return None


@perf_helper.requires_trampoline
class CommandTests(unittest.TestCase):

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="test_perf_doc-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.addCleanup(self.remove_maps)
        self.addCleanup(self.stop_servers)
        self.pids = os.path.join(self.directory, ".pids")
        python = self.write_file(
            "bin/python",
            f'#!/bin/sh\necho $$ >>"{self.pids}"\n'
            f'exec "{sys.executable}" "$@"\n')
        os.chmod(python, 0o755)
        perfpy = self.write_file(
            "bin/perfpy3.11",
            "#!/bin/sh\n"
            "exec python -c 'import sys; from perfpy.cli import main;"
            ' sys.argv[0] = "perfpy3.11"; sys.exit(main())\' "$@"\n')
        os.chmod(perfpy, 0o755)
        if perf_samply.path():
            words = shlex.join(perf_samply.command(self.directory))
            samply = self.write_file("bin/samply",
                                     f'#!/bin/sh\nexec {words} "$@"\n')
            os.chmod(samply, 0o755)

    def write_file(self, name, text):
        path = pathlib.Path(self.directory, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def stop_servers(self):
        """End a server that a failed test has left, and await the others."""
        for path in glob.glob(f"{self.directory}/*.pid"):
            with (contextlib.suppress(FileNotFoundError, ProcessLookupError),
                  open(path) as file):
                os.kill(int(file.read()), signal.SIGTERM)
        deadline = time.monotonic() + support.LONG_TIMEOUT
        while (glob.glob(f"{self.directory}/*.pid")
               and time.monotonic() < deadline):
            time.sleep(0.1)

    def remove_maps(self):
        """Remove the maps of the commands, and of what they have forked."""
        with contextlib.suppress(FileNotFoundError), open(self.pids) as file:
            for pid in file:
                perf_helper.remove_map(int(pid))
        for path in glob.glob("/tmp/perf-*.map"):
            with contextlib.suppress(OSError):
                if self.directory in pathlib.Path(path).read_text(
                        encoding="utf-8", errors="replace"):
                    os.unlink(path)

    def run_command(self, command):
        """Return exit status, standard output and standard error."""
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("PYTHON")}
        env["PATH"] = os.pathsep.join(
            [os.path.join(self.directory, "bin"), env.get("PATH", os.defpath)])
        # Not a pipe: perf record would write its data to it.
        with (tempfile.TemporaryFile("w+", encoding="utf-8") as stdout,
              tempfile.TemporaryFile("w+", encoding="utf-8") as stderr):
            process = subprocess.run(
                ["sh", "-c", command], cwd=self.directory, env=env,
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                timeout=support.LONG_TIMEOUT)
            stdout.seek(0)
            stderr.seek(0)
            return process.returncode, stdout.read(), stderr.read()

    def check_step(self, command, expected):
        if reason := why_not(command):
            self.skipTest(reason)
        status, output, errors = self.run_command(command)
        self.assertEqual(status, 0, output + errors)
        if "perfpy" in command:     # shown as on a terminal
            output += errors
        # Times differ; functions do not.
        symbols = re.findall(r"py::\S+?:(?=/)", expected)
        rows = re.findall(r"%  +(?:own +)?([\w.<>]+)  +\(?/", expected)
        for symbol in symbols:
            self.assertIn(symbol, output)
        for name in rows:
            self.assertRegex(
                output, rf"%  +(own +)?{re.escape(name)}  +\(?/")
        if re.match("ok  ", expected):      # of perfpy doctor
            self.assertEqual(expected.splitlines()[-1],
                             output.splitlines()[-1])
        elif expected.strip() and not symbols and not rows:
            self.assertTrue(SAME_OUTPUT(expected, output),
                            f"expected:\n{expected}\ngot:\n{output}")

    def check_page(self, name):
        page = open_page(name)
        for file, text in page.files.items():
            self.write_file(file, text)
        for line, command, expected in page.steps:
            with self.subTest(page=name, line=line, command=command):
                self.check_step(command, expected)

    def test_howto(self):
        self.check_page("howto/perf_profiling.rst")

    def test_howto_has_commands(self):
        page = open_page("howto/perf_profiling.rst")
        self.assertGreater(len(page.steps), 10)
        self.assertIn("collatz.py", page.files)

    def test_other_pages(self):
        for name in PAGES:
            if name != "howto/perf_profiling.rst":
                self.check_page(name)

    def test_commands_for_root_are_explained(self):
        for name in PAGES:
            self.assertEqual(open_page(name).unexplained, [], name)


class HelpTests(unittest.TestCase):

    def help_text(self, option):
        return assert_python_ok(option).out.decode()

    def test_xoptions(self):
        for option in "--help-xoptions", "--help-all":
            text = self.help_text(option)
            self.assertIn("\n-X perf:", text)
            self.assertIn("\n-X perf_jit:", text)

    def test_environment(self):
        for option in "--help-env", "--help-all":
            text = self.help_text(option)
            self.assertRegex(text, r"\nPYTHONPERFSUPPORT *:.*\(-X perf\)")
            self.assertRegex(
                text, r"\nPYTHON_PERF_JIT_SUPPORT *:.*\s+\(-X perf_jit\)")

    @unittest.skipUnless(perf_base.SERVES_REQUESTS, "CPython's own words")
    def test_requests(self):
        for option in "--help-xoptions", "--help-all":
            self.assertIn("\n-X disable-remote-debug:",
                          self.help_text(option))
        for option in "--help-env", "--help-all":
            self.assertRegex(self.help_text(option),
                             r"\nPYTHON_DISABLE_REMOTE_DEBUG *:.*\s+"
                             r"\(-X disable-remote-debug\)")
        text = self.manual_page()
        self.assertRegex(text, "(?m)^ *-X disable-remote-debug:")
        self.assertIn("\n.IP PYTHON_DISABLE_REMOTE_DEBUG\n", text)

    def manual_page(self):
        path = SOURCES / "Misc" / "python.man"
        if not path.exists():
            self.skipTest("Misc/python.man is only in the source tree")
        text = path.read_text(encoding="utf-8")
        return re.sub(r"\\(fB|fR|(?=-))", "", text)      # typeface

    def test_manual_page(self):
        text = self.manual_page()
        for line in (" *-X perf(:.*)?", " *-X perf_jit(:.*)?",
                     r"\.IP PYTHONPERFSUPPORT",
                     r"\.IP PYTHON_PERF_JIT_SUPPORT"):
            self.assertRegex(text, f"(?m)^{line}$")


if __name__ == "__main__":
    unittest.main()
