"""Check that perf's stacks of Tools/profile/example.py show its functions in
their order, between C functions.

Reads what `perf script -F comm,ip,sym` has printed.  Prints how many samples
of the script there are and in how many the order is right, and fails unless it
is in most: the interpreter starts and ends outside of the script.

Called by Tools/machine/full-system/init, with the interpreter that is
profiled. """

import sys

ORDER = ("py::baz:", "py::bar:", "py::foo:", "py::<module>:",
         "PyEval_EvalCode", "Py_BytesMain")
SHARE = 0.9


def stacks(lines):
    """Yield a list of symbols, innermost first, of each sample."""
    symbols = None
    for line in lines:
        fields = line.split(maxsplit=1)
        if not fields:
            if symbols is not None:
                yield symbols
            symbols = None
        elif symbols is None:
            symbols = []            # the line with the program's name
        else:
            symbols.append(fields[1].strip() if len(fields) == 2 else "")
    if symbols is not None:
        yield symbols


def is_ordered(symbols):
    """Do symbols have those of ORDER next to each other, C functions apart?"""
    names = [symbol for symbol in symbols if symbol.startswith(ORDER)]
    python = [symbol for symbol in symbols if symbol.startswith("py::")
              and "example.py" in symbol]
    return (len(names) >= len(ORDER)
            and all(name.startswith(wanted) for name, wanted
                    in zip(names[-len(ORDER):], ORDER))
            and len(python) == 4)


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        of_script = [symbols for symbols in stacks(file)
                     if any("example.py" in symbol for symbol in symbols)]
    right = sum(map(is_ordered, of_script))
    print(f"{len(of_script)} samples in the script, {right} in order")
    sys.exit(not (len(of_script) >= 100 and right >= SHARE * len(of_script)))


if __name__ == "__main__":
    main()
