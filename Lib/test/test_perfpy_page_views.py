"""profile.html in a real browser: lines, comparisons and waits for everybody.

On a narrow screen, on a dark page, and with the keyboard alone.
"""

import io
import pathlib
import re
import tempfile
import unittest

from perfpy import diffpage, marks, walltime
from perfpy.profile import Frame, Kind, Profile
from test.support.perfpy_page import PageTestCase, element, written
from test.support.perfpy_samples import add
from test.support.perfpy_viewers import requires_chromium

PHONE = 400, 800    # pixels
VIEWS = "", "#view=functions", "#view=lines"
READABLE = 4.5      # least contrast of text, WCAG's AA

TEXT = """\
class Shop:
    def order(self, things):
        for thing in things:
            if thing:
                self.fetch(thing, "a long argument", "another one", thing=1)

    def fetch(self, *args, **kwargs):
        return args
"""

# What of the visible page is wider than its place, or beyond the window.
CUT = """[...document.querySelectorAll(
    "button, select, input, canvas, table, td, th, h1, h3, p")].filter(item =>
    item.offsetParent && (item.getBoundingClientRect().left < 0
        || item.getBoundingClientRect().right > innerWidth
        || item.closest(".source") && item.scrollWidth > item.clientWidth + 1
           && getComputedStyle(item).display !== "inline"))
    .map(item => item.id || item.outerHTML)"""

# The contrast of the text in each cell of the lines, with the bar of a time.
CONTRAST = """(() => {
    const parts = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = colour => parts(colour).map(part => part / 255).map(part =>
        part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, index) =>
            sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const page = getComputedStyle(document.body).backgroundColor;
    const bar = document.createElement("i");
    bar.style.color = "var(--share-bar)";
    document.body.append(bar);
    const barColour = getComputedStyle(bar).color;
    bar.remove();
    return [...document.querySelectorAll(".source :is(td, th)")].map(cell => {
        const style = getComputedStyle(cell);
        const ground = style.backgroundImage !== "none" ? [page, barColour]
            : [style.backgroundColor.startsWith("rgba") ? page
               : style.backgroundColor];
        return Math.min(...ground.map(colour => {
            const [high, low] = [light(colour), light(style.color)]
                .sort((a, b) => b - a);
            return (high + 0.05) / (low + 0.05);
        }));
    });
})()"""


