"""One page of HTML that shows a profile, and needs nothing else.

The page is viewer/page.html with everything put into it: our page.css, our
scripts, and the profile, which data.js describes and unpacks.

Names come from the profiled program, and so are not to be trusted.  They are
in the packed profile only, where no character can end the script element, and
the scripts show them as text.  The page's Content-Security-Policy allows its
own script, by its hash, and no access to any network.
"""

import array
import base64
import collections
import hashlib
import html
import itertools
import json
import operator
import pathlib
import re
import sys
import zlib

from perfpy import classify, source, table
from perfpy.classify import Origin
from perfpy.formats import thread_name

VIEWER = pathlib.Path(__file__).parent / "viewer"
SCRIPTS = ("data.js", "tree.js", "chart.js", "address.js", "lines.js",
           "page.js")
# For people; table.py has shorter ones.
LABELS = {
    Origin.OWN: "own code",
    Origin.PACKAGES: "site-packages",
    Origin.LIBRARY: "standard library",
    Origin.NATIVE: "native",
    Origin.INTERPRETER: "interpreter",
    Origin.KERNEL: "kernel",
    Origin.MARK: "(no code)",
    Origin.GIL: "waiting for the GIL",
    Origin.LOCK: "waiting for a lock",
    Origin.IO: "waiting for I/O",
    Origin.SLEEP: "sleeping",
    Origin.READY: "ready to run",
}
ORIGINS = tuple(Origin)
HIDDEN = ("gil",)   # of what is known: not for people
PIECE = 1 << 18     # bytes of packed data to write at a time, at least


def write(profile, file, has_source=True, is_diff=False, summary=None):
    script = _script()
    parts = {
        "policy": [_policy(script)],
        "title": [html.escape(profile.meta.get("command", "profile"))],
        "style": [(VIEWER / "page.css").read_text(encoding="utf-8")],
        "script": [script],
        "data": _as_text(_packed(_pieces(
            profile, has_source, is_diff, summary or table.summary(profile)))),
    }
    template = (VIEWER / "page.html").read_text(encoding="utf-8")
    # Every second piece is a name in double braces.
    for number, piece in enumerate(re.split(r"\{\{(\w+)\}\}", template)):
        for text in parts[piece] if number % 2 else [piece]:
            file.write(text.encode("utf-8", "backslashreplace"))


def _script():
    """Return the scripts as one, which leaves no names in the window."""
    text = "".join((VIEWER / name).read_text(encoding="utf-8")
                   for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{text}}})();\n'


def _policy(script):
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return ("default-src 'none'; img-src data:; script-src 'sha256-"
            + base64.b64encode(digest).decode("ascii")
            + "'; style-src 'unsafe-inline'; base-uri 'none';"
            " form-action 'none'")


# ---- The profile, as data.js describes it

def _as_text(pieces, least=PIECE):
    """Yield base 85 without the one digit that HTML could see as markup."""
    left = b""
    for piece in pieces:
        left += piece
        if len(left) >= least:
            whole = len(left) // 4 * 4
            yield _digits(left[:whole])
            left = left[whole:]
    yield _digits(left)


def _digits(data):
    return base64.b85encode(data).replace(b"<", b",").decode("ascii")


def _packed(pieces):
    packer = zlib.compressobj(6)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _pieces(profile, has_source, is_diff, summary):
    sources = source.of_profile(profile) if has_source else []
    profile = profile.functions()
    folded = profile.folded()
    # Folding makes marks, which the profile does not have.
    origins = {frame: origin for each in (profile, folded) for frame, origin
               in zip(each.frames, classify.origins(each))}
    numbers = {frame: number for number, frame in enumerate(origins)}
    views = {"folded": _View(folded, numbers),
             "unfolded": _View(profile, numbers)}
    description = json.dumps(
        _description(profile, origins, views)
        | {"source": _sources(profile, sources, numbers),
           "isDiff": is_diff, "summary": summary}).encode("ascii")
    yield len(description).to_bytes(4, "little")
    yield description
    for view in views.values():
        for column in view.columns():
            yield from _planes(column)


def _planes(column):
    """Yield the lowest bytes of all numbers, the next ones, and so on."""
    if sys.byteorder == "big":
        column.byteswap()
    data = column.tobytes()
    for place in range(column.itemsize):
        yield data[place::column.itemsize]


def _numbers(values):
    return array.array("I", values)


def _description(profile, origins, views):
    files = {}
    return {
        "meta": {name: value for name, value in profile.meta.items()
                 if name not in HIDDEN},
        "unit": profile.meta.get("unit"),
        "origins": [origin.value for origin in ORIGINS],
        "labels": [LABELS[origin] for origin in ORIGINS],
        "waits": [origin in classify.WAITS for origin in ORIGINS],
        "originOf": [ORIGINS.index(origin) for origin in origins.values()],
        "names": [frame.name for frame in origins],
        "fileOf": [files.setdefault(frame.file, len(files))
                   for frame in origins],
        "files": list(files),
        "threads": [{"pid": thread.pid, "process": thread.process_name,
                     "name": thread_name(thread),
                     "samples": len(thread.stacks)}
                    for thread in profile.threads],
        "views": {name: view.description() for name, view in views.items()},
    }


def _sources(profile, sources, numbers):
    scale = 1 if "unit" in profile.meta else 1e6
    return [{"frame": numbers[each.function], "first": each.first,
             "text": each.text, "changed": each.has_changed,
             "times": _times_of_lines(each.times, scale),
             "ofThreads": [[thread, _times_of_lines(times, scale)] for
                           thread, times in sorted(each.of_threads.items())]}
            for each in sources if each.function in numbers]


def _times_of_lines(times, scale):
    return [[line, round(own * scale), round(total * scale)]
            for line, (own, total) in sorted(times.items())]


class _View:
    """The stacks of a profile in columns."""

    def __init__(self, profile, numbers):
        number = [numbers[frame] for frame in profile.frames]
        self.frames = _numbers(map(number.__getitem__, profile.stack_frames))
        parents = profile.parents
        # Where a stack does not go on from the one before.
        starts = list(itertools.compress(
            itertools.count(), map(operator.ne, parents, itertools.count(-1))))
        if parents:
            starts.insert(0, 0)
        ends = itertools.chain(starts[1:], [len(parents)])
        self.lengths = _numbers(map(operator.sub, ends, starts))
        self.callers = _numbers(parents[stack] + 1 for stack in starts)
        scale = 1 if "unit" in profile.meta else 1e6
        self.times = [_times(thread, scale) for thread in profile.threads]

    def description(self):
        return {"stacks": len(self.frames), "chains": len(self.lengths),
                "weights": [len(nodes) for nodes, _ in self.times]}

    def columns(self):
        yield self.lengths
        yield self.callers
        yield self.frames
        for columns in self.times:
            yield from columns


def _times(thread, scale):
    """Return a thread's stacks, as differences, and the time in each."""
    weights = collections.defaultdict(float)
    for stack, weight in zip(thread.stacks, thread.weights):
        weights[stack + 1] += weight        # 0 for a sample without a stack
    nodes = sorted(weights)
    return (_numbers(map(operator.sub, nodes, [0, *nodes])),
            array.array("Q", (round(weights[node] * scale)
                              for node in nodes)))
