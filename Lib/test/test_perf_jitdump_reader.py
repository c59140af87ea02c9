"""The reader of jitdumps, test.support.perf_jitdump, and the tool that prints
them with it, Tools/profile/jitdump.py.
"""

import os
import pathlib
import shutil
import struct
import sys
import unittest
from test.support import perf_jitdump
from test.support.perf_arch import HERE
from test.support.perf_jitdump import align_8
from test.support.perf_jitdump_case import AREA_CODE, JitdumpTestCase


def make_records():
    """Two symbols; their records begin at 40, 88, 160 and 208."""
    records = []
    for index, name in enumerate((b"one", b"seven..")):
        records.append(struct.pack("<IIQQQQ", 4, 48, 5, 6, 2, 0)
                       + b"frames\0\0")
        body = name + b"\0" + b"code" + struct.pack("<Q", index)
        size = align_8(56 + len(body))
        records.append(struct.pack("<IIQIIQQQQ", 0, size, 5, 7, 8, 4096, 4096,
                                   12, index) + body.ljust(size - 56, b"\0"))
    return records


HEADER = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 7, 4, 0)
RECORDS = make_records()
GOOD = HEADER + b"".join(RECORDS)


class ParserTest(unittest.TestCase):
    """The parser finds each fault, and says where it is."""

    def test_good(self):
        dump = perf_jitdump.Jitdump(GOOD)
        self.assertEqual([load.name for load in dump.loads],
                         ["one", "seven.."])
        self.assertEqual([r.offset for r in dump.records],
                         [40, 88, 160, 208])
        self.assertEqual((dump.records[0].eh_frame,
                          dump.records[0].eh_frame_hdr,
                          dump.records[0].padding), (b"fram", b"es", b"\0\0"))

    def test_other_byte_order(self):
        header = struct.pack(">IIIIIIQQ", 0x4A695444, 1, 40, 22, 0, 7, 4, 0)
        record = struct.pack(">IIQ", 3, 16, 5)
        [close] = perf_jitdump.Jitdump(header + record).records
        self.assertEqual((close.kind, close.timestamp), ("close", 5))

    def test_truncated_anywhere(self):
        ends = {len(HEADER + b"".join(RECORDS[:count]))
                for count in range(5)}
        for length in range(len(GOOD)):
            if length in ends:
                perf_jitdump.Jitdump(GOOD[:length])
                continue
            start = max([0, *(end for end in ends if end < length)])
            with self.assertRaisesRegex(perf_jitdump.JitdumpError,
                                        rf"^offset {start}: "):
                perf_jitdump.Jitdump(GOOD[:length])

    def test_faults(self):
        def changed(offset, fields, value):
            data = bytearray(GOOD)
            struct.pack_into("<" + fields, data, offset, value)
            return bytes(data)
        for data, message in (
                (b"", "offset 0: no jitdump: it begins with nothing"),
                (b"\x7fELF" + bytes(100), "offset 0: no jitdump"),
                (changed(4, "I", 2), "offset 4: version 2 is unknown"),
                (changed(8, "I", 39), "offset 8: a file header of 39 bytes"),
                (changed(8, "I", 1 << 31), "offset 8: a file header"),
                (changed(12, "I", 1 << 16), "offset 12: machine 65536 cannot"),
                (changed(40, "I", 5), "offset 40: a record of unknown kind 5"),
                (changed(44, "I", 0), "offset 44: .* less than its header"),
                (changed(44, "I", 20), "offset 40: .*cut off|offset 56: "),
                (changed(56, "Q", 1000), "offset 80: .* no room for 1000"),
                (changed(64, "Q", 7), "offset 80: .* 7 of them"),
                (changed(88 + 4, "I", 58), "offset 144: the name .* no end"),
                (changed(88 + 40, "Q", 99), "offset 148: .* no room for 99"),
        ):
            with self.subTest(message):
                with self.assertRaisesRegex(perf_jitdump.JitdumpError,
                                            "^" + message):
                    perf_jitdump.Jitdump(data)


class ToolTest(JitdumpTestCase):
    """Tools/profile/jitdump.py."""

    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.directory, "some.dump")

    def tool_path(self):
        # Ours are links from the tree that is built to the repository.
        here = pathlib.Path(__file__).resolve()
        tool = here.parents[2] / "Tools" / "profile" / "jitdump.py"
        if not tool.exists():
            self.skipTest(f"{tool} is only in the source tree")
        return str(tool)

    def tool(self, *arguments, **kwargs):
        return self.run_command([sys.executable, self.tool_path(), *arguments],
                                **kwargs)

    def test_tool(self):
        pathlib.Path(self.path).write_bytes(GOOD)
        result = self.tool(self.path)
        self.assertEqual((result.status, result.err), (0, ""))
        unwinding = ("0.000000005 unwinding info, 48 bytes: .eh_frame 4, "
                     ".eh_frame_hdr 2, mapped 0")
        self.assertEqual(result.out.splitlines(), [
            "jitdump version 1, process 7, ELF machine 62, begun at "
            "0.000000004",
            f"      40 {unwinding}",
            "      88 0.000000005 load, 72 bytes: number 0, thread 8, "
            "12 bytes at 0x1000, one",
            f"     160 {unwinding}",
            "     208 0.000000005 load, 80 bytes: number 1, thread 8, "
            "12 bytes at 0x1000, seven..",
        ])

    def test_tool_names(self):
        dumped = self.run_script('run("f")', "-X", "perf_jit")
        result = self.tool("--names", dumped.path)
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertEqual(result.out.splitlines(),
                         [load.name for load
                          in perf_jitdump.read(dumped.path).loads])

    @unittest.skipUnless(shutil.which("readelf"), "needs readelf, of binutils")
    def test_tool_frames(self):
        dumped = self.run_script('run("f")', "-X", "perf_jit")
        result = self.tool("--frames", dumped.path)
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertRegex(result.out, r"DW_CFA_def_cfa: r\d+ "
                         rf"\({HERE.frame_pointer}\) ofs {HERE.cfa_offset}\n")
        # That of labels, and of the code that makes areas.
        self.assertEqual(result.out.count(" FDE "), 1 + len(AREA_CODE))

    def test_tool_names_of_other_programs(self):
        data = bytearray(GOOD)
        data[144:148] = b"\n\xc3\xa9\0"
        pathlib.Path(self.path).write_bytes(data)
        for encoding, shown in ("utf-8", "\\n\xe9"), ("ascii", r"\n\xe9"):
            result = self.tool("--names", self.path, encoding=encoding,
                               variables={"PYTHONIOENCODING": encoding})
            self.assertEqual((result.status, result.err), (0, ""))
            self.assertEqual(result.out.splitlines(), [shown, "seven.."])

    def test_tool_errors(self):
        pathlib.Path(self.path).write_bytes(GOOD[:120])
        for path, message in (
                (self.path, f"{self.path}: offset 88: the load record of "
                            "72 bytes is cut off after 32"),
                (os.devnull, f"{os.devnull}: offset 0: no jitdump: it begins "
                             "with nothing, not 44 54 69 4a or the reverse"),
                (self.path + ".no", f"cannot read {self.path}.no: "
                                    "No such file or directory")):
            result = self.tool(path)
            self.assertEqual((result.status, result.out, result.err),
                             (1, "", f"jitdump: {message}\n"))

if __name__ == "__main__":
    unittest.main()
