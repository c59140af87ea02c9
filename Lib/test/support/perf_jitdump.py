"""Read jitdump files, version 1, as in the kernel's tools/perf/Documentation.

For Tools/profile/jitdump.py, which prints one, and for the tests of the
jitdump back end.  Reads those of other programs, too.  Imports nothing of the
tests.

A jitdump is a header and records, each with a header of its own.  Whatever
does not fit together is a JitdumpError that says at which offset.
"""

import dataclasses
import struct

MAGIC = 0x4A695444
VERSION = 1

JIT_CODE_LOAD = 0
JIT_CODE_MOVE = 1
JIT_CODE_DEBUG_INFO = 2
JIT_CODE_CLOSE = 3
JIT_CODE_UNWINDING_INFO = 4
RECORD_NAMES = ("load", "move", "debug info", "close", "unwinding info")

FILE_HEADER = "IIIIIIQQ"
RECORD_HEADER = "IIQ"
LOAD_FIELDS = "IIQQQQ"
UNWINDING_FIELDS = "QQQ"
DEBUG_FIELDS = "QQ"
DEBUG_ENTRY = "QII"

ALIGNMENT = 8


class JitdumpError(ValueError):
    pass


def align_8(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclasses.dataclass
class FileHeader:
    magic: int
    version: int
    total_size: int
    elf_mach: int
    pad1: int
    pid: int
    timestamp: int
    flags: int


@dataclasses.dataclass
class Record:
    """A record of a kind that is not looked into."""
    offset: int
    id: int
    total_size: int
    timestamp: int
    body: bytes

    @property
    def kind(self):
        return RECORD_NAMES[self.id]


@dataclasses.dataclass
class UnwindingInfo(Record):
    unwinding_size: int
    eh_frame_hdr_size: int
    mapped_size: int
    eh_frame: bytes
    eh_frame_hdr: bytes
    padding: bytes


@dataclasses.dataclass
class DebugInfo(Record):
    code_addr: int
    nr_entry: int
    entries: list           # of (address, line, discriminator, file name)
    padding: bytes


@dataclasses.dataclass
class CodeLoad(Record):
    pid: int
    tid: int
    vma: int
    code_addr: int
    code_size: int
    code_index: int
    raw_name: bytes
    code: bytes
    padding: bytes

    @property
    def name(self):
        return self.raw_name.decode(errors="backslashreplace")


class Jitdump:
    """A file's header and the list of its records."""

    def __init__(self, data):
        self._data = data
        self._order = "<"
        self.header = self._read_header()
        self.records = list(self._read_records())

    @property
    def loads(self):
        return [r for r in self.records if r.id == JIT_CODE_LOAD]

    def symbols(self):
        """Return (unwinding record or None, load record) of each symbol."""
        pairs, unwinding = [], None
        for record in self.records:
            if record.id == JIT_CODE_UNWINDING_INFO:
                unwinding = record
            elif record.id == JIT_CODE_LOAD:
                pairs.append((unwinding, record))
                unwinding = None
        return pairs

    def _unpack(self, fields, offset, end, what):
        fields = self._order + fields
        if end - offset < struct.calcsize(fields):
            raise JitdumpError(f"offset {offset}: {what} of "
                               f"{struct.calcsize(fields)} bytes is cut off "
                               f"after {end - offset}")
        return struct.unpack_from(fields, self._data, offset)

    def _read_header(self):
        if self._data[:4] == MAGIC.to_bytes(4, "big"):
            self._order = ">"
        elif self._data[:4] != MAGIC.to_bytes(4, "little"):
            raise JitdumpError("offset 0: no jitdump: it begins with "
                               f"{self._data[:4].hex(' ') or 'nothing'}, "
                               "not 44 54 69 4a or the reverse")
        header = FileHeader(*self._unpack(FILE_HEADER, 0, len(self._data),
                                          "the file header"))
        if header.version != VERSION:
            raise JitdumpError(f"offset 4: version {header.version} is "
                               f"unknown, only {VERSION} can be read")
        least = struct.calcsize(self._order + FILE_HEADER)
        if not least <= header.total_size <= len(self._data):
            raise JitdumpError(f"offset 8: a file header of "
                               f"{header.total_size} bytes, in a file of "
                               f"{len(self._data)}, cannot be")
        if header.elf_mach >= 1 << 16:
            raise JitdumpError(f"offset 12: machine {header.elf_mach} cannot "
                               "be, since ELF has 16 bits for it")
        return header

    def _read_records(self):
        offset = self.header.total_size
        while offset < len(self._data):
            record = self._read_record(offset)
            yield record
            offset += record.total_size

    def _read_record(self, offset):
        header = self._unpack(RECORD_HEADER, offset, len(self._data),
                              "a record's header")
        kind, total_size, _ = header
        start = offset + struct.calcsize(self._order + RECORD_HEADER)
        end = offset + total_size
        if kind >= len(RECORD_NAMES):
            raise JitdumpError(f"offset {offset}: a record of unknown kind "
                               f"{kind}")
        what = f"the {RECORD_NAMES[kind]} record"
        if end < start:
            raise JitdumpError(f"offset {offset + 4}: {what} claims to be "
                               f"{total_size} bytes, less than its header")
        if end > len(self._data):
            raise JitdumpError(f"offset {offset}: {what} of {total_size} "
                               "bytes is cut off after "
                               f"{len(self._data) - offset}")
        common = (offset, *header, self._data[start:end])
        if kind == JIT_CODE_LOAD:
            return self._read_load(common, start, end, what)
        if kind == JIT_CODE_UNWINDING_INFO:
            return self._read_unwinding(common, start, end, what)
        if kind == JIT_CODE_DEBUG_INFO:
            return self._read_debug(common, start, end, what)
        return Record(*common)

    def _read_load(self, common, start, end, what):
        fields = self._unpack(LOAD_FIELDS, start, end, what)
        code_size = fields[4]
        name_start = start + struct.calcsize(self._order + LOAD_FIELDS)
        name_end = self._data.find(b"\0", name_start, end)
        if name_end < 0:
            raise JitdumpError(f"offset {name_start}: the name in {what} has "
                               "no end")
        code_start = name_end + 1
        code_end = code_start + code_size
        if code_end > end:
            raise JitdumpError(f"offset {code_start}: {what} has no room for "
                               f"{code_size} bytes of code")
        return CodeLoad(*common, *fields,
                        raw_name=self._data[name_start:name_end],
                        code=self._data[code_start:code_end],
                        padding=self._data[code_end:end])

    def _read_debug(self, common, start, end, what):
        fields = self._unpack(DEBUG_FIELDS, start, end, what)
        place = start + struct.calcsize(self._order + DEBUG_FIELDS)
        entries = []
        for _ in range(fields[1]):
            entry = self._unpack(DEBUG_ENTRY, place, end, what)
            place += struct.calcsize(self._order + DEBUG_ENTRY)
            name_end = self._data.find(b"\0", place, end)
            if name_end < 0:
                raise JitdumpError(f"offset {place}: the name in {what} has "
                                   "no end")
            entries.append((*entry, self._data[place:name_end]))
            place = name_end + 1
        return DebugInfo(*common, *fields, entries=entries,
                         padding=self._data[place:end])

    def _read_unwinding(self, common, start, end, what):
        fields = self._unpack(UNWINDING_FIELDS, start, end, what)
        size, header_size, _ = fields
        start += struct.calcsize(self._order + UNWINDING_FIELDS)
        if not header_size <= size <= end - start:
            raise JitdumpError(f"offset {start}: {what} has no room for "
                               f"{size} bytes, {header_size} of them "
                               ".eh_frame_hdr")
        size_end = start + size
        header_start = size_end - header_size
        return UnwindingInfo(*common, *fields,
                             eh_frame=self._data[start:header_start],
                             eh_frame_hdr=self._data[header_start:size_end],
                             padding=self._data[size_end:end])


def read(path):
    """Return the Jitdump in the file; OSError or JitdumpError."""
    with open(path, "rb") as file:
        return Jitdump(file.read())


def elf_file(header, unwinding, load):
    """Return the ELF file that `perf inject` makes of a symbol, as bytes.

    For little-endian 64-bit machines.  .text, .eh_frame and .eh_frame_hdr are
    as far from each other as there; the table of symbols is left out.
    """
    text_address = 0x40             # behind the ELF header
    eh_frame_address = text_address + align_8(load.code_size)
    header_address = eh_frame_address + len(unwinding.eh_frame)
    names = b"\0.text\0.eh_frame\0.eh_frame_hdr\0.shstrtab\0"
    sections = [            # name, type, flags, address, contents, alignment
        (b".text", 1, 6, text_address, load.code, 16),
        (b".eh_frame", 1, 2, eh_frame_address, unwinding.eh_frame, 8),
        (b".eh_frame_hdr", 1, 2, header_address, unwinding.eh_frame_hdr, 4),
        (b".shstrtab", 3, 0, 0, names, 1),
    ]
    contents = bytearray(text_address)
    table = bytes(64)               # the null section
    for name, kind, flags, address, data, alignment in sections:
        contents.extend(bytes(max(0, address - len(contents))))
        table += struct.pack("<IIQQQQIIQQ", names.index(b"\0" + name) + 1,
                             kind, flags, address, len(contents), len(data), 0,
                             0, alignment, 0)
        contents += data
    contents.extend(bytes(align_8(len(contents)) - len(contents)))
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    contents[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, header.elf_mach, 1, 0, 0, len(contents), 0, 64, 0,
        0, 64, len(sections) + 1, len(sections))
    return bytes(contents) + table
