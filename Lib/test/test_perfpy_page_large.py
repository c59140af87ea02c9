"""profile.html of a large profile, in a real browser: size and speed.

Times are CPU time of the page's own thread, which does not depend on what else
the machine does.
"""

import tempfile
import time
import unittest

from test.support import perfpy_samples as samples
from test.support.perfpy_page import PageTestCase, element, written
from test.support.perfpy_viewers import requires_chromium

STACKS = 200_000            # different ones
FILE = 12_000_000           # bytes, at most
OPEN = 3                    # seconds, at most
LETTER = 0.15               # seconds, at most
MEMORY = 500_000_000        # bytes of the page's process, at most


@requires_chromium
class LargeTests(PageTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(samples.large_text())
            file.flush()
            cls.page = written(samples.large(STACKS + 50_000, STACKS,
                                             file.name))

    def setUp(self):
        super().setUp()
        start = time.perf_counter()
        self.open_page(self.page)
        self.browser.paint()
        self.wall = time.perf_counter() - start

    def busy(self, function, *arguments):
        """Return the CPU time of the page for what a function does."""
        before = self.browser.busy_seconds()
        function(*arguments)
        self.browser.paint()
        return self.browser.busy_seconds() - before

    def say(self, text):
        print(f"large page: {text}", flush=True)

    def test_size(self):
        self.say(f"{len(self.page):,} bytes")
        self.assertLess(len(self.page), FILE)

    def test_open(self):
        busy = self.browser.busy_seconds()
        self.say(f"opens in {busy:.2f} s ({self.wall:.2f} s on this machine "
                 "at the moment)")
        self.assertGreater(len(self.shown()), 300)
        self.assertLess(busy, OPEN)

    def test_memory(self):
        used = self.browser.page_memory()
        if used is None:
            self.skipTest("the browser does not tell its processes")
        self.say(f"{used:,} bytes of memory")
        self.assertLess(used, MEMORY)

    def check_letters(self):
        self.browser.evaluate(f"{element('search')}.select()")
        times = [self.busy(self.browser.type, letter)
                 for letter in "python_12"]
        self.say("letters take " + ", ".join(
            f"{1000 * each:.0f}" for each in times) + " ms")
        self.assertRegex(self.text("found"), "[0-9]+ functions in")
        self.assertLess(max(times), LETTER)

    def test_letters_in_the_graph(self):
        self.check_letters()

    def test_letters_in_the_list(self):
        self.click("show-functions")
        self.check_letters()

    def test_letters_in_lines(self):
        self.click("show-lines")
        self.check_letters()

    def test_lines(self):
        for name in "show-lines", *["more-sources"] * 5:
            busy = self.busy(self.click, name)
            self.say(f"{name} takes {1000 * busy:.0f} ms")
            self.assertLess(busy, OPEN)
        self.assertGreater(self.browser.evaluate(
            "document.querySelectorAll('.source .hot').length"), 300)
        busy = self.busy(self.choose_thread, 2)
        self.say(f"a thread's lines take {1000 * busy:.0f} ms")
        self.assertLess(busy, OPEN)

    def test_letters_with_the_interpreter(self):
        self.click("internals")
        self.check_letters()

    def test_everything_else(self):
        """No click takes longer than opening the page."""
        self.search("python_1")
        for name in "next", "internals", "show-functions", "show-graph":
            busy = self.busy(self.click, name)
            self.say(f"{name} takes {1000 * busy:.0f} ms")
            self.assertLess(busy, OPEN)

    def test_narrow_frames_are_not_drawn(self):
        self.assertGreaterEqual(
            min(frame["width"] for frame in self.shown()), 1)
        self.assertRegex(self.text("left-out"), r"^\d,\d{3},\d{3} frames are "
                         "narrower than a pixel and left out")


if __name__ == "__main__":
    unittest.main()
