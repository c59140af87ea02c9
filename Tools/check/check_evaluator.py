"""Check that the ordinary evaluator's machine code is the base's.

Compares _PyEval_EvalFrameDefault and the parts that the compiler has split off
it (.cold) in two interpreters, instruction by instruction, and the handlers of
instructions where the evaluator consists of these (--with-tail-call-interp).
Addresses may differ: branches within a function are compared by offset, other
references by symbol, and those to data without a symbol by content.  Exits
with 1 after printing the first difference.

Each run also proves that the comparison can fail: the labelled evaluator must
differ.  Called by `make check-evaluator`; needs binutils and symbol tables.
"""

import argparse
import bisect
import itertools
import re
import shutil
import subprocess
import sys

ORDINARY = "_PyEval_EvalFrameDefault"
LABELLED = "_PyEval_EvalFrameDefault_labelled"
HANDLER = "_TAIL_CALL_"
CONTEXT = 4

INSTRUCTION = re.compile(r" *([0-9a-f]+):\t(.*)")
BRANCH_TARGET = re.compile(r"\b([0-9a-f]+) <[^>]*>$")
RIP_RELATIVE = re.compile(r"-?(?:0x)?[0-9a-f]+\(%rip\)(.*?)\s*"
                          r"# ([0-9a-f]+)(?: <[^>]*>)?$")
# In an executable at a fixed address: immediate values and displacements.
ABSOLUTE = re.compile(r"(?<![\w-])(\$?)0x([0-9a-f]+)\b")
# Where a thread's variable is, and the use of it soon after.
THREAD_OFFSET = re.compile(r"(mov +\$)0x(f{8}[0-9a-f]{8})(,(%\w+))$")
SOON = 4
# The compiler numbers static variables and clones of functions.
NUMBERS = re.compile(r"(\.(lto_priv|[0-9]+))+\b")


def fail(message):
    sys.exit(f"check_evaluator: {message}")


