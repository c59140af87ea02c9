"""Lines end to end: perf's percentages by line are those that are known.

By the map, where each line is a symbol, and by the jitdump, from which perf
makes line tables.  A jitdump's records are read as well.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

from test import support
from test.support import perf_jitdump, perf_split
from test.support.perf_helper import remove_map, requires_trampoline
from test.support.perf_record import clean_environment, why_not_record

EVENT = "cpu-clock:u"


@requires_trampoline
class SplitTest(perf_split.SplitTestCase):

    @classmethod
    def setUpClass(cls):
        if why_not := why_not_record(EVENT):
            raise unittest.SkipTest(why_not)

    def perf(self, *arguments):
        run = subprocess.run(
            ["perf", *arguments], cwd=self.directory, text=True,
            env=clean_environment(JITDUMPDIR=self.directory),
            timeout=support.LONG_TIMEOUT, capture_output=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def record(self, option):
        """Return what each line says of itself, in seconds."""
        out = self.perf("record", "-q", "--no-bpf-event",
                        "--no-buildid-cache", "-k", "1",
                        "-F", "999", "-g", "-e", EVENT, "-o", "perf.data",
                        "--", sys.executable, "-X", option, self.script,
                        str(perf_split.SECONDS))
        events = self.perf("script", "-i", "perf.data", "--show-task-events")
        for pid in set(re.findall(r"\((\d+):\d+\)", events)):
            self.addCleanup(remove_map, pid)
        return eval(out)

    def test_map(self):
        spent = self.record("perf=lines")
        text = self.perf("script", "-i", "perf.data", "--no-inline",
                         "-F", "pid,ip,sym")
        stacks = [(perf_split.python_frames(sample, self.script), 1)
                  for sample in text.split("\n\n")]
        perf_split.assert_split(self, stacks, spent)

    def test_jitdump(self):
        spent = self.record("perf_jit=lines")
        self.perf("inject", "--jit", "-i", "perf.data", "-o", "perf.jit.data")
        self.check_script(spent)
        self.check_sorted_report(spent)
        self.check_call_graph()

    def check_script(self, spent):
        text = self.perf("script", "-i", "perf.jit.data", "--no-inline",
                         "-F", "pid,ip,sym,srcline")
        symbol = rf"py::(.*?):{re.escape(self.script)}\n\s+script.py:(\d+)"
        stacks = [([(name, int(line)) for name, line
                    in re.findall(symbol, sample)], 1)
                  for sample in text.split("\n\n")]
        perf_split.assert_split(self, stacks, spent)
        # Symbols stay one for each function.
        self.assertNotRegex(text, r"py::split:.*:\d")

    def check_sorted_report(self, spent):
        """A row for each line: its symbol, and its file and line."""
        report = self.perf("report", "-i", "perf.jit.data", "--stdio",
                           "--no-inline", "--children", "--sort",
                           "sym,srcline", "-g", "caller,srcline")
        rows = {(name, int(line)): float(percent) / 100
                for percent, name, line in re.findall(
                    rf"(?m)^ +([0-9.]+)% .* py::(\w+):{self.script}"
                    r" +script\.py:(\d+) *$", report)}
        split = {line: share for (name, line), share in rows.items()
                 if name == "split"}
        self.assertLessEqual(perf_split.LINES, set(split))
        self.assertLessEqual(set(split), perf_split.LINES | perf_split.HARDLY)
        whole = sum(split.values())
        for line, share in perf_split.shares(spent).items():
            self.assertAlmostEqual(split[line] / whole, share, delta=0.06)
        loop = {line for name, line in rows if name == "loop"}
        self.assertLessEqual(perf_split.LOOP, loop)
        self.assertLessEqual(loop, perf_split.LOOP | perf_split.BEFORE_LOOP)

    def check_call_graph(self):
        """The lines of a caller are branches of the tree."""
        report = self.perf("report", "-i", "perf.jit.data", "--stdio",
                           "--no-inline", "--no-children", "--sort", "comm",
                           "-g", "caller,srcline")
        for name, lines in (("split", perf_split.LINES),
                            ("loop", perf_split.LOOP)):
            for line in lines:
                self.assertRegex(report, rf"py::{name}:{self.script}"
                                         rf" script\.py:{line}\n")


@requires_trampoline
class JitdumpTest(unittest.TestCase):

    def dump_of(self, source, option):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "script.py")
            with open(script, "w") as file:
                file.write(textwrap.dedent(source))
            run = subprocess.run(
                [sys.executable, "-X", option, script], text=True,
                env=clean_environment(JITDUMPDIR=directory),
                capture_output=True, timeout=support.LONG_TIMEOUT)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            (name,) = [name for name in os.listdir(directory)
                       if name.endswith(".dump")]
            dump = perf_jitdump.read(os.path.join(directory, name))
            return dump, script, os.path.getsize(os.path.join(directory, name))

    SOURCE = """
        def f(x):
            y = x
            return max(
                y,
                1)
        f(1)
        """

    def test_records(self):
        dump, script, _ = self.dump_of(self.SOURCE, "perf_jit=lines")
        lines_of = {}
        for before, record in zip(dump.records, dump.records[2:]):
            if record.id == perf_jitdump.JIT_CODE_LOAD:
                if before.id == perf_jitdump.JIT_CODE_DEBUG_INFO:
                    lines_of[record.name] = before, record
        debug, load = lines_of[f"py::f:{script}"]
        self.assertEqual(debug.code_addr, load.code_addr)
        addresses = [entry[0] for entry in debug.entries]
        self.assertEqual(addresses, sorted(set(addresses)))
        self.assertEqual(addresses[0], load.code_addr)
        self.assertEqual(addresses[-1], load.code_addr + load.code_size)
        self.assertEqual({entry[3].decode() for entry in debug.entries},
                         {script})
        # Two addresses for each unit of code, from the sixteenth on.
        scope = {}
        exec(compile(textwrap.dedent(self.SOURCE), script, "exec"), scope)
        for start, end, line in scope["f"].__code__.co_lines():
            for offset in range(start, end):
                address = load.code_addr + 16 + offset
                shown = [entry[1] for entry in debug.entries
                         if entry[0] <= address][-1]
                self.assertEqual(shown, line or 0, offset)

    def test_no_lines_unless_asked_for(self):
        dump, _, size = self.dump_of(self.SOURCE, "perf_jit")
        self.assertNotIn(perf_jitdump.JIT_CODE_DEBUG_INFO,
                         {record.id for record in dump.records})
        dump, _, with_lines = self.dump_of(self.SOURCE, "perf_jit=lines")
        self.assertLess(with_lines, 6 * size)
        codes = [load.code for load in dump.loads]
        self.assertEqual(len(codes), len(set(codes)))

    def test_names_and_tables_of_any_kind(self):
        dump, _, _ = self.dump_of("""
            import random
            def f():
                x = 1
                return x
            for seed in range(300):
                chance = random.Random(seed)
                code = f.__code__.replace(
                    co_linetable=chance.randbytes(chance.randrange(40)),
                    co_name="n", co_qualname=chance.choice(["a:b", "", "c"]),
                    co_filename=chance.choice(["", "x" * 3000, "\\n", "\\xff",
                                               "\\udc80", ":1"]))
                type(f)(code, {})()
            """, "perf_jit=lines")
        debug = [record for record in dump.records
                 if record.id == perf_jitdump.JIT_CODE_DEBUG_INFO]
        self.assertGreater(len(debug), 300)
        for record in debug:
            self.assertTrue(all(line < 2**31 for _, line, *_ in
                                record.entries))


if __name__ == "__main__":
    unittest.main()
