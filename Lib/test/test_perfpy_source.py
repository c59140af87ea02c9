"""Lines: the text and the times that a page has of them, and how it looks."""

import base64
import io
import os
import pathlib
import re
import tempfile
import unittest
import zlib

from perfpy import source, table
from perfpy.profile import Frame, Kind, Profile
from test.support.perfpy_case import RecordingTestCase
from test.support.perfpy_page import PageTestCase, element
from test.support.perfpy_samples import add
from test.support.perfpy_viewers import requires_chromium

TEXT = """\
def outer():
    for number in range(3):
        inner(number)

def inner(number):
    x = "<b>&"
    return [number
            for _ in range(number)]

outer()
"""


def example(path):
    """A profile of the text in a file."""
    profile = Profile()
    profile.meta["started"] = "2100-01-01T00:00:00+00:00"
    thread = profile.thread(1, 1, "python3.11", "python3.11")

    def frame(name, line):
        return Frame(name, str(path), Kind.PYTHON, line)

    module = frame("<module>", 10)
    for line, name, inner, count in [
            (3, "inner", 6, 100), (3, "inner", 7, 50), (2, None, 0, 25)]:
        frames = [module, frame("outer", line)]
        if name:
            frames.append(frame(name, inner))
        add(profile, thread, frames, count)
    other = Frame("elsewhere", "/nonexistent/file.py", Kind.PYTHON, 7)
    add(profile, thread, [module, other], 5)
    return profile


def unpacked(page):
    """Return the JSON in a page, as text."""
    digits = re.search(r'id="profile">([^<]*)<', page)[1].replace(",", "<")
    data = zlib.decompress(base64.b85decode(digits))
    size = int.from_bytes(data[:4], "little")
    return data[4:4 + size].decode()


class InDirectory(unittest.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="test_perfpy_source-")
        self.addCleanup(directory.cleanup)
        self.file = pathlib.Path(directory.name, "text.py")
        self.file.write_text(TEXT)


class SourceTest(InDirectory):

    def test_functions(self):
        found = source.of_profile(example(self.file))
        self.assertEqual([each.function.name for each in found],
                         ["inner", "outer", "elsewhere", "<module>"])
        inner, outer, elsewhere, _ = found
        self.assertEqual((inner.first, inner.text),
                         (5, TEXT.splitlines()[4:8]))
        self.assertEqual({line: tuple(round(part, 6) for part in times)
                          for line, times in inner.times.items()},
                         {6: (0.1, 0.1), 7: (0.05, 0.05)})
        self.assertEqual(outer.text, TEXT.splitlines()[:3])
        self.assertAlmostEqual(outer.times[3][1], 0.15)
        self.assertEqual(elsewhere.text, [])
        self.assertFalse(inner.has_changed)

    def test_threads(self):
        profile = example(self.file)
        self.assertEqual(source.of_profile(profile)[0].of_threads, {})
        other = profile.thread(1, 2, "python3.11", "other")
        add(profile, other, [Frame("inner", str(self.file), Kind.PYTHON, 7)],
            60)
        inner = source.of_profile(profile)[0]
        self.assertEqual(
            {thread: {line: round(own, 6) for line, (own, _) in times.items()}
             for thread, times in inner.of_threads.items()},
            {0: {6: 0.1, 7: 0.05}, 1: {7: 0.06}})

    def test_changed(self):
        profile = example(self.file)
        profile.meta["started"] = "2001-01-01T00:00:00+00:00"
        self.assertTrue(source.of_profile(profile)[0].has_changed)
        file = io.StringIO()
        table.write_functions(profile, file, table.Choice(lines=True))
        self.assertIn(f"\n{self.file} has changed since the recording\n",
                      file.getvalue())
        # It was written just before: the recording has no fractions.
        os.utime(self.file, (0, 978307200.9))
        self.assertFalse(source.of_profile(profile)[0].has_changed)
        file = io.StringIO()
        table.write_functions(profile, file, table.Choice(lines=True))
        self.assertNotIn("has changed", file.getvalue())

    def test_texts_that_make_no_sense(self):
        for text in b"", b"def f(:\n" * 20, b"\xff\xfe\0\0" * 9, b"(" * 9999:
            self.file.write_bytes(text)
            found = source.of_profile(example(self.file))
            self.assertEqual(len(found), 4)

    def test_file_relative_to_the_program(self):
        profile = example("text.py")
        profile.meta["directory"] = str(self.file.parent)
        self.assertTrue(source.of_profile(profile)[0].text)

    def test_frozen_modules(self):
        profile = Profile()
        profile.meta["stdlib"] = os.pathsep.join(
            ["/nonexistent", os.path.dirname(os.__file__)])
        thread = profile.thread(1, 1, "python3.11", "python3.11")
        names = "posixpath", "importlib._bootstrap", "importlib", "nonexistent"
        for name in names:
            add(profile, thread, [Frame(name, f"<frozen {name}>", Kind.PYTHON,
                                        30)], 10)
        found = {each.function.name: bool(each.text)
                 for each in source.of_profile(profile)}
        self.assertEqual(found, dict(zip(names, [True, True, True, False])))


