"""perfpy run finds the interpreter and the script that a user means."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import sysconfig
import unittest
from test.support.perfpy_case import RecordingTestCase, clean_environment

from perfpy import cli
from perfpy.interpreter import ask

# Distributions' interpreters: of the version, and one without -X perf.
STOCK = "/usr/bin/python%d.%d" % sys.version_info[:2] + sys.abiflags
WITHOUT_PERF = "/usr/bin/python3.11"
SHOW = "print(sys.prefix, sys.executable, sys.flags.dev_mode, sys.argv[1:])"


def options_of(*words):
    options = cli.parse(["run", *words])
    return (options.python_options, options.module, options.code,
            options.command)


class OptionsTest(unittest.TestCase):

    def test_options_of_the_interpreter(self):
        for words, expected in [
            (["a.py", "-x"], ([], False, False, ["a.py", "-x"])),
            (["--", "a.py", "--"], ([], False, False, ["a.py", "--"])),
            (["--", "-W", "error", "-Xdev", "a.py", "-W"],
             (["-W", "error", "-Xdev"], False, False, ["a.py", "-W"])),
            (["--", "-B", "-m", "json.tool", "-h"],
             (["-B"], True, False, ["json.tool", "-h"])),
            (["--", "-c", "pass", "-B"],
             ([], False, True, ["pass", "-B"])),
            (["--", "-I", "-", "x"], (["-I"], False, False, ["-", "x"])),
            (["-m", "json.tool", "-h"],
             ([], True, False, ["json.tool", "-h"])),
        ]:
            with self.subTest(words):
                self.assertEqual(options_of(*words), expected)


class WhichTest(RecordingTestCase):

    def environment(self, python=sys.executable, name="env"):
        """Make a virtual environment, with a command called greet."""
        directory = self.path(name)
        subprocess.run([python, "-m", "venv", "--without-pip", directory],
                       check=True, env=clean_environment())
        self.write_command(f"{name}/bin/greet",
                           f"{directory}/bin/python")
        return directory

    def write_command(self, name, python):
        path = self.write(name, f"#!{python}\nimport sys\n{SHOW}\n"
                          "sum(range(3_000_000))\n")
        os.chmod(path, 0o755)
        return path

    def run_perfpy(self, *words, **variables):
        path = variables.pop("PATH", os.environ["PATH"])
        return self.record(*words, env=clean_environment(PATH=path,
                                                         **variables))

    def test_options_reach_the_interpreter(self):
        script = self.script(SHOW)
        result = self.run_perfpy("--", "-X", "dev", "-W", "error", script,
                                 "-W")
        self.assertTrue(result.stdout.endswith("True ['-W']\n"))
        result = self.perfpy(
            "run", "-o", self.OUTPUT, "--", "-W", "error", "-c",
            "import warnings; warnings.warn('x')", status=1)
        self.assertIn("UserWarning: x", result.stderr)

    def test_active_environment(self):
        directory = self.environment()
        result = self.run_perfpy(self.script(SHOW), VIRTUAL_ENV=directory)
        self.assertTrue(result.stdout.startswith(
            f"{directory} {directory}/bin/python "), result.stdout)
        # Somebody who names an interpreter means it.
        result = self.run_perfpy("--python", sys.executable,
                                 self.script(SHOW), VIRTUAL_ENV=directory)
        self.assertNotIn(directory + " ", result.stdout)

    def test_interpreter_that_names_nothing(self):
        if not os.path.exists(WITHOUT_PERF):
            self.skipTest(f"there is no {WITHOUT_PERF}")
        result = self.run_perfpy("--python", WITHOUT_PERF, "-c",
                                 "sum(range(10**6))")
        self.assertIn(f"{WITHOUT_PERF} has no -X perf, so there are C "
                      "functions only; --python names another",
                      result.stderr)

    def need_stock(self):
        if not os.path.exists(STOCK):
            self.skipTest(f"there is no {STOCK}")

    def test_environment_of_another_interpreter(self):
        self.need_stock()
        directory = self.environment(STOCK)
        result = self.run_perfpy(
            self.script(SHOW + "\ndef inner(): busy()\ninner()"),
            VIRTUAL_ENV=directory)
        self.assertTrue(result.stdout.startswith(
            f"{directory} {directory}/bin/python "), result.stdout)
        self.assertShown(result.profile, "<module>", "inner", "busy")

    def test_console_script(self):
        directory = self.environment()
        path = f"{directory}/bin{os.pathsep}{os.environ['PATH']}"
        # It brings its environment, active or not.
        for variables in {"PATH": path}, {"VIRTUAL_ENV": directory}:
            result = self.run_perfpy("greet", "-x", **variables)
            self.assertEqual(
                result.stdout,
                f"{directory} {directory}/bin/python False ['-x']\n")
            self.assertIn(shlex.quote(f"{directory}/bin/greet"),
                          result.profile.meta["command"])
        # pipx puts links elsewhere.
        os.symlink(f"{directory}/bin/greet", self.path("link"))
        result = self.run_perfpy("./link")
        self.assertTrue(result.stdout.startswith(f"{directory} "))

    def test_script_of_this_directory_comes_first(self):
        self.environment()
        self.script("print('here')", "greet")
        result = self.run_perfpy("greet", VIRTUAL_ENV=self.path("env"))
        self.assertEqual(result.stdout, "here\n")

    def test_shim(self):
        # As pyenv has it: a script for the shell comes first.
        directory = self.environment()
        os.mkdir(self.path("shims"))
        os.chmod(self.write("shims/greet", "#!/bin/sh\nexit 9\n"), 0o755)
        path = os.pathsep.join([self.path("shims"), f"{directory}/bin",
                                os.environ["PATH"]])
        result = self.run_perfpy("greet", PATH=path)
        self.assertTrue(result.stdout.startswith(f"{directory} "))

    def test_environment_whose_library_is_not_for_ours(self):
        # Another build may have in its program what ours has in the library.
        self.need_stock()
        directory = self.environment(STOCK)
        result = self.run_perfpy(
            self.script("import os, ssl, sys; print(os.__file__)"),
            VIRTUAL_ENV=directory)
        self.assertEqual(result.stdout, os.__file__ + "\n")

    def test_environment_of_another_version(self):
        # A program that answers like another version stands for one.
        os.makedirs(self.path("env/bin"))
        self.write("env/pyvenv.cfg", "")
        other = self.write_other_version("env/bin/python")
        environment = {"VIRTUAL_ENV": self.path("env")}
        result = self.perfpy("run", self.script("pass"), status=125,
                             env=clean_environment(**environment))
        self.assertRegex(result.stderr,
                         f"{other} is Python 3.99t, and .* is Python "
                         r"\d\.\d+.*: .*It needs a cpython-perf of Python "
                         "3.99t; --python ")

    def write_other_version(self, name):
        answer = {**ask()._asdict(), "kind": "3.99t", "mapped": []}
        for field in "command", "program", "options":
            del answer[field]
        path = self.write(name, f"#!/bin/sh\ncat <<END\n"
                          f"{json.dumps(answer)}\nEND\n")
        os.chmod(path, 0o755)
        return path

    def test_no_file_of_the_environment_changes(self):
        self.need_stock()
        directory = self.environment(STOCK)
        # That was never imported, as after `uv pip install`.
        packages = sysconfig.get_path("purelib", "venv", {"base": "env"})
        library = self.write(f"{packages}/greeting.py",
                             f"import sys\n{SHOW}\n")
        self.write("env/bin/greet", f"#!{directory}/bin/python\n"
                   "import greeting\nsum(range(3_000_000))\n")
        before = self.contents(directory)
        self.assertIn(library, before)
        result = self.run_perfpy(f"{directory}/bin/greet", "-x")
        self.assertTrue(result.stdout.startswith(f"{directory} "))
        self.assertRegex(result.stderr, "perfpy: running .* as "
                         f"{directory}/bin/python\n")
        self.assertEqual(self.contents(directory), before)

    def contents(self, directory):
        found = {}
        for place, _, files in os.walk(directory):
            for name in files:
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read()).digest()
        return found

    def test_command_that_starts_python(self):
        script = self.script(SHOW + "\ndef inner(): busy()\ninner()")
        path = self.write("start", f"#!/bin/sh\n{sys.executable} {script} "
                          '"$@"\nexit 3\n')
        os.chmod(path, 0o755)
        result = self.record(path, "-x", status=3, env=clean_environment())
        self.assertTrue(result.stdout.endswith(" False ['-x']\n"))
        self.assertShown(result.profile, "<module>", "inner", "busy")
        self.assertIn(f"perfpy: running {path}; ", result.stderr)

    def test_interpreter_by_name(self):
        directory = self.environment()
        script = self.script(SHOW)
        for name in "python", f"{directory}/bin/python3":
            result = self.run_perfpy(
                name, "-X", "dev", script, "-B",
                PATH=f"{directory}/bin{os.pathsep}{os.environ['PATH']}")
            self.assertEqual(result.stdout, f"{directory} {directory}/bin/"
                             f"{os.path.basename(name)} True ['-B']\n")
        result = self.perfpy("run", "python3", status=125)
        self.assertRegex(result.stderr, "what shall .*/python3 run")

    def test_command_that_is_not_there(self):
        result = self.perfpy("run", "./no-such", status=125)
        self.assertIn("there is no script ./no-such", result.stderr)


if __name__ == "__main__":
    unittest.main()
