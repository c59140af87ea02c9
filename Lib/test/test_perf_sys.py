"""The sys functions that switch the perf trampoline, in all interpreters."""

import inspect
import sys
import textwrap
import unittest

from test import support
from test.support import import_helper
from test.support.perf_base import FILE_IN_INTERPRETER, KEEPS_MEMORY
from test.support.perf_helper import (EMULATOR, SMALL_QUARANTINE,
                                      requires_trampoline)
from test.support.perf_sys import SysTestCase


@requires_trampoline
class FunctionTest(SysTestCase):

    def test_signatures(self):
        for name, signature in (
                ("activate_stack_trampoline",
                 "(backend, /, *, native=False, lines=False)"),
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
from test.support.perf_base import FILE_IN_INTERPRETER as FILE
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
                self.assertEqual(result.symbols.count(
                    f"py::inside:{FILE_IN_INTERPRETER}"), 1)

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
            assert f"py::in_one:{FILE}" in names()
            assert f"py::in_two:{FILE}" not in names()
            for other in one, two, three:
                interpreters.destroy(other)
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
            assert f"py::inside:{FILE}" in names()
            interpreters.destroy(other)
        """, "-X", "perf_jit")

    def test_destroyed_while_on(self):
        self.run_interpreters("""
            for number in range(10):
                other = interpreters.create()
                in_other(other, "sys.activate_stack_trampoline('perf')\\n"
                         f"def f_{number}(): pass\\nf_{number}()")
                interpreters.destroy(other)
                assert f"py::f_{number}:{FILE}" in names()
            assert not is_active()
            activate("perf")
            def mine(): pass
            mine()
            assert is_known(mine)
        """)


@requires_trampoline
class StressTest(SysTestCase):
    """Memory stays as it is."""

    # An emulator's own memory, for what it translates, counts too.
    VARIABLES = SMALL_QUARANTINE | {
        "GROWTH": "1000000" if KEEPS_MEMORY
                  else "16384" if EMULATOR
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

    @unittest.skipIf(KEEPS_MEMORY, "the memory that is used grows anyway")
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


if __name__ == "__main__":
    unittest.main()
