"""Where a program or library has a symbol, whether it is stripped or not.

Used by places.py and request.py, for what the interpreter has.
"""

import struct

_LOAD = 1
_LARGEST_PAGE = 1 << 16
_SYMBOL_TABLES = (11, 2)        # the dynamic one, which survives strip, first
_SYMBOL = struct.Struct("<IBBHQQ")


def find(path, name):
    """Return (address, size, loads), or None.

    loads are (address, offset in the file, size in the file) of what is
    mapped, by which one finds where the symbol is in a process.
    """
    try:
        with open(path, "rb") as file:
            return _find(file, name.encode())
    except (OSError, struct.error, ValueError):
        return None


def _find(file, name):
    head = file.read(64)
    if head[:6] != b"\x7fELF\2\1":      # 64 bits, little-endian
        return None
    programs, sections = struct.unpack_from("<QQ", head, 32)
    size, count, section_size, section_count = struct.unpack_from(
        "<HHHH", head, 54)
    table = _read(file, programs, size * count)
    loads = []
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", table, number * size)
        if kind == _LOAD:
            loads.append((address, offset, length))
    table = _read(file, sections, section_size * section_count)
    headers = [struct.unpack_from("<IIQQQQII", table, number * section_size)
               for number in range(section_count)]
    for wanted in _SYMBOL_TABLES:
        for header in headers:
            if header[1] == wanted:
                strings = _read(file, *headers[header[6]][4:6])
                symbol = _look(_read(file, *header[4:6]), strings, name)
                if symbol:
                    return *symbol, loads
    return None


def _read(file, offset, size):
    file.seek(offset)
    return file.read(size)


def _look(symbols, strings, name):
    wanted = strings.find(b"\0" + name + b"\0") + 1
    if not wanted:
        return None
    for text, _, _, section, address, size in _SYMBOL.iter_unpack(symbols):
        if text == wanted and section and size:
            return address, size
    return None


def in_memory(symbol, start, offset):
    """Return the addresses of a symbol, given where its file is mapped."""
    address, size, loads = symbol
    for load, place, length in loads:
        if place - offset < _LARGEST_PAGE and offset < place + length:
            base = start - offset + place - load
            return range(base + address, base + address + size)
    return None
