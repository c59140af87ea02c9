"""Say whether a base's patches fit other sources of the same minor version.

Called by Tools/base/try-base.sh.  Each hunk has to apply without fuzz, and in
the same function, rule or section as in the sources that the patches are made
for: with one line of context, a hunk can apply at another place.

usage: try_patches.py BASE SOURCES      in the top directory; BASE is like 3.13

Prints what does not fit, with the place.  The exit status is 1 if a hunk does
not apply or a file is where one of ours has to be; all else is only printed.
"""

import argparse
import collections
import contextlib
import filecmp
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "check"))
from lint_patches import replaced_files, series_names

HUNK_HEAD = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
# What `patch --verbose` says.
FILE = re.compile(r"patching file '?(.*?)'?$")
PLACED = re.compile(r"Hunk #(\d+) succeeded at (\d+)(?: \(offset (-?\d+))?")
FAILED = re.compile(r"Hunk #(\d+) FAILED at (\d+)")
# Lines that begin what others belong to: a function, class, rule or title, and
# an instruction of Python/bytecodes.c, but no label, brace or #if.
HEADING = re.compile(r"\s+(?:inst|op|macro|TARGET|case)\s*\(|"
                     r"(?!\w+:\s*(?:;.*)?$)[\w.$-]")


def overlay(base):
    """Return the paths that our files have in the tree."""
    listing = subprocess.run(
        ["Tools/patches/overlay-files.sh"], check=True, text=True,
        env=os.environ | {"BASE": base}, stdout=subprocess.PIPE).stdout
    own = f"patches/{base}/files/"
    return {file.removeprefix(own) for file in listing.splitlines()}


def patch_text(path):
    """Return {file: [hunk, ...]} of a patch, hunks as lists of lines."""
    files, hunks = {}, None
    old = new = 0
    for line in path.read_text(encoding="utf-8").splitlines():
        if old > 0 or new > 0:
            hunks[-1].append(line)
            old -= not line.startswith(("+", "\\"))
            new -= not line.startswith(("-", "\\"))
        elif head := HUNK_HEAD.match(line):
            old, new = (int(count or 1) for count in head.groups())
            hunks.append([])
        elif line.startswith("+++ "):
            hunks = files[line[4:].split("\t")[0].removeprefix("b/")] = []
    return files


REJECTED = object()     # instead of a heading


class Place:
    """Where a hunk went: a line of the patched file, or nowhere."""

    def __init__(self, line, offset=0, heading=None):
        self.line = line
        self.offset = offset
        self.heading = heading


class Sources:
    """Copies of the files that the patches change, patched step by step."""

    def __init__(self, origin, files, scratch):
        self.directory = pathlib.Path(scratch)
        for file in files:
            if (origin / file).exists():
                target = self.directory / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin / file, target)

    def apply(self, path):
        """Return {(file, number of the hunk): Place}; rejects are dropped."""
        with open(path, encoding="utf-8") as stdin:
            said = subprocess.run(
                ["patch", "-p1", "--fuzz=0", "--force", "--verbose",
                 "--no-backup-if-mismatch", "--reject-file=-",
                 "-d", self.directory],
                stdin=stdin, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True).stdout
        places, file = {}, None
        for line in said.splitlines():
            if match := FILE.match(line):
                file = match[1].removesuffix(" using Plan A...")
            elif match := PLACED.match(line):
                places[file, int(match[1])] = Place(int(match[2]),
                                                    int(match[3] or 0))
            elif match := FAILED.match(line):
                places[file, int(match[1])] = Place(int(match[2]),
                                                    heading=REJECTED)
        for (file, _), place in places.items():
            if place.heading is None:
                place.heading = self.heading(file, place.line)
        return places

    def lines(self, file):
        path = self.directory / file
        if not path.exists():
            return []
        return path.read_text(encoding="utf-8").splitlines()

    def heading(self, file, number):
        """Return the line that begins what a line belongs to."""
        for line in reversed(self.lines(file)[:number]):
            if HEADING.match(line):
                return " ".join(line.split())
        return ""

    def where(self, file, text):
        """Say where a line of a rejected hunk stands, if anywhere."""
        numbers = [number for number, line in enumerate(self.lines(file), 1)
                   if line == text]
        if not numbers:
            return "nowhere"
        more = "..." if len(numbers) > 5 else ""
        return "line " + ", ".join(map(str, numbers[:5])) + more


def show_rejected(new, file, number, hunk):
    if not (new.directory / file).exists():
        print(f"    {file}: is not there any more")
        return
    print(f"    {file}: hunk {number} does not apply; its lines are at:")
    for line in hunk:
        if line.startswith((" ", "-")) and line[1:].strip():
            print(f"        {new.where(file, line[1:]):>16}  {line}")


def judge(file, number, hunk, before, place, new):
    """Return what became of a hunk in one word, and print what is not well."""
    if place is None or place.heading is REJECTED:
        show_rejected(new, file, number, hunk)
        return "rejected"
    if before is None or before.heading != place.heading:
        said = before.heading if before else "nothing"
        print(f"    {file}:{place.line}: hunk {number} applies in\n"
              f"        {place.heading}\n    instead of\n        {said}")
        return "elsewhere"
    return "moved" if place.offset else "fits"


def compare(patches, old_tree, new_tree):
    """Apply all patches to both; return how many hunks are rejected."""
    texts = {path: patch_text(path) for path in patches}
    files = {file for text in texts.values() for file in text}
    became = collections.Counter()
    with tempfile.TemporaryDirectory() as one, \
            tempfile.TemporaryDirectory() as other:
        old = Sources(old_tree, files, one)
        new = Sources(new_tree, files, other)
        for path, text in texts.items():
            was, now = old.apply(path), new.apply(path)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                for file, hunks in text.items():
                    for number, hunk in enumerate(hunks, 1):
                        key = file, number
                        became[judge(*key, hunk, was.get(key), now.get(key),
                                     new)] += 1
            if said.getvalue():
                print(f"{path.name}:\n{said.getvalue()}", end="")
    print(f"try_patches: {len(patches)} patches, {became.total()} hunks: "
          f"{became.total() - became['rejected']} apply without fuzz,\n"
          f"    {became['moved']} of them at other lines, "
          f"{became['elsewhere']} in another function, rule or section;\n"
          f"    {became['rejected']} do not apply")
    return became["rejected"]


def check_replaced(directory, ours, old_tree, new_tree):
    """Say what our files stand in place of; return what is in the way."""
    replaced = replaced_files(directory)
    for file in sorted(replaced):
        if not (new_tree / file).exists():
            print(f"{file}: ours replaces it, and it is not there any more")
        elif not filecmp.cmp(old_tree / file, new_tree / file, shallow=False):
            print(f"{file}: ours replaces it, and it has changed: see\n"
                  f"    diff -u {old_tree / file} {new_tree / file}")
    in_the_way = [file for file in sorted(ours - replaced)
                  if (new_tree / file).exists()]
    for file in in_the_way:
        print(f"{file}: is ours, and these sources have one, too: name it in "
              f"{directory}/replaced, or make it a patch")
    return in_the_way


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="such as 3.13")
    parser.add_argument("sources", type=pathlib.Path, metavar="SOURCES")
    options = parser.parse_args()
    directory = pathlib.Path("patches", options.base)
    old_tree = pathlib.Path("base", options.base, "src")
    patches = [directory / name for name in series_names(directory)]
    rejected = compare(patches, old_tree, options.sources)
    in_the_way = check_replaced(directory, overlay(options.base), old_tree,
                                options.sources)
    sys.exit(1 if rejected or in_the_way else 0)


if __name__ == "__main__":
    main()
