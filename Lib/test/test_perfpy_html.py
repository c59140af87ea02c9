"""profile.html, in a real browser and byte by byte."""

import base64
import hashlib
import html.parser
import io
import itertools
import json
import math
import pathlib
import re
import tempfile
import time
import unittest
from unittest import mock

from perfpy import html as page
from perfpy.profile import Kind, Profile
from test.support import chromium, perfpy_samples as samples
from test.support.perfpy_case import RecordingTestCase
from test.support.perfpy_viewers import requires_chromium, requires_viewer

# Seconds of CPU time to show 200,000 samples, or to search in them.
SOON = 5


def written(profile):
    file = io.BytesIO()
    page.write(profile, file)
    return file.getvalue()


class Elements(html.parser.HTMLParser):
    """The elements of a page: (tag, attributes, text)."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.is_inside = False      # of the last of them
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        self.is_inside = True

    def handle_endtag(self, tag):
        self.is_inside = False

    def handle_data(self, data):
        if self.is_inside:
            self.found[-1][2] += data

    def named(self, tag):
        return [element for element in self.found if element[0] == tag]


@requires_viewer
class FileTests(unittest.TestCase):

    def test_nothing_is_loaded(self):
        elements = Elements(written(samples.example()).decode("utf-8"))
        for tag, attributes, _ in elements.found:
            self.assertNotIn("src", attributes, tag)
            self.assertIn(attributes.get("href"), (None, "data:,"), tag)

    def test_policy_allows_just_the_two_scripts(self):
        elements = Elements(written(samples.hostile()).decode("utf-8"))
        policy, = [attributes["content"]
                   for _, attributes, _ in elements.named("meta")
                   if "http-equiv" in attributes]
        self.assertIn("default-src 'none'", policy)
        allowed = re.search("script-src ([^;]*)", policy)[1].split()
        scripts = [text for _, attributes, text in elements.named("script")
                   if "type" not in attributes]
        self.assertEqual(allowed, [
            "'sha256-%s'" % base64.b64encode(
                hashlib.sha256(script.encode()).digest()).decode()
            for script in scripts])

    def test_names_are_data(self):
        """Hostile names leave the page's elements as they are."""
        plain = Elements(written(samples.example()).decode("utf-8"))
        hostile = Elements(written(samples.hostile()).decode("utf-8"))
        self.assertEqual([tag for tag, *_ in hostile.found],
                         [tag for tag, *_ in plain.found])
        data, = [text for _, attributes, text in hostile.named("script")
                 if "type" in attributes]
        self.assertTrue(data.isascii())
        self.assertNotIn("<", data)
        names = json.loads(data)["names"]
        self.assertLessEqual(set(samples.HOSTILE_NAMES), set(names))

    def test_licences_are_in_the_page(self):
        text = written(samples.example()).decode("utf-8")
        for words in ("Apache License", "Mike Bostock", "d3-flame-graph 5"):
            self.assertIn(words, text)

    def test_weights(self):
        """The stacks of both views have the time of the samples."""
        profile = samples.example()
        elements = Elements(written(profile).decode("utf-8"))
        data, = [json.loads(text)
                 for _, attributes, text in elements.named("script")
                 if "type" in attributes]
        for view in ("folded", "unfolded"):
            self.assertEqual([sum(thread["microseconds"])
                              for thread in data[view]["threads"]],
                             [1_000_000, 500_000])


# What people see who lack one kind of cones: linear RGB to linear RGB.
# Machado, Oliveira and Fernandes, 2009, at full severity.
VISION = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868],
               [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968],
                 [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    """Return linear red, green and blue of "#rrggbb"."""
    parts = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055)**2.4
            for part in parts]


def times(matrix, vector):
    return [sum(factor * value for factor, value in zip(row, vector))
            for row in matrix]


