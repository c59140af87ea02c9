"""Programs of several kinds run with the perf trampoline as without."""

import os
import signal
import sys
import tempfile
import textwrap
import unittest

from test.support.perf_helper import map_path, requires_trampoline
from test.support.perf_sys import SITE, SysTestCase, run, run_command


@requires_trampoline
class ProgramTest(SysTestCase):
    """What a program sees of -X perf: nothing."""

    PROGRAMS = {
        "traceback": """
            def f(): g()
            def g(): 1 / 0
            try:
                f()
            except ZeroDivisionError as error:
                raise ValueError("chained") from error
        """,
        "recursion": """
            def f(n): return f(n + 1)
            try:
                f(0)
            except RecursionError as error:
                count = 0
                traceback = error.__traceback__
                while traceback:
                    count, traceback = count + 1, traceback.tb_next
                print(count, error)
            f(0)
        """,
        "exit status": "import sys; sys.exit('farewell')",
        "warning": "import warnings; warnings.warn('attention')",
        "unraisable": """
            class Deletion:
                def __repr__(self): return "deletion"
                def __call__(self): raise KeyError("lost")
            class C:
                __del__ = Deletion()
            C()
        """,
        "frames": """
            import inspect, sys, traceback
            def f():
                yield [frame.f_code.co_name for frame, *_ in inspect.stack()]
                yield traceback.format_stack()
            print(sorted(f(), key=lambda x: len(x)))
        """,
        "profile and trace": """
            import sys
            def tracer(frame, event, arg):
                print(event, frame.f_code.co_name, frame.f_lineno)
                return tracer
            def f(): yield from (g(n) for n in range(2))
            def g(n): return n
            sys.setprofile(tracer); list(f()); sys.setprofile(None)
            sys.settrace(tracer); list(f()); sys.settrace(None)
        """,
        "end": """
            import atexit, threading
            def last(): print("last")
            atexit.register(last)
            threading.Thread(target=lambda: print("thread")).start()
        """,
        "sizes": """
            import sys
            def f(): yield
            print(sys.getsizeof(f), sys.getsizeof(f()),
                  sys.getsizeof(f.__code__), sys.getrecursionlimit())
            print(f.__code__ == f.__code__.replace(), hash(f.__code__) != 0)
            import marshal
            code = compile("def g(): return 1", "x", "exec")
            dumped = marshal.dumps(code)
            exec(code)
            print(marshal.dumps(code) == dumped)
        """,
    }

    def test_same_output(self):
        for name, program in self.PROGRAMS.items():
            with self.subTest(name):
                program = textwrap.dedent(program)
                plain = run(program, prelude="")
                perf = run(program, "-X", "perf", prelude="")
                self.assertIsNone(plain.symbols)
                self.assertIsNotNone(perf.symbols)
                self.assertEqual(
                    (perf.returncode, perf.stdout, perf.stderr),
                    (plain.returncode, plain.stdout, plain.stderr))

    PENDING = """
        def new(number):
            namespace = {}
            exec(f"def function_{number}(): return {number}", namespace)
            return namespace[f"function_{number}"]

        class Manager:
            def __enter__(self):
                pass
            def __exit__(self, kind, error, traceback):
                assert kind is KeyError and error.args == (1,)
                assert new(1)() == 1
                assert sys.exc_info() == (kind, error, traceback)

        class Deleted:
            def __del__(self):
                pending.append(sys.exc_info()[0])
                new(2)()
                try:
                    raise ValueError
                except ValueError:
                    new(3)()

        def generator():
            try:
                yield
            finally:
                new(4)()

        pending = []
        try:
            with Manager():
                deleted, iterator = Deleted(), generator()
                next(iterator)
                raise KeyError(1)
        except KeyError as error:
            assert new(5)() == 5
            del deleted, iterator
            assert new(6)() == 6
            assert sys.exc_info()[1] is error
        assert sys.exc_info() == (None, None, None)
        assert pending == [KeyError], pending

        class Raises:
            def __hash__(self):
                new(7)()
                raise OverflowError
        for action in (lambda: {Raises()}, lambda: sorted([2, 1], key=Raises),
                       lambda: max([Raises()], key=hash)):
            try:
                action()
            except (OverflowError, TypeError) as error:
                new(8)()
                caught = error
            assert caught.__context__ is None
        print("done")
    """

    def test_pending_exception(self):
        result = self.run_well(self.PENDING, "-X", "perf")
        self.assertEqual(result.stdout, "done\n")
        self.assertIn("py::function_8:<string>", result.symbols)

    def test_pending_exception_when_writing_fails(self):
        result = run("""
        import resource
        size = os.path.getsize(MAP)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        """ + self.PENDING, "-X", "perf")
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"),
                         result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn(map_path(result.pid), result.stderr)
        self.assertNotIn("py::function_1:<string>", result.symbols)

    def test_sudden_end(self):
        for end, status in (("os._exit(7)", 7),
                            ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
                            ("os.abort()", -signal.SIGABRT)):
            with self.subTest(end):
                result = run(f"""
                    import resource
                    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                    def last(): {end}
                    last()
                """, "-X", "perf")
                self.assertEqual(result.returncode, status)
                self.assertIn("py::last:<string>", result.symbols)
                self.assertIn(f"py::main:{SITE}", result.symbols)

    def test_program_started_by_site(self):
        # Start-up may last: lines do not wait for its end.
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "usercustomize.py"), "w") as f:
                f.write("import time\n"
                        "def early(): time.sleep(0.1)\n"
                        "def late(): import os; os._exit(3)\n"
                        "early(); late()\n")
            result = run_command(
                [sys.executable, "-X", "perf", "-c", ""],
                {"PYTHONPATH": directory, "PYTHONNOUSERSITE": ""})
        self.assertEqual(result.returncode, 3, result.stderr)
        for name in "early", "late":
            self.assertTrue(any(symbol.startswith(f"py::{name}:")
                                for symbol in result.symbols), name)


if __name__ == "__main__":
    unittest.main()
