"""What perfpy tells of a profile that could be better."""

import unittest
from test.test_perfpy_profile import profile_of

from perfpy import marks
from perfpy.advice import advice, orphans
from perfpy.profile import Frame, Kind

OTHER = "/usr/lib/libother.so.1"


class AdviceTest(unittest.TestCase):

    def advice(self, profile, lost=0, unwinding="fp"):
        profile.meta.update({"lost samples": str(lost),
                             "unwinding": unwinding})
        return list(advice(profile))

    def test_orphans(self):
        profile = profile_of((3, "py:f"), (3, "deflate"),
                             (1, "libc:memcpy ker:fault"), (1, "int:main"),
                             (2, "py:f"))
        share, library = orphans(profile)
        self.assertAlmostEqual(share, 0.5)
        self.assertEqual(library, OTHER)
        (line,) = self.advice(profile)
        self.assertTrue(line.startswith(
            "50% of the time has no known callers, most of it in "
            "libother.so.1, which has no frame pointers or"))
        self.assertTrue(line.endswith("--unwind copy finds them"))
        (line,) = self.advice(profile, unwinding="copy")
        self.assertTrue(line.endswith("most of it in libother.so.1"))

    def test_no_orphans(self):
        for words in "ker:idle", "", "py:f deflate", "deflate py:f":
            profile = profile_of((9, "py:f"), (3, words), (1, "py:f"))
            self.assertEqual(orphans(profile), (0, None), words)
            self.assertEqual(self.advice(profile), [])
        self.assertEqual(self.advice(profile_of()), [])

    def test_functions_that_cannot_be_shown(self):
        profile = profile_of((9, "py:f"), (3, "mark:before int:main"),
                             (1, "py:f"))
        profile.frames[profile.frames.index(
            Frame("before", "", Kind.MARK))] = marks.SINCE_BEFORE
        self.assertEqual(orphans(profile), (0, None))

    def test_beginning_and_end(self):
        profile = profile_of((5, "int:main"), (1, "py:f"), (1, "py:f"),
                             (5, "int:finalize"))
        self.assertEqual(orphans(profile), (0, None))

    def test_thread_that_runs_something_else(self):
        profile = profile_of((1, "py:f"), (1000, "deflate"), (1, "py:f"))
        self.assertEqual(orphans(profile), (0, None))
        profile = profile_of((9, "py:f"), (1, "deflate"), (9, "py:f"))
        stack = profile.threads[0].stacks[1]
        profile.thread(1, 2).add_sample(1, stack, 100)
        self.assertLess(orphans(profile)[0], 0.01)

    def test_cut(self):
        stack = profile_of((1, "mark:(cut) py:f"), (20, "py:f"))
        (line,) = self.advice(stack, unwinding="copy")
        self.assertTrue(line.startswith("5% of the time is in stacks that "))
        stack = profile_of((1, "mark:(cut) py:f"), (90, "py:f"))
        self.assertEqual(self.advice(stack, unwinding="copy"), [])

    def test_lost_samples(self):
        profile = profile_of(*[(1, "py:f")] * 98)
        self.assertEqual(self.advice(profile, lost=0), [])
        (line,) = self.advice(profile, lost=1200)
        self.assertTrue(line.startswith(
            "1,200 samples are lost, 92% of all"), line)


if __name__ == "__main__":
    unittest.main()
