"""The source text of functions in a profile, with the time of each line.

Read when a page is written, and only of functions that have time: a page says
no more of a program than it has to.  Called by html.py.
"""

import ast
import tokenize
import typing

from perfpy import classify, table, totals
from perfpy.profile import Kind

MOST_FUNCTIONS = 300
MOST_LINES = 1000           # of a function
AROUND = 3                  # lines to show where no function is found
MOST_THREADS = 16           # with times of their own, the busiest

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef,
              ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Source(typing.NamedTuple):
    """A function whose lines were seen."""

    function: object        # its Frame, without a line
    first: int              # number of the first line of the text
    text: list              # of its lines; none if it cannot be had
    times: dict             # line: (own, total)
    has_changed: bool       # since the recording
    of_threads: dict        # number of a thread: such times; none if there is
                            # one thread only


class _File:
    """A source file, as far as it can be read."""

    def __init__(self, path, profile):
        self.lines, self.has_changed, self._spans = [], False, []
        try:
            self.has_changed = classify.has_changed(profile, path)
            with tokenize.open(path) as file:
                text = file.read()
            self.lines = text.splitlines()
            self._spans = sorted(
                ((node.lineno, node.end_lineno) for node
                 in ast.walk(ast.parse(text)) if isinstance(node, _FUNCTIONS)),
                key=lambda span: span[1] - span[0])
        except (OSError, SyntaxError, ValueError, RecursionError,
                MemoryError):
            pass            # the times of lines are known all the same

    def span(self, lines):
        """Return the first and last line of the function with these."""
        low, high = min(lines), max(lines)
        for first, last in self._spans:
            if first <= low and high <= last:
                return first, min(last, first + MOST_LINES - 1)
        return max(1, low - AROUND), min(high + AROUND, low + MOST_LINES)


def of_profile(profile):
    """Return a Source for each function with lines, the hottest first."""
    functions = {}
    rows = table.rows_of(profile, table.Choice(lines=True, imports=True,
                                               loops=True))
    for row in rows:
        if row.frame.kind is Kind.PYTHON and row.frame.line:
            functions.setdefault(row.frame.function, {})[row.frame.line] = (
                row.own, row.total)
    hottest = sorted(functions.items(), key=lambda item: (
        -sum(own for own, _ in item[1].values()),
        -max(total for _, total in item[1].values()), item[0][:2]))
    hottest = hottest[:MOST_FUNCTIONS]
    of_threads = _of_threads(profile, {function for function, _ in hottest})
    files = {}
    result = []
    for function, times in hottest:
        path = classify.path_of(profile, function.file)
        if path not in files:
            files[path] = _File(path, profile)
        file = files[path]
        first, last = file.span(times)
        result.append(Source(function, first, file.lines[first - 1:last],
                             times, file.has_changed,
                             of_threads.get(function, {})))
    return result


def _of_threads(profile, functions):
    """Return {function: {thread: {line: (own, total)}}}."""
    if len(profile.threads) < 2:
        return {}
    busiest = sorted(range(len(profile.threads)), key=lambda number: -sum(
        profile.threads[number].weights))[:MOST_THREADS]
    row_of = [number if frame.kind in (Kind.PYTHON, Kind.MARK)
              else totals.NO_ROW for number, frame in enumerate(
                  profile.frames)]
    wanted = [(number, frame.function, frame.line) for number, frame
              in enumerate(profile.frames)
              if frame.line and frame.function in functions]
    result = {}
    for thread in busiest:
        times = totals.of_rows(profile, row_of,
                               threads=[profile.threads[thread]])
        for number, function, line in wanted:
            if times[number][1]:
                result.setdefault(function, {}).setdefault(
                    thread, {})[line] = times[number]
    return result
