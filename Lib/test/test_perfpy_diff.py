"""perfpy diff: what surely changed comes first."""

import random
import unittest
from test.support.perfpy_case import PerfpyTestCase
from test.test_perfpy_profile import profile_of

from perfpy import diff, recording


def samples(**seconds):
    """Return samples of 10 ms: path="seconds", _ between functions."""
    return [(0.01, " ".join(f"py:{name}" for name in path.split("_")))
            for path, total in seconds.items()
            for _ in range(round(total * 100))]


class ChangesTest(unittest.TestCase):

    def changes(self, before, after, **options):
        rows, whole = diff.changes(diff.Times(profile_of(*before)),
                                   diff.Times(profile_of(*after)), **options)
        return [row.frame.name for row in rows], rows, whole

    def test_what_is_gone_comes_before_its_callers(self):
        # One query in a loop: its self time is in many functions below.
        names, rows, whole = self.changes(
            samples(main_work=10, main_view_query_connect=1,
                    main_view_query_parse=1, main_view_query_fetch=1),
            samples(main_work=10, main_view_query_connect=.05,
                    main_view_query_parse=.05, main_view_query_fetch=.05))
        self.assertEqual(set(names[:2]), {"query", "view"})
        self.assertEqual(names[-1], "main")
        self.assertNotIn("work", names)
        row = rows[0]
        self.assertAlmostEqual(row.total.seconds, -2.85)
        self.assertAlmostEqual(row.total.error, (3.15 * 0.01)**0.5)
        self.assertEqual(diff.relative(row.total), "-95 %")
        self.assertAlmostEqual(whole.seconds, -2.85)

    def test_shares_do_not_count(self):
        # The others take more of the time, but no more time.
        names, _, _ = self.changes(samples(a=5, b=5), samples(a=5))
        self.assertEqual(names, ["b"])

    def test_chance_is_no_change(self):
        rng = random.Random(16)
        names = [f"f{number}" for number in range(300)]
        wrong = 0
        for _ in range(20):
            runs = [[(0.01, f"py:main py:{rng.choice(names)}")
                     for _ in range(rng.gauss(3000, 3000**0.5).__round__())]
                    for _ in range(2)]
            wrong += len(self.changes(*runs)[0])
        # 3 in 1000 of 6000 times two, self and total, that are the same.
        self.assertLess(wrong, 60)
        self.assertEqual(self.changes(runs[0], runs[0])[0], [])

    def test_new_and_gone(self):
        _, rows, _ = self.changes(samples(old=1), samples(new=1))
        self.assertEqual(
            {row.frame.name: diff.relative(row.own) for row in rows},
            {"old": "gone", "new": "new"})

    def test_only(self):
        before = samples(f=1) + [(0.01, "pkg:q")] * 100
        self.assertEqual(self.changes(before, samples(), only="mine")[0],
                         ["f"])
        before += [(0.01, "mark:(gc)")] * 100
        self.assertEqual(self.changes(before, samples(), only="django")[0],
                         ["q"])

    def test_another_place(self):
        before, after = profile_of((9, "pkg:f")), profile_of((9, "pkg:f"))
        after.frames[0] = after.frames[0]._replace(
            file="/other/lib/python3.11/site-packages/django/db.py")
        self.assertEqual(diff.changes(diff.Times(before),
                                      diff.Times(after))[0], [])


