#!/usr/bin/env python3
"""Print a jitdump, the file by which -X perf_jit tells profilers of functions.

Called by hand.  Reads jitdumps of other programs, too.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "Lib" / "test" / "support"))
import perf_jitdump


def fail(message):
    sys.exit(f"jitdump: {message}")


def seconds(timestamp):
    return f"{timestamp // 10**9}.{timestamp % 10**9:09}"


def printable(name):
    """Names of other programs may have line breaks, or colour the terminal."""
    return "".join(ch if ch.isprintable()
                   else ch.encode("unicode_escape").decode() for ch in name)


def print_header(header):
    print(f"jitdump version {header.version}, process {header.pid}, "
          f"ELF machine {header.elf_mach}, "
          f"begun at {seconds(header.timestamp)}"
          + (f", flags {header.flags:#x}" if header.flags else ""))


def print_record(record):
    print(f"{record.offset:8} {seconds(record.timestamp)} "
          f"{record.kind}, {record.total_size} bytes", end="")
    if record.id == perf_jitdump.JIT_CODE_LOAD:
        print(f": number {record.code_index}, thread {record.tid}, "
              f"{record.code_size} bytes at {record.code_addr:#x}, "
              f"{printable(record.name)}")
    elif record.id == perf_jitdump.JIT_CODE_UNWINDING_INFO:
        print(f": .eh_frame {len(record.eh_frame)}, .eh_frame_hdr "
              f"{len(record.eh_frame_hdr)}, mapped {record.mapped_size}")
    else:
        print()


def print_dump(dump):
    print_header(dump.header)
    for record in dump.records:
        print_record(record)


def print_frames(dump):
    """Let readelf decode the unwind information, each distinct one once."""
    if shutil.which("readelf") is None:
        fail("--frames needs readelf, of Debian's package binutils")
    seen = set()
    for unwinding, load in dump.symbols():
        if unwinding is None or (unwinding.eh_frame, load.code_size) in seen:
            continue
        seen.add((unwinding.eh_frame, load.code_size))
        print(f"\nThe ELF file of {printable(load.name)}, "
              "where the code is at 0x40:", flush=True)
        with tempfile.NamedTemporaryFile() as file:
            file.write(perf_jitdump.elf_file(dump.header, unwinding, load))
            file.flush()
            subprocess.run(["readelf", "--wide", "--sections",
                            "--debug-dump=frames", file.name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="such as /tmp/jit-1234.dump")
    parser.add_argument("--names", action="store_true",
                        help="print the names of the functions, nothing else")
    parser.add_argument("--frames", action="store_true",
                        help="print the unwind information, too, by readelf")
    options = parser.parse_args()
    # Names have any characters, whatever the terminal's encoding is.
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        dump = perf_jitdump.read(options.file)
    except OSError as error:
        fail(f"cannot read {options.file}: {error.strerror}")
    except perf_jitdump.JitdumpError as error:
        fail(f"{options.file}: {error}")
    if options.names:
        for load in dump.loads:
            print(printable(load.name))
        return
    print_dump(dump)
    if options.frames:
        print_frames(dump)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
