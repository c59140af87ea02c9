"""profile.html in a real browser: addresses, keyboards, screens, bad input."""

import math
import re
import unittest

from perfpy.profile import Frame, Kind, Profile
from test.support import perfpy_samples as samples
from test.support.perfpy_page import PageTestCase, element, written
from test.support.perfpy_viewers import requires_chromium

PHONE = 400, 800    # pixels


@requires_chromium
class AddressTests(PageTestCase):

    def settled(self, *words):
        """Return the fragment once it has the words: typing takes a while."""
        for word in words:
            self.browser.wait_for(
                f"decodeURIComponent(location.hash).includes({word!r})")
        return self.fragment()

    def back(self):
        before = self.fragment()
        self.browser.evaluate("history.back()")
        self.browser.wait_for(
            f"decodeURIComponent(location.hash) !== {before!r}")
        self.browser.paint()

    def test_it_says_what_is_shown(self):
        self.open(samples.example())
        self.assertEqual(self.fragment(), "")
        self.click_frame("work")
        self.assertEqual(self.fragment(),
                         "#zoom=<module>+example.py&zoom=foo&zoom=work")
        self.click("internals")
        self.choose_thread(1)
        self.search("clear")
        self.assertEqual(
            self.settled("clear"),
            "#thread=python3.11+100&internals=on&search=clear")

    def test_back_and_forward(self):
        self.open(samples.example())
        everything = self.frames()
        self.click_frame("work")
        zoomed = self.frames()
        self.search("cle")
        self.search("clear")
        self.settled("clear")
        self.click("show-functions")
        self.assertEqual(self.rows(), ["clear_page"])
        self.back()
        self.assertTrue(self.is_hidden("functions"))
        self.assertEqual(self.text("found"), "1 function in 20.0 % (300.0 ms)")
        self.back()             # the search is one step
        self.assertEqual(self.browser.evaluate(f"{element('search')}.value"),
                         "")
        self.assertEqual(self.frames(), zoomed)
        self.back()
        self.assertEqual(self.frames(), everything)
        self.browser.evaluate("history.forward()")
        self.browser.wait_for("location.hash")
        self.assertEqual(self.frames(), zoomed)

    def test_reload(self):
        self.open(samples.example())
        self.click_frame("work")
        self.click("sandwich-of")
        self.sort_by("total")
        self.sort_by("total")
        before = self.fragment()
        self.assertEqual(before, "#view=functions"
                         "&zoom=<module>+example.py&zoom=foo&zoom=work"
                         f"&function=work&file={samples.LIBRARY}"
                         "&sort=total&order=ascending")
        rows = self.rows()
        self.browser.evaluate("window.isOld = true")
        self.browser.call("Page.reload")
        self.browser.wait_for("!window.isOld"
                              " && document.readyState === 'complete'"
                              " && !document.querySelector('[aria-busy]')")
        self.assertEqual(self.fragment(), before)
        self.assertEqual(self.text("chosen"), "work")
        self.assertEqual(self.rows(), rows)
        self.click("show-graph")
        self.assertEqual(self.widths()["work"], 1)

    def test_link(self):
        self.open(samples.example(), "#thread=python3.11+100%2C+thread+worker+"
                  "101&zoom=foo&search=unknown")
        self.assertEqual(self.text("found"),
                         "1 function in 100.0 % (500.0 ms)")
        self.assertIn("foo", self.text("details"))
        self.assertEqual(self.browser.evaluate(
            f"{element('threads')}.selectedIndex"), 2)

    def test_link_to_a_function(self):
        self.open(samples.example(), "#view=functions&function=work")
        self.assertEqual(self.text("chosen"), "work")
        self.open(samples.example(), "#view=functions&function=work&file=no")
        self.assertEqual(self.text("chosen"), "Thing.bar")

    def test_link_to_what_is_not_there(self):
        """What another recording does not have is left out."""
        self.open(samples.example(), "#view=nothing&thread=x&sort=y&order=z&"
                  "zoom=<module>+example.py&zoom=gone&zoom=work&function=gone")
        self.assertIn("<module> example.py", self.text("details"))
        self.click("show-functions")
        self.assertEqual(self.text("chosen"), "Thing.bar")

    def test_functions_of_the_same_name(self):
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        for number in range(3):
            samples.add(profile, thread, [Frame(
                "same", f"f{number}.py", Kind.PYTHON)], 100 + number)
        self.open(profile, "#zoom=same%7E3")
        self.assertIn("f0.py", self.text("details"))
        self.click("reset")
        self.assertEqual(self.fragment(), "")
        x, y = self.place("same")           # the last one
        self.browser.click_at(x, y)
        self.assertEqual(self.fragment(), "#zoom=same~3")
        self.assertIn("f0.py", self.text("details"))


