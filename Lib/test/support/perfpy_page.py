"""What the tests of profile.html share: to open pages, and to use them."""

import io
import pathlib
import tempfile
import unittest

from perfpy import html
from test.support import chromium


def written(profile):
    """Return the page of a profile, as bytes."""
    file = io.BytesIO()
    html.write(profile, file)
    return file.getvalue()


def element(name):
    return f"document.getElementById('{name}')"


class PageTestCase(unittest.TestCase):
    """What one can see of a page and do with it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = cls.enterClassContext(chromium.Browser())

    def setUp(self):
        super().setUp()
        self.url = None         # of the page that is open
        self.addCleanup(self.check_silence)

    def open_address(self, address, **options):
        self.check_silence()
        self.browser.open(address, **options)
        self.url = address.partition("#")[0]
        self.browser.wait_for("!document.querySelector('[aria-busy]')")

    def open(self, profile, fragment="", **options):
        self.open_page(written(profile), fragment, **options)

    def open_page(self, page, fragment="", **options):
        directory = tempfile.TemporaryDirectory(prefix="test_perfpy_page-")
        self.addCleanup(directory.cleanup)
        path = pathlib.Path(directory.name, "profile.html")
        path.write_bytes(page)
        self.open_address(path.as_uri() + fragment, **options)

    def check_silence(self):
        """Fail if the page complained, or asked for anything but itself."""
        if not self.url:
            return
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual({request.partition("#")[0]
                          for request in self.browser.requests()
                          if not request.startswith("data:")}, {self.url})

    def text(self, name):
        return self.browser.evaluate(f"{element(name)}.innerText")

    def click(self, name):
        self.browser.click(element(name))

    def fragment(self):
        return self.browser.evaluate("decodeURIComponent(location.hash)")

    # ---- Charts

    def shown(self, chart="flame"):
        self.browser.paint()
        return self.browser.evaluate(f"{element(chart)}.shownFrames()")

    def frames(self, chart="flame"):
        """Return the frames that a chart shows, by name."""
        return {frame["name"]: frame for frame in self.shown(chart)}

    def widths(self, chart="flame"):
        """Return the frames' shares of the chart's width, by name."""
        frames = self.frames(chart)
        root = max(frame["width"] for frame in frames.values())
        return {name: round(frame["width"] / root, 2)
                for name, frame in frames.items()}

    def place(self, name, chart="flame"):
        """Return where a frame is in the window, after scrolling there."""
        frame = self.frames(chart)[name]
        self.browser.evaluate(
            "window.scrollBy(0, -innerHeight / 2 +"
            f" {element(chart)}.getBoundingClientRect().y + {frame['y']})")
        left, top = self.browser.evaluate(
            f"(box => [box.x, box.y])({element(chart)}"
            ".getBoundingClientRect())")
        return left + frame["x"] + frame["width"] / 2, top + frame["y"] + 10

    def click_frame(self, name, chart="flame"):
        self.browser.click_at(*self.place(name, chart))

    def colour(self, name, chart="flame"):
        """Return the colour (r, g, b) of a frame, as it was drawn."""
        frame = self.frames(chart)[name]
        self.browser.paint()
        return tuple(self.browser.evaluate(f"""(() => {{
            const canvas = document.querySelector("#{chart} canvas");
            const y = {frame['y']} + 2 - parseFloat(canvas.style.top);
            const pixel = document.createElement("canvas")
                .getContext("2d", {{willReadFrequently: true}});
            pixel.drawImage(canvas, {int(frame['x'] + frame['width'] - 3)}, y,
                            1, 1, 0, 0, 1, 1);
            return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
        }})()"""))

    # ---- The rest of the page

    def search(self, text):
        self.browser.evaluate(f"{element('search')}.select()")
        self.browser.type(text)

    def choose_thread(self, index):
        self.browser.evaluate(f"""(() => {{
            const select = {element('threads')};
            select.selectedIndex = {index};
            select.dispatchEvent(new Event("change"));
        }})()""")

    def rows(self):
        """Return the names in the list of functions."""
        return self.browser.evaluate(
            "[...document.querySelectorAll('#rows button')]"
            ".map(button => button.innerText.split(' ')[0])")

    def sort_by(self, column):
        self.click_on(f"[data-sort={column}]")

    def click_on(self, selector):
        self.browser.click(f"document.querySelector('{selector}')")

    def is_hidden(self, name):
        return self.browser.evaluate(f"{element(name)}.hidden")

    def click_row(self, name):
        self.browser.click("[...document.querySelectorAll('#rows button')]"
                           f".find(button => button.innerText === '{name}')")

    def chosen_row(self):
        return self.browser.evaluate(
            "document.querySelector('#rows [aria-current]')?.innerText")
