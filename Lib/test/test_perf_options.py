"""How the perf trampoline is switched on from outside: -X perf,
PYTHONPERFSUPPORT, an embedding program; and how the build says that it can be.
"""

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import unittest

from test.support.perf_helper import (EMULATOR, map_path, read_map, remove_map,
                                      requires_trampoline)
from test.support.perf_sys import (PRELUDE, SITE, SysTestCase, TIMEOUT, run,
                                   run_command)

HAVE_TRAMPOLINE = sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") == 1
SHOW_ACTIVE = "print(is_active())"


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
        site = {f"py::main:{SITE}",
                f"py::check_enableusersite:{SITE}"}
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
