"""Write riscv for riscv64 in a perf.data, so that perf can unwind it.

perf 6.12 looks for the numbers of the registers under the name riscv, and
writes riscv64 into its files, as uname does.  Without them no program's stack
has more than two functions.  Newer ones go by the number that ELF has for it.

Called by Tools/machine/full-system/init, with the file, which is changed. """

import pathlib
import struct
import sys

# How a string begins in the header: its room, in 64 bytes, and then it.
NAME, SHORTER = (struct.pack("<I", 64) + name.ljust(8, b"\0")
                 for name in (b"riscv64", b"riscv"))


def main():
    path = pathlib.Path(sys.argv[1])
    data = path.read_bytes()
    if data.count(NAME) != 1:
        sys.exit(f"{path}: the name of the architecture is there "
                 f"{data.count(NAME)} times")
    path.write_bytes(data.replace(NAME, SHORTER))


if __name__ == "__main__":
    main()
