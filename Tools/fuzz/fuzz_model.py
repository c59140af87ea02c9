"""What the fuzzers' inputs mean, and what must hold.

For reader.py, the fuzzer of the jitdump's reader, and for
test_perf_fuzz_corpus, which runs the inputs in corpus/ through the ordinary
interpreter.  harness.c decodes inputs for the writers as decode() does.
"""

import contextlib
import io
import pathlib
import re
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
CORPUS = HERE / "corpus"
sys.path[:0] = [str(TOP / "Lib" / "test" / "support"),
                str(TOP / "Tools" / "profile")]
import jitdump as tool
import perf_jitdump
from perf_jitdump import JIT_CODE_LOAD, JIT_CODE_UNWINDING_INFO


# --- The writers -------------------------------------------------------------

MAX_TEXT = 20_000
OPERATIONS = ("symbol", "task", "entry", "hold", "release", "close",
              "switch to perf", "switch to perf_jit")


class _Input:

    def __init__(self, data):
        self.rest = data

    def take(self, size):
        number = int.from_bytes(self.rest[:size], "little")
        self.rest = self.rest[size:]
        return number

    def take_text(self):
        """Return units, and how often they are repeated."""
        form = self.take(1)
        size = (1, 1, 2, 4)[form & 3]
        times = (2, 16, 64, 1024)[form >> 4 & 3] if form >= 0xc0 else 1
        count = self.take(1)
        units = []
        while len(units) < count and self.rest:
            units.append(self.take(size) % 0x110000)
        while len(units) * times > MAX_TEXT:
            times //= 2
        return units, times

    def take_string(self):
        units, times = self.take_text()
        return "".join(map(chr, units)) * times

    def take_c_string(self):
        units, times = self.take_text()
        return (bytes(unit & 255 for unit in units) * times).split(b"\0")[0]


def decode(data):
    """Yield the operations in an input for a writer, as tuples:

    ("symbol", qualname, filename), ("task", name),
    ("entry", start, size, bytes), ("hold",)...
    """
    source = _Input(data)
    while source.rest:
        operation = OPERATIONS[source.take(1) % len(OPERATIONS)]
        if operation == "symbol":
            yield operation, source.take_string(), source.take_string()
        elif operation == "task":
            yield operation, source.take_string()
        elif operation == "entry":
            yield (operation, source.take(8), source.take(4),
                   source.take_c_string())
        else:
            yield operation,


def _escape(match):
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def escaped(text):
    """Return text without what breaks lines or UTF-8."""
    return re.sub("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", _escape, text)


def symbol_of(qualname, filename):
    return escaped(f"py::{qualname}:{filename}")


_NUMBERS = re.compile(
    "0x[0-9a-fA-F]*"
    r"|(?<![^\W_])[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]+)*(?![^\W_])"
    "|[0-9]+")


def task_symbol(name):
    """Return the symbol of a task, or None if its name says nothing."""
    if re.fullmatch("(Task-)?[0-9]*", name):
        return None
    kind = _NUMBERS.sub("#", name[:200])
    return escaped(f"py::<task>:{kind}{'...' * (len(name) > 200)}")


def entry_name(name):
    return escaped(name.decode(errors="backslashreplace"))


# --- Lines -------------------------------------------------------------------

MAX_UNITS = 3000
MAX_TABLE = 4096


def decode_lines(data):
    """Yield the functions in an input for lines.c, as tuples:

    (qualname, filename, first line, table of lines)
    """
    source = _Input(data)
    while source.rest:
        source.take(1)                  # the back end
        names = source.take_string(), source.take_string()
        first_line = source.take(4) & 0x7fff_ffff
        source.take(2)                  # the size
        units, times = source.take_text()
        table = bytes(unit & 255 for unit in units) * times
        yield *names, first_line, table[:MAX_TABLE]


def lines_of_table(table, line, units):
    """Return the line of each unit of code, or None."""
    lines = []
    entries = re.findall(rb"(?s)\A[\0-\xff][\0-\x7f]*|[\x80-\xff][\0-\x7f]*",
                         table)
    place = 0
    for entry in entries:
        kind = entry[0] >> 3 & 15
        if kind in (13, 14):
            # It may go on in the next entry, if the table is damaged.
            number = re.match(rb"(?s)[\x40-\x7f\xc0-\xff]*[\0-\xff]?",
                              table[place + 1:])[0]
            delta = sum((byte & 63) << 6 * index
                        for index, byte in enumerate(number)) & 0xffff_ffff
            line += -(delta >> 1) if delta & 1 else delta >> 1
        elif kind in (10, 11, 12):
            line += kind - 10
        line = (line + (1 << 31)) % (1 << 32) - (1 << 31)
        shown = None if kind == 15 or line < 0 else line
        lines += [shown] * ((entry[0] & 7) + 1)
        place += len(entry)
    return (lines + [None] * units)[:units]


# --- The reader --------------------------------------------------------------

OFFSET = re.compile(r"offset (\d+): .")


def written_again(dump, order, header_end):
    """Return the bytes of a Jitdump, from what was read."""
    header = dump.header
    result = [struct.pack(order + perf_jitdump.FILE_HEADER, header.magic,
                          header.version, header.total_size, header.elf_mach,
                          header.pad1, header.pid, header.timestamp,
                          header.flags), header_end]
    for record in dump.records:
        result.append(struct.pack(order + perf_jitdump.RECORD_HEADER,
                                  record.id, record.total_size,
                                  record.timestamp))
        if record.id == JIT_CODE_LOAD:
            result += [struct.pack(order + perf_jitdump.LOAD_FIELDS,
                                   record.pid, record.tid, record.vma,
                                   record.code_addr, record.code_size,
                                   record.code_index),
                       record.raw_name, b"\0", record.code, record.padding]
        elif record.id == JIT_CODE_UNWINDING_INFO:
            result += [struct.pack(order + perf_jitdump.UNWINDING_FIELDS,
                                   record.unwinding_size,
                                   record.eh_frame_hdr_size,
                                   record.mapped_size),
                       record.eh_frame, record.eh_frame_hdr, record.padding]
        else:
            result.append(record.body)
    return b"".join(result)


def printed(dump):
    """Return what Tools/profile/jitdump.py prints of dump."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        tool.print_dump(dump)
    return out.getvalue()


def check_reader(data):
    """Any bytes are a Jitdump, or a JitdumpError that says where.

    Return the Jitdump or None.
    """
    try:
        dump = perf_jitdump.Jitdump(data)
    except perf_jitdump.JitdumpError as error:
        match = OFFSET.match(str(error))
        assert match and int(match[1]) <= len(data), error
        return None
    order = "<" if data[0] == perf_jitdump.MAGIC & 0xff else ">"
    header_end = data[struct.calcsize(order + perf_jitdump.FILE_HEADER):
                      dump.header.total_size]
    assert written_again(dump, order, header_end) == data
    # What is kept cannot be much more than what was given.
    assert sum(16 + len(record.body) for record in dump.records) <= len(data)
    lines = printed(dump).splitlines()
    assert len(lines) == 1 + len(dump.records), lines
    for unwinding, load in dump.symbols():
        if unwinding is not None:
            file = perf_jitdump.elf_file(dump.header, unwinding, load)
            assert len(file) < 1000 + len(data)
    return dump
