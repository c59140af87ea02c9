"""Check a base's patch queue against the rules of CONTRIBUTING.rst.

Called by `make lint`.  Prints each violation and fails if there is any.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

NOT_PATCHES = {"series", "pin", "replaced", "generated", "files"}
MAX_LINES = 60
MAX_MEDIAN = 12
CONTEXT = 1
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class Patch:
    """One file of the queue: its header, target files and hunks."""

    def __init__(self, path):
        self.name = path.name
        self.path = path
        self.header = {}
        self.files = []
        self.changed_lines = 0
        self.widest_context = 0
        self._read(path.read_text(encoding="utf-8").splitlines())

    def _read(self, lines):
        in_header = True
        context = 0
        old = new = 0
        for line in lines:
            if old > 0 or new > 0:
                if line.startswith("\\"):
                    continue
                old -= not line.startswith("+")
                new -= not line.startswith("-")
                if line.startswith(("+", "-")):
                    self.changed_lines += 1
                    context = 0
                else:
                    context += 1
                    self.widest_context = max(self.widest_context, context)
            elif hunk := HUNK.match(line):
                old, new = (int(n or 1) for n in hunk.groups())
                context = 0
            elif line.startswith("--- "):
                in_header = False
            elif line.startswith("+++ "):
                self.files.append(line[4:].split("\t")[0].removeprefix("b/"))
            elif in_header and re.match(r"[A-Z][A-Za-z-]*:", line):
                field, _, value = line.partition(":")
                self.header[field] = value.strip()


def series_names(directory):
    lines = (directory / "series").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def check_series(directory, names):
    present = {path.name for path in directory.iterdir()} - NOT_PATCHES
    for name in sorted(present - set(names)):
        yield f"{name}: is not in the series file"
    for name in sorted(set(names) - present):
        yield f"{name}: is in the series file, but does not exist"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name}: is in the series file twice"


def check_header(patch):
    if not patch.header.get("Description"):
        yield f"{patch.name}: has no Description: that says why it is needed"
    if patch.header.get("Forwarded") != "not-needed":
        yield f"{patch.name}: has no line 'Forwarded: not-needed'"
    if not (patch.header.get("Author") or patch.header.get("Origin")):
        yield f"{patch.name}: has neither Author: nor Origin:"


def check_size(patches):
    for patch in patches:
        if patch.changed_lines > MAX_LINES:
            yield (f"{patch.name}: changes {patch.changed_lines} lines, more "
                   f"than {MAX_LINES}; move code into a file of ours")
        # Between two changes of a hunk, each can have its own line.
        if patch.widest_context > 2 * CONTEXT:
            yield (f"{patch.name}: has more than one line of context; "
                   "run make refresh")
    median = statistics.median(patch.changed_lines for patch in patches)
    if median > MAX_MEDIAN:
        yield (f"the median patch changes {median} lines, more than "
               f"{MAX_MEDIAN}; move code into files of ours")


def replaced_files(directory):
    path = directory / "replaced"
    if not path.exists():
        return set()
    return {line for line in path.read_text().splitlines()
            if line and not line.startswith("#")}


def check_targets(directory, sources, patches):
    listing = subprocess.run(["Tools/patches/overlay-files.sh"], check=True,
                             env=os.environ | {"BASE": directory.name},
                             stdout=subprocess.PIPE, text=True)
    overlay = {file.removeprefix(f"{directory}/files/")
               for file in listing.stdout.splitlines()}
    replaced = replaced_files(directory)
    for file in sorted(replaced - overlay):
        yield f"{file}: is said to be replaced, but no file of ours does"
    for patch in patches:
        for file in patch.files:
            if file in overlay:
                yield f"{patch.name}: patches {file}, which is ours: edit it"
            elif file in ("configure", "pyconfig.h.in"):
                yield f"{patch.name}: patches {file}, which is generated"
    for source in sources:
        for file in sorted(overlay - replaced):
            if (source / file).exists():
                yield f"{file}: exists in {source}; make it a patch"


def check_applies(base, patches):
    """Apply the patches one after the other to a copy of their files."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in {file for patch in patches for file in patch.files}:
            target = pathlib.Path(scratch, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (base / file).exists():
                shutil.copy(base / file, target)
        for patch in patches:
            with open(patch.path, encoding="utf-8") as stdin:
                run = subprocess.run(
                    ["patch", "-p1", "--fuzz=0", "--force", "-d", scratch],
                    stdin=stdin, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True)
            if run.returncode != 0:
                yield (f"{patch.name}: does not apply to {base} without fuzz\n"
                       f"{run.stdout}")
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="such as 3.11")
    base = parser.parse_args().base
    directory = pathlib.Path("patches", base)
    sources = [pathlib.Path("base", base, name) for name in ("src", "vanilla")]
    names = series_names(directory)
    problems = list(check_series(directory, names))
    patches = [Patch(directory / name) for name in names
               if (directory / name).exists()]
    for patch in patches:
        problems += check_header(patch)
    problems += check_size(patches)
    problems += check_targets(directory, sources, patches)
    for source in sources:
        problems += check_applies(source, patches)
    for problem in problems:
        print(f"lint_patches: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    sizes = [patch.changed_lines for patch in patches]
    print(f"lint_patches: {len(patches)} patches, no problem; changed lines: "
          f"median {statistics.median(sizes):g}, most {max(sizes)}")


if __name__ == "__main__":
    main()
