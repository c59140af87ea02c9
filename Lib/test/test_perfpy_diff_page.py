"""perfpy diff -o: the page that compares two recordings."""

import io
import pathlib
import tempfile
import unittest

from perfpy import diffpage, recording, table
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
        self.assertEqual([frame.name for frame in result.functions().frames],
                         ["main", "same", "slower", "faster", "new", "gone"])
        after, before = result.functions().threads
        self.assertAlmostEqual(sum(after.weights), 0.55)
        self.assertAlmostEqual(sum(before.weights), 0.65)
        self.assertEqual(after.stacks[0], before.stacks[0])


OLD = """\
def main():
    first = 1
    slower(first)

def slower(number):
    return number
"""
NEW = "# A comment\n" + OLD.replace("return number", "return number + 1")


class TwoFiles(unittest.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="test_perfpy_diff-")
        self.addCleanup(directory.cleanup)
        self.paths = [pathlib.Path(directory.name, name, "app.py")
                      for name in ("old", "new")]
        for path, text in zip(self.paths, (OLD, NEW)):
            path.parent.mkdir()
            path.write_text(text)

    def profile(self, path, *lines, started="2100-01-01T00:00:00+00:00"):
        """A profile with 100 ms in each of these lines, in as many calls."""
        result = Profile()
        result.meta |= {"directory": str(path.parent), "started": started}
        thread = result.thread(1, 1, "python3.11", "python3.11")
        for name, line in lines:
            add(result, thread, [Frame(name, str(path), Kind.PYTHON, line)],
                100)
        return result


class LinesTest(TwoFiles):

    def lines(self, before, after):
        """Return {(side, function): lines}."""
        result = diffpage.combined(before, after)
        return {(thread.name, result.frames[result.stack_frames[stack]][0]):
                result.frames[result.stack_frames[stack]].line
                for thread in result.threads for stack in thread.stacks}

    def test_another_file(self):
        old, new = self.paths
        self.assertEqual(
            self.lines(self.profile(old, ("main", 3), ("slower", 6)),
                       self.profile(new, ("main", 4), ("slower", 7))),
            {("after", "main"): 4, ("after", "slower"): 7,
             ("before", "main"): 4, ("before", "slower"): 0})

    def test_same_file(self):
        path = self.paths[0]
        now = self.profile(path, ("main", 3))
        self.assertEqual(self.lines(now, now), {("after", "main"): 3,
                                                ("before", "main"): 3})
        then = self.profile(path, ("main", 3),
                            started="2001-01-01T00:00:00+00:00")
        self.assertEqual(self.lines(then, now), {("after", "main"): 3,
                                                 ("before", "main"): 0})

    def test_files_that_make_no_sense(self):
        old, new = self.paths
        for text in b"\xff\xfe\0", b"# coding: nonsense\n":
            old.write_bytes(text)
            self.assertEqual(self.lines(self.profile(old, ("main", 3)),
                                        self.profile(new, ("main", 4))),
                             {("after", "main"): 4, ("before", "main"): 0})


@requires_chromium
class LinesPageTest(TwoFiles, PageTestCase):

    def test_both_sides(self):
        old, new = self.paths
        file = io.BytesIO()
        diffpage.write(
            self.profile(old, ("main", 3), ("main", 3), ("slower", 6)),
            self.profile(new, ("main", 4), ("slower", 7)), file)
        self.open_page(file.getvalue())
        self.click("show-lines")
        rows = self.browser.evaluate("""[...document.querySelectorAll(
            "#sources tr")].map(row =>
                [...row.children].map(cell => cell.textContent))""")
        self.assertIn(["Line", "Self", "before", "Total", "before", "Text"],
                      rows)
        self.assertIn(["4", "100.0 ms", "200.0 ms", "100.0 ms", "200.0 ms",
                       "    slower(first)"], rows)
        self.assertIn(["7", "100.0 ms", "", "100.0 ms", "",
                       "    return number + 1"], rows)
        self.assertIn("Lines are those of the later recording",
                      self.text("lines"))
        # The choice of a side is for widths: here are both.
        self.choose_thread(1)
        self.assertEqual(len(rows), self.browser.evaluate(
            "document.querySelectorAll('#sources tr').length"))


@requires_chromium
class PageTest(PageTestCase):

    def test_colours_and_times(self):
        file = io.BytesIO()
        before, after = before_and_after()
        before.meta["command"] = "app.py --old"
        diffpage.write(before, after, file)
        self.open_page(file.getvalue())
        self.assertIn(f"before: {table.summary(before)}; "
                      f"after: {table.summary(after)}", self.text("summary"))
        self.assertIn("app.py --old", self.browser.evaluate(
            "document.getElementById('meta').textContent"))
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
