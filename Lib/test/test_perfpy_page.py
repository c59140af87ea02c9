"""profile.html in a real browser: what it shows and does."""

import pathlib
import unittest

from perfpy import walltime
from perfpy.profile import Frame, Kind, Profile
from test.support import perfpy_samples as samples
from test.support.perfpy_case import RecordingTestCase
from test.support.perfpy_page import PageTestCase, element
from test.support.perfpy_viewers import requires_chromium


@requires_chromium
class GraphTests(PageTestCase):

    def test_flame_graph(self):
        """Widths are shares of the time, and callees are below callers."""
        self.open(samples.example())
        frames = self.frames()
        self.assertEqual(self.widths()["Thing.bar"], 0.4)
        self.assertEqual(self.widths()["clear_page"], 0.2)
        way = [frames[name]["y"] for name in
               ("all", "<module> example.py", "work", "clear_page")]
        self.assertEqual(way, sorted(way))
        self.assertIn("1,500 samples", self.text("summary"))
        self.assertEqual(self.text("command"), "example.py --fast")

    def test_stripes_tell_what_is_waited_for(self):
        self.open(samples.waiting())
        self.assertIn("0.70 s of wall-clock time in 0.70 s",
                      self.text("summary"))
        self.assertEqual(self.text("legend").split("\n"), [
            "own code", "interpreter", "(no code)", "waiting for the GIL",
            "waiting for a lock", "waiting for I/O", "sleeping",
            "ready to run"])
        stripes = self.browser.evaluate(f"""Object.fromEntries(
            {element('flame')}.shownFrames().map(({{name, fill, stripe}}) =>
                [name, [fill, stripe ?? null]]))""")
        self.assertIsNone(stripes["foo"][1])
        waits = [stripes[mark.name] for mark in walltime.STATES[:5]]
        self.assertEqual(len({colour for pair in waits for colour in pair}),
                         10)
        # They are on the canvas, and not only in the list of frames.
        colours = self.browser.evaluate(f"""(() => {{
            const flame = {element('flame')};
            const {{x, y, width}} = flame.shownFrames().find(
                ({{name}}) => name === "(sleeping)");
            const canvas = flame.querySelector("canvas");
            const {{data}} = canvas.getContext("2d").getImageData(
                (x + width / 2) * devicePixelRatio,
                (y + 3) * devicePixelRatio, width / 4, 1);
            const found = new Set();
            for (let place = 0; place < data.length; place += 4)
                found.add(`rgb(${{data.slice(place, place + 3).join(" ")}})`);
            return [...found];
        }})()""")
        self.assertLessEqual(set(stripes["(sleeping)"]), set(colours))
        self.assertNotIn("gil", self.text("meta"))

    def test_colours_tell_whose_code_it_is(self):
        self.open(samples.mixed())
        origins = {"<module> example.py": "own", "get": "packages",
                   "loads": "library", "scan": "native", "read": "kernel",
                   "(import)": "mark"}
        colours = {name: self.colour(name) for name in origins}
        self.click("internals")
        origins["main"] = "interpreter"
        colours["main"] = self.colour("main")
        self.assertEqual(len(set(colours.values())), 7)
        for name, origin in origins.items():
            shades = self.browser.evaluate(f"""[0, 1].map(shade =>
                getComputedStyle(document.body).getPropertyValue(
                    "--{origin}-" + shade))""")
            self.assertIn("#%02x%02x%02x" % colours[name], shades)
        self.assertEqual(self.text("legend").split("\n"), [
            "own code", "site-packages", "standard library", "native",
            "interpreter", "kernel", "(no code)"])

    def test_switch_shows_and_hides_the_interpreter(self):
        self.open(samples.example())
        self.assertNotIn("_PyEval_EvalFrameDefault", self.frames())
        self.click("internals")
        self.assertIn("_PyEval_EvalFrameDefault", self.frames())
        self.assertIn("main", self.frames())
        self.click("internals")
        self.assertNotIn("_PyEval_EvalFrameDefault", self.frames())

    def test_click_zooms_and_reset_undoes(self):
        self.open(samples.example())
        before = self.frames()
        self.click_frame("work")
        after = self.frames()
        self.assertEqual(after["work"]["width"], before["all"]["width"])
        self.assertNotIn("Thing.bar", after)
        self.assertIn("work", self.text("details"))
        self.assertIn("26.7 %", self.text("details"))
        self.click("reset")
        self.assertEqual(self.frames(), before)
        self.assertTrue(self.browser.evaluate(f"{element('reset')}.disabled"))

    def test_switching_keeps_the_zoom(self):
        """As far as what was zoomed to is there."""
        self.open(samples.example())
        self.click_frame("foo")
        self.choose_thread(1)
        self.assertIn("foo", self.text("details"))
        self.choose_thread(2)       # where foo has another caller
        self.assertIn("worker", self.text("details"))
        self.assertEqual(self.widths()["foo"], 1)

    def test_tooltip(self):
        self.open(samples.example())
        self.browser.hover_at(*self.place("Thing.bar"))
        self.browser.wait_for(f"!{element('tip')}.hidden")
        self.assertEqual(self.text("tip").splitlines(), [
            "Thing.bar", f"own code · {samples.EXAMPLE}",
            "total 40.0 % (600.0 ms), self 40.0 % (600.0 ms)"])

    def test_threads(self):
        self.open(samples.example())
        options = self.browser.evaluate(
            f"[...{element('threads')}.options].map(o => o.text.trim())")
        self.assertEqual(options, ["All threads", "python3.11 100",
                                   "python3.11 100, thread worker 101"])
        self.choose_thread(2)
        self.assertEqual(self.widths(), {
            "python3.11 100, thread worker 101": 1, "foo": 1,
            "[unknown] libwork.so.1": 1})
        self.assertIn("500.0 ms", self.text("details"))

    def test_processes(self):
        profile = samples.example()
        child = profile.thread(200, 200, "child", "child")
        samples.add(profile, child, [samples.MODULE], 500)
        self.open(profile)
        options = self.browser.evaluate(
            f"[...{element('threads')}.options].map(o => o.text.trim())")
        self.assertEqual(options, [
            "All processes", "python3.11 100", "python3.11 100",
            "python3.11 100, thread worker 101", "child 200"])
        self.assertIn("2.00 s", self.text("details"))
        self.choose_thread(1)
        self.assertIn("1.50 s", self.text("details"))
        self.choose_thread(4)
        self.assertEqual(set(self.frames()),
                         {"child 200", "<module> example.py"})

    def test_modules_have_the_names_of_their_files(self):
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        for file in "/srv/a.py", "/srv/web/__init__.py", "__main__.py":
            samples.add(profile, thread,
                        [Frame("<module>", file, Kind.PYTHON)], 10)
        self.open(profile)
        self.assertEqual(set(self.frames()), {
            "p 1", "<module> a.py", "<module> web/__init__.py",
            "<module> __main__.py"})

    def test_other_events_have_their_unit(self):
        profile = samples.example()
        profile.meta["unit"] = "page-faults"
        for thread in profile.threads:
            for index in range(len(thread.weights)):
                thread.weights[index] = 1e7
        self.open(profile)
        self.assertIn("100.0 % (15,000,000,000 page-faults)",
                      self.text("details"))

    def test_samples_without_a_stack(self):
        """They widen the root only."""
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        samples.add(profile, thread, [samples.FOO], 100)
        samples.add(profile, thread, [], 300)
        self.open(profile)
        self.assertEqual(self.widths(), {"p 1": 1, "foo": 0.25})
        self.assertIn("self 75.0 %", self.text("details"))

    def test_deep(self):
        """Of ten thousand rows, those in the window are drawn."""
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        names = [Frame(f"f{depth}", "f.py", Kind.PYTHON)
                 for depth in range(10_000)]
        samples.add(profile, thread, names, 10)
        self.open(profile)
        self.assertEqual(len(self.frames()), 10_001)
        top = self.colour("f5")
        self.click_frame("f9990")
        self.assertEqual(self.colour("f9990"), top)
        height = self.browser.evaluate(
            "document.querySelector('#flame canvas').height")
        self.assertLess(height, 3000)
        self.assertIn("f9990", self.text("details"))

    def test_narrow_frames_are_left_out(self):
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        samples.add(profile, thread, [samples.FOO], 10_000)
        for number in range(5):
            samples.add(profile, thread, [samples.FOO, Frame(
                f"tiny{number}", "tiny.py", Kind.PYTHON)], 1)
        self.open(profile)
        self.assertNotIn("tiny0", self.frames())
        self.assertEqual(self.text("left-out"), "5 frames are narrower than a"
                         " pixel and left out; zoom in to see them.")
        self.search("tiny3")
        self.click("next")
        self.assertIn("tiny3", self.frames())
        self.assertIn("tiny3", self.text("details"))

    def test_it_follows_the_window(self):
        self.open(samples.example())
        before = self.frames()["work"]["width"]
        self.browser.call("Emulation.setDeviceMetricsOverride", width=640,
                          height=900, deviceScaleFactor=2, mobile=False)
        self.browser.wait_for(
            "document.querySelector('#flame canvas').width === 1200")
        self.assertAlmostEqual(self.frames()["work"]["width"],
                               before * 600 / 1240)


