"""Every call of the perf trampoline to the C library fails once.

A library between the interpreter and the C library
(Modules/_testperf_faults.c) lets single calls fail and tells which calls there
were.  A program that uses the whole feature is run without a fault, and then
once and again with each of its calls failing; where that leads to calls not
seen before, these are failed, too.

Each run has to print what the program prints without profiling, to say what is
missing in its files, to leave files that can be read, and to end well; once
the faults have stopped, activation has to make the files complete.

PERF_TEST_FAULTS=script in the environment runs that script of faults only.
"""

import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import unittest
from test import support
from test.support import perf_jitdump
from test.support.perf_helper import (map_path, parse_map, remove_map,
                                      requires_trampoline,
                                      skip_module_if_emulated)

skip_module_if_emulated("its own calls would fail")

import _testperf

BUILD = pathlib.Path(sys.executable).parent
LIBRARY = pathlib.Path(_testperf.__file__).with_name("testperf_faults.so")

# Our object files; the hash table allocates on our behalf.
OBJECTS = {
    "perf_process": "Python", "perf_file": "Python", "perf_map": "Python",
    "perf_jitdump": "Python", "perf_labels": "Python",
    "perf_lines": "Python", "perf_tasks": "Python",
    "perf_trampoline": "Python", "perf_sys": "Python", "perf_hook": "Python",
    "codesymbol": "Objects", "hashtable": "Python",
}

# The letters of Modules/_testperf_faults.c.
LETTERS = {
    "mmap": "M", "munmap": "U", "read": "r", "pread": "R", "fstat": "s",
    "lstat": "l", "ftruncate": "t", "lseek": "k", "unlink": "u",
    "fchmod": "h", "getrlimit": "g", "clock_gettime": "T",
    "dl_iterate_phdr": "i", "open": "o", "fcntl": "d", "close": "x",
    "write": "wpeb", "malloc": "m", "calloc": "c", "realloc": "q",
    "flock": "f", "madvise": "a", "getrandom": "n", "statx": "X", "poll": "P",
    "pthread_getattr_np": "G", "pthread_attr_getstack": "S",
}
CANNOT_FAIL = {
    "free", "getenv", "geteuid", "getpid", "syscall",   # syscall: gettid()
    "memchr", "memcmp", "memcpy", "memset", "strchr", "strcmp", "strcpy",
    "strlen", "strncmp", "strrchr", "strspn", "strtoull", "strtoul",
    "strerror",
    "wcscmp", "wcscspn", "wcslen", "wcsncmp", "sprintf", "snprintf",
    "__errno_location", "abort", "__assert_fail",
    "sysconf",                                  # of constants of the system
    "pthread_mutex_lock", "pthread_mutex_unlock",       # of the default kind
    "pthread_self", "pthread_attr_destroy",
    "pthread_sigmask", "sigaddset", "sigemptyset",      # of signals that exist
    "sigismember", "sigpending", "sigtimedwait",
    "_GLOBAL_OFFSET_TABLE_", "__ehdr_start",
}
# Through a pointer, so that the object file does not name it.
CALLED_BY_POINTER = {("hashtable", "malloc")}

# Faults that lose nothing: neither a warning nor an exception need follow.
HARMLESS = set("hkgxUebfanXPGS")
# Without these, standard error is not recognised, and gets no warning.
NEEDED_TO_WARN = set("sXP")