def contrast(*colours):
    """Return the contrast of two colours as WCAG defines it."""
    dark, light = sorted(times([[0.2126, 0.7152, 0.0722]], linear(colour))[0]
                         for colour in colours)
    return (light + 0.05) / (dark + 0.05)


def difference(a, b, vision):
    """Return how different two colours look: the distance in CIELAB."""
    labs = []
    for colour in a, b:
        x, y, z = times([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722],
                         [0.0177, 0.1095, 0.8728]],
                        times(VISION[vision], linear(colour)))
        x, y, z = (max(part, 0.009)**(1 / 3) for part in (x, y, z))
        labs.append((116 * y - 16, 500 * (x - y), 200 * (y - z)))
    return math.dist(*labs)


class ColourTests(unittest.TestCase):

    def palettes(self):
        css = (page.VIEWER / "page.css").read_text(encoding="utf-8")
        light, _, rest = css.partition("@media (prefers-color-scheme: dark)")
        dark, _, _ = rest.partition("@media")
        return [dict(re.findall(r"--([\w-]+): (#\w{6});", text))
                for text in (light, dark)]

    def shades(self, palette):
        return {kind: [palette[f"{kind.value}-{number}"]
                       for number in range(3)] for kind in page.KINDS}

    def test_text_can_be_read(self):
        for palette in self.palettes():
            for shades in self.shades(palette).values():
                for shade in shades:
                    self.assertGreater(
                        contrast(palette["frame-text"], shade), 4.5, shade)
            for text in "text", "quiet", "accent":
                self.assertGreater(contrast(palette[text], palette["page"]),
                                   4.5, text)

    def test_kinds_can_be_told_apart(self):
        for palette in self.palettes():
            for a, b in itertools.combinations(
                    self.shades(palette).values(), 2):
                for pair in itertools.product(a, b):
                    for vision in VISION:
                        self.assertGreater(difference(*pair, vision), 15,
                                           (vision, *pair))


class MissingViewerTests(unittest.TestCase):
    """The build had no npm."""

    def setUp(self):
        nowhere = pathlib.Path(tempfile.gettempdir(), "no", "viewer.js")
        patch = mock.patch.object(page, "LIBRARY", nowhere)
        patch.start()
        self.addCleanup(patch.stop)

    def test_writing_fails_before_it_begins(self):
        file = io.BytesIO()
        with self.assertRaises(page.ViewerMissing):
            page.write(samples.example(), file)
        self.assertEqual(file.getvalue(), b"")