@requires_chromium
class AccessTests(PageTestCase):
    """The keyboard, and what a screen reader is told."""

    def at(self, chart="flame"):
        """Return name and properties of the frame at which the keys are."""
        active = self.browser.evaluate(
            f"{element(chart)}.getAttribute('aria-activedescendant')")
        self.assertTrue(self.browser.evaluate(
            f"{element(active)}.isConnected"))
        return next((name, properties) for role, name, properties
                    in self.browser.accessible() if role == "treeitem")

    def test_arrows(self):
        self.open(samples.example())
        self.browser.evaluate(f"{element('flame')}.focus()")
        name, properties = self.at()
        self.assertEqual(name, "all, total 100.0 % (1.50 s)")
        self.browser.press("ArrowDown", "ArrowDown", "ArrowDown")
        name, properties = self.at()
        self.assertEqual(name, "Thing.bar, total 40.0 % (600.0 ms), self"
                         f" 40.0 % (600.0 ms), own code, {samples.EXAMPLE}")
        self.assertEqual(properties["level"], 4)
        self.browser.press("ArrowRight")
        self.assertRegex(self.at()[0], r"^work, .*, native, /usr/lib/libwork")
        self.browser.press("ArrowLeft", "ArrowLeft")
        self.assertRegex(self.at()[0], r"^Thing.bar, ")
        self.browser.press("ArrowUp")
        self.assertRegex(self.at()[0], r"^foo, ")
        self.browser.press("Home")
        self.assertRegex(self.at()[0], r"^all, ")
        box = self.browser.evaluate("""(({x, y, width, height}) =>
            [x, y, width, height])(document.querySelector("#flame .at")
            .getBoundingClientRect())""")
        self.assertGreater(min(box[2:]), 10)

    def test_keys_zoom_and_lead_on(self):
        self.open(samples.example())
        self.browser.evaluate(f"{element('flame')}.focus()")
        self.browser.press("ArrowDown", "ArrowDown", "ArrowDown",
                           "ArrowRight", "Enter")
        self.assertEqual(self.widths()["work"], 1)
        self.browser.press("Escape")
        self.assertEqual(self.widths()["work"], 0.27)
        self.browser.press("ArrowDown", "c")
        self.assertEqual(self.text("chosen"), "<module> example.py")
        self.browser.evaluate(f"{element('callees')}.focus()")
        self.browser.press("ArrowDown", "Enter")
        self.assertEqual(self.text("chosen"), "foo")
        self.browser.evaluate(f"{element('callers')}.focus()")
        self.browser.press("ArrowUp", "Enter")
        self.assertEqual(self.text("chosen"), "<module> example.py")

    def test_arrows_reach_what_is_too_narrow(self):
        profile = Profile()
        thread = profile.thread(1, 1, "p")
        samples.add(profile, thread, [samples.FOO], 10_000)
        samples.add(profile, thread, [samples.BAR], 1)
        self.open(profile)
        self.browser.evaluate(f"{element('flame')}.focus()")
        self.browser.press("ArrowDown", "ArrowRight")
        self.assertRegex(self.at()[0], "^Thing.bar, ")
        self.assertEqual(self.widths()["Thing.bar"], 1)

    def test_list(self):
        self.open(samples.example(), "#view=functions")
        self.click_row("clear_page")
        self.browser.press("ArrowDown")
        self.assertEqual(self.text("chosen"), "work")
        self.assertEqual(self.browser.evaluate(
            "document.activeElement.innerText"), "work")
        self.browser.press("ArrowUp", "ArrowUp")
        self.assertEqual(self.text("chosen"), "[unknown] libwork.so.1")
        self.sort_by("name")
        self.assertEqual(self.chosen_row(), "[unknown] libwork.so.1")
        headers = [properties for role, name, properties
                   in self.browser.accessible() if role == "columnheader"]
        self.assertEqual(len(headers), 3)
        self.assertEqual(self.browser.evaluate(
            "document.querySelectorAll('[aria-sort]').length"), 1)

    def test_tabs(self):
        self.open(samples.example())
        self.browser.evaluate(f"{element('show-graph')}.focus()")
        self.browser.press("ArrowRight")
        self.assertFalse(self.is_hidden("functions"))
        self.assertEqual(self.browser.evaluate("document.activeElement.id"),
                         "show-functions")

    def test_tab_reaches_everything(self):
        self.open(samples.example(), "#search=foo&zoom=<module>+example.py")
        expected = {"show-graph", "threads", "search", "previous", "next",
                    "internals", "sandwich-of", "reset", "flame"}
        self.browser.evaluate("document.activeElement.blur()")
        reached = set()
        for _ in range(20):
            self.browser.press("Tab")
            reached.add(self.browser.evaluate("document.activeElement.id"))
        self.assertLessEqual(expected, reached)

    def test_everything_has_a_name(self):
        for fragment in "", "#view=functions":
            self.open(samples.example(), fragment)
            controls = {"button", "tab", "searchbox", "combobox", "checkbox",
                        "tree", "treeitem", "table", "tablist", "image",
                        "MenuListPopup", "columnheader"}
            found = [(role, name) for role, name, _
                     in self.browser.accessible() if role in controls]
            self.assertGreater(len(found), 10)
            self.assertEqual([role for role, name in found
                              if not name and role != "MenuListPopup"], [])
            names = [name for _, name in found]
            self.assertIn("Next match", names)
            self.assertIn("own code" if fragment else "Flame graph", names)

    def test_findings_are_announced(self):
        self.open(samples.example())
        self.search("foo")
        status = self.browser.evaluate(
            f"{element('found')}.getAttribute('role')")
        self.assertEqual(status, "status")
        self.browser.press("Enter")
        self.assertRegex(self.at()[0], "^foo, .*, found$")