PROGRAM = """\
import json, os, sys
sys.path.insert(0, {ext!r})
import _testperf
BACK_END, way = sys.argv[1:3]
OTHER = {{"perf": "perf_jit", "perf_jit": "perf"}}[BACK_END]
PATH = {{"perf": f"/tmp/perf-{{os.getpid()}}.map",
        "perf_jit": f"{{os.environ['JITDUMPDIR']}}/jit-{{os.getpid()}}.dump"}}
errors, called = [], []

def template():
    return "value"

def make(name):
    code = template.__code__.replace(co_qualname=name, co_filename="made")
    return type(make)(code, {{}})

def attempt(function, *args, **kwargs):
    if way != "off":
        try:
            function(*args, **kwargs)
        except (OSError, MemoryError) as error:
            errors.append(repr(error))

def activate(back_end=BACK_END):
    attempt(sys.activate_stack_trampoline, back_end, lines=way == "sys")

class Task:
    pass

def steps():
    yield

def work(phase):
    for kind in "plain", "as_key", "long" + 40_000 * "g":
        name = f"{{phase}}_{{kind}}"
        function = make(name)
        if kind == "as_key":
            print(sorted([name], key=lambda name: function()))
        else:
            print(name[:20], function())
        if sys.is_stack_trampoline_active():
            called.append(f"py::{{name}}:made")
    task = Task()
    task._name, task._coro = phase, steps()
    _testperf.step(task)
    if sys.is_stack_trampoline_active():
        called.append(f"py::<task>:{{phase}}")
    try:
        [].pop(sum(number for number in range(3)))
    except IndexError as error:
        print(phase, error)
    sys.stdout.flush()

def missing():
    '''Return the functions that the file of the back end does not name.'''
    try:
        with open(PATH[BACK_END], "rb") as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    return [symbol[:30] for symbol in called if symbol.encode() not in data]

def leave_stale_files():
    for path in PATH.values():
        with open(path, "w"):
            pass
        os.utime(path, (1, 1))

if way == "sys":
    leave_stale_files()
    activate()
work("first")
pid = os.fork()
if pid == 0:
    work("child")
    _testperf.after_fork_child()
    work("told twice")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
os.closerange(3, 200)
work("closed")
sys.deactivate_stack_trampoline()
work("off")
activate()
work("on")
activate(OTHER)
work("other")
activate()
work("back")
lost = missing()
attempt(_testperf.write_perf_map_entry, 16, 16, "short")
attempt(_testperf.write_perf_map_entry, 32, 16, 600 * "n")
attempt(_testperf.copy_perf_map_file, sys.argv[3] + "/other.map")
sys.deactivate_stack_trampoline()
_testperf.install_evaluator()
activate()
make("evaluated")()
sys.deactivate_stack_trampoline()
_testperf.remove_evaluator()
activate()

_testperf.stop_faults()
sys.deactivate_stack_trampoline()
activate()
work("again")
with open("/proc/self/maps") as maps:
    arenas = sum(" ---p " in line for line in maps)
with open(sys.argv[3] + "/report", "w") as file:
    json.dump({{"errors": errors, "lost": lost, "child": pid,
               "missing_at_end": missing() if way != "off" else [],
               "active": sys.is_stack_trampoline_active(),
               "descriptors": [os.readlink(f"/proc/self/fd/{{fd}}")
                               for fd in os.listdir("/proc/self/fd")
                               if os.path.exists(f"/proc/self/fd/{{fd}}")]}},
              file)
"""

WARNING = re.compile(r"python: (-X perf(_jit)? has no effect|profilers will "
                     r"not know some functions by name): .*")


@dataclasses.dataclass(frozen=True)
class Call:
    letter: str
    number: int
    function: str
    object: str
    site: str
    failed: bool


@dataclasses.dataclass
class Run:
    script: tuple           # of letters with numbers
    process: object
    out: str
    err: str
    calls: list
    report: dict
    files: list             # (path, contents)


def symbols_of(path, *options):
    return subprocess.run(["nm", *options, path], stdout=subprocess.PIPE,
                          text=True, check=True).stdout.splitlines()


def name_in_source(name):
    """Return that of a function for large files, or for what glibc 2.38 and
    later take for C23."""
    return name.removeprefix("__isoc23_").removesuffix("64")


class Interpreter:
    """Where our object files are in the interpreter, and what they call."""

    def __init__(self):
        if not sysconfig.is_python_build():
            raise unittest.SkipTest("needs the object files of the build")
        for program in "nm", "readelf":
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"needs {program}, of binutils")
        self.objects = {name: BUILD / directory / f"{name}.o"
                        for name, directory in OBJECTS.items()}
        library = sysconfig.get_config_var("INSTSONAME")
        self.path = BUILD / library if library.endswith(".so.1.0") else (
            pathlib.Path(sys.executable))

    def called_functions(self):
        """Return {(object, function)} of all but the interpreter's own."""
        own = {line.split()[-1]
               for line in symbols_of(self.path, "--defined-only")}
        return {(name, name_in_source(line.split()[-1]))
                for name, path in self.objects.items()
                for line in symbols_of(path, "-u")
                if line.split()[-1] not in own}

    def code(self):
        """Return lines "START END OBJECT"."""
        object_of_global = {
            line.split()[-1]: name for name, path in self.objects.items()
            for line in symbols_of(path, "--defined-only", "--extern-only")}
        table = subprocess.run(["readelf", "-sW", self.path], text=True,
                               stdout=subprocess.PIPE, check=True).stdout
        lines, of_file, source = [], collections.Counter(), None
        table = table.partition("'.symtab'")[2]
        for line in table.splitlines():
            fields = line.split()
            if len(fields) < 8 or fields[3] not in ("FILE", "FUNC"):
                continue
            _, start, size, kind, binding, *_, name = fields
            if kind == "FILE":
                source = name.removesuffix(".c")
                continue
            # The linker makes a local symbol of a hidden one.
            object_name = object_of_global.get(
                name, source if binding == "LOCAL" else None)
            if object_name in OBJECTS:
                start, size = int(start, 16), int(size, 0)
                lines.append(f"{start:x} {start + size:x} {object_name}\n")
                of_file[object_name] += 1
        if set(of_file) != set(OBJECTS):
            raise unittest.SkipTest(
                "the interpreter's symbols do not tell which code comes from "
                f"{set(OBJECTS) - set(of_file)}: linked with -flto?")
        return "".join(lines)


