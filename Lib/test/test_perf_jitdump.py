"""The jitdump back end of the perf trampoline: the file, to the last byte.

What `perf inject --jit` makes of each symbol, with the label at address 0, on
x86-64 (elsewhere the CIE and the FDE have other sizes):

    address  size
       0x00    16   T  .text: ud2, 6 x nop, the symbol's number
       0x10    24   E  .eh_frame: CIE
       0x28    24      FDE
       0x40     8      end mark, padding
       0x48    20   H  .eh_frame_hdr
       0x5c            the end; 0x80 is the next label's

Where the file lies and when it is written is the matter of
test_perf_jitdump_file, what profilers make of it that of test_perf_record_jit.
"""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import unittest
from test.support import perf_jitdump
from test.support.perf_arch import HERE
from test.support.perf_jitdump import align_8
from test.support.perf_jitdump_case import (AREA_CODE, JitdumpTestCase,
                                            symbol_of)

if HERE is None:
    raise unittest.SkipTest("the perf trampoline does not know this "
                            "architecture")

TEXT_SIZE = 0x10
EH_FRAME = TEXT_SIZE
FDE = EH_FRAME + HERE.cie_size
END_MARK = FDE + HERE.fde_size
EH_FRAME_HDR = align_8(END_MARK + 4)
END = EH_FRAME_HDR + 20
ROOM = 0x80
MAP_ROOM = 0x10         # of a symbol that was made for the map

MAX_SIZE = 300          # of a function's records, without its name


def assert_room(case, dump):
    """Code and unwind information stay off the next symbol."""
    symbols = sorted(dump.symbols(), key=lambda both: both[1].code_addr)
    for (unwinding, load), (_, following) in zip(symbols, symbols[1:]):
        end = load.code_addr + align_8(load.code_size) + unwinding.mapped_size
        case.assertLessEqual(end, following.code_addr, load.name)