@requires_chromium
class ViewsTest(PageTestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="test_perfpy_views-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name,
                                 "a_directory_with_a_long_name", "shop.py")
        self.path.parent.mkdir()
        self.path.write_text(TEXT)
        self.addCleanup(setattr, self.browser, "size", self.browser.size)

    def profile(self, count=1):
        """A profile that runs and waits in each line of the text."""
        profile = Profile()
        profile.meta |= {"clock": "wall", "duration": "0.7",
                         "started": "2100-01-01T00:00:00+00:00",
                         "command": "python -X perf=lines "
                         f"{self.path} --with-a-long-option=" + "x" * 50}
        file = str(self.path)
        for tid in 1, 2:
            thread = profile.thread(1, tid, "python3.11", f"worker-{tid}")
            for line in 3, 4, 5:
                frame = Frame("Shop.order", file, Kind.PYTHON, line)
                add(profile, thread, [frame], 123 * count)
                for mark in walltime.STATES:
                    add(profile, thread, [frame, Frame(
                        "Shop.fetch", file, Kind.PYTHON, 8), mark],
                        100 * count)
        return profile

    def pages(self):
        """Yield both kinds of pages, as bytes."""
        yield written(self.profile())
        file = io.BytesIO()
        diffpage.write(self.profile(), self.profile(7), file)
        yield file.getvalue()

    def test_phone(self):
        self.browser.size = PHONE
        for number, page in enumerate(self.pages()):
            for view in VIEWS:
                with self.subTest(number=number, view=view):
                    self.open_page(page, view)
                    self.assertEqual(self.browser.evaluate(CUT), [])
                    self.assertLessEqual(self.browser.evaluate(
                        "document.documentElement.scrollWidth"), PHONE[0])

    def test_lines_on_a_phone(self):
        self.browser.size = PHONE
        for page in self.pages():
            self.open_page(page, "#view=lines")
            places = self.browser.evaluate("""Object.fromEntries(
                [...document.querySelectorAll(".source tr")].map(row =>
                    [row.firstChild.textContent, [...row.children].map(
                        cell => [cell.getBoundingClientRect().y,
                                 cell.getBoundingClientRect().width])]))""")
            # Times are above the text; where there are none, so is the text.
            (time, _), (text, width) = places["5"][1], places["5"][-1]
            self.assertGreater(text, time)
            self.assertGreater(width, 0.7 * PHONE[0])
            (line, _), (text, width) = places["2"][0], places["2"][-1]
            self.assertAlmostEqual(text, line, delta=3)
            self.assertGreater(width, 0.7 * PHONE[0])

    def test_lines_on_a_large_screen(self):
        self.browser.size = 1100, 800
        for page in self.pages():
            self.open_page(page, "#view=lines")
            self.assertEqual(self.browser.evaluate(CUT), [])
            self.assertEqual(self.browser.evaluate("""[...document
                .querySelectorAll(".source tr")].filter(row => new Set(
                    [...row.children].map(cell => cell
                        .getBoundingClientRect().y)).size > 1).length"""), 0)

    def test_text_can_be_read(self):
        for dark in False, True:
            for page in self.pages():
                self.open_page(page, "#view=lines", dark=dark)
                contrasts = self.browser.evaluate(CONTRAST)
                self.assertGreater(len(contrasts), 20)
                self.assertGreater(min(contrasts), READABLE)

    def test_waits_on_a_dark_page(self):
        self.open_page(written(self.profile()), dark=True)
        stripes = self.browser.evaluate(f"""Object.fromEntries(
            {element('flame')}.shownFrames().map(({{name, fill, stripe}}) =>
                [name, [fill, stripe ?? null]]))""")
        colours = {colour for mark in walltime.STATES
                   if mark != marks.WAITING for colour in stripes[mark.name]}
        self.assertEqual(len(colours), 10)

    def focused(self):
        return self.browser.evaluate("document.activeElement.innerText")

    def test_keyboard_leads_from_view_to_view(self):
        for page in self.pages():
            self.open_page(page)
            self.browser.evaluate("document.activeElement.blur()")
            for _ in range(20):
                self.browser.press("Tab")
                if self.browser.evaluate("document.activeElement.id") == (
                        "flame"):
                    break
            self.browser.press("l")         # nothing is chosen yet
            self.assertFalse(self.is_hidden("graph"))
            self.browser.press("ArrowDown", "ArrowDown", "l")
            self.assertFalse(self.is_hidden("lines"))
            self.assertEqual(self.focused(), "Shop.fetch")
            self.browser.press("Enter")     # callers and callees
            self.assertFalse(self.is_hidden("functions"))
            self.assertEqual(self.text("chosen"), "Shop.fetch")
            self.assertEqual(self.focused(), "Shop.fetch")
            before = self.text("chosen")
            self.browser.press("ArrowDown" if self.rows()[0] == before
                               else "ArrowUp")
            self.assertNotEqual(self.text("chosen"), before)

    def test_lines_have_names(self):
        self.open_page(written(self.profile()), "#view=lines")
        found = [(role, name) for role, name, _ in self.browser.accessible()]
        self.assertIn(("table", "Lines of Shop.order"), found)
        for head in "Line", "Self", "Total", "Text":
            self.assertIn(("columnheader", head), found)

    def test_changed_file_is_told(self):
        profile = self.profile()
        profile.meta["started"] = "2001-01-01T00:00:00+00:00"
        self.browser.size = PHONE
        self.open_page(written(profile), "#view=lines")
        self.assertTrue(re.search("the file has changed since",
                                  self.text("sources")))
        self.assertEqual(self.browser.evaluate(CUT), [])


if __name__ == "__main__":
    unittest.main()