@requires_chromium
class SearchTests(PageTestCase):

    def vivid(self):
        """Return the frames that are not dimmed."""
        self.browser.paint()
        before = {frame["name"]: frame["fill"] for frame in self.everything}
        return {name for name, frame in self.frames().items()
                if frame["fill"] == before[name]} - {"all"}

    def open(self, profile, *arguments, **options):
        super().open(profile, *arguments, **options)
        self.everything = self.shown()

    def test_dims_what_does_not_match(self):
        self.open(samples.example())
        before = self.colour("foo"), self.colour("work")
        self.search("FOO")
        self.assertEqual(self.vivid(), {"foo"})
        self.assertEqual(self.text("found"), "1 function in 100.0 % (1.50 s)")
        after = self.colour("foo"), self.colour("work")
        self.assertEqual(after[0], before[0])
        self.assertGreater(sum(after[1]), sum(before[1]) + 150)
        self.search("nowhere")
        self.assertEqual(self.vivid(), set())
        self.assertIn("in no function", self.text("found"))

    def test_by_file(self):
        self.open(samples.example())
        self.search("libwork")
        self.assertEqual(self.vivid(), {"work", "[unknown] libwork.so.1"})
        self.assertIn("60.0 %", self.text("found"))

    def test_clearing_it_shows_all(self):
        self.open(samples.example())
        self.search("foo")
        self.browser.press("Escape")    # clears a search field
        self.browser.wait_for(f"{element('search')}.value === ''")
        self.assertEqual(self.vivid(), set(self.frames()) - {"all"})
        self.assertEqual(self.text("found"), "")

    def test_steps_from_the_largest(self):
        self.open(samples.example())
        self.search("o")        # in foo twice, in work, in every file but one
        order = []
        for _ in range(3):
            self.click("next")
            order.append(self.text("details").split()[0])
        self.assertEqual(order, ["<module>", "foo", "Thing.bar"])
        self.assertIn("3 of 6", self.text("found"))
        self.click("previous")
        self.assertIn("foo", self.text("details"))

    def test_steps_by_keys_and_around(self):
        self.open(samples.example())
        self.search("clear")
        self.browser.press("Enter")
        self.assertIn("clear_page", self.text("details"))
        self.assertIn("1 of 1", self.text("found"))
        self.browser.press("Enter")
        self.assertIn("1 of 1", self.text("found"))
        self.search("libwork")
        self.browser.evaluate("document.activeElement.blur()")
        self.browser.press("N")
        self.assertIn("2 of 2", self.text("found"))
        self.browser.press("n")
        self.assertIn("1 of 2", self.text("found"))

    def test_in_the_list(self):
        self.open(samples.example())
        self.click("show-functions")
        self.search("example.py")
        self.assertEqual(self.rows(), ["Thing.bar", "foo", "<module>"])
        self.click("previous")
        self.assertEqual(self.chosen_row(), "<module> example.py")
        self.assertEqual(self.text("chosen"), "<module> example.py")
        self.assertIn("3 of 3", self.text("found"))


