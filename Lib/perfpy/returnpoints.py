"""Where in an ELF file the code is that calls labelled evaluators.

A program or library of an interpreter with frame labels has a note with the
places that evaluators return to; see Python/asm_trampoline_x86_64.S.  Used by
places.py.
"""

import struct

_OWNER, _RETURN_POINTS = b"cpython-perf\0", 1
_LOAD, _NOTE = 1, 4


def of_file(path):
    """Return the offsets in the file, none if it has no note."""
    try:
        with open(path, "rb") as file:
            return _read(file)
    except (OSError, struct.error, ValueError):
        return ()


def _read(file):
    head = file.read(64)
    if head[:6] != b"\x7fELF\2\1":      # 64 bits, little-endian
        return ()
    (place,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    file.seek(place)
    table = file.read(size * count)
    loads, notes = [], []
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", table, number * size)
        if kind == _LOAD:
            loads.append((address, offset, length))
        elif kind == _NOTE:
            notes.append((address, offset, length))
    addresses = set()
    for address, offset, length in notes:
        file.seek(offset)
        addresses.update(_points(file.read(length), address))
    return tuple(point - address + offset for point in sorted(addresses)
                 for address, offset, length in loads
                 if address <= point < address + length)


def _points(notes, address):
    """Yield the addresses in a segment of notes."""
    place = 0
    while place + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, place)
        name = notes[place + 12:place + 12 + name_size]
        place += 12 + (name_size + 3 & ~3)
        if name == _OWNER and kind == _RETURN_POINTS:
            for item in range(place, place + size, 4):
                (distance,) = struct.unpack_from("<i", notes, item)
                yield address + item + distance
        place += size + 3 & ~3
