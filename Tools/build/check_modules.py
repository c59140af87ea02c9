"""Fail if the running interpreter lacks a module of the standard library.

CPython's own build goes on without a module whose library is missing, and
only says so in the middle of its output.  Called by Tools/build/build.sh.
"""

import importlib
import importlib.util
import sys

# In sys.stdlib_module_names on every platform, but made for other ones, or
# left out of distributions on purpose.
NOT_HERE = {
    "_msi", "_overlapped", "_scproxy", "_winapi", "_wmi", "ensurepip",
    "msvcrt", "nt", "winreg", "winsound",
}

# Importing one of these shows something to the user or needs Windows.
NOT_IMPORTED = {"antigravity", "asyncio.windows_events", "idlelib", "this"}

# Not in sys.stdlib_module_names, but the tests need them.
FOR_TESTS = {"_ctypes_test", "_testbuffer", "_testcapi", "_testinternalcapi"}

# Faster than the same in Python, which is used where a release of Debian
# lacks the library.
TO_BE_FASTER = {"_decimal"}


def is_extension(name):
    spec = importlib.util.find_spec(name)
    return spec.origin is not None and spec.origin.endswith(".so")


def problem_with(name):
    """Return why a module cannot be used, or None."""
    if importlib.util.find_spec(name) is None:
        return "was not built"
    if is_extension(name):
        try:
            importlib.import_module(name)
        except ImportError as error:
            return f"cannot be imported: {error}"
    return None


def main():
    names = (sys.stdlib_module_names - NOT_HERE - NOT_IMPORTED) | FOR_TESTS
    problems = {name: problem_with(name) for name in sorted(names)}
    missing = {name: why for name, why in problems.items()
               if why and name not in TO_BE_FASTER}
    for name, why in missing.items():
        print(f"check_modules: {name} {why}", file=sys.stderr)
    if missing:
        sys.exit("check_modules: `make setup` installs the libraries that "
                 "Tools/machine/packages.txt lists;\n    "
                 "for other causes see the "
                 "output above; then: make clean && make")


if __name__ == "__main__":
    main()