@requires_chromium
class FunctionsTests(PageTestCase):

    def test_sandwich(self):
        """From the flame graph to a function's callers and callees."""
        self.open(samples.example())
        self.click_frame("work")
        self.click("sandwich-of")
        self.assertEqual(self.text("chosen"), "work")
        self.assertIn("total 26.7 %", self.text("chosen-details"))
        self.assertIn("self 6.67 %", self.text("chosen-details"))
        callers = self.frames("callers")
        self.assertEqual(set(callers), {"work", "foo", "<module> example.py"})
        self.assertLess(callers["foo"]["y"], callers["work"]["y"])
        self.assertEqual(self.widths("callees"),
                         {"work": 1, "clear_page": 0.75})

    def test_a_click_puts_a_function_in_the_middle(self):
        self.open(samples.example(), "#view=functions")
        self.click_row("work")
        self.click_frame("foo", "callers")
        self.assertEqual(self.text("chosen"), "foo")
        self.assertEqual(self.chosen_row(), "foo")
        self.click_frame("Thing.bar", "callees")
        self.assertEqual(self.text("chosen"), "Thing.bar")
        self.assertEqual(set(self.frames("callers")),
                         {"Thing.bar", "foo", "<module> example.py"})

    def test_sandwich_counts_recursion_once(self):
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        samples.add(profile, thread, [samples.FOO, samples.BAR, samples.FOO,
                                      samples.BAR, samples.WORK], 100)
        samples.add(profile, thread, [samples.FOO], 100)
        self.open(profile)
        self.click("show-functions")
        self.click_row("Thing.bar")
        self.assertIn("total 50.0 %", self.text("chosen-details"))
        self.assertEqual(set(self.frames("callers")), {"Thing.bar", "foo"})
        self.assertEqual(self.widths("callers")["foo"], 1)
        self.assertIn("work", self.frames("callees"))

    def test_table_sorts_and_filters(self):
        self.open(samples.example())
        self.click("show-functions")
        self.assertEqual(self.rows()[:3],
                         ["Thing.bar", "[unknown]", "clear_page"])
        self.sort_by("total")
        self.assertEqual(self.rows()[0], "foo")
        self.assertEqual(self.browser.evaluate(
            "[...document.querySelectorAll('#rows .number')]"
            ".slice(0, 2).map(cell => cell.innerText)"), ["0.00 %", "100.0 %"])
        self.sort_by("total")
        self.assertEqual(self.rows()[-1], "foo")
        self.sort_by("name")
        self.assertEqual(self.rows(), sorted(self.rows()))
        self.search("bar")
        self.assertEqual(self.rows(), ["Thing.bar"])

    def test_sorting_keeps_what_is_chosen(self):
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        for number in range(500):
            samples.add(profile, thread, [Frame(
                f"f{number:03}", "f.py", Kind.PYTHON)], 500 - number)
        self.open(profile, "#view=functions")
        self.assertEqual(len(self.rows()), 100)
        self.click_row("f002")
        for column in ("name", "total", "total", "self", "self"):
            self.sort_by(column)
            self.assertEqual(self.chosen_row(), "f002")
            self.assertEqual(self.text("chosen"), "f002")
        # The list shows the first ones, and the chosen one.
        self.assertEqual(self.rows()[0], "f499")
        self.assertEqual(len(self.rows()), 101)
        self.assertEqual(self.text("row-count"), "100 of 500 functions")
        for _ in range(4):
            self.click("more-rows")
        self.assertEqual(len(self.rows()), 500)
        self.assertEqual(self.chosen_row(), "f002")


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
        self.open_address(pathlib.Path(self.directory, "page.html").as_uri())
        frames = self.frames()
        height = [frames[name]["y"] for name in ("foo", "bar", "baz", "busy")]
        self.assertEqual(height, sorted(height))
        self.assertGreater(self.widths()["baz"], 0.5)
        evaluator = "_PyEval_EvalFrameDefault_lines"
        self.assertNotIn(evaluator, frames)
        self.click("internals")
        self.assertIn(evaluator, self.frames())
        self.search("foo")
        self.assertIn("1 function", self.text("found"))
        self.click_frame("bar")
        self.assertEqual(self.widths()["bar"], 1)
        self.click("sandwich-of")
        self.assertEqual(self.text("chosen"), "bar")
        self.assertIn("foo", self.frames("callers"))
        self.assertIn("baz", self.frames("callees"))


if __name__ == "__main__":
    unittest.main()
