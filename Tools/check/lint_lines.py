"""Check that no line of C, assembly or Python is longer than 79 characters.

Called by `make lint`.  Prints each line that is, and fails if there is any.
"""

import argparse
import os
import subprocess
import sys

MAX_LENGTH = 79
FILES = "*.c", "*.h", "*.S", "*.py"


def our_files():
    """Return what git tracks, and what it would if asked to."""
    run = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
         "--", *FILES],
        stdout=subprocess.PIPE, check=True)
    names = map(os.fsdecode, run.stdout.split(b"\0")[:-1])
    return [name for name in names if os.path.exists(name)]


def long_lines(name):
    with open(name, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            length = len(line.rstrip("\n"))
            if length > MAX_LENGTH:
                yield f"{name}:{number}: {length} characters"


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    names = our_files()
    problems = [problem for name in names for problem in long_lines(name)]
    for problem in problems:
        print(f"lint_lines: {problem}", file=sys.stderr)
    if problems:
        sys.exit(f"lint_lines: wrap what is longer than {MAX_LENGTH}")
    print(f"lint_lines: {len(names)} files, no line longer than {MAX_LENGTH}")


if __name__ == "__main__":
    main()
