"""Lines end to end: perf's percentages by line are those that are known.

By the map, where each line is a symbol, and by the jitdump, from which perf
makes line tables.  A jitdump's records are read as well.
"""

import collections
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

from test import support
from test.support import perf_jitdump
from test.support.perf_helper import remove_map, requires_trampoline
from test.support.perf_record import clean_environment, why_not_record

EVENT = "cpu-clock:u"
SECONDS = 3

# What each line works takes so many parts of the time: three, two and one by
# calling, and the rest by itself.
SCRIPT = """\
import random
import sys
import time

spent = {}

def work(count):
    return sum(range(count))

def timed(line, function, count):
    begin = time.process_time()
    function(count)
    spent[line] = spent.get(line, 0) + time.process_time() - begin

def split(n):
    timed(16, work, 3 * n)
    timed(17, work, 2 * n)
    timed(18, work,
          1 * n)
    timed(20, loop, n // 3)

def loop(count):
    x = 0
    for number in range(count):
        x ^= number
        x += 1

random.seed(1)
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    # Work without a period of its own does not fall in step with the samples.
    split(random.randrange(20_000, 100_000))
print(spent)
"""
LINES = {16, 17, 18, 20}
LOOP = {24, 25, 26}


@requires_trampoline
class SplitTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if why_not := why_not_record(EVENT):
            raise unittest.SkipTest(why_not)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="jitted-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory)
        self.script = os.path.join(self.directory, "script.py")
        with open(self.script, "w") as file:
            file.write(SCRIPT)

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
                        str(SECONDS))
        events = self.perf("script", "-i", "perf.data", "--show-task-events")
        for pid in set(re.findall(r"\((\d+):\d+\)", events)):
            self.addCleanup(remove_map, pid)
        return eval(out)

    def assert_split(self, stacks, spent):
        """Compare the samples below each line with the time it has taken.

        stacks: lists of (function, line), the innermost first.
        """
        found, loops = collections.Counter(), collections.Counter()
        for stack in stacks:
            lines = [line for function, line in stack if function == "split"]
            self.assertLessEqual(set(lines), LINES)
            found.update(lines)
            if stack and stack[0][0] == "loop":
                loops[stack[0][1]] += 1
        samples = sum(found.values())
        self.assertGreater(samples, SECONDS * 100)
        for line, seconds in spent.items():
            share = seconds / sum(spent.values())
            # Five times the error of counting; the clock's reading itself.
            error = 5 * math.sqrt(share * (1 - share) / samples) + 0.01
            self.assertAlmostEqual(found[line] / samples, share, delta=error)
        # The lines of the loop, and nothing else, have all of its time.
        self.assertLessEqual(set(loops), LOOP | {22, 23})
        self.assertGreater(sum(loops[line] for line in LOOP),
                           0.98 * sum(loops.values()))
        self.assertTrue(all(loops[line] for line in LOOP), loops)

    def test_map(self):
        spent = self.record("perf=lines")
        text = self.perf("script", "-i", "perf.data", "--no-inline",
                         "-F", "pid,ip,sym")
        stacks = []
        for sample in text.split("\n\n"):
            stacks.append([
                (name, int(line)) for name, line in re.findall(
                    rf"py::(.*?):{re.escape(self.script)}:(\d+)", sample)])
        self.assert_split(stacks, spent)

    def test_jitdump(self):
        spent = self.record("perf_jit=lines")
        self.perf("inject", "--jit", "-i", "perf.data", "-o", "perf.jit.data")
        text = self.perf("script", "-i", "perf.jit.data", "--no-inline",
                         "-F", "pid,ip,sym,srcline")
        symbol = rf"py::(.*?):{re.escape(self.script)}\n\s+script.py:(\d+)"
        stacks = [[(name, int(line)) for name, line
                   in re.findall(symbol, sample)]
                  for sample in text.split("\n\n")]
        self.assert_split(stacks, spent)
        # Symbols stay one for each function.
        self.assertNotRegex(text, r"py::split:.*:\d")
        report = self.perf("report", "-i", "perf.jit.data", "--stdio",
                           "--children", "-g", "caller,address,srcline",
                           "--sort", "comm")
        for line in LINES | LOOP:
            self.assertIn(f"script.py:{line}", report)


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
