#!/usr/bin/env python3
"""Compile for macOS what is ready for it, and look at the result.

The assembly, the labels, the map and the evaluators of a tree are compiled
and linked for arm64 and x86-64, with the compiler and the headers of PyPI's
package ziglang.  LLVM's tools then show whether symbols, machine code, unwind
information and the list of return points are what they are on Linux.  Nothing
is run: there is no macOS here.  Called by Tools/check/check-macos.sh.

usage: check_macos.py ZIGLANG TREE BUILD OUTPUT

ZIGLANG is a directory for PYTHONPATH, TREE a patched tree, BUILD where that
was built on Linux, for its pyconfig.h; the objects go to OUTPUT.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ASSEMBLY = {"aarch64": "Python/asm_trampoline_aarch64.S",
            "x86_64": "Python/asm_trampoline_x86_64.S"}
SOURCES = ["Objects/codesymbol.c", "Python/perf_file.c", "Python/perf_hook.c",
           "Python/perf_labels.c", "Python/perf_lines.c", "Python/perf_map.c",
           "Python/perf_process.c", "Python/perf_tasks.c",
           "Python/perf_trampoline.c",
           "Python/ceval_labelled.c", "Python/ceval_lines.c"]
EVALUATORS = {"_PyEval_EvalFrameDefault_labelled",
              "_PyEval_EvalFrameDefault_lines"}
# What CPython's configure finds on Linux only, and our files ask.
NOT_ON_MACOS = ["HAVE_SIGTIMEDWAIT"]
# "Look into __eh_frame": no shorter description is right for our functions.
BY_DWARF = {"aarch64": 3 << 24, "x86_64": 4 << 24}
CALLS = {"aarch64": re.compile(r"\bblr\s+x5\b"),
         "x86_64": re.compile(r"\bcallq\s+\*%r9\b")}
RETURN_POINTS = 4       # two functions, with unwind information and without


class Failure(Exception):
    pass


def output_of(*command, **options):
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                         stderr=subprocess.PIPE, **options)
    if run.returncode != 0:
        command = " ".join(map(str, command))
        raise Failure(f"{command}:\n{run.stderr[-3000:]}")
    return run.stdout


class Compiler:
    """Zig's clang, for one kind of machine."""

    def __init__(self, ziglang, output, target):
        self.output = output
        self.target = target
        self.env = os.environ | {
            "PYTHONPATH": str(ziglang),
            "ZIG_GLOBAL_CACHE_DIR": str(ziglang.parent / "cache"),
            "ZIG_LOCAL_CACHE_DIR": str(ziglang.parent / "cache")}

    def run(self, *arguments):
        output_of(sys.executable, "-m", "ziglang", "cc", "-target",
                  self.target, *arguments, env=self.env)

    def compile(self, source, *options):
        name = f"{pathlib.Path(source).stem}-{self.target}.o"
        self.run("-g0", "-O1", *options, "-c", source, "-o",
                 self.output / name)
        return self.output / name

    def link(self, objects):
        # Whatever else the interpreter has may be missing, but not a variable
        # of each thread's.
        rest = self.output / "rest.c"
        rest.write_text("__thread void *_Py_tss_tstate;\n")
        library = self.output / f"perf-{self.target}.dylib"
        self.run("-dynamiclib", "-undefined", "dynamic_lookup", "-o", library,
                 *objects, self.compile(rest))
        return library


def write_pyconfig(build, output):
    text = (build / "pyconfig.h").read_text()
    for name in NOT_ON_MACOS:
        text = re.sub(rf"^#define {name} .*$", f"/* no {name} */", text,
                      flags=re.M)
    (output / "include").mkdir(exist_ok=True)
    (output / "include" / "pyconfig.h").write_text(text)


def compile_tree(compiler, tree, arch):
    """Return the objects, the assembly's first."""
    options = ["-DPy_BUILD_CORE", "-fno-omit-frame-pointer", "-Wall",
               "-Werror=implicit-function-declaration",
               "-Werror=ignored-attributes",
               f"-I{compiler.output}/include", f"-I{tree}/Include",
               f"-I{tree}/Include/internal", f"-I{tree}/Python"]
    return [compiler.compile(tree / ASSEMBLY[arch])] + [
        compiler.compile(tree / source, *options) for source in SOURCES]


def expect(what, expected, seen):
    if expected != seen:
        raise Failure(f"{what}: expected {expected}, but there is {seen}")


# --- What the objects have ---

def hidden_of_elf(path):
    """Return the names of the functions that the ELF object defines."""
    return {line.split()[-1] for line in
            output_of("llvm-nm", "--defined-only", path).splitlines()
            if " T " in line}


def symbols(path):
    """Return {name: kind} of a Mach-O file's, without the temporary ones."""
    found = {}
    for line in output_of("llvm-nm", "-m", path).splitlines():
        match = re.search(r"\((undefined|__\w+,__\w+)\) (.*) _(\w+)", line)
        if match and match[2] in ("external", "private external"):
            found[match[3]] = (match[2] if match[1] != "undefined"
                               else "undefined")
    return found


