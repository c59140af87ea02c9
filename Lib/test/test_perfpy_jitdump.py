"""perfpy finds lines in jitdumps, and in nothing that is none."""

import os
import random
import subprocess
import sys
import unittest
from test import support
from test.support import perf_jitdump
from test.support.perf_helper import requires_trampoline
from test.support.perfpy_case import PerfpyTestCase, clean_environment

from perfpy import jitdump


@requires_trampoline
class JitdumpTest(PerfpyTestCase):

    def setUp(self):
        super().setUp()
        script = self.script("""
            def function(x):
                y = x
                return max(y,
                           1)
            function(1)
            print(os.getpid())
            """)
        run = subprocess.run(
            [sys.executable, "-X", "perf_jit=lines", script], text=True,
            env=clean_environment(JITDUMPDIR=self.directory),
            capture_output=True, timeout=support.LONG_TIMEOUT)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.pid = int(run.stdout)
        self.dump_path = self.path(f"jit-{self.pid}.dump")
        with open(self.dump_path, "rb") as file:
            self.data = file.read()
        self.dump = perf_jitdump.Jitdump(self.data)

    def frame(self, number):
        return (f"py::name:file.py ({self.directory}/jitted-{self.pid}-"
                f"{number}.so)")

    def functions(self):
        """Yield each function's debug info, or None, and its code."""
        debug = None
        for record in self.dump.records:
            if record.id == perf_jitdump.JIT_CODE_DEBUG_INFO:
                debug = record
            elif record.id == perf_jitdump.JIT_CODE_LOAD:
                yield debug, record
                debug = None

    def write_data(self, data):
        with open(self.dump_path, "wb") as file:
            file.write(data)

    def test_every_address(self):
        seen = 0
        with jitdump.Lines() as lines:
            for debug, load in self.functions():
                line = 0
                entries = {address: line for address, line, _, _
                           in (debug.entries if debug else ())}
                for address in range(load.code_addr,
                                     load.code_addr + load.code_size):
                    line = entries.get(address, line)
                    self.assertEqual(lines.line(self.frame(load.code_index),
                                                f"{address:x}"), line)
                    seen += line > 0
        self.assertGreater(seen, 1000)

    def test_place_in_the_file(self):
        # As perf's file has it: an ELF header, then code.
        debug, load = [pair for pair in self.functions() if pair[0]][-1]
        for code in 0x40, 0x80:
            with open(self.path(f"jitted-{self.pid}-{load.code_index}.so"),
                      "wb") as file:
                file.write(bytes(24) + code.to_bytes(8, "little"))
            with jitdump.Lines() as lines:
                for address, line, _, _ in debug.entries:
                    place = address - load.code_addr + code
                    self.assertEqual(lines.line(self.frame(load.code_index),
                                                f"{place:x}"), line)

    def test_no_jitdump(self):
        os.remove(self.dump_path)
        frame = self.frame(5)

        def assert_no_line():
            with jitdump.Lines() as lines:
                self.assertEqual(lines.line(frame, "7f0000000000"), 0)

        assert_no_line()
        os.mkdir(self.dump_path)
        assert_no_line()
        os.rmdir(self.dump_path)
        os.mkfifo(self.dump_path)
        assert_no_line()
        os.remove(self.dump_path)
        os.symlink(self.dump_path, self.dump_path)
        assert_no_line()

    def test_frames_of_others(self):
        with jitdump.Lines() as lines:
            for frame in ("py::f:x.py (/tmp/perf-1.map)", "", "x", "() ()",
                          "f (jitted-1-1.so)", "f (/jitted-1-.so)",
                          f"f ({self.directory}/jitted-{self.pid}-1.so.x)",
                          f"f (/x/jitted-{self.pid}-1.so)"):
                self.assertEqual(lines.line(frame, "10"), 0)
            self.assertEqual(lines.line(self.frame(3), "no number"), 0)
            self.assertEqual(lines.line(self.frame(10**30), "10"), 0)

    def assert_harmless(self, chance):
        """Whatever is asked for, there is a line or none."""
        with jitdump.Lines() as lines:
            for _, load in self.functions():
                address = load.code_addr + chance.randrange(load.code_size)
                line = lines.line(self.frame(load.code_index),
                                  f"{chance.choice([address, 0, 200]):x}")
                self.assertTrue(0 <= line < 2**31)

    def test_cut(self):
        chance = random.Random(1)
        for _ in range(150):
            self.write_data(self.data[:chance.randrange(len(self.data))])
            self.assert_harmless(chance)

    def test_damaged(self):
        chance = random.Random(os.environ.get("PERF_TEST_SEED", "damaged"))
        starts = [record.offset for record in self.dump.records]
        for _ in range(300):
            data = bytearray(self.data)
            for _ in range(chance.choice([1, 5, 500])):
                # Where it hurts: sizes, counts, addresses, numbers.
                place = chance.choice(starts) + chance.randrange(64)
                if place < len(data):
                    data[place] = chance.choice([0, 1, 255,
                                                 chance.randrange(256)])
            self.write_data(data)
            self.assert_harmless(chance)

    def test_lines_that_cannot_be(self):
        debug, load = [pair for pair in self.functions() if pair[0]][-1]
        for place, value in ((32 + 8, b"\xff" * 4),         # a line
                             (24, b"\xff" * 8),             # how many
                             (32, b"\xff" * 8)):            # an address
            data = bytearray(self.data)
            start = debug.offset + place
            data[start:start + len(value)] = value
            self.write_data(data)
            with jitdump.Lines() as lines:
                self.assertEqual(lines.line(self.frame(load.code_index),
                                            f"{load.code_addr:x}"), 0)

    def test_a_file_without_end(self):
        # Sparse: it takes no room, and must take no time.
        with open(self.dump_path, "r+b") as file:
            file.truncate(1 << 40)
        self.assert_harmless(random.Random(2))


if __name__ == "__main__":
    unittest.main()
