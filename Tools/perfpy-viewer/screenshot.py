"""Take the picture of profile.html that the documentation shows.

    make screenshot

records sample.py with perfpy and perf, opens the page in a headless Chromium
and writes Doc/howto/perfpy-flamegraph.png.  Run by the interpreter that is to
be profiled.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from perfpy import html, recording
from test.support import chromium

SAMPLE = pathlib.Path(__file__).with_name("sample.py")
WIDTH = 1100


def record(directory):
    """Profile the sample and return the page's path."""
    subprocess.run(
        [sys.executable, "-m", "perfpy", "run", "-o", "profile.html", SAMPLE],
        cwd=directory, check=True)
    profile = recording.load(str(directory / "profile.perfpy"))
    # The picture shall tell nothing of this machine, nor how busy it was.
    profile.meta["command"] = "python3.11 -X perf sample.py"
    for name in "duration", "queued":
        profile.meta.pop(name, None)
    page = directory / "profile.html"
    with page.open("wb") as file:
        html.write(profile, file)
    return page


def photograph(address, dark, width):
    """Return a PNG of the page, as high as it is."""
    with chromium.Browser(width, 400) as browser:
        for _ in range(2):
            browser.open(address, dark=dark)
            browser.wait_for("!document.querySelector('[aria-busy]')")
            browser.paint()
            height = browser.evaluate("document.body.scrollHeight")
            browser.size = width, height
        return browser.screenshot()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=WIDTH, help="in pixels")
    parser.add_argument("--fragment", default="", metavar="#...",
                        help="what the page is to show")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="screenshot-") as directory:
        png = photograph(
            record(pathlib.Path(directory)).as_uri() + options.fragment,
            options.dark, options.width)
    options.output.write_bytes(png)
    print(f"{options.output}: {len(png):,} bytes")


if __name__ == "__main__":
    main()
