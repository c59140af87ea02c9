"""How the perf trampoline is switched on and off: sys functions, -X perf and
PYTHONPERFSUPPORT.

Every program runs in a process of its own, in an environment without PYTHON*
variables other than those of the test.
"""

import inspect
import itertools
import os
import shlex
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import unittest
from test import support
from test.support import import_helper
from test.support.perf_helper import (EMULATOR, SMALL_QUARANTINE, map_path,
                                      read_map, remove_map,
                                      requires_trampoline)

HAVE_TRAMPOLINE = sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") == 1
TIMEOUT = support.LONG_TIMEOUT
SITE = site.main.__code__.co_filename

PRELUDE = """\
import os, sys
MAP = f"/tmp/perf-{os.getpid()}.map"
is_active = sys.is_stack_trampoline_active
activate = sys.activate_stack_trampoline
deactivate = sys.deactivate_stack_trampoline
def names():
    with open(MAP) as file:
        return [line.split(" ", 2)[2].rstrip("\\n") for line in file]
def is_known(function):
    code = function.__code__
    return f"py::{code.co_qualname}:{code.co_filename}" in names()
"""
SHOW_ACTIVE = "print(is_active())"


class Result:
    """How a program ended, what it wrote and which symbols its map has."""

    def __init__(self, process, stdout, stderr):
        self.pid = process.pid
        self.returncode = process.returncode
        self.stdout = stdout.decode()
        self.stderr = stderr.decode()
        self.symbols = None             # there is no map
        if os.path.isfile(map_path(process.pid)):
            self.symbols = [name for _, _, name in read_map(process.pid)]


def run_command(command, variables=(), cwd=None):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("PYTHON")}
    env.update(variables)
    # Another process with this pid may have left its map.
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, cwd=cwd,
                          stderr=subprocess.PIPE,
                          preexec_fn=lambda: remove_map(os.getpid())
                          ) as process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
            return Result(process, stdout, stderr)
        finally:
            process.kill()
            if os.path.isdir(map_path(process.pid)):
                os.rmdir(map_path(process.pid))
            else:
                remove_map(process.pid)


def run(program, *options, prelude=PRELUDE, **kwargs):
    return run_command([sys.executable, *options, "-c",
                        prelude + textwrap.dedent(program)], **kwargs)


class SysTestCase(unittest.TestCase):

    def run_well(self, program, *options, **kwargs):
        result = run(program, *options, **kwargs)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result