@requires_chromium
class WindowTests(PageTestCase):

    def test_phone(self):
        """Nothing is wider than the window, and all can be used."""
        size = self.browser.size
        self.addCleanup(setattr, self.browser, "size", size)
        self.browser.size = PHONE
        profile = samples.example()
        profile.thread(100, 100).process_name = "a long name for a process"
        for fragment in "", "#view=functions&function=work&file=" \
                + samples.LIBRARY:
            self.open(profile, fragment)
            self.search("o")
            self.assertLessEqual(self.browser.evaluate(
                "document.documentElement.scrollWidth"), PHONE[0])
            outside = self.browser.evaluate("""[...document.querySelectorAll(
                "button, select, input, canvas, table, h1, p")].filter(item =>
                item.offsetParent && (item.getBoundingClientRect().left < 0 ||
                item.getBoundingClientRect().right > innerWidth))
                .map(item => item.id || item.outerHTML)""")
            self.assertEqual(outside, [])
        self.click_row("foo")
        self.assertEqual(self.text("chosen"), "foo")
        self.click("show-graph")
        self.click_frame("Thing.bar")
        self.assertIn("Thing.bar", self.text("details"))

    def brightness(self, dark):
        self.open(samples.example(), dark=dark)
        colour = self.browser.evaluate(
            "getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)))

    def test_light(self):
        self.assertGreater(self.brightness(dark=False), 600)

    def test_dark(self):
        self.assertLess(self.brightness(dark=True), 150)

    def test_colours_follow_the_window(self):
        self.open(samples.example())
        light = self.colour("Thing.bar")
        self.browser.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark"}])
        self.browser.wait_for(f"{element('flame')}.shownFrames()[1].fill !== "
                              f"'rgb({' '.join(map(str, light))})'")
        self.assertGreater(math.dist(self.colour("Thing.bar"), light), 20)


@requires_chromium
class BadInputTests(PageTestCase):

    def test_hostile_names_are_only_shown(self):
        self.open(samples.hostile())
        self.click("internals")
        self.click("show-functions")
        for number in range(len(samples.HOSTILE_NAMES)):
            self.browser.evaluate("document.querySelectorAll('#rows button')"
                                  f"[{number}]?.click()")
        self.click("show-graph")
        self.browser.evaluate(f"{element('flame')}.focus()")
        self.browser.press("ArrowDown", "ArrowDown", "Enter")
        self.browser.click(element("about") + ".firstElementChild")
        self.assertEqual(self.browser.evaluate("document.title"),
                         samples.HOSTILE_NAMES[0] + " – perfpy")
        self.assertEqual(self.text("command"), samples.HOSTILE_NAMES[0])
        self.assertEqual(self.browser.evaluate(
            "document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.browser.evaluate(
            "document.querySelectorAll('script').length"), 1)

    def test_hostile_names_in_the_address(self):
        for number, name in enumerate(samples.HOSTILE_NAMES):
            profile = Profile()
            thread = profile.thread(1, 1, "p")
            frame = Frame(name, name, Kind.PYTHON)
            samples.add(profile, thread, [samples.FOO], 100)
            samples.add(profile, thread, [samples.FOO, frame], 100)
            self.open(profile)
            self.browser.evaluate(f"{element('flame')}.focus()")
            self.browser.press("ArrowDown", "ArrowDown", "Enter")
            zoomed = self.shown()
            self.assertEqual(len(zoomed), 3)
            self.browser.press("c")
            self.browser.evaluate("window.isOld = true")
            self.browser.call("Page.reload")
            self.browser.wait_for("!window.isOld"
                                  " && document.readyState === 'complete'"
                                  " && !document.querySelector('[aria-busy]')")
            self.assertEqual(self.shown("callers")[0]["name"], name)
            self.click("show-graph")
            self.assertEqual(self.shown(), zoomed, (number, name))

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

    def test_damaged(self):
        page = written(samples.example())
        start = page.index(b'id="profile">') + len(b'id="profile">')
        self.open_page(page[:start + 100] + b"0" * 20 + page[start + 120:])
        self.assertIn("damaged", self.text("details"))

    def test_old_browser(self):
        page = written(samples.example())
        script = "delete window.DecompressionStream"
        self.browser.before_scripts = script
        self.addCleanup(setattr, self.browser, "before_scripts", None)
        self.open_page(page)
        self.assertIn("This browser cannot unpack", self.text("details"))


if __name__ == "__main__":
    unittest.main()
