"""What perfpy tells of a profile that could be better."""

import types
import unittest
from test.test_perfpy_profile import profile_of

from perfpy.advice import advice, orphans

OLD_PERF = types.SimpleNamespace(can_unwind_jitted=False)
NEW_PERF = types.SimpleNamespace(can_unwind_jitted=True)
OTHER = "/usr/lib/libother.so.1"


class AdviceTest(unittest.TestCase):

    def advice(self, profile, perf=NEW_PERF, lost=0, unwinding="fp"):
        profile.meta.update({"lost samples": str(lost),
                             "unwinding": unwinding})
        return list(advice(profile, perf))

    def test_orphans(self):
        profile = profile_of((6, "py:f"), (3, "deflate"),
                             (1, "libc:memcpy ker:fault"))
        self.assertEqual(orphans(profile), (0.4, OTHER))
        (line,) = self.advice(profile)
        self.assertTrue(line.startswith(
            "40 % of the time has no known callers, most of it in "
            "libother.so.1, which has no frame pointers; --unwind dwarf"))
        self.assertIn("6.8", self.advice(profile, OLD_PERF)[0])
        self.assertEqual(self.advice(profile, unwinding="dwarf"), [])

    def test_no_orphans(self):
        for words in ("libc:start int:main", "ld:relocate ker:fault",
                      "int:main deflate", "ker:idle", "", "py:f deflate",
                      "deflate py:f"):
            self.assertEqual(orphans(profile_of((9, "py:f"), (1, words))),
                             (0, None), words)
        self.assertEqual(self.advice(profile_of()), [])

    def test_process_that_runs_something_else(self):
        profile = profile_of((1, "py:f"), (1000, "deflate"))
        self.assertEqual(orphans(profile), (0, None))
        other = profile.thread(2, 2)
        other.add_sample(0, 0, 999)
        self.assertEqual(orphans(profile), (0, None))

    def test_lost_samples(self):
        profile = profile_of(*[(1, "py:f")] * 98)
        self.assertEqual(self.advice(profile, lost=0), [])
        (line,) = self.advice(profile, lost=1200)
        self.assertTrue(line.startswith("1,200 samples are lost"), line)


if __name__ == "__main__":
    unittest.main()
