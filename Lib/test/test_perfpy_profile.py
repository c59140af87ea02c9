"""The data model of perfpy: interning, totals, folding."""

import unittest

from perfpy.profile import NO_STACK, Frame, Kind, Profile


def frame(text):
    """Make a frame from a word: py:f, int:f, ker:f, libc:f or f."""
    kind, _, name = text.rpartition(":")
    return {
        "py": Frame(name, "/srv/app.py", Kind.PYTHON),
        "int": Frame(name, "/usr/bin/python3.11", Kind.INTERPRETER),
        "mark": Frame(name, "", Kind.MARK),
        "ker": Frame(name, "[kernel.kallsyms]", Kind.KERNEL),
        "libc": Frame(name, "/lib/x86_64-linux-gnu/libc.so.6", Kind.NATIVE),
        "ld": Frame(name, "/lib64/ld-linux-x86-64.so.2", Kind.NATIVE),
        "": Frame(name, "/usr/lib/libother.so.1", Kind.NATIVE),
    }[kind]


def profile_of(*samples):
    """Make a profile from (seconds, "outermost ... innermost")."""
    profile = Profile()
    thread = profile.thread(1, 1, "python", "main")
    for time, (seconds, words) in enumerate(samples):
        stack = NO_STACK
        for word in words.split():
            stack = profile.add_stack(stack, profile.add_frame(frame(word)))
        thread.add_sample(time, stack, seconds)
    return profile


def stacks_of(profile):
    return [" ".join(profile.frames[frame].name
                     for frame in profile.frames_of(stack))
            for thread in profile.threads for stack in thread.stacks]


class ModelTest(unittest.TestCase):

    def test_equal_stacks_are_stored_once(self):
        profile = profile_of((1, "a b"), (1, "a b c"), (1, "a b"))
        self.assertEqual(len(profile.frames), 3)
        self.assertEqual(profile.stacks, [(NO_STACK, 0), (0, 1), (1, 2)])
        self.assertEqual(list(profile.threads[0].stacks), [1, 2, 1])
        self.assertEqual(profile.duration(), 3)

    def test_thread_is_found_again(self):
        profile = Profile()
        thread = profile.thread(1, 2, "sh", "sh")
        self.assertIs(profile.thread(1, 2, "python", ""), thread)
        self.assertEqual((thread.process_name, thread.name), ("python", "sh"))
        self.assertIsNot(profile.thread(2, 2), thread)

    def totals_by_name(self, profile, threads=None):
        return {frame.name: times for frame, times
                in zip(profile.frames, profile.totals(threads))}

    def test_totals(self):
        profile = profile_of((1, "a"), (2, "a b"), (4, "a b c"), (8, "c"),
                             (16, ""))
        self.assertEqual(self.totals_by_name(profile),
                         {"a": (1, 7), "b": (2, 6), "c": (12, 12)})

    def test_recursion_counts_once(self):
        profile = profile_of((1, "a"), (2, "a b a"), (4, "a b a b"),
                             (8, "b a"))
        self.assertEqual(self.totals_by_name(profile),
                         {"a": (11, 15), "b": (4, 14)})

    def test_totals_of_some_threads(self):
        profile = profile_of((1, "a"))
        other = profile.thread(1, 2)
        other.add_sample(0, 0, 5)
        self.assertEqual(self.totals_by_name(profile, [other]), {"a": (5, 5)})
        self.assertEqual(self.totals_by_name(profile), {"a": (6, 6)})


class FoldingTest(unittest.TestCase):

    def assertFolds(self, words, expected):
        profile = profile_of((1, words))
        folded = profile.folded()
        self.assertEqual(stacks_of(folded), [expected])
        self.assertEqual(folded.duration(), 1)
        used = set()
        for stack in folded.threads[0].stacks:
            used.update(folded.frames_of(stack))
        self.assertEqual(used, set(range(len(folded.frames))))

    def test_internals_count_for_the_python_function(self):
        self.assertFolds("py:f int:eval int:call py:g int:eval int:divide",
                         "f g")

    def test_other_libraries_stay(self):
        self.assertFolds("py:f int:eval compress libc:memcpy ker:fault",
                         "f compress memcpy fault")

    def test_way_in_goes(self):
        self.assertFolds("int:_start libc:start_main int:main py:f", "f")
        self.assertFolds("libc:clone libc:start_thread int:boot py:run",
                         "run")

    def test_embedding_program_stays(self):
        self.assertFolds("libc:start_main main work int:PyRun int:eval py:f",
                         "start_main main work f")

    def test_library_that_calls_back_stays(self):
        self.assertFolds("py:f int:call qsort int:PyObject_Call py:key",
                         "f qsort key")

    def test_stack_without_python_stays(self):
        self.assertFolds("libc:start_main int:main int:Py_Finalize",
                         "start_main main Py_Finalize")
        self.assertFolds("", "")

    def test_threads_and_meta_are_kept(self):
        profile = profile_of((1, "int:main py:f"), (2, "int:main"),
                             (4, "int:main py:f int:eval"))
        profile.meta["command"] = "python f.py"
        folded = profile.folded()
        self.assertEqual(stacks_of(folded), ["f", "main", "f"])
        self.assertEqual(folded.meta, profile.meta)
        self.assertEqual(list(folded.threads[0].weights), [1, 2, 4])
        self.assertEqual(list(folded.threads[0].times), [0, 1, 2])
        self.assertEqual(folded.threads[0].name, "main")


if __name__ == "__main__":
    unittest.main()