@requires_trampoline
class OptionTest(SysTestCase):

    def check_active(self, expected, options=(), variables=(), program=""):
        result = self.run_well(f"{textwrap.dedent(program)}\n{SHOW_ACTIVE}",
                               *options, variables=variables)
        self.assertEqual(result.stdout, f"{expected}\n")
        return result

    def test_precedence(self):
        # -X beats the environment, the last -X the others.
        xoptions = {
            (): None, ("perf",): True, ("perf=1",): True, ("perf=yes",): True,
            ("perf=0",): False, ("perf=",): False, ("perf", "perf=0"): False,
            ("perf=0", "perf"): True,
        }
        values = {None: False, "": False, "0": False, "1": True, "yes": True}
        flags = {(): True, ("-E",): False, ("-I",): False}
        for (given, by_option), (value, by_variable), (flag, allowed) in (
                itertools.product(xoptions.items(), values.items(),
                                  flags.items())):
            with self.subTest(given=given, value=value, flag=flag):
                options = [*flag, *(f"-X{option}" for option in given)]
                variables = {} if value is None else {
                    "PYTHONPERFSUPPORT": value}
                expected = (by_variable and allowed if by_option is None
                            else by_option)
                result = self.check_active(expected, options, variables)
                self.assertEqual(result.symbols is not None, expected)

    def test_other_back_end(self):
        # Where it loses or is off.
        jit = "PYTHON_PERF_JIT_SUPPORT"
        on = {"PYTHONPERFSUPPORT": "1"}
        for options, variables, expected in [
            ([], {jit: "0"}, False),
            ([], {jit: ""}, False),
            ([], {jit: "0"} | on, True),
            (["-Xperf"], {jit: "1"}, True),
            (["-Xperf=1"], {jit: "1"}, True),
            (["-Xperf_jit=0"], {}, False),
            (["-Xperf_jit="], {}, False),
            (["-Xperf_jit=0"], {jit: "1"}, False),
            (["-Xperf_jit=0"], on, True),
            (["-Xperf_jit=0"], {jit: "1"} | on, True),
            (["-Xperf_jit=0", "-Xperf"], {jit: "1"}, True),
            (["-Xperf_jit", "-Xperf_jit=0"], {}, False),
            (["-E"], {jit: "1"} | on, False),
            (["-I", "-Xperf"], {jit: "1"}, True),
        ]:
            with self.subTest(options=options, variables=variables):
                result = self.check_active(expected, options, variables)
                self.assertEqual(result.symbols is not None, expected)

    def test_similar_names(self):
        for option in ("perfect", "perf_", "per", "Perf", "xperf", "perf =1"):
            with self.subTest(option):
                self.check_active(False, ["-X", option])
        self.check_active(False, [], {"PYTHONPERF": "1", "PERFSUPPORT": "1"})

    def test_functions_beat_options(self):
        self.check_active(False, ["-X", "perf"], program="deactivate()")
        self.check_active(False, [], {"PYTHONPERFSUPPORT": "1"},
                          program="deactivate()")
        self.check_active(True, ["-X", "perf=0"],
                          {"PYTHONPERFSUPPORT": "0"},
                          program="activate('perf')")

    def test_xoptions(self):
        result = self.run_well("print(sys._xoptions)", "-X", "perf")
        self.assertEqual(result.stdout, "{'perf': True}\n")

    def test_before_site(self):
        # A debug build takes site from the file, others the frozen one.
        site = {f"py::main:{SITE}", f"py::venv:{SITE}"}
        for options, variables in ((["-X", "perf"], {}),
                                   ([], {"PYTHONPERFSUPPORT": "1"})):
            with self.subTest(options=options, variables=variables):
                result = self.run_well("", *options, variables=variables)
                self.assertLessEqual(site, set(result.symbols))
        result = self.run_well("activate('perf')")
        self.assertFalse(site & set(result.symbols))
        result = self.run_well("", "-X", "perf", "-S")
        self.assertFalse(site & set(result.symbols))

    def test_with_other_options(self):
        for options in (["-X", "dev"], ["-X", "importtime"], ["-X", "utf8"],
                        ["-X", "tracemalloc"], ["-X", "frozen_modules=off"],
                        ["-X", "no_debug_ranges"], ["-O"], ["-OO"], ["-B"],
                        ["-X", "faulthandler"], ["-W", "error"], ["-u"],
                        ["-X", "showrefcount"]):
            with self.subTest(options=options):
                result = run("def f(): pass\nf()\nprint(is_known(f))",
                             "-X", "perf", *options)
                self.assertEqual((result.returncode, result.stdout),
                                 (0, "True\n"), result.stderr)

    def test_ways_to_give_a_program(self):
        with tempfile.TemporaryDirectory() as directory:
            package = os.path.join(directory, "package")
            os.mkdir(package)
            path = os.path.join(package, "__main__.py")
            with open(path, "w") as file:
                file.write("def f(): pass\nf()\n")
            for arguments in [path], [package], ["-m", "package"]:
                with self.subTest(arguments=arguments):
                    result = run_command(
                        [sys.executable, "-X", "perf", *arguments],
                        cwd=directory)
                    self.assertEqual((result.returncode, result.stderr),
                                     (0, ""))
                    symbols = [name for name in result.symbols
                               if name.startswith("py::f:")
                               and name.endswith("__main__.py")]
                    self.assertEqual(len(symbols), 1)
        with subprocess.Popen([sys.executable, "-I", "-X", "perf"],
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            process.communicate(b"def f(): pass\nf()\n", timeout=TIMEOUT)
            symbols = [name for _, _, name in read_map(process.pid)]
            remove_map(process.pid)
        self.assertIn("py::f:<stdin>", symbols)

    def test_map_cannot_be_created(self):
        # The launcher puts a directory in the way and becomes the program.
        program = PRELUDE + textwrap.dedent("""
            def ordinary(): return "runs"
            print(ordinary(), is_active())
        """)
        for options, variables, name in (
                (["-X", "perf"], {}, "-X perf"),
                (["-X", "perf=1"], {}, "-X perf"),
                ([], {"PYTHONPERFSUPPORT": "1"}, "PYTHONPERFSUPPORT")):
            with self.subTest(options=options, variables=variables):
                command = [sys.executable, *options, "-c", program]
                result = run("os.mkdir(MAP)\n"
                             f"os.execve(sys.executable, {command!r}, "
                             f"{{**os.environ, **{variables!r}}})\n")
                self.assertEqual((result.returncode, result.stdout),
                                 (0, "runs False\n"))
                self.assertRegex(result.stderr,
                                 rf"\Apython: {name} has no effect: .*"
                                 rf"'{map_path(result.pid)}'\n\Z")

    def test_warning_is_no_python_warning(self):
        # And none that -W error could turn into a failure.
        command = [sys.executable, "-W", "error", "-X", "perf", "-c", ""]
        result = run("os.mkdir(MAP)\n"
                     f"os.execv(sys.executable, {command!r})\n")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_stderr_is_closed(self):
        command = [sys.executable, "-X", "perf", "-c", ""]
        for closed in (2,), (0, 1, 2):
            with self.subTest(closed=closed):
                result = run(f"for fd in {closed}: os.close(fd)\n"
                             "os.mkdir(MAP)\n"
                             f"os.execv(sys.executable, {command!r})\n")
                self.assertEqual(result.returncode, 0)


@requires_trampoline
class FunctionTest(SysTestCase):

    def test_signatures(self):
        for name, signature in (
                ("activate_stack_trampoline", "(backend, /, *, native=False)"),
                ("deactivate_stack_trampoline", "()"),
                ("is_stack_trampoline_active", "()")):
            with self.subTest(name):
                function = getattr(sys, name)
                self.assertEqual(str(inspect.signature(function)), signature)
                self.assertTrue(inspect.getdoc(function))

    def test_return_values(self):
        self.run_well("""
            assert is_active() is False
            assert activate("perf") is None
            assert is_active() is True
            assert deactivate() is None
            assert is_active() is False
        """)

    def test_repeatedly(self):
        self.run_well("""
            deactivate()
            deactivate()
            for _ in range(300):
                for _ in range(3):
                    activate("perf")
                    assert is_active() is True
                for _ in range(3):
                    deactivate()
                    assert is_active() is False
            assert len(set(names())) == len(names())
        """)

    def test_str_subclass(self):
        self.run_well("""
            class Name(str):
                pass
            activate(Name("perf"))
            assert is_active()
        """)

    def test_wrong_arguments(self):
        for argument, error, message in (
            ("'gdb'", ValueError, "invalid backend: gdb"),
            ("''", ValueError, "invalid backend: "),
            ("'Perf'", ValueError, "invalid backend: Perf"),
            ("'perf '", ValueError, "invalid backend: perf "),
            ("'perf_'", ValueError, "invalid backend: perf_"),
            ("'b\\u00fc\\U0001f40d'", ValueError,
             "invalid backend: b\u00fc\U0001f40d"),
            ("'%s%n'", ValueError, "invalid backend: %s%n"),
            ("'x' * 10000", ValueError, "invalid backend: " + "x" * 10000),
            ("'perf\\0'", ValueError, "embedded null character"),
            ("'\\0'", ValueError, "embedded null character"),
            ("1", TypeError, "activate_stack_trampoline() argument must be "
             "str, not int"),
            ("None", TypeError, "activate_stack_trampoline() argument must be "
             "str, not None"),
            ("b'perf'", TypeError, "activate_stack_trampoline() argument must "
             "be str, not bytes"),
            ("['perf']", TypeError, "activate_stack_trampoline() argument "
             "must be str, not list"),
        ):
            with self.subTest(argument):
                # In this process: none of these has an effect.
                was_active = sys.is_stack_trampoline_active()
                with self.assertRaises(error) as caught:
                    sys.activate_stack_trampoline(eval(argument))
                self.assertIs(type(caught.exception), error)
                self.assertEqual(str(caught.exception), message)
                self.assertIs(sys.is_stack_trampoline_active(), was_active)

    def test_surrogate(self):
        with self.assertRaises(UnicodeEncodeError):
            sys.activate_stack_trampoline("\udcff")

    def test_wrong_number_of_arguments(self):
        for call in (lambda: sys.activate_stack_trampoline(),
                     lambda: sys.activate_stack_trampoline("perf", "perf"),
                     lambda: sys.activate_stack_trampoline(backend="perf"),
                     lambda: sys.deactivate_stack_trampoline(1),
                     lambda: sys.is_stack_trampoline_active(1)):
            self.assertRaises(TypeError, call)

    def test_error_leaves_it_on(self):
        self.run_well("""
            activate("perf")
            for wrong in "gdb", 1, "perf\\0":
                try:
                    activate(wrong)
                except (TypeError, ValueError):
                    pass
                else:
                    raise AssertionError(wrong)
            assert is_active()
            def f(): pass
            f()
            assert is_known(f)
        """)

    def test_os_error(self):
        self.run_well("""
            os.mkdir(MAP)
            try:
                activate("perf")
            except OSError as error:
                assert error.errno, error
                assert error.filename == MAP, error
                assert MAP in str(error)
            else:
                raise AssertionError
            assert not is_active()
        """)

    def test_functions_called_while_off(self):
        self.run_well("""
            def before(): pass
            def between(): pass
            def after(): pass
            before()
            activate("perf")
            assert not is_known(before)
            between()
            deactivate()
            after()
            assert is_known(between)
            assert not is_known(after)
            activate("perf")
            before(); between(); after()
            assert is_known(before) and is_known(after)
            assert len(set(names())) == len(names())
        """)

    def test_other_evaluator(self):
        # Another tool's PEP 523 evaluator stays in use.
        import_helper.import_module("_testinternalcapi")
        self.run_well("""
            from _testinternalcapi import (set_eval_frame_default,
                                           set_eval_frame_record)
            def outer(): return inner()
            def inner(): return 1
            def calls():
                called.clear()
                outer()
                return called[:]
            called = []
            set_eval_frame_record(called)
            for _ in range(3):
                activate("perf")
                assert is_active()
                assert calls() == ["outer", "inner"], called
                assert is_known(outer) and is_known(inner)
                deactivate()
                assert not is_active()
                assert calls() == ["outer", "inner"], called
            set_eval_frame_default()
            assert calls() == [], called
            activate("perf")
            assert calls() == [], called
            set_eval_frame_record(called)
            assert is_active()
            assert calls() == ["outer", "inner"], called
            set_eval_frame_default()
            assert is_active()
            assert calls() == [], called
        """)

    def test_activation_in_thread(self):
        self.run_well("""
            import threading
            thread = threading.Thread(target=activate, args=["perf"])
            thread.start(); thread.join()
            assert is_active()
            thread = threading.Thread(target=deactivate)
            thread.start(); thread.join()
            assert not is_active()
        """)

    def test_from_inside_running_functions(self):
        self.run_well("""
            def outer(on):
                return inner(on)
            def inner(on):
                activate("perf") if on else deactivate()
                try:
                    yield_some = list(generator(on))
                    raise KeyError(on)
                except KeyError as error:
                    return error.args[0], yield_some
            def generator(on):
                for number in range(3):
                    yield number
                    deactivate() if on else activate("perf")
            for on in True, False, False, True:
                assert outer(on) == (on, [0, 1, 2])
        """)


@requires_trampoline
class InterpreterTest(SysTestCase):
    """On or off is a property of an interpreter."""

    SUBINTERPRETERS = """
from test.support import perf_interpreters as interpreters
def in_other(interpreter, code):
    interpreters.raise_failure(interpreters.run_string(
        interpreter, "import sys, os\\n" + code))
"""

    def run_interpreters(self, program, *options, **kwargs):
        return self.run_well(self.SUBINTERPRETERS + textwrap.dedent(program),
                             *options, **kwargs)

    def test_covered_by_options(self):
        for options, variables in ((["-X", "perf"], {}),
                                   ([], {"PYTHONPERFSUPPORT": "1"})):
            with self.subTest(options=options, variables=variables):
                result = self.run_interpreters("""
                    for isolated in True, False:
                        other = interpreters.create(isolated=isolated)
                        in_other(other, "def inside(): pass\\\\n"
                                 "inside()\\\\n"
                                 "assert sys.is_stack_trampoline_active()")
                        interpreters.destroy(other)
                    assert is_active()
                """.replace("\\\\n", "\\n"), *options, variables=variables)
                self.assertEqual(
                    result.symbols.count("py::inside:<string>"), 1)

    def test_activation_is_for_one(self):
        self.run_interpreters("""
            one, two = interpreters.create(), interpreters.create()
            in_other(one, "sys.activate_stack_trampoline('perf')")
            in_other(one, "assert sys.is_stack_trampoline_active()")
            in_other(two, "assert not sys.is_stack_trampoline_active()")
            assert not is_active()
            activate("perf")
            in_other(two, "assert not sys.is_stack_trampoline_active()")
            three = interpreters.create()
            in_other(three, "assert not sys.is_stack_trampoline_active()")
            deactivate()
            in_other(one, "assert sys.is_stack_trampoline_active()")
            in_other(one, "def in_one(): pass\\nin_one()")
            in_other(two, "def in_two(): pass\\nin_two()")
            assert "py::in_one:<string>" in names()
            assert "py::in_two:<string>" not in names()
        """)

    def test_deactivation_is_for_one(self):
        self.run_interpreters("""
            one, two = interpreters.create(), interpreters.create()
            deactivate()
            in_other(one, "assert sys.is_stack_trampoline_active()")
            in_other(one, "sys.deactivate_stack_trampoline()")
            in_other(two, "assert sys.is_stack_trampoline_active()")
            # A new one follows the options, whoever creates it.
            three = interpreters.create()
            in_other(three, "assert sys.is_stack_trampoline_active()")
            for other in one, two, three:
                interpreters.destroy(other)
            assert not is_active()
        """, "-X", "perf")

    def test_options_leave_the_back_end_alone(self):
        self.run_interpreters("""
            activate("perf")
            other = interpreters.create()
            in_other(other, "assert sys.is_stack_trampoline_active()")
            in_other(other, "def inside(): pass\\ninside()")
            assert "py::inside:<string>" in names()
            interpreters.destroy(other)
        """, "-X", "perf_jit")

    def test_destroyed_while_on(self):
        self.run_interpreters("""
            for number in range(10):
                other = interpreters.create()
                in_other(other, "sys.activate_stack_trampoline('perf')\\n"
                         f"def f_{number}(): pass\\nf_{number}()")
                interpreters.destroy(other)
                assert f"py::f_{number}:<string>" in names()
            assert not is_active()
            activate("perf")
            def mine(): pass
            mine()
            assert is_known(mine)
        """)


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


@requires_trampoline
class StressTest(SysTestCase):
    """Memory stays as it is."""

    # An emulator's own memory, for what it translates, counts too.
    VARIABLES = SMALL_QUARANTINE | {
        "GROWTH": "16384" if EMULATOR
                  else "4096" if support.check_sanitizer(address=True)
                  else "1024"}

    def test_switching_while_threads_run(self):
        result = self.run_well("""
            import itertools, threading
            SWITCHES = 100_000

            def fib(n):
                return n if n < 2 else fib(n - 1) + fib(n - 2)

            def numbers(n):
                try:
                    for number in range(n):
                        yield number
                finally:
                    fib(2)

            def work(thread):
                for round in itertools.count():
                    if finished:
                        rounds.append(round)
                        return
                    namespace = {"fib": fib}
                    exec(f"def f_{thread}_{round % 50}(n): return fib(n)\\n"
                         f"g = f_{thread}_{round % 50}", namespace)
                    assert namespace["g"](6) == 8
                    assert sum(numbers(5)) == 10
                    assert sorted([3, 1, 2], key=lambda n: -n) == [3, 2, 1]
                    next(numbers(3))
                    try:
                        [].pop(fib(3))
                    except IndexError:
                        pass

            def checked_work(thread):
                try:
                    work(thread)
                except BaseException as error:
                    errors.append(error)
                    raise

            def memory():
                with open("/proc/self/status") as file:
                    fields = dict(line.split(":", 1) for line in file)
                return [int(fields[name].split()[0])
                        for name in ("VmRSS", "VmSize")]

            finished, errors, rounds = [], [], []
            threads = [threading.Thread(target=checked_work, args=[number])
                       for number in range(4)]
            for thread in threads:
                thread.start()
            sys.setswitchinterval(1e-4)
            for switch in range(SWITCHES):
                activate("perf")
                deactivate()
                if switch == SWITCHES // 5:
                    early = memory()
                if switch % 10_000 == 0:
                    threading.Event().wait(0.02)    # let the threads work
            late = memory()
            finished.append(True)
            for thread in threads:
                thread.join()
            assert not errors
            assert min(rounds) > 0, rounds
            assert not is_active()
            for before, after in zip(early, late):
                growth = after - before                         # KiB
                assert growth < int(os.environ["GROWTH"]), (early, late)
        """, variables=self.VARIABLES)
        self.assertEqual(len(set(result.symbols)), len(result.symbols))
        self.assertIn("py::fib:<string>", result.symbols)

    def test_many_execs_of_same_source(self):
        result = self.run_well("""
            import gc
            def resident():
                gc.collect()
                with open("/proc/self/statm") as file:
                    return int(file.read().split()[1]) * 4096
            def execute(times):
                for _ in range(times):
                    exec("def f(): return [n for n in (1, 2)]\\nf()")
            execute(1000)
            before, lines = resident(), len(names())
            execute(100_000)
            assert resident() - before < 2**20, resident() - before
            assert len(names()) == lines
        """, "-X", "perf", variables=self.VARIABLES)
        self.assertEqual(result.symbols.count("py::f:<string>"), 1)


@requires_trampoline
class EmbeddingTest(SysTestCase):
    """Programs that start and end the runtime several times."""

    def setUp(self):
        self.program = os.path.join(os.path.dirname(sys.executable),
                                    "Programs", "_testembed")
        if not (sysconfig.is_python_build()
                and os.access(self.program, os.X_OK)):
            self.skipTest(f"{self.program!r} is missing")

    def run_embedded(self, code, variables=()):
        # In its build directory it finds the library.
        result = run_command(
            [*EMULATOR, self.program, "test_repeated_init_exec",
             PRELUDE + textwrap.dedent(code)], variables,
            cwd=os.path.dirname(sys.executable))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def test_option_in_each_runtime(self):
        result = self.run_embedded("""
            def f(): pass
            f()
            assert is_known(f)
            print("active", is_active())
            exec(f"def f_{len(names())}(): pass\\nf_{len(names())}()")
        """, {"PYTHONPERFSUPPORT": "1"})
        count = result.stdout.splitlines().count("active True")
        self.assertGreater(count, 1)
        self.assertEqual(result.symbols.count("py::f:<string>"), 1)
        new = [name for name in result.symbols if name.startswith("py::f_")]
        self.assertGreater(len(set(new)), 1)
        self.assertEqual(len(new), len(set(new)))

    def test_off_in_next_runtime(self):
        result = self.run_embedded("""
            print("at start", is_active())
            activate("perf")
            def f(): pass
            f()
            assert is_known(f)
            print("then", is_active())
        """)
        lines = result.stdout.splitlines()
        self.assertNotIn("at start True", lines)
        self.assertGreater(lines.count("then True"), 1)


class SysconfigTest(unittest.TestCase):

    @requires_trampoline
    def test_have_trampoline(self):
        self.assertEqual(sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"),
                         1)
        self.assertIn('PY_HAVE_PERF_TRAMPOLINE = "1"', self.sysconfig_lines())

    def sysconfig_lines(self):
        output = subprocess.run([sys.executable, "-m", "sysconfig"],
                                stdout=subprocess.PIPE, text=True, check=True)
        return [line.strip() for line in output.stdout.splitlines()]

    def test_frame_pointers(self):
        arguments = shlex.split(sysconfig.get_config_var("CONFIG_ARGS"))
        if {"--without-frame-pointers",
                "--with-frame-pointers=no"} & set(arguments):
            self.skipTest("configured without frame pointers")
        compiler = shlex.split(sysconfig.get_config_var("CC"))
        for flag in ("-fno-omit-frame-pointer",
                     "-mno-omit-leaf-frame-pointer"):
            with self.subTest(flag):
                if shutil.which(compiler[0]) and subprocess.run(
                        [*compiler, flag, "-E", "-x", "c", os.devnull],
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL).returncode != 0:
                    self.skipTest(f"{compiler[0]} has no {flag}")
                # distutils and setuptools compile extension modules with it.
                self.assertIn(flag, sysconfig.get_config_var("CFLAGS").split())
                self.assertTrue([line for line in self.sysconfig_lines()
                                 if flag in line])


class HelpTest(unittest.TestCase):

    def check_help(self, option, *words):
        output = subprocess.run([sys.executable, option], text=True,
                                check=True, stdout=subprocess.PIPE).stdout
        for word in words:
            self.assertRegex(output, rf"(?m)^\s*{word}\b", word)

    def test_help(self):
        xoptions = "-X perf", "-X perf_jit"
        variables = "PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT"
        self.check_help("--help-xoptions", *xoptions)
        self.check_help("--help-env", *variables)
        self.check_help("--help-all", *xoptions, *variables)


@unittest.skipIf(HAVE_TRAMPOLINE, "the perf trampoline is available here")
class UnavailableTest(SysTestCase):

    def test_functions(self):
        with self.assertRaises(ValueError) as caught:
            sys.activate_stack_trampoline("perf")
        self.assertEqual(str(caught.exception),
                         "perf trampoline not available")
        self.assertIs(sys.is_stack_trampoline_active(), False)
        self.assertIsNone(sys.deactivate_stack_trampoline())

    def test_option(self):
        result = run("print('runs', is_active())", "-X", "perf")
        self.assertEqual((result.returncode, result.stdout),
                         (0, "runs False\n"))
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("-X perf", result.stderr)


if __name__ == "__main__":
    unittest.main()
