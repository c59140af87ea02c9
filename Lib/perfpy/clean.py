"""perfpy clean: remove what profiled processes left behind.

Called by cli.py, and by run.py for the processes that it recorded.

Removed is only what is a file of this user, under a name that the interpreter
or perf gives, and whose process is gone.  A process that is alive keeps its
files, even if its number was given to it after another one died.
"""

import os
import re
import shutil
import stat
import sys
import typing

DIRECTORY = "/tmp"

# Name, and what it is.  The number is the process's.
_FILES = (
    (re.compile(r"perf-(\d+)\.map"), "names of functions"),
    (re.compile(r"jit-(\d+)\.dump"), "names of functions"),
    (re.compile(r"jitted-(\d+)-\d+\.so"), "functions, from perf inject"),
)
_DIRECTORIES = (
    (re.compile(r"jitted-perfpy-(\d+)-\w+"), "files of an unfinished perfpy"),
    (re.compile(r"perfpy-(\d+)-\w+"), "files of an unfinished perfpy"),
)


class Leftover(typing.NamedTuple):
    path: str
    pid: int
    what: str
    size: int
    is_directory: bool


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _examine(directory, name):
    """Return the Leftover of this name, or None if it must stay."""
    path = os.path.join(directory, name)
    for patterns, is_right, is_directory in (
            (_FILES, stat.S_ISREG, False), (_DIRECTORIES, stat.S_ISDIR, True)):
        for pattern, what in patterns:
            match = pattern.fullmatch(name)
            if not match:
                continue
            pid = int(match[1])
            try:
                status = os.lstat(path)
            except OSError:
                return None
            if (is_right(status.st_mode) and status.st_uid == os.geteuid()
                    and not is_alive(pid)):
                return Leftover(path, pid, what, status.st_size, is_directory)
    return None


def _size_of_tree(path):
    size = 0
    for directory, _, files in os.walk(path):
        for name in files:
            try:
                size += os.lstat(os.path.join(directory, name)).st_size
            except OSError:
                pass
    return size


def find(directories):
    """Return the leftovers in the directories."""
    found = []
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        for name in names:
            if leftover := _examine(directory, name):
                if leftover.is_directory:
                    leftover = leftover._replace(
                        size=_size_of_tree(leftover.path))
                found.append(leftover)
    return found


def remove(leftover):
    if leftover.is_directory:
        shutil.rmtree(leftover.path)        # follows no links
    else:
        os.unlink(leftover.path)


def remove_files_of(pids):
    """Remove the maps and jitdumps in /tmp of processes that have ended."""
    for pid in pids:
        for name in f"perf-{pid}.map", f"jit-{pid}.dump":
            if leftover := _examine(DIRECTORY, name):
                remove(leftover)


def directories_of_perf():
    """Return where jitdumps and what perf made of them are looked for."""
    places = [DIRECTORY, "/var/tmp", os.environ.get("TMPDIR"),
              os.environ.get("JITDUMPDIR")]
    # Other jitdump writers and perf keep one directory for each day and run.
    home = os.path.expanduser("~/.debug/jit")
    if os.path.isdir(home) and not os.path.islink(home):
        places += [os.path.join(home, name) for name in os.listdir(home)
                   if not os.path.islink(os.path.join(home, name))]
    return list(dict.fromkeys(place for place in places if place))


def main(options):
    leftovers = find(directories_of_perf())
    if not leftovers:
        print("perfpy: nothing is left behind")
        return 0
    for leftover in leftovers:
        print(f"{leftover.size:12,} bytes  {leftover.path}  "
              f"({leftover.what}, process {leftover.pid} is gone)")
    total = sum(leftover.size for leftover in leftovers)
    print(f"perfpy: {len(leftovers):,} with {total:,} bytes")
    if options.dry_run:
        return 0
    if not options.yes:
        if not sys.stdin.isatty():
            print("perfpy: nothing is removed; say --yes to remove these",
                  file=sys.stderr)
            return 1
        answer = input("Remove them all? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    failed = False
    for leftover in leftovers:
        # Its process could be new, or its name another file's, by now.
        directory, name = os.path.split(leftover.path)
        if _examine(directory, name):
            try:
                remove(leftover)
            except OSError as error:
                print(f"perfpy: {leftover.path}: {error.strerror}",
                      file=sys.stderr)
                failed = True
    return 1 if failed else 0
