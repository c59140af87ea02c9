"""samply, a profiler, for tests: whether it can record, and what it shows.

SAMPLY in the environment names it, or it is found by PATH;
Tools/machine/fetch-samply.sh brings one.

samply's profiles name functions.  The lines of a jitdump it looks up when it
shows a profile: it serves that to a browser, which asks for the symbols of the
addresses.  Here the test asks.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

from test import support

PARANOID = "/proc/sys/kernel/perf_event_paranoid"

# samply records if this file says 1 or less, also for root, to whom the
# kernel's limit does not apply.  So samply alone is shown another one.
IN_A_VIEW_OF_ITS_OWN = (
    "unshare", "--mount", "sh", "-c",
    f'mount --bind "$0" {PARANOID} && exec "$@"')


def path():
    return os.environ.get("SAMPLY") or shutil.which("samply")


def command(directory):
    """Return the words that start samply; directory is for a file of ours."""
    if int(pathlib.Path(PARANOID).read_text()) <= 1:
        return [path()]
    one = pathlib.Path(directory, "perf_event_paranoid")
    one.write_text("1\n")
    return [*IN_A_VIEW_OF_ITS_OWN, str(one), path()]


def why_not(directory):
    """Return None if samply can record, or why it cannot."""
    if path() is None:
        return ("samply is not installed, nor named in SAMPLY; "
                "Tools/machine/fetch-samply.sh brings it")
    profile = os.path.join(directory, "probe.json")
    probe = subprocess.run(
        [*command(directory), "record", "--save-only", "-o", profile, "true"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=support.LONG_TIMEOUT)
    if probe.returncode == 0 and os.path.exists(profile):
        return None
    return f"samply may not record: {' '.join(probe.stderr.split())[:200]}"


class Frame:
    """A frame of a native stack, as samply's view tells it."""

    def __init__(self, name, file, line):
        self.name = name
        self.file = file
        self.line = line

    def __repr__(self):
        return f"{self.name} ({self.file}:{self.line})"


class Profile:
    """A file that samply has written, with the symbols that it looks up."""

    def __init__(self, path):
        self._path = path
        with open(path, encoding="utf-8") as file:
            self._profile = json.load(file)

    @property
    def pids(self):
        """Of all processes in it; samply adds to a number that comes again."""
        return {int(str(thread["pid"]).partition(".")[0])
                for thread in self._profile["threads"]}

    def samples(self):
        """Return pairs of a stack, the innermost frame first, and its weight,
        of all threads."""
        found = []
        with Server(self._path) as server:
            for thread in self._profile["threads"]:
                found += self._samples_of(thread, server)
        return found

    def _samples_of(self, thread, server):
        frames = self._frames(thread, server)
        table = thread["stackTable"]
        samples = thread["samples"]
        weights = samples["weight"] or [1] * samples["length"]
        for number, weight in zip(samples["stack"], weights):
            stack = []
            while number is not None:
                if frame := frames[table["frame"][number]]:
                    stack.append(frame)
                number = table["prefix"][number]
            yield stack, weight

    def _frames(self, thread, server):
        """Return the thread's frames; None for one without an address, by
        which samply tells that what follows is not native."""
        table, functions = thread["frameTable"], thread["funcTable"]
        places, names = [], []
        for address, function in zip(table["address"], table["func"]):
            resource = functions["resource"][function]
            library = (thread["resourceTable"]["lib"][resource]
                       if resource not in (None, -1) else None)
            places.append((library, address))
            names.append(thread["stringArray"][functions["name"][function]])
        native = [place for place in places
                  if place[0] is not None and place[1] >= 0]
        found = dict(zip(native, server.symbols(self._profile["libs"],
                                                native)))
        return [Frame(found[place].get("function", name),
                      found[place].get("file"), found[place].get("line"))
                if place in found else None
                for place, name in zip(places, names)]


class Server:
    """samply as it shows a profile, for the time of a with statement."""

    def __init__(self, profile):
        self._process = subprocess.Popen(
            [path(), "load", "--no-open", profile], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self._url = None

    def __enter__(self):
        for line in self._process.stdout:
            if match := re.search(r"symbolServer=(\S+)", line):
                self._url = urllib.parse.unquote(match[1])
                return self
        self.__exit__()
        raise AssertionError("samply load does not tell where it serves")

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    def symbols(self, libraries, places):
        """Return what is known of each (library, address), in dicts."""
        if not places:
            return []
        question = {"jobs": [{
            "memoryMap": [[library["debugName"], library["breakpadId"]]
                          for library in libraries],
            "stacks": [places]}]}
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{self._url}/symbolicate/v5",
                         json.dumps(question).encode()) as response:
            (answer,) = json.load(response)["results"]
        (stack,) = answer["stacks"]
        return stack