def check_symbols(machos, elf):
    functions = hidden_of_elf(elf)
    expect("symbols of the assembly",
           dict.fromkeys(functions, "private external")
           | dict.fromkeys(EVALUATORS, "undefined"), symbols(machos[0]))
    for macho in machos[1:]:
        for name, kind in symbols(macho).items():
            if name in EVALUATORS and kind != "undefined":
                expect(name, "private external", kind)
    defined = {name for macho in machos[1:]
               for name, kind in symbols(macho).items() if kind != "undefined"}
    expect("evaluators", EVALUATORS, EVALUATORS & defined)
    return len(functions)


def text_of(path, section):
    text = path.with_suffix(".text")
    output_of("llvm-objcopy", f"--dump-section={section}={text}", path,
              os.devnull)
    return text.read_bytes()


def unwind_rows(path):
    """Return the rows of all functions, by distances from their starts; of
    those that change what they are to be unwound by."""
    functions = []
    for line in output_of("llvm-dwarfdump", "--eh-frame", path).splitlines():
        if " FDE " in line:
            start = int(re.search(r"pc=([0-9a-f]+)", line)[1], 16)
            functions.append([])
        elif functions and (row := re.match(r"  0x([0-9a-f]+): (.*)", line)):
            functions[-1].append((int(row[1], 16) - start, row[2]))
    # Mach-O describes a function that only jumps by its compact entry, if any.
    return [rows for rows in functions
            if rows not in ([(0, "CFA=WSP")], [(0, "CFA=RSP+8: RIP=[CFA-8]")])]


def check_unwinding(arch, macho, elf):
    expect("unwind information", unwind_rows(elf), unwind_rows(macho))
    encodings = re.findall(
        r"start:\s+\S+ (\S+).*?compact encoding:\s+0x([0-9a-f]+)",
        output_of("llvm-objdump", "--macho", "--unwind-info", macho), re.S)
    for name, encoding in encodings:
        # Functions that only jump have nothing to unwind.
        if "WithoutArea" not in name:
            expect(f"compact unwind encoding of {name}",
                   f"{BY_DWARF[arch]:08x}", encoding)
    return len(encodings)


# --- What the library has, after linking ---

def returns_after_calls(arch, library):
    """Return the addresses behind the calls of an evaluator."""
    lines = output_of("llvm-objdump", "-d", "--no-show-raw-insn",
                      library).splitlines()
    found, function = {}, None
    for line, following in zip(lines, lines[1:]):
        if head := re.match(r"[0-9a-f]+ <_(\w+)>:", line):
            function = head[1]
        if CALLS[arch].search(line) and function.startswith("_PyPerf_"):
            found[int(following.split(":")[0], 16)] = function
    return {address for address, name in found.items()
            if not name.endswith("Model")}


def noted_returns(library):
    """Return the addresses that the section lists."""
    said = output_of("llvm-objdump", "-s", "-j", "__cpython_perf", library)
    rows = re.findall(r"^ ([0-9a-f]+) ((?:[0-9a-f]+ ){1,4})", said, re.M)
    start = int(rows[0][0], 16)
    data = bytes.fromhex("".join(row[1] for row in rows).replace(" ", ""))

    def word(offset):
        return int.from_bytes(data[offset:offset + 4], "little", signed=True)

    first = 12 + (word(0) + 3) // 4 * 4
    expect("owner of the section", b"cpython-perf\0", data[12:12 + word(0)])
    return {start + offset + word(offset)
            for offset in range(first, first + word(4), 4)}


def check_library(arch, library):
    expected = returns_after_calls(arch, library)
    expect("calls of evaluators", RETURN_POINTS, len(expected))
    expect("return points", expected, noted_returns(library))


def check(arch, options):
    macos = Compiler(options.ziglang, options.output, f"{arch}-macos")
    linux = Compiler(options.ziglang, options.output, f"{arch}-linux-gnu")
    objects = compile_tree(macos, options.tree, arch)
    elf = linux.compile(options.tree / ASSEMBLY[arch])
    functions = check_symbols(objects, elf)
    if text_of(elf, ".text") != text_of(objects[0], "__TEXT,__text"):
        raise Failure(f"{objects[0]}: not the machine code of {elf}")
    encodings = check_unwinding(arch, objects[0], elf)
    check_library(arch, macos.link(objects))
    print(f"check_macos: {arch}: {len(objects)} files compile and link; "
          f"{functions} hidden functions with Linux's machine code and "
          f"unwind information, {encodings} compact entries, "
          f"{RETURN_POINTS} return points")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in "ziglang", "tree", "build", "output":
        parser.add_argument(name, type=pathlib.Path)
    options = parser.parse_args()
    options.ziglang = options.ziglang.resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    write_pyconfig(options.build, options.output)
    try:
        for arch in ASSEMBLY:
            check(arch, options)
    except Failure as failure:
        sys.exit(f"check_macos: {arch}: {failure}")


if __name__ == "__main__":
    main()
