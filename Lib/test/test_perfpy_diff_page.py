"""perfpy diff -o: the page that compares two recordings."""

import io
import pathlib
import tempfile
import unittest

from perfpy import diffpage, recording
from perfpy.profile import Frame, Kind, Profile
from test.support.perfpy_case import PerfpyTestCase
from test.support.perfpy_page import PageTestCase
from test.support.perfpy_samples import add
from test.support.perfpy_viewers import requires_chromium


def profile(directory, **samples):
    """A profile with so many ms in each function below main."""
    result = Profile()
    result.meta |= {"directory": directory, "command": "app.py",
                    "event": "cpu-clock"}
    file = f"{directory}/app.py"
    thread = result.thread(1, 1, "python3.11", "python3.11")
    main = Frame("main", file, Kind.PYTHON, 3)
    for name, count in samples.items():
        add(result, thread, [main, Frame(name, file, Kind.PYTHON, 7)], count)
    return result


def before_and_after():
    return (profile("/srv/a", same=100, slower=100, faster=400, gone=50),
            profile("/srv/b", same=100, slower=300, faster=100, new=50))


class CombinedTest(unittest.TestCase):

    def test_functions_by_name(self):
        result = diffpage.combined(*before_and_after())
        self.assertEqual([frame.name for frame in result.frames],
                         ["main", "same", "slower", "faster", "new", "gone"])
        after, before = result.threads
        self.assertAlmostEqual(sum(after.weights), 0.55)
        self.assertAlmostEqual(sum(before.weights), 0.65)
        self.assertEqual(after.stacks[0], before.stacks[0])


@requires_chromium
class PageTest(PageTestCase):

    def test_colours_and_times(self):
        file = io.BytesIO()
        diffpage.write(*before_and_after(), file)
        self.open_page(file.getvalue())
        self.assertEqual(self.text("legend").split("\n"), [
            "less than before", "the same", "more than before"])
        frames = self.frames()
        self.assertEqual(set(frames), {"after", "main", "same", "slower",
                                       "faster", "new"})
        red, _, blue = self.colour("slower")
        self.assertGreater(red, blue)
        red, _, blue = self.colour("faster")
        self.assertGreater(blue, red)
        red, green, blue = self.colour("same")
        self.assertLess(max(red, green, blue) - min(red, green, blue), 10)
        self.assertLess(self.colour("new")[1], self.colour("slower")[1])
        self.click_frame("slower")
        self.assertIn("100.0 ms before, 300.0 ms after: +200.0 ms (+200.0 %)",
                      self.text("details"))
        self.click("reset")
        self.choose_thread(1)
        frames = self.frames()
        self.assertIn("gone", frames)
        self.assertNotIn("new", frames)
        self.assertAlmostEqual(self.widths()["faster"], 400 / 650, places=2)
        self.search("gone")
        self.assertIn("1 function", self.text("found"))


class CommandTest(PerfpyTestCase):

    def test_page_is_written(self):
        for name, each in zip(("before", "after"), before_and_after()):
            recording.save(each, self.path(f"{name}.perfpy"))
        result = self.perfpy("diff", "-o", "diff.html", "before.perfpy",
                             "after.perfpy")
        self.assertIn("slower", result.stdout)
        self.assertIn("Open diff.html", result.stderr)
        text = pathlib.Path(self.path("diff.html")).read_text()
        self.assertIn("</html>", text)
        with tempfile.TemporaryDirectory() as directory:
            result = self.perfpy("diff", "-o", f"{directory}/no/diff.html",
                                 "before.perfpy", "after.perfpy", status=1)
        self.assertIn("perfpy: cannot write", result.stderr)


if __name__ == "__main__":
    unittest.main()
