"""The data model of perfpy: interning, totals, folding."""

import os
import random
import tempfile
import unittest

from perfpy import classify, totals
from perfpy.classify import Origin
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
        "imp": Frame(name, "<frozen importlib._bootstrap>", Kind.PYTHON),
        "lib": Frame(name, "/usr/lib/python3.11/json/decoder.py",
                     Kind.PYTHON),
        "pkg": Frame(name, "/venv/lib/python3.11/site-packages/django/db.py",
                     Kind.PYTHON),
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


class RowsTest(unittest.TestCase):
    """The times of rows, of which not every function is one."""

    def rows(self, profile, *names, closed=()):
        names = [*names]
        row_of = [names.index(frame.name) if frame.name in names
                  else totals.NO_ROW for frame in profile.frames]
        return totals.of_rows(profile, row_of,
                              [names.index(name) for name in closed])

    def test_own_time_includes_what_has_no_row(self):
        profile = profile_of((1, "py:f"), (2, "py:f sqlite"),
                             (4, "py:f sqlite ker:read"), (8, "py:f py:g"),
                             (16, "py:f sqlite py:g sqlite"), (32, "main"))
        self.assertEqual(self.rows(profile, "f", "g"), [(7, 31), (24, 24)])
        self.assertEqual(self.rows(profile, "f"), [(31, 31)])
        self.assertEqual(self.rows(profile, "sqlite"), [(22, 22)])

    def test_closed_rows_take_all_below(self):
        profile = profile_of((1, "py:f"), (2, "py:f py:g py:f"),
                             (4, "py:g py:f py:h"))
        self.assertEqual(self.rows(profile, "f", "g", "h", closed=["g"]),
                         [(1, 3), (6, 6), (0, 0)])

    def test_random_trees(self):
        rng = random.Random(16)
        for _ in range(50):
            profile = profile_of(*(
                (rng.randrange(1, 9),
                 " ".join(f"py:{rng.choice('abcde')}"
                          for _ in range(rng.randrange(7))))
                for _ in range(30)))
            row_of = [rng.choice([totals.NO_ROW, 0, 1, 2])
                      for _ in profile.frames]
            expected = [[0, 0] for _ in range(max(row_of, default=-1) + 1)]
            thread = profile.threads[0]
            for stack, weight in zip(thread.stacks, thread.weights):
                rows = [row_of[frame] for frame in profile.frames_of(stack)
                        if row_of[frame] != totals.NO_ROW]
                if rows:
                    expected[rows[-1]][0] += weight
                for row in set(rows):
                    expected[row][1] += weight
            self.assertEqual(totals.of_rows(profile, row_of),
                             [tuple(pair) for pair in expected])


class OriginTest(unittest.TestCase):

    def test_origins(self):
        profile = profile_of((1, "int:m py:f pkg:f lib:f imp:f libc:f ker:f "
                                 "mark:(cut)"))
        self.assertEqual(
            [origin.value for origin in classify.origins(profile)],
            ["interpreter", "own", "packages", "library", "library",
             "native", "kernel", "mark"])
        # The recording says where the library is.
        profile.meta["stdlib"] = "/srv:/opt/lib/python3.11"
        self.assertEqual(classify.origins(profile)[1:4], [
            Origin.LIBRARY, Origin.PACKAGES, Origin.OWN])

    def test_packages_elsewhere(self):
        with tempfile.TemporaryDirectory() as directory:
            target = os.path.join(directory, "target[1]")
            os.makedirs(os.path.join(target, "lib-1.dist-info"))
            path = os.pathsep.join(["", directory, target, "/nowhere"])
            self.assertEqual(classify.places_of_packages(path), "")
            with open(os.path.join(target, "lib-1.dist-info", "METADATA"),
                      "w"):
                pass
            self.assertEqual(classify.places_of_packages(path), target)
        profile = Profile()
        for file in "/target/lib.py", "/targets.py":
            profile.add_frame(Frame("f", file, Kind.PYTHON))
        profile.meta["packages"] = "/a:/target"
        self.assertEqual(classify.origins(profile),
                         [Origin.PACKAGES, Origin.OWN])
        self.assertEqual(classify.short_file(profile, "/target/x/y.py"),
                         "x/y.py")

    def test_files_that_are_none(self):
        for file, origin in [
                ("<string>", Origin.OWN), ("<stdin>", Origin.OWN),
                ("", Origin.OWN),
                ("<frozen runpy>", Origin.LIBRARY),
                ("<__array_function__ internals>", Origin.PACKAGES)]:
            profile = Profile()
            profile.add_frame(Frame("f", file, Kind.PYTHON))
            self.assertEqual(classify.origins(profile), [origin], file)

    def test_short_files(self):
        profile = Profile()
        profile.meta["directory"] = "/srv/app"
        for file, short in [
                ("/srv/app/a/b.py", "a/b.py"), ("/srv/other.py",) * 2,
                ("/v/lib/python3.11/site-packages/x/y.py", "x/y.py"),
                ("/usr/lib/python3/dist-packages/x.py", "x.py"),
                ("/usr/lib/python3.11/json/decoder.py", "json/decoder.py"),
                ("<string>",) * 2]:
            self.assertEqual(classify.short_file(profile, file), short)


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

    def test_imports(self):
        self.assertFolds("py:f int:eval imp:_find int:call imp:_load int:exec "
                         "py:<module> imp:_find libc:open ker:open",
                         "f (import) <module> (import) open open")
        self.assertFolds("int:main imp:_find py:<module>",
                         "(import) <module>")

    def test_marks_stay(self):
        self.assertFolds("libc:start_main int:main mark:(cut) int:eval py:f",
                         "(cut) f")
        self.assertFolds("mark:(cut) py:f int:eval mark:(import) py:g",
                         "(cut) f (import) g")
        self.assertFolds("mark:(shutdown) int:Py_Finalize",
                         "(shutdown) Py_Finalize")
        self.assertFolds("start_main mark:(cut) int:eval py:f",
                         "start_main (cut) f")

    def test_equal_folded_stacks_are_stored_once(self):
        profile = profile_of((1, "py:f int:a py:g"), (2, "py:f int:b py:g"))
        folded = profile.folded()
        self.assertEqual(len(folded.stacks), 2)
        self.assertEqual(folded.totals(), [(0, 3), (3, 3)])

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