@requires_chromium
class ViewTest(InDirectory, PageTestCase):

    def test_lines(self):
        self.open(example(self.file))
        self.click("show-lines")
        text = self.text("sources")
        self.assertLess(text.index("inner"), text.index("outer"))
        self.assertIn('x = "<b>&"', text)
        self.assertIn("the file could not be read", text)
        rows = self.browser.evaluate("""[...document.querySelectorAll(
            "#sources section:first-child tr")].map(row =>
                [...row.children].map(cell => cell.textContent))""")
        self.assertEqual(rows[2], ["6", "55.6 %", "55.6 %",
                                   '    x = "<b>&"'])
        self.assertEqual(rows[3][:3], ["7", "27.8 %", "27.8 %"])
        self.assertEqual(rows[1][:3], ["5", "", ""])

    def test_lines_of_a_thread(self):
        profile = example(self.file)
        other = profile.thread(1, 2, "python3.11", "other")
        add(profile, other, [Frame("inner", str(self.file), Kind.PYTHON, 7)],
            60)
        self.open(profile)
        self.click("show-lines")

        def line_7():
            return self.browser.evaluate("""[...document.querySelectorAll(
                "#sources tr")].map(row => [...row.children].map(cell =>
                cell.textContent)).find(cells => cells[0] === "7")""")[:3]

        self.assertEqual(line_7(), ["7", "45.8 %", "45.8 %"])   # 110 of 240
        self.choose_thread(2)
        self.assertEqual(line_7(), ["7", "100.0 %", "100.0 %"])
        self.assertNotIn("outer", self.text("sources"))
        self.choose_thread(1)
        self.assertEqual(line_7(), ["7", "27.8 %", "27.8 %"])
        self.assertIn("outer", self.text("sources"))
        self.choose_thread(0)
        self.assertEqual(line_7(), ["7", "45.8 %", "45.8 %"])

    def test_thread_without_known_lines(self):
        profile = example(self.file)
        for number in range(source.MOST_THREADS):
            add(profile, profile.thread(1, 10 + number, "", f"t{number}"),
                [Frame("inner", str(self.file), Kind.PYTHON, 7)], 200)
        self.open(profile)
        self.click("show-lines")
        self.choose_thread(1)       # the least busy one
        self.assertIn("No line is known", self.text("lines"))
        self.choose_thread(2)
        self.assertNotIn("No line is known", self.text("lines"))

    def test_from_the_graph_to_lines_and_back(self):
        self.open(example(self.file))
        self.click_frame("outer")
        self.click("lines-of")
        self.assertIn("view=lines", self.browser.evaluate("location.hash"))
        self.browser.evaluate("""document.querySelector(
            "#sources section:nth-child(2) h3 button").click()""")
        self.assertEqual(self.text("chosen"), "outer")
        self.search("inner")
        self.click("show-lines")
        self.assertNotIn("elsewhere", self.text("sources"))

    def test_narrow_and_by_keyboard(self):
        self.addCleanup(setattr, self.browser, "size", self.browser.size)
        self.browser.size = 400, 800
        self.open(example(self.file))
        self.browser.evaluate(f"{element('show-graph')}.focus()")
        self.browser.evaluate(f"""{element('show-graph')}.dispatchEvent(
            new KeyboardEvent("keydown", {{key: "ArrowLeft"}}))""")
        self.assertFalse(self.browser.evaluate(f"{element('lines')}.hidden"))
        self.assertLessEqual(self.browser.evaluate(
            "document.documentElement.scrollWidth"), 400)

    def test_no_lines(self):
        profile = example(self.file)
        self.open(profile.functions(), "#view=lines")
        self.assertTrue(self.browser.evaluate(
            f"{element('show-lines')}.hidden"))
        self.assertFalse(self.browser.evaluate(f"{element('graph')}.hidden"))


class RecordedTest(RecordingTestCase):

    def test_page(self):
        script = self.script("""
            def secret():
                busy(0.3)   # a remark that is not to be sent around

            secret()
            """)
        for option, expected in [([], True), (["--no-source"], False)]:
            self.perfpy("run", *option, "-o", "page.html", script)
            with open(self.path("page.html")) as file:
                page = file.read()
            self.assertEqual("remark" in unpacked(page), expected)
        report = self.perfpy("report", "--lines", "page.perfpy").stdout
        self.assertRegex(report, r"own +busy +.*script.py:\d+\n +sum\(range")


if __name__ == "__main__":
    unittest.main()