def output_of(*command):
    run = subprocess.run(command, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        fail(f"{' '.join(command)}: {run.stderr.strip()}")
    return run.stdout


class Symbol:
    """A named range of addresses."""

    def __init__(self, start, size, kind, name):
        self.start = start
        self.end = start + size
        self.is_global = kind.isupper()
        self.name = NUMBERS.sub("", name)
        self.full_name = name


class Section:
    """A part of the file and where it is in memory."""

    def __init__(self, name, size, start, file_offset, content):
        self.name = name
        self.start = start
        self.end = start + size
        self.content = content[file_offset:file_offset + size]


class Image:
    """An executable or shared library, as far as references need it."""

    def __init__(self, path):
        self.path = path
        self._read_symbols()
        self._read_sections()
        self._read_relocations()

    def _read_symbols(self):
        self.symbols = []
        for line in output_of("nm", "-S", "--defined-only",
                              self.path).splitlines():
            fields = line.split()
            if len(fields) == 4:        # with a size
                start, size, kind, name = fields
                self.symbols.append(Symbol(int(start, 16), int(size, 16),
                                           kind, name))
        # Of several names for the same thing, take the same one everywhere.
        self.symbols.sort(key=lambda symbol: (symbol.start, symbol.name))
        self.starts = [symbol.start for symbol in self.symbols]

    def _read_sections(self):
        with open(self.path, "rb") as file:
            content = file.read()
        lines = output_of("objdump", "-w", "-h", self.path).splitlines()
        self.sections = []
        for line in lines:
            fields = line.split()
            if len(fields) > 6 and fields[0].isdigit() and "ALLOC" in line:
                size, start, _, offset = (int(field, 16)
                                          for field in fields[2:6])
                data = content if "CONTENTS" in line else b""
                self.sections.append(Section(fields[1], size, start, offset,
                                             data))
        self.thread_end = self._size_of_thread_variables()
        self.is_fixed = "EXEC_P" in output_of("objdump", "-f", self.path)

    def _size_of_thread_variables(self):
        for line in output_of("readelf", "-lW", self.path).splitlines():
            fields = line.split()
            if fields and fields[0] == "TLS":
                size, alignment = int(fields[5], 16), int(fields[-1], 16)
                return size + -size % alignment
        return 0

    def _read_relocations(self):
        # What the loader writes into the table through which libraries refer
        # to their own public names.
        self.relocations = {}
        if not any(section.name == ".dynamic" for section in self.sections):
            return
        for line in output_of("objdump", "-w", "-R", self.path).splitlines():
            if match := re.match(r"([0-9a-f]+) \S+ +(\S+)", line):
                self.relocations[int(match[1], 16)] = match[2]

    def section_at(self, address):
        for section in self.sections:
            if section.start <= address < section.end:
                return section
        return None

    def symbol_at(self, address):
        """Of the symbols that cover address, return the one starting last."""
        index = bisect.bisect_right(self.starts, address)
        while index > 0:
            start = self.starts[index - 1]
            first = bisect.bisect_left(self.starts, start)
            for symbol in self.symbols[first:index]:
                if address < symbol.end:
                    return symbol
            index = first
            if address - start > 1 << 24:       # larger than any object
                break
        return None

    def describe(self, address):
        """Say what is at address, in words that hold for any layout."""
        symbol = self.symbol_at(address)
        if symbol is not None:
            return f"<{symbol.name}+{address - symbol.start:#x}>"
        section = self.section_at(address)
        if section is None:
            return f"<{address:#x}>"
        if section.name.startswith(".got"):
            target = self.relocations.get(address, "?")
            if match := re.fullmatch(r"\*ABS\*\+0x([0-9a-f]+)", target):
                target = self.describe(int(match[1], 16))
            return f"<address of {target}>"
        content = section.content[address - section.start:]
        text = content.partition(b"\0")[0]
        if text and text.isascii() and text.decode().isprintable():
            return f"<{section.name} {text.decode()!r}>"
        # A constant of a vector, or a table whose content is addresses.
        return f"<{section.name}>"


class Function:
    """The normalised instructions of a function, part by part."""

    def __init__(self, image, name, parts):
        self.image = image
        self.name = name
        self.parts = parts
        self.instructions = []
        for number, part in enumerate(parts):
            self.instructions.append(f"part {number}:")
            lines = self._disassemble(part)
            self._name_thread_variables(lines)
            self.instructions += map(self._normalise, lines)

    def _disassemble(self, part):
        listing = output_of("objdump", "-d", "-w", "--no-show-raw-insn",
                            f"--start-address={part.start:#x}",
                            f"--stop-address={part.end:#x}", self.image.path)
        return [match[2].rstrip() for line in listing.splitlines()
                if (match := INSTRUCTION.fullmatch(line))]

    def _name_thread_variables(self, lines):
        # What other files have of them decides where they are.
        for index, line in enumerate(lines):
            if ((match := THREAD_OFFSET.search(line))
                    and any(f"%fs:({match[4]})" in later
                            for later in lines[index + 1:index + SOON])):
                offset = int(match[2], 16) - (1 << 64) + self.image.thread_end
                lines[index] = (line[:match.start()] + match[1]
                                + self.image.describe(offset) + match[3])

    def _describe(self, address):
        for number, part in enumerate(self.parts):
            if part.start <= address < part.end:
                return f"<part {number}+{address - part.start:#x}>"
        return self.image.describe(address)

    def _normalise(self, text):
        if match := RIP_RELATIVE.search(text):
            target = self._describe(int(match[2], 16))
            text = f"{text[:match.start()]}{target}(%rip){match[1]}"
        elif match := BRANCH_TARGET.search(text):
            target = self._describe(int(match[1], 16))
            text = f"{text[:match.start()]}{target}"
        elif self.image.is_fixed:
            text = ABSOLUTE.sub(self._describe_absolute, text)
        return re.sub(r"\s+", " ", text)

    def _describe_absolute(self, match):
        address = int(match[2], 16)
        if self.image.section_at(address) is None:
            return match[0]
        return match[1] + self._describe(address)


def candidates(image, name):
    """Yield what may be the function of that name.

    There is a choice when a static function has the same name: then the global
    one is meant, but which of the parts split off are its parts is not known.
    If all are static, the labelled evaluators have one each.
    """
    groups = {}
    for symbol in image.symbols:
        if symbol.full_name == name or symbol.full_name.startswith(f"{name}."):
            groups.setdefault(symbol.full_name, []).append(symbol)
    if name not in groups:
        fail(f"{image.path} has no symbol {name}; is it stripped, or the "
             "wrong file (of a shared build, compare libpython)?")
    groups[name] = ([symbol for symbol in groups[name] if symbol.is_global]
                    or groups[name])
    for parts in itertools.product(*(groups[key] for key in sorted(groups))):
        yield Function(image, name, parts)


def handlers(image):
    return sorted({symbol.full_name for symbol in image.symbols
                   if symbol.full_name.startswith(HANDLER)
                   and "." not in symbol.full_name})


def first_difference(one, other):
    """Return the index of the first instruction that differs, or None."""
    for index, pair in enumerate(zip(one, other)):
        if pair[0] != pair[1]:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def show_difference(functions, index):
    for function in functions:
        print(f"{function.image.path}, {function.name}: "
              f"{len(function.instructions)} instructions, from {index}:")
        first = max(index - CONTEXT, 0)
        for number in range(first, index + CONTEXT + 1):
            if number < len(function.instructions):
                mark = ">" if number == index else " "
                print(f"  {mark} {function.instructions[number]}")


def check(base, patched_image, name):
    """Fail unless the base's function is one of the patched image's."""
    shown = None
    for function in candidates(patched_image, name):
        index = first_difference(base.instructions, function.instructions)
        if index is None:
            return
        shown = shown or (function, index)
    show_difference([base, shown[0]], shown[1])
    fail(f"{name} is not the base's; are both built with the same "
         "compiler and options?")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("base", help="unpatched interpreter or libpython")
    parser.add_argument("python", help="patched interpreter or libpython")
    options = parser.parse_args()
    for tool in "nm", "objdump":
        if shutil.which(tool) is None:
            fail(f"{tool} is missing; run make setup")
    for path in options.base, options.python:
        try:
            open(path, "rb").close()
        except OSError as error:
            fail(f"{path}: {error.strerror}; run make and make base")

    base_image = Image(options.base)
    patched = Image(options.python)
    base, = candidates(base_image, ORDINARY)
    check(base, patched, ORDINARY)
    for labelled in candidates(patched, LABELLED):
        if first_difference(base.instructions, labelled.instructions) is None:
            fail("sees no difference to the labelled evaluator either: either "
                 "this check is broken or the labels are not compiled in")
    count = len(base.instructions) - len(base.parts)
    names = handlers(base_image)
    for name in names:
        handler, = candidates(base_image, name)
        check(handler, patched, name)
        count += len(handler.instructions) - len(handler.parts)
    and_handlers = f" and {len(names)} handlers" if names else ""
    print(f"{ORDINARY}{and_handlers}: {count} instructions, identical")


if __name__ == "__main__":
    main()
