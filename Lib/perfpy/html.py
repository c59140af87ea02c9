"""One page of HTML that shows a profile, and needs nothing else.

The page is viewer/page.html with everything put into it: the profile as JSON,
our page.css and page.js, and d3-flamegraph.js, the viewer proper, which the
build fetches (Tools/fetch-viewer.sh).  A build that could not has no picture:
then write() raises ViewerMissing.

Names come from the profiled program, and so are not to be trusted.  They are
in the JSON only, where no character can end the script element, and page.js
shows them as text.  The page's Content-Security-Policy allows its own two
scripts, by their hashes, and no access to any network.
"""

import array
import base64
import hashlib
import html
import json
import pathlib
import re

from perfpy.formats import thread_name
from perfpy.profile import NO_STACK, Kind

VIEWER = pathlib.Path(__file__).parent / "viewer"
LIBRARY = VIEWER / "d3-flamegraph.js"
KINDS = tuple(kind for kind in Kind if kind is not Kind.MARK)


class ViewerMissing(Exception):
    """There is nothing that could draw the picture."""

    def __init__(self):
        super().__init__("this Python was built without the viewer of"
                         " profile.html")


def is_available():
    """Return whether write() can work."""
    return LIBRARY.exists()


def write(profile, file):
    if not is_available():
        raise ViewerMissing
    library = _as_script(LIBRARY)
    script = _as_script(VIEWER / "page.js")
    parts = {
        "policy": _policy(library, script),
        "title": html.escape(profile.meta.get("command", "profile")),
        "style": (VIEWER / "page.css").read_text(encoding="utf-8"),
        "library": library,
        "script": script,
        "data": _as_json(_data(profile)),
    }
    template = (VIEWER / "page.html").read_text(encoding="utf-8")
    # Every second piece is a name in double braces.
    for number, piece in enumerate(re.split(r"\{\{(\w+)\}\}", template)):
        text = parts[piece] if number % 2 else piece
        file.write(text.encode("utf-8", "backslashreplace"))


def _as_script(path):
    """Return JavaScript so that it can stand in a script element."""
    text = path.read_text(encoding="utf-8")
    # In a string or a regular expression, where alone these can be.
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _policy(*scripts):
    hashes = " ".join(
        "'sha256-%s'" % base64.b64encode(
            hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        for script in scripts)
    # d3-flame-graph makes a style element.
    return (f"default-src 'none'; script-src {hashes}; img-src data:; "
            "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")


def _as_json(value):
    """Return JSON, in ASCII, that no HTML parser takes for markup."""
    return json.dumps(value, separators=(",", ":")).replace("<", r"\u003c")


def _data(profile):
    """Return what page.js reads; it describes it where it does."""
    files = {}
    folded = profile.folded()
    for frame in folded.frames:
        profile.add_frame(frame)    # marks that folding makes
    return {
        "meta": profile.meta,
        "kinds": [kind.value for kind in KINDS],
        "names": [frame.name for frame in profile.frames],
        "kindOf": [KINDS.index(Kind.INTERPRETER if frame.kind is Kind.MARK
                               else frame.kind)
                   for frame in profile.frames],
        "fileOf": [files.setdefault(frame.file, len(files))
                   for frame in profile.frames],
        "files": list(files),
        "threads": [{"pid": thread.pid, "process": thread.process_name,
                     "name": thread_name(thread),
                     "samples": len(thread.stacks)}
                    for thread in profile.threads],
        "folded": _view(profile, folded),
        "unfolded": _view(profile, profile),
    }


def _view(profile, view):
    """Return the stacks of view with the weights of all its threads.

    Frames are numbered as in profile, of which view is made.
    """
    frame_number = {frame: number
                    for number, frame in enumerate(profile.frames)}
    result = {
        "parents": [parent for parent, _ in view.stacks],
        "frames": [frame_number[view.frames[frame]]
                   for _, frame in view.stacks],
        "threads": [],
    }
    for thread in view.threads:
        seconds = array.array("d", bytes(8 * (len(view.stacks) + 1)))
        for stack, weight in zip(thread.stacks, thread.weights):
            seconds[stack] += weight        # NO_STACK: the last one
        stacks = [stack for stack, weight in enumerate(seconds) if weight]
        weights = [round(seconds[stack] * 1e6) for stack in stacks]
        if stacks and stacks[-1] == len(view.stacks):
            stacks[-1] = NO_STACK
        result["threads"].append({"stacks": stacks, "microseconds": weights})
    return result