class CommandTest(PerfpyTestCase):

    def save(self, name, *samples, **meta):
        profile = profile_of(*samples)
        profile.meta.update(meta)
        recording.save(profile, self.path(name))

    def test_diff(self):
        self.save("a.perfpy", *samples(f_g=2, f_h=1))
        self.save("b.perfpy", *samples(f_g=1, f_h=1))
        result = self.perfpy("diff", "a.perfpy", "b.perfpy")
        self.assertEqual(result.stdout, """\
a.perfpy: 300 samples, 3.00 s of CPU time, in 1 thread of 1 process
b.perfpy: 200 samples, 2.00 s of CPU time, in 1 thread of 1 process
change: -1.00 ±0.22 s of CPU time, -33 %
  total (s)            self (s)         function  file
-1.00 ±0.17  -50 %  -1.00 ±0.17  -50 %  g         /srv/app.py
-1.00 ±0.22  -33 %                      f         /srv/app.py
""")
        self.assertEqual(result.stderr, "")
        result = self.perfpy("diff", "--top", "1", "a.perfpy", "b.perfpy")
        self.assertTrue(result.stdout.endswith("\nand 1 other, see --top\n"))

    def test_no_change(self):
        self.save("a.perfpy", (1, "py:f"))
        self.save("none.perfpy")
        for name in "a.perfpy", "none.perfpy":
            self.assertIn("no function changed by more than the error",
                          self.perfpy("diff", name, name).stdout)

    def test_with_nothing(self):
        self.save("a.perfpy")
        self.save("b.perfpy", *samples(f=1))
        self.assertRegex(self.perfpy("diff", "a.perfpy", "b.perfpy").stdout,
                         r"\+1\.00 ±0\.10 +new .* f ")

    def test_fail_above(self):
        self.save("a.perfpy", *samples(f_g=10, f_h=10))
        self.save("b.perfpy", *samples(f_g=13, f_h=7))
        self.save("c.perfpy", *samples(f_g=10.2, f_h=10))
        for names, share, status in [
                ("ab", "5%", 3), ("ab", "0.05", 3), ("ba", "5%", 3),
                ("ab", "20%", 0), ("aa", "0", 0), ("ac", "0.5%", 0)]:
            with self.subTest(names=names, share=share):
                result = self.perfpy(
                    "diff", *(f"{name}.perfpy" for name in names),
                    "--fail-above", share, status=status)
                self.assertEqual(bool(status), "slower" in result.stderr)
        self.assertIn("share, such as 5%", self.perfpy(
            "diff", "--fail-above", "-1", "a", "b", status=2).stderr)

    def test_recordings_that_are_not_alike(self):
        same = {"event": "cycles", "command": "c", "python": "3.11.2"}
        self.save("a.perfpy", (1, "py:f"), frequency="999", **same)
        self.save("b.perfpy", (1, "py:f"), frequency="199", **same)
        result = self.perfpy("diff", "a.perfpy", "b.perfpy")
        self.assertEqual(result.stderr, "perfpy: the recordings have different"
                         " frequencies: 999 and 199\n")
        self.save("c.perfpy", (1, "py:f"), unit="page-faults")
        result = self.perfpy("diff", "b.perfpy", "c.perfpy", status=1)
        self.assertEqual(result.stderr, "perfpy: CPU time cannot be compared "
                         "with page-faults\n")
        self.assertIn("\nchange: +0 ±1 page-faults\n", self.perfpy(
            "diff", "c.perfpy", "c.perfpy").stdout)
        self.save("d.perfpy", (1, "py:f"), frequency="999", clock="wall",
                  **same)
        self.assertIn("is of wall-clock time, with --wall, and the other",
                      self.perfpy("diff", "a.perfpy", "d.perfpy").stderr)

    def test_page_that_cannot_be_written(self):
        self.save("a.perfpy", (1, "py:f"))
        with open(self.path("a.perfpy"), "rb") as file:
            before = file.read()
        for name, problem in [("a.perfpy", "a name that ends with .html"),
                              ("x.txt", "a name that ends with .html"),
                              ("no/x.html", "there is no directory no")]:
            result = self.perfpy("diff", "-o", name, "a.perfpy", "a.perfpy",
                                 status=1)
            self.assertIn(problem, result.stderr)
            self.assertEqual(result.stdout, "")
        with open(self.path("a.perfpy"), "rb") as file:
            self.assertEqual(file.read(), before)


if __name__ == "__main__":
    unittest.main()