class PageTestCase(unittest.TestCase):
    """What one can see of a page and do with it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = cls.enterClassContext(chromium.Browser())

    def open_file(self, path, **options):
        self.browser.open(path.as_uri(), **options)
        self.addCleanup(self.check_silence, path.as_uri())

    def open(self, profile, **options):
        directory = tempfile.TemporaryDirectory(prefix="test_perfpy_html-")
        self.addCleanup(directory.cleanup)
        path = pathlib.Path(directory.name, "profile.html")
        path.write_bytes(written(profile))
        self.open_file(path, **options)

    def check_silence(self, url):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual({request for request in self.browser.requests()
                          if not request.startswith("data:")}, {url})

    def element(self, name):
        return f"document.getElementById('{name}')"

    def text(self, name):
        return self.browser.evaluate(f"{self.element(name)}.innerText")

    def frames(self, chart="flame"):
        """Return name: (x, y, width, fill) of a chart's frames at rest.

        Frames move and grow for a moment, so wait until they don't.
        """
        script = f"""Object.fromEntries([...document.querySelectorAll(
            "#{chart} g")].map(g => [g.getAttribute("name"), [
                g.transform.baseVal[0].matrix.e,
                g.transform.baseVal[0].matrix.f,
                +g.querySelector("rect").getAttribute("width"),
                g.querySelector("rect").getAttribute("fill")]]))"""
        before = None
        for _ in range(100):
            now = self.browser.evaluate(script)
            if now == before:
                return now
            before = now
            time.sleep(0.4)
        self.fail("the chart does not come to rest")

    def frame(self, name, chart="flame"):
        return f"document.querySelector('#{chart} g[name=\"{name}\"]')"

    def search(self, text):
        self.browser.evaluate(f"{self.element('search')}.select()")
        self.browser.type(text)

    def widths(self, chart="flame"):
        frames = self.frames(chart)
        root = max(frame[2] for frame in frames.values())
        return {name: round(frame[2] / root, 2)
                for name, frame in frames.items()}

    def names(self):
        return self.browser.evaluate(
            "[...document.querySelectorAll('#rows button')]"
            ".map(button => button.innerText.split(' ')[0])")

    def found(self):
        return {name for name, (*_, fill) in self.frames().items()
                if fill == "var(--found)"}


@requires_viewer
@requires_chromium
class BrowserTests(PageTestCase):

    def test_flame_graph(self):
        """Widths are shares of the time, and callees are below callers."""
        self.open(samples.example())
        frames = self.frames()
        self.assertEqual(self.widths()["Thing.bar"], 0.4)
        self.assertEqual(self.widths()["clear_page"], 0.2)
        way = [frames[name][1] for name in
               ("all", "<module> example.py", "work", "clear_page")]
        self.assertEqual(way, sorted(way))
        self.assertIn("1,500 samples", self.text("summary"))
        self.assertEqual(self.text("command"), "example.py --fast")

    def test_colours_tell_the_kinds(self):
        self.open(samples.example())
        self.browser.click(self.element("internals"))
        frames = self.frames()
        for name, kind in (("Thing.bar", "python"), ("work", "native"),
                           ("main", "interpreter"), ("clear_page", "kernel")):
            self.assertRegex(frames[name][3], rf"var\(--{kind}-\d\)")
        self.assertEqual(self.text("legend").split(),
                         ["Python", "Native", "Interpreter", "Kernel"])
        colours = self.browser.evaluate("""[...document.querySelectorAll(
            "#flame rect")].map(rect => getComputedStyle(rect).fill)""")
        self.assertGreaterEqual(len(set(colours)), 5)
        self.assertNotIn("rgb(0, 0, 0)", colours)

    def test_switch_shows_and_hides_the_interpreter(self):
        self.open(samples.example())
        self.assertNotIn("_PyEval_EvalFrameDefault", self.frames())
        self.browser.click(self.element("internals"))
        self.assertIn("_PyEval_EvalFrameDefault", self.frames())
        self.assertIn("main", self.frames())
        self.browser.click(self.element("internals"))
        self.assertNotIn("_PyEval_EvalFrameDefault", self.frames())

    def test_search_highlights(self):
        self.open(samples.example())
        self.search("FOO")
        self.browser.wait_for(
            f"{self.element('details')}.innerText.includes('1 function')")
        self.assertEqual(self.found(), {"foo"})
        self.assertIn("100.0 %", self.text("details"))
        self.search("nowhere")
        self.assertIn("is not in", self.text("details"))
        self.assertEqual(self.found(), set())

    def test_search_by_file(self):
        self.open(samples.example())
        self.search("libwork")
        self.assertEqual(self.found(), {"work", "[unknown] libwork.so.1"})
        self.assertIn("60.0 %", self.text("details"))

    def test_click_zooms_and_reset_undoes(self):
        self.open(samples.example())
        before = self.frames()
        self.browser.click(self.frame("work"))
        after = self.frames()
        self.assertEqual(after["work"][2], before["all"][2])
        self.assertIn("work", self.text("details"))
        self.assertIn("26.7 %", self.text("details"))
        self.browser.click(self.element("reset"))
        self.assertEqual(self.frames()["work"][2], before["work"][2])
        self.assertTrue(self.browser.evaluate(
            f"{self.element('reset')}.disabled"))

    def test_tooltip(self):
        self.open(samples.example())
        self.frames()
        self.browser.hover(self.frame("Thing.bar"))
        self.browser.wait_for(f"!{self.element('tip')}.hidden")
        self.assertEqual(self.text("tip").splitlines(), [
            "Thing.bar", samples.EXAMPLE,
            "total 40.0 % (600.0 ms), self 40.0 % (600.0 ms)"])

    def test_sandwich(self):
        """From the flame graph to a function's callers and callees."""
        self.open(samples.example())
        self.frames()
        self.browser.click(self.frame("work"))
        self.browser.click(self.element("sandwich-of"))
        self.assertEqual(self.text("chosen"), "work")
        self.assertIn("total 26.7 %", self.text("chosen-details"))
        self.assertIn("self 6.67 %", self.text("chosen-details"))
        callers = self.frames("callers")
        self.assertEqual(set(callers), {"work", "foo", "<module> example.py"})
        self.assertLess(callers["foo"][1], callers["work"][1])
        self.assertEqual(self.widths("callees"),
                         {"work": 1, "clear_page": 0.75})

    def test_sandwich_counts_recursion_once(self):
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        samples.add(profile, thread, [samples.FOO, samples.BAR, samples.FOO,
                                      samples.BAR, samples.WORK], 100)
        samples.add(profile, thread, [samples.FOO], 100)
        self.open(profile)
        self.browser.click(self.element("show-functions"))
        self.browser.click("[...document.querySelectorAll('#rows button')]"
                           ".find(b => b.innerText === 'Thing.bar')")
        self.assertIn("total 50.0 %", self.text("chosen-details"))
        self.assertEqual(set(self.frames("callers")), {"Thing.bar", "foo"})
        self.assertEqual(self.widths("callers")["foo"], 1)
        self.assertIn("work", self.frames("callees"))

    def test_table_sorts_and_filters(self):
        self.open(samples.example())
        self.browser.click(self.element("show-functions"))
        self.assertEqual(self.names()[:3],
                         ["Thing.bar", "[unknown]", "clear_page"])
        self.browser.click("document.querySelector('[data-sort=total]')")
        self.assertEqual(self.names()[0], "foo")
        self.assertEqual(self.browser.evaluate(
            "[...document.querySelectorAll('#rows .number')]"
            ".slice(0, 2).map(cell => cell.innerText)"), ["0.00 %", "100.0 %"])
        self.browser.click("document.querySelector('[data-sort=total]')")
        self.assertEqual(self.names()[-1], "foo")
        self.browser.click("document.querySelector('[data-sort=name]')")
        self.assertEqual(self.names(), sorted(self.names()))
        self.search("bar")
        self.assertEqual(self.names(), ["Thing.bar"])

    def test_threads(self):
        self.open(samples.example())
        options = self.browser.evaluate(
            f"[...{self.element('threads')}.options].map(o => o.text.trim())")
        self.assertEqual(options, ["All threads", "python3.11 100",
                                   "python3.11 100, thread worker 101"])
        self.choose(2)
        self.assertEqual(self.widths(), {
            "python3.11 100, thread worker 101": 1, "foo": 1,
            "[unknown] libwork.so.1": 1})
        self.assertIn("500.0 ms", self.text("details"))

    def choose(self, index):
        self.browser.evaluate(f"""(() => {{
            const select = {self.element('threads')};
            select.selectedIndex = {index};
            select.dispatchEvent(new Event("change"));
        }})()""")

    def test_processes(self):
        profile = samples.example()
        child = profile.thread(200, 200, "child", "child")
        samples.add(profile, child, [samples.MODULE], 500)
        self.open(profile)
        options = self.browser.evaluate(
            f"[...{self.element('threads')}.options].map(o => o.text.trim())")
        self.assertEqual(options, [
            "All processes", "python3.11 100", "python3.11 100",
            "python3.11 100, thread worker 101", "child 200"])
        self.assertIn("2.00 s", self.text("details"))
        self.choose(1)
        self.assertIn("1.50 s", self.text("details"))
        self.choose(4)
        self.assertEqual(set(self.frames()),
                         {"child 200", "<module> example.py"})

    def test_hostile_names_are_only_shown(self):
        profile = samples.hostile()
        self.open(profile)
        self.frames()
        self.browser.click(self.element("internals"))
        self.browser.click(self.element("show-functions"))
        for number in range(len(samples.HOSTILE_NAMES)):
            self.browser.evaluate("document.querySelectorAll('#rows button')"
                                  f"[{number}]?.click()")
        self.browser.click(self.element("about") + ".firstElementChild")
        self.assertEqual(self.browser.evaluate("document.title"),
                         samples.HOSTILE_NAMES[0] + " – perfpy")
        self.assertEqual(self.text("command"), samples.HOSTILE_NAMES[0])
        self.assertEqual(self.browser.evaluate(
            "document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.browser.evaluate(
            "document.querySelectorAll('script').length"), 3)

    def test_the_policy_forbids_the_network(self):
        self.open(samples.example())
        self.assertEqual(self.browser.evaluate(
            "fetch('http://localhost:9/').then(() => 'went', () => 'refused')"
            ), "refused")
        complaints = [event for event in self.browser.events
                      if event["method"] == "Log.entryAdded"]
        self.assertIn("Content Security Policy", str(complaints))
        for event in complaints:
            self.browser.events.remove(event)

    def test_empty(self):
        self.open(Profile())
        self.assertIn("no samples", self.text("details"))

    def brightness(self, dark):
        self.open(samples.example(), dark=dark)
        colour = self.browser.evaluate(
            "getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)))

    def test_light(self):
        self.assertGreater(self.brightness(dark=False), 600)

    def test_dark(self):
        self.assertLess(self.brightness(dark=True), 150)

    def test_large(self):
        """200,000 samples of 20,000 stacks are drawn soon."""
        self.open(samples.large())
        self.browser.wait_for("document.querySelectorAll('#flame g').length")
        busy = self.browser.busy_seconds()
        self.assertLess(busy, SOON)
        self.assertRegex(self.text("left-out"),
                         r"^[\d,]+ frames narrower than 0.10 % of the width "
                         "are left out; zoom in to see them")
        self.search("python_1")
        self.assertRegex(self.text("details"), "[0-9]+ functions, in")
        self.assertLess(self.browser.busy_seconds() - busy, SOON)
        narrow = self.browser.evaluate("""Math.min(...[
            ...document.querySelectorAll("#flame g")]
            .map(g => +g.getAttribute("width")))""")
        self.assertGreater(narrow, 1)


@requires_viewer
@requires_chromium
class RecordedTests(PageTestCase, RecordingTestCase):
    """The page of a script that was recorded just now."""

    def test_recorded(self):
        script = self.script("""
            def baz():
                busy(0.5)

            def bar():
                baz()

            def foo():
                bar()

            foo()
            """)
        self.perfpy("run", "-q", "-o", "page.html", script)
        self.open_file(pathlib.Path(self.directory, "page.html"))
        frames = self.frames()
        height = [frames[name][1] for name in ("foo", "bar", "baz", "busy")]
        self.assertEqual(height, sorted(height))
        self.assertGreater(self.widths()["baz"], 0.5)
        evaluator = "_PyEval_EvalFrameDefault_labelled"
        self.assertNotIn(evaluator, frames)
        self.browser.click(self.element("internals"))
        self.assertIn(evaluator, self.frames())
        self.search("foo")
        self.assertEqual(self.found(), {"foo"})
        self.browser.click(self.frame("bar"))
        self.assertEqual(self.widths()["bar"], 1)
        self.browser.click(self.element("sandwich-of"))
        self.assertEqual(self.text("chosen"), "bar")
        self.assertIn("foo", self.frames("callers"))
        self.assertIn("baz", self.frames("callees"))


if __name__ == "__main__":
    unittest.main()
