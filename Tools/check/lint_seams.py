"""Check that the table of patches/README.rst agrees with each base's series.

Called by `make lint`.  Prints what differs, and fails if anything does.
"""

import argparse
import pathlib
import sys

from lint_patches import series_names

PATCHES = pathlib.Path("patches")
TABLE = PATCHES / "README.rst"
THERE = "x"
MARKS = THERE, "-"


def read_table(text):
    """Return the bases of the head line, and each row's words."""
    rules = [number for number, line in enumerate(text)
             if line.startswith("====") and " " in line]
    if len(rules) != 3:
        sys.exit(f"lint_seams: {TABLE}: there must be one table, with a head")
    head, *rows = (line.split() for line in text[rules[0] + 1:rules[2]]
                   if not line.startswith("===="))
    bases = [word for word in head[1:] if word[0].isdigit()]
    return bases, rows


def check_rows(bases, rows):
    """Yield what is wrong with the table itself."""
    names = [row[0] for row in rows]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} has two rows"
    for name, *words in rows:
        marks, purpose = words[:len(bases)], words[len(bases):]
        if not set(marks) <= set(MARKS):
            yield f"{name}: a mark is one of {', '.join(MARKS)}"
        elif THERE not in marks:
            yield f"{name}: no base has it; remove its row"
        if not purpose:
            yield f"{name}: it does not say what the patch is for"


def check_series(base, column, rows):
    """Yield where a column differs from the base's series."""
    said = {row[0] for row in rows if row[column:column + 1] == [THERE]}
    listed = {name.removesuffix(".patch")
              for name in series_names(PATCHES / base)}
    for name in sorted(listed - said):
        yield f"{name}: {PATCHES / base / 'series'} has it, the table not"
    for name in sorted(said - listed):
        yield f"{name}: the table has it, {PATCHES / base / 'series'} not"


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    bases, rows = read_table(TABLE.read_text(encoding="utf-8").splitlines())
    there = sorted(path.parent.name for path in PATCHES.glob("*/series"))
    problems = list(check_rows(bases, rows))
    if bases != there:
        problems.append(f"its columns are {', '.join(bases)}, and there are "
                        f"{', '.join(there)}")
    for column, base in enumerate(bases, 1):
        if base in there:
            problems += check_series(base, column, rows)
    for problem in problems:
        print(f"lint_seams: {TABLE}: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"lint_seams: {len(rows)} seams of {len(bases)} bases, as in their "
          "series")


if __name__ == "__main__":
    main()