class FormatTest(JitdumpTestCase):
    """Each byte of a file, for names of all interesting lengths."""

    # Lengths of symbols, without the NUL: each padding, the sizes where the
    # writer and the symbol maker change from buffers on the stack to others,
    # what is held in memory when all symbols are written at once, and long.
    LENGTHS = [*range(10, 50), *range(485, 515), *range(810, 845),
               *range(1010, 1030), *range(16384 - 200, 16384 + 8, 11),
               65534, 65535, 65536, 65537, 200_000]

    SCRIPT = """
        def now():
            return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        begun = now()
        sys.activate_stack_trampoline({first_back_end!r})
        for length in {lengths}:
            run("q" * (length - len("py:::made")))
        sys.activate_stack_trampoline("perf_jit")
        ended = now()
        with open("/proc/self/maps") as maps:
            print(begun, ended, maps.read())
    """
    FIRST_BACK_END = "perf_jit"
    ROOM = ROOM
    MAPPED_SIZE = END - EH_FRAME

    def setUp(self):
        super().setUp()
        self.result = self.run_script(self.SCRIPT.format(
            first_back_end=self.FIRST_BACK_END, lengths=self.LENGTHS))
        self.dump = perf_jitdump.read(self.result.path)
        self.symbols = self.dump.symbols()
        self.labels = [both for both in self.symbols
                       if both[1].name not in AREA_CODE]
        self.ours = [both for both in self.symbols
                     if both[1].name.startswith("py::q")]

    def test_names(self):
        self.assertEqual(sorted(load.name for _, load in self.ours),
                         sorted(symbol_of("q" * (length - len("py:::made")))
                                for length in self.LENGTHS))
        self.assertEqual({len(load.padding) for load in self.dump.loads},
                         set(range(8)))

    def test_bytes(self):
        pid = self.result.pid
        header = self.dump.header
        made = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40,
                           HERE.elf_machine, 0, pid, header.timestamp, 0)
        for index, (unwinding, load) in enumerate(self.symbols):
            eh_frame_size = EH_FRAME_HDR - EH_FRAME
            code = HERE.label_code
            if load.name in AREA_CODE:
                eh_frame_size = len(unwinding.eh_frame)
                code = load.code[:-8]
            made += struct.pack("<IIQQQQ", 4,
                                align_8(40 + eh_frame_size + 20),
                                load.timestamp, eh_frame_size + 20, 20,
                                unwinding.mapped_size)
            made += unwinding.eh_frame + unwinding.eh_frame_hdr
            made += bytes(align_8(len(made)) - len(made))
            name = load.name.encode()
            code += struct.pack("<Q", index)
            size = align_8(56 + len(name) + 1 + len(code))
            record = struct.pack("<IIQIIQQQQ", 0, size, load.timestamp, pid,
                                 pid, load.code_addr, load.code_addr,
                                 len(code), index)
            record += name + b"\0" + code
            made += record + bytes(size - len(record))
        data = pathlib.Path(self.result.path).read_bytes()
        self.assertEqual(len(data), len(made))
        # Not assertEqual: its message would take minutes to make.
        self.assertTrue(data == made)

    def test_times(self):
        begun, ended = map(int, self.result.out.split()[:2])
        times = [self.dump.header.timestamp,
                 *(record.timestamp for record in self.dump.records)]
        self.assertEqual(times, sorted(times))
        self.assertLessEqual(begun, times[0])
        self.assertLessEqual(max(load.timestamp for _, load in self.ours),
                             ended)

    def test_order(self):
        kinds = [record.id for record in self.dump.records]
        self.assertEqual(kinds, [perf_jitdump.JIT_CODE_UNWINDING_INFO,
                                 perf_jitdump.JIT_CODE_LOAD]
                         * (len(kinds) // 2))

    def test_unique(self):
        for field in "name", "code", "code_index", "code_addr":
            values = [getattr(load, field) for load in self.dump.loads]
            self.assertEqual(len(values), len(set(values)), field)

    def test_room(self):
        assert_room(self, self.dump)
        self.assertEqual({unwinding.mapped_size for unwinding, _ in self.ours},
                         {self.MAPPED_SIZE})
        addresses = sorted(load.code_addr for _, load in self.ours)
        self.assertEqual({following - one for one, following
                          in zip(addresses, addresses[1:])}, {self.ROOM})

    def test_addresses(self):
        # Profilers look for symbols only in memory that is executable.
        executable = [range(int(start, 16), int(end, 16)) for start, end
                      in re.findall(r"^(\w+)-(\w+) r-xp 0+ 00:00 0 *$",
                                    self.result.out, re.MULTILINE)]
        for _, load in self.labels:
            self.assertEqual(load.code_addr % 16, 0)
            self.assertTrue([those for those in executable
                             if load.code_addr in those])

    def test_marker(self):
        # perf finds the file by an executable mapping.
        self.assertEqual(len(re.findall(
            rf" r-xp 0+ .* {re.escape(self.result.path)}$", self.result.out,
            re.MULTILINE)), 1)

    def test_size(self):
        names = sum(len(load.raw_name) for load in self.dump.loads)
        size = os.path.getsize(self.result.path) - names
        self.assertLessEqual(size / len(self.dump.loads), MAX_SIZE)


class SwitchedFormatTest(FormatTest):
    """Functions that ran under the map back end are written on the switch.

    Their labels have no room for unwind information.
    """
    FIRST_BACK_END = "perf"
    ROOM = MAP_ROOM
    MAPPED_SIZE = 0


class SymbolTest(JitdumpTestCase):

    def test_many(self):
        # More than fit into one arena.
        result = self.run_script("""
            sys.activate_stack_trampoline("perf_jit")
            for number in range(20_000):
                run(f"f{number}")
        """)
        dump = perf_jitdump.read(result.path)
        assert_room(self, dump)
        names = [load.name for load in dump.loads]
        self.assertEqual([name for name in names if name.startswith("py::f")],
                         [symbol_of(f"f{number}") for number in range(20_000)])
        self.assertEqual(len({load.code for load in dump.loads}), len(names))

    def test_once(self):
        dump = self.dump_of("""
            for number in range(1000):
                run("again")
        """)
        self.assert_has(dump, "again")

    def test_odd_names(self):
        dump = self.dump_of(r"""
            run("new\nline", "tab\t\x7f")
            run("lone\udc80", "\udfff")
            run("\xe4\u20ac\U0001f40d")
            run("", "")
            run("nul\0inside")
        """)
        names = [load.name for load in dump.loads]
        for name in ("py::new\\x0aline:tab\\x09\\x7f",
                     "py::lone\\udc80:\\udfff",
                     "py::\xe4\u20ac\U0001f40d:made", "py:::",
                     "py::nul\\x00inside:made"):
            self.assertIn(name, names)

    def test_threads(self):
        result = self.run_script("""
            import threading
            def in_thread(name):
                run(name)
                print(name, threading.get_native_id())
            for name in "one", "two":
                thread = threading.Thread(target=in_thread, args=(name,))
                thread.start()
                thread.join()
        """, "-X", "perf_jit")
        tids = {load.name: load.tid
                for load in perf_jitdump.read(result.path).loads}
        for line in result.out.splitlines():
            name, tid = line.split()
            self.assertEqual(tids[symbol_of(name)], int(tid))
            self.assertNotEqual(int(tid), result.pid)


class UnwindingTest(JitdumpTestCase):
    """The unwind information is the assembler's, and leads to the code."""

    def setUp(self):
        super().setUp()
        self.dump = self.dump_of('run("f")')
        [(self.unwinding, self.load)] = [
            both for both in self.dump.symbols()
            if both[1].name == symbol_of("f")]

    def int_at(self, address, fields="<i"):
        """Read from the ELF file, by the addresses of the drawing."""
        image = (self.load.code.ljust(align_8(TEXT_SIZE), b"\0")
                 + self.unwinding.eh_frame + self.unwinding.eh_frame_hdr)
        return struct.unpack_from(fields, image, address)[0]

    def test_same_for_all(self):
        self.assertEqual({unwinding.body for unwinding, load
                          in self.dump.symbols()
                          if load.name not in AREA_CODE},
                         {self.unwinding.body})

    def test_layout(self):
        self.assertEqual(self.load.code_size, TEXT_SIZE)
        self.assertEqual(len(self.unwinding.eh_frame), EH_FRAME_HDR - EH_FRAME)
        self.assertEqual(self.unwinding.unwinding_size, END - EH_FRAME)
        self.assertLessEqual(END, ROOM)
        self.assertEqual(self.unwinding.eh_frame[END_MARK - EH_FRAME:],
                         bytes(EH_FRAME_HDR - END_MARK))

    def test_frame_entries(self):
        self.assertEqual(EH_FRAME + 4 + self.int_at(EH_FRAME), FDE)
        self.assertEqual(self.int_at(EH_FRAME + 4), 0)      # this is a CIE
        self.assertEqual(FDE + 4 + self.int_at(FDE), END_MARK)
        self.assertEqual(FDE + 4 - self.int_at(FDE + 4), EH_FRAME)
        self.assertEqual(FDE + 8 + self.int_at(FDE + 8), 0)     # pc_begin
        self.assertEqual(self.int_at(FDE + 12), TEXT_SIZE)

    def test_search_table(self):
        # Version 1; pointers of 4 bytes with sign, relative to themselves and,
        # in the table, to its start; a count of 4 bytes.
        self.assertEqual(self.unwinding.eh_frame_hdr[:4], b"\x01\x1b\x03\x3b")
        self.assertEqual(EH_FRAME_HDR + 4 + self.int_at(EH_FRAME_HDR + 4),
                         EH_FRAME)
        self.assertEqual(self.int_at(EH_FRAME_HDR + 8), 1)
        self.assertEqual(EH_FRAME_HDR + self.int_at(EH_FRAME_HDR + 12), 0)
        self.assertEqual(EH_FRAME_HDR + self.int_at(EH_FRAME_HDR + 16), FDE)

    def readelf(self, *options):
        if shutil.which("readelf") is None:
            self.skipTest("readelf, of binutils, is not installed")
        result = subprocess.run(["readelf", "--wide", *options], text=True,
                                stdout=subprocess.PIPE, check=True,
                                stderr=subprocess.PIPE, errors="replace")
        self.assertEqual(result.stderr, "")
        return result.stdout

    def frames(self, path):
        """Return {first address: the decoded CIE and FDE, without places}."""
        decoded, by_place = {}, {}
        text = self.readelf("--debug-dump=frames", path)
        for entry in re.split(r"\n\n+", text):
            head, _, body = entry.strip().partition("\n")
            body = re.sub(r" to [0-9a-f]{16}", "", body)
            body = re.sub(r"\n  DW_CFA_nop", "", body)      # padding
            if match := re.match(r"([0-9a-f]+) \S+ \S+ CIE", head):
                by_place[match[1]] = body
            elif match := re.match(r"[0-9a-f]+ \S+ \S+ FDE cie=([0-9a-f]+) "
                                   r"pc=([0-9a-f]+)\.\.([0-9a-f]+)", head):
                start, end = int(match[2], 16), int(match[3], 16)
                decoded[start] = by_place[match[1]], body, end - start
        return decoded

    def assembled(self):
        """Return the path of the object file."""
        machine = sysconfig.get_config_var("MULTIARCH").partition("-")[0]
        build = pathlib.Path(sys.executable).resolve().parent
        path = build / "Python" / f"asm_trampoline_{machine}.o"
        if not path.exists():
            self.skipTest(f"{path} is only where Python was built")
        return path

    def place(self, symbol):
        """Return its address and size in the object file."""
        address, size = re.search(
            rf"([0-9a-f]{{16}}) +(\d+) .* {symbol}$",
            self.readelf("--symbols", self.assembled()), re.MULTILINE).groups()
        return int(address, 16), int(size)

    def assert_same_as_assembled(self, made, model):
        self.assertEqual(self.frames(made)[self.text_address(made)],
                         self.frames(self.assembled())[self.place(model)[0]])

    def test_same_as_assembled(self):
        self.assertEqual(self.place("_PyPerf_LabelModel")[1], TEXT_SIZE)
        self.assert_same_as_assembled(self.elf_file(), "_PyPerf_LabelModel")

    def test_area_code(self):
        # The functions that run, with the unwind information of the models.
        path = self.assembled()
        with open(path, "rb") as file:
            data = file.read()
        offset = int(re.search(r" \.text +PROGBITS +\w+ ([0-9a-f]+) ",
                               self.readelf("--sections", path))[1], 16)
        found = {load.name: (unwinding, load)
                 for unwinding, load in self.dump.symbols()}
        self.assertLess(found.keys() & set(AREA_CODE), found.keys())
        for name, model in zip(AREA_CODE, ("_PyPerf_EnterAreaModel",
                                           "_PyPerf_ShareAreaModel")):
            unwinding, load = found[name]
            address, size = self.place(name)
            self.assertEqual(load.code[:size],
                             data[offset + address:][:size])
            self.assertEqual(self.place(model)[1], size)
            self.assert_same_as_assembled(self.elf_file(unwinding, load),
                                          model)
            # All that perf maps there lies within what never runs.
            end = address + load.code_size + unwinding.mapped_size
            following = min(self.place(symbol)[0] for symbol
                            in (*AREA_CODE, "_PyPerf_EnterAreaModel")
                            if self.place(symbol)[0] > address)
            self.assertLessEqual(end, following)

    def elf_file(self, unwinding=None, load=None):
        path = os.path.join(self.directory, "made.so")
        pathlib.Path(path).write_bytes(perf_jitdump.elf_file(
            self.dump.header, unwinding or self.unwinding, load or self.load))
        return path

    def text_address(self, path):
        return int(re.search(r" \.text +PROGBITS +([0-9a-f]+) ",
                             self.readelf("--sections", path))[1], 16)

    def test_rules(self):
        # The record that the frame pointer points at holds the next record's
        # address and, above it, where to return to.
        made = self.elf_file()
        rules = self.readelf("--debug-dump=frames-interp", made)
        [head, row] = re.search(r"FDE .*\n *LOC (.*)\n[0-9a-f]+ (.*)\n",
                                rules).groups()
        self.assertEqual(
            dict(zip(head.split(), row.split(), strict=True)),
            {"CFA": f"{HERE.frame_pointer}+{HERE.cfa_offset}",
             HERE.frame_pointer: "c-16", "ra": "c-8"})


if __name__ == "__main__":
    unittest.main()