@requires_trampoline
class FaultTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        if support.check_sanitizer(address=True, memory=True, ub=True):
            raise unittest.SkipTest("a sanitizer's library comes first")
        cls.interpreter = Interpreter()
        cls.directory = tempfile.mkdtemp(prefix="test_perf_faults-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        directory = pathlib.Path(cls.directory)
        cls.code = directory / "code"
        cls.code.write_text(cls.interpreter.code())
        (directory / "other.map").write_text("1000 10 of another\n")
        cls.program = directory / "program.py"
        cls.program.write_text(PROGRAM.format(ext=str(LIBRARY.parent)))

    def run_program(self, back_end, way, script=()):
        directory = tempfile.mkdtemp(dir=self.directory)
        trace = os.path.join(directory, "trace")
        shutil.copy(os.path.join(self.directory, "other.map"), directory)
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("PYTHON")}
        env |= {"JITDUMPDIR": directory, "PYTHONHASHSEED": "0",
                "PERF_TEST_FAULTS": ",".join(script)}
        if way != "off":
            env |= {"LD_PRELOAD": str(LIBRARY),
                    "PERF_TEST_FAULTS_CODE": str(self.code),
                    "PERF_TEST_FAULTS_TRACE": trace}
        options = ["-X", back_end] if way == "option" else []
        err = open(os.path.join(directory, "err"), "w+")
        with subprocess.Popen(
                [sys.executable, "-S", "-s", "-W", "ignore", *options,
                 self.program, back_end, way, directory],
                env=env, text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=err,
                preexec_fn=lambda: remove_map(os.getpid())) as process:
            try:
                out, _ = process.communicate(timeout=support.SHORT_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                self.fail(f"{script} {way}: hangs")
        with err:
            err.seek(0)
            err = err.read()
        return self.result(script, process, out, err, directory)

    def result(self, script, process, out, err, directory):
        calls, report, files = [], {}, []
        path = os.path.join(directory, "trace")
        if os.path.exists(path):
            with open(path) as file:
                for line in file:
                    letter, number, *names, failed = line.split()
                    calls.append(Call(letter, int(number), *names,
                                      failed == "1"))
        path = os.path.join(directory, "report")
        if os.path.exists(path):
            with open(path) as file:
                report = json.load(file)
        for pid in process.pid, report.get("child"):
            for path in map_path(pid), f"{directory}/jit-{pid}.dump":
                if os.path.exists(path):
                    files.append((path, pathlib.Path(path).read_bytes()))
            remove_map(pid)
        shutil.rmtree(directory)
        return Run(script, process, out, err, calls, report, files)

    # --- What has to hold of a run -------------------------------------------

    def check(self, run, expected_out, descriptors):
        about = f"PERF_TEST_FAULTS={','.join(run.script)}: {run.err}"
        self.assertEqual(run.process.returncode, 0, about)
        self.assertEqual(run.out, expected_out, about)
        for line in run.err.splitlines():
            self.assertRegex(line, WARNING, about)
        report = run.report
        if len(run.script) == 1 and not run.script[0].endswith("*"):
            # The child has the fault of that number, too.
            of_child = run.err.count(f"-{report['child']}.")
            of_parent = run.err.count("\n") - of_child
            self.assertLessEqual(of_child, 1, about)
            self.assertLessEqual(of_parent + len(report["errors"]), 1,
                                 f"{about}{report}")
        if report["lost"] and (
                len(run.script) == 1
                or NEEDED_TO_WARN.isdisjoint(f[0] for f in run.script)):
            self.assertTrue(run.err or report["errors"], f"{about}{report}")
        if {fault[0] for fault in run.script} <= HARMLESS:
            self.assertEqual((run.err, report["errors"], report["lost"]),
                             ("", [], []), about)
        self.assertTrue(report["active"], about)
        # One that cannot be recognised is left alone, on closing it and on
        # switching.
        unknown = 2 * any(fault[0] in "sd" for fault in run.script)
        self.assertLessEqual(len(report["descriptors"]), descriptors + unknown,
                             f"{about}{report}")
        # A function that got no symbol for lack of memory gets none later.
        if not any(fault[0] == "m" for fault in run.script):
            self.assertEqual(report["missing_at_end"], [], f"{about}{report}")
        for path, data in run.files:
            self.check_file(path, data, about)

    def check_file(self, path, data, about):
        if path.endswith(".map"):
            for start, size, name in parse_map(data.decode()):
                self.assertTrue(name, about)
            self.assertTrue(data.endswith(b"\n") or not data, about)
        elif data:
            try:
                perf_jitdump.Jitdump(data)
            except perf_jitdump.JitdumpError as error:
                self.fail(f"{about}{error}")

    # --- All runs ------------------------------------------------------------

    def scripts_for(self, run, tried):
        """Yield scripts that add to run's a fault at each call that has not
        been tried: at its first, and with time at its last and one between."""
        of_site = collections.defaultdict(list)
        for call in run.calls:
            of_site[call.letter, call.site].append(call.number)
        for (letter, site), numbers in of_site.items():
            chosen = [numbers[0]]
            if support.is_resource_enabled("cpu"):
                chosen += [numbers[len(numbers) // 2], numbers[-1]]
            if (letter, site) not in tried:
                tried.add((letter, site))
                for number in dict.fromkeys(chosen):
                    yield (*run.script, f"{letter}{number}")

    def check_all(self, back_end, way):
        plain = self.run_program(back_end, "off")
        self.assertEqual((plain.process.returncode, plain.err), (0, ""))
        good = self.run_program(back_end, way)
        descriptors = len(good.report["descriptors"])
        self.check(good, plain.out, descriptors)
        self.assertEqual((good.err, good.report["errors"],
                          good.report["lost"]), ("", [], []))
        tried, failed, runs = set(), set(), 1
        todo = [*self.scripts_for(good, tried),
                *((letter + "*",) for letter in
                  "MUrRsltkuhgTiodxwpbmcqfanXP")]
        if given := os.environ.get("PERF_TEST_FAULTS"):
            todo = [tuple(given.split(","))]
        while todo:
            script = todo.pop(0)
            with self.subTest(back_end=back_end, way=way,
                              script=",".join(script)):
                run = self.run_program(back_end, way, script)
                runs += 1
                if given:
                    print(run)
                self.check(run, plain.out, descriptors)
            failed |= {(call.object, call.function)
                       for call in run.calls if call.failed}
            if not given and not script[0].endswith("*"):
                todo += self.scripts_for(run, tried)
        if support.verbose:
            print(f"{back_end}, {way}: {runs} runs, {len(tried)} kinds of "
                  "faults")
        return failed

    def test_all(self):
        failed = set()
        for back_end in "perf", "perf_jit":
            for way in "option", "sys":
                failed |= self.check_all(back_end, way)
        called = CALLED_BY_POINTER | {
            (name, function)
            for name, function in self.interpreter.called_functions()
            if function in LETTERS}
        if "PERF_TEST_FAULTS" not in os.environ:
            self.assertEqual(called - failed, set(),
                             "calls that no run has failed")

    def test_swapped_between_calls(self):
        # A file of ours with two names is refused.  Here a stranger has put it
        # in the place of an empty one that was looked at before, and takes the
        # second name away when it is open.
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            victim = os.path.join(directory, "victim")
            path = f"{directory}/jit-$PPID.dump"
            program = textwrap.dedent(f"""
                import os, sys
                open(f"{directory}/jit-{{os.getpid()}}.dump", "w").close()
                with open({victim!r}, "w") as file:
                    file.write("precious")
                sys.activate_stack_trampoline("perf_jit")
            """)
            env = {"PATH": os.environ["PATH"], "JITDUMPDIR": directory,
                   "LD_PRELOAD": str(LIBRARY),
                   "PERF_TEST_FAULTS_CODE": str(self.code),
                   "PERF_TEST_FAULTS_TRACE": f"{directory}/trace",
                   # open(): "/", O_EXCL, /proc/self/stat, this
                   "PERF_TEST_BEFORE_o4": f"ln -f {victim} {path}",
                   # fstat(): of standard error, of this
                   "PERF_TEST_BEFORE_s2": f"rm {path}"}
            subprocess.run([sys.executable, "-c", program], env=env,
                           check=True, timeout=support.SHORT_TIMEOUT)
            trace = pathlib.Path(directory, "trace").read_text()
            functions = [line.split()[2] for line in trace.splitlines()]
            start = functions.index("lstat")
            self.assertEqual(functions[start - 1:start + 11], [
                "open", "lstat", "open", "read", "close", "clock_gettime",
                "clock_gettime", "open", "flock", "flock", "fstat", "close"])
            self.assertEqual(pathlib.Path(victim).read_text(), "precious")

    def test_all_calls_are_known(self):
        unknown = {(name, function)
                   for name, function in self.interpreter.called_functions()
                   if function not in LETTERS and function not in CANNOT_FAIL}
        self.assertEqual(unknown, set(), "give them a letter in "
                         "Modules/_testperf_faults.c, or say that they cannot "
                         "fail")


if __name__ == "__main__":
    unittest.main()
