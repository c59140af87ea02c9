"""The perf map file, /tmp/perf-PID.map: its form, and what may be in its way.

Every program runs in a process of its own.  Where something must stand at the
map's path before the program starts, a launcher puts it there and then becomes
the program: exec keeps the pid and the time at which the process started.
"""

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from test import support
from test.support.perf_helper import (map_path, not_emulated,
                                      requires_trampoline)

LINE = re.compile(rb"([0-9a-f]+) ([0-9a-f]+) (\S.*)")
IN_THE_WAY = ", ".join(errno.errorcode[number] for number in (
    errno.EEXIST, errno.ELOOP, errno.EISDIR))
TIMEOUT = support.SHORT_TIMEOUT

# What programs and launchers below may use.
PRELUDE = """\
import errno, os, sys
MAP = f"/tmp/perf-{os.getpid()}.map"

def make_function(name, filename="made.py"):
    code = (lambda: None).__code__
    code = code.replace(co_name=name, co_qualname=name, co_filename=filename)
    return type(make_function)(code, {})
"""


class Result:
    """What a program wrote, and the map that it left."""

    def __init__(self, process, stdout, stderr, data):
        self.pid = process.pid
        self.returncode = process.returncode
        self.stdout = stdout.decode()
        self.stderr = stderr.decode()
        self.map = data                 # None: there is no file

    @property
    def lines(self):
        return self.map.splitlines()

    @property
    def names(self):
        """Symbols in the order of the file, b"py::" left out."""
        return [LINE.fullmatch(line)[3].removeprefix(b"py::")
                for line in self.map.removesuffix(b"\n").split(b"\n")]


def remove(path):
    """Remove whatever stands at path."""
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def run(program, *options, before=None, wrapper=(), read=True,
        prelude=PRELUDE):
    """Run program; before is Python code for the launcher, which has PRELUDE.

    wrapper is a command that ends by running the command that follows it.
    """
    # A debug build shows warnings that others ignore.
    command = [sys.executable, "-I", "-W", "ignore", *options, "-c",
               prelude + textwrap.dedent(program)]
    if before is not None:
        launcher = (f"{PRELUDE}{textwrap.dedent(before)}\n"
                    f"os.execv(sys.executable, {command!r})\n")
        command = [sys.executable, "-I", "-W", "ignore", "-c", launcher]
    # Another process with this pid may have left its map.
    with subprocess.Popen([*wrapper, *command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE,
                          preexec_fn=lambda: remove(map_path(os.getpid()))
                          ) as process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            data = None
            path = map_path(process.pid)
            if read and os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
            remove(path)
    return Result(process, stdout, stderr, data)


class MapTestCase(unittest.TestCase):

    def run_well(self, program, *options, **kwargs):
        result = run(program, *options, **kwargs)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result

    def assert_whole_lines(self, data):
        """Return [(start, size)] of the lines."""
        self.assertTrue(data.endswith(b"\n"), data[-200:])
        ranges = []
        for line in data.removesuffix(b"\n").split(b"\n"):
            match = LINE.fullmatch(line)
            self.assertIsNotNone(match, line)
            ranges.append((int(match[1], 16), int(match[2], 16)))
        return ranges

    def assert_one_warning(self, result):
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, r"\Apython: ")
        self.assertIn(map_path(result.pid), result.stderr)


@requires_trampoline
class FormTest(MapTestCase):

    def test_lines(self):
        result = self.run_well("""
            import argparse, json
            json.loads("[1]")
        """, "-X", "perf")
        ranges = sorted(self.assert_whole_lines(result.map))
        self.assertGreater(len(ranges), 50)
        for (start, size), (next_start, _) in zip(ranges, ranges[1:]):
            self.assertGreater(size, 0)
            self.assertLessEqual(start + size, next_start)
        self.assertEqual(len(set(result.names)), len(result.names))
        self.assertTrue(any(name.startswith(b"loads:")
                            for name in result.names))

    def test_one_line_per_symbol(self):
        result = self.run_well("""
            for _ in range(5000):
                make_function("again")()
                exec("def f(): pass\\nf()")
        """, "-X", "perf")
        self.assertEqual(result.names.count(b"again:made.py"), 1)
        self.assertEqual(result.names.count(b"f:<string>"), 1)

    def test_line_is_there_when_function_runs(self):
        self.run_well("""
            def first_call():
                with open(MAP) as file:
                    assert f" py::first_call:{__name__}" not in file.read()
                    file.seek(0)
                    assert " py::first_call:<string>\\n" in file.read()
            first_call()
        """, "-X", "perf")

    def test_file(self):
        result = self.run_well("""
            import stat
            os.umask(0)
            sys.activate_stack_trampoline("perf")
            status = os.stat(MAP)
            assert stat.S_ISREG(status.st_mode)
            assert stat.S_IMODE(status.st_mode) == 0o600, oct(status.st_mode)
            assert status.st_uid == os.geteuid()
            assert status.st_nlink == 1
        """)
        self.assertIn(b"<unknown>", result.names)

    def test_nobody_inherits_the_descriptor(self):
        result = self.run_well("""
            import subprocess
            mine = {os.readlink(f"/proc/self/fd/{fd}"): int(fd)
                    for fd in os.listdir("/proc/self/fd")
                    if os.path.exists(f"/proc/self/fd/{fd}")}
            assert MAP in mine, mine
            assert not os.get_inheritable(mine[MAP])
            assert mine[MAP] > 2
            subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False,
                           check=True)
        """, "-X", "perf")
        self.assertIn(" -> ", result.stdout)
        self.assertNotIn("perf-", result.stdout)

    def test_low_descriptors_stay_free(self):
        plain = self.run_well("print(os.open('/', os.O_RDONLY))")
        perf = self.run_well("print(os.open('/', os.O_RDONLY))", "-X", "perf")
        self.assertEqual(perf.stdout, plain.stdout)

    def test_nothing_without_the_option(self):
        self.assertIsNone(self.run_well("make_function('f')()").map)


@requires_trampoline
class NameTest(MapTestCase):
    """Names that could break the line, the encoding or a buffer."""

    ESCAPED = {
        "newline": ("a\nb", rb"a\x0ab"),
        "carriage return": ("a\rb", rb"a\x0db"),
        "null": ("a\0b", rb"a\x00b"),
        "tab": ("a\tb", rb"a\x09b"),
        "vertical tab, form feed": ("\v\f", rb"\x0b\x0c"),
        "escape": ("\x1b[31m", rb"\x1b[31m"),
        "delete": ("a\x7fb", rb"a\x7fb"),
        "next line": ("a\x85b", rb"a\x85b"),
        "first and last C1 control": ("\x80\x9f", rb"\x80\x9f"),
        "line separator": ("a\u2028b", rb"a\u2028b"),
        "paragraph separator": ("a\u2029b", rb"a\u2029b"),
        "lone surrogates": ("\ud800\udfff", rb"\ud800\udfff"),
        "undecodable byte": (os.fsdecode(b"\xff") or "\udcff", rb"\udcff"),
        "surrogates among astral": ("\U0001f40d\ud83d",
                                    "\U0001f40d".encode() + rb"\ud83d"),
    }
    KEPT = {
        "space": "a b", "backslashes": r"a\nb\\", "percent": "%s%n",
        "quotes": "'\"", "last of latin-1, first after C1": "\xff\xa0",
        "two bytes": "\u07ff", "three bytes": "\u0800\uffff\u20ac",
        "astral": "\U00010000\U0010ffff\U0001f40d",
        "right to left": "\u202e\u200fabc", "byte order mark": "\ufeffa",
        "empty": "", "colon": "a:b::c", "angle brackets": "<lambda>",
    }

    @classmethod
    def setUpClass(cls):
        cls.expected = {what: (name, escaped)
                        for what, (name, escaped) in cls.ESCAPED.items()}
        cls.expected |= {what: (name, name.encode())
                         for what, name in cls.KEPT.items()}

    def check(self, result, expected):
        self.assert_whole_lines(result.map)
        text = result.map.decode()      # valid UTF-8
        self.assertEqual(len(text.splitlines()), text.count("\n"))
        names = result.names
        for what, symbol in expected.items():
            with self.subTest(what):
                self.assertEqual(names.count(symbol), 1, symbol)

    def test_names(self):
        names = [name for name, _ in self.expected.values()]
        result = self.run_well(f"""
            for name in {names!a}:
                make_function(name, "file")()
        """, "-X", "perf")
        self.check(result, {what: escaped + b":file" for what, (_, escaped)
                            in self.expected.items()})

    def test_file_names(self):
        names = [name for name, _ in self.expected.values()]
        result = self.run_well(f"""
            for name in {names!a}:
                make_function("f", name)()
        """, "-X", "perf")
        self.check(result, {what: b"f:" + escaped for what, (_, escaped)
                            in self.expected.items()})

    def test_each_byte_length_around_buffer_sizes(self):
        # 512 bytes on the stack for a symbol and for a line.
        result = self.run_well("""
            for length in range(440, 530):
                make_function("n" * length)()
                make_function("\\u20ac" * (length // 3) + "n" * (length % 3))()
        """, "-X", "perf")
        expected = {}
        for length in range(440, 530):
            name = "\u20ac" * (length // 3) + "n" * (length % 3)
            expected[length, "ascii"] = b"n" * length + b":made.py"
            expected[length, "euro"] = name.encode() + b":made.py"
        self.check(result, expected)

    def test_long_names(self):
        # Held at start-up or written at once: longer than either buffer.
        result = self.run_well("""
            make_function("a" * 65536, "b" * 65536)()
            make_function("\\n" * 65536)()
            make_function("\\U0001f40d" * 65536)()
        """, "-X", "perf")
        self.check(result, {
            "ascii": b"a" * 65536 + b":" + b"b" * 65536,
            "escapes": rb"\x0a" * 65536 + b":made.py",
            "astral": "\U0001f40d".encode() * 65536 + b":made.py",
        })

    def test_different_names_that_look_alike(self):
        # The escaped text is the symbol: both have the one line.
        result = self.run_well(r"""
            make_function("same\n")()
            make_function("same\\x0a")()
        """, "-X", "perf")
        self.check(result, {"same": rb"same\x0a:made.py"})

    def test_real_file_with_undecodable_name(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(os.fsencode(directory), b"line\nend\xff.py")
            with open(path, "wb") as file:
                file.write(b"def f(): pass\nf()\n")
            program = """
                import runpy
                runpy.run_path(os.fsdecode(%r))
            """ % path
            result = self.run_well(program, "-X", "perf", "-X", "utf8")
            name = os.fsencode(directory) + rb"/line\x0aend\udcff.py"
        self.check(result, {"function": b"f:" + name,
                            "module": b"<module>:" + name})


@requires_trampoline
class ExistingFileTest(MapTestCase):
    """Something stands at the map's path when the program starts."""

    ACTIVATE = """
        try:
            sys.activate_stack_trampoline("perf")
        except OSError as error:
            assert error.filename == MAP, error.filename
            print(errno.errorcode[error.errno])
        assert not sys.is_stack_trampoline_active()
    """
    CHECK_OFF = """
        def ordinary(): return "runs"
        print(ordinary(), sys.is_stack_trampoline_active())
    """

    def test_file_of_earlier_process_is_replaced(self):
        for age in (1, 3600, 10 ** 8):
            with self.subTest(age=age):
                result = self.run_well("make_function('new')()", "-X", "perf",
                                       before=f"""
                    import time
                    with open(MAP, "w") as file:
                        file.write("1000 10 stale\\n")
                    os.chmod(MAP, 0o644)
                    then = time.time() - {age}
                    os.utime(MAP, (then, then))
                """)
                self.assertNotIn(b"stale", result.names)
                self.assertIn(b"new:made.py", result.names)
                self.assertTrue(self.assert_whole_lines(result.map))

    def test_own_file_that_looks_old(self):
        # As after the clock has been set.
        result = self.run_well("""
            import ctypes
            make_function("early")()
            os.utime(MAP, (1, 1))
            ctypes.pythonapi.PyUnstable_PerfMapState_Fini()
            make_function("late")()
        """, "-X", "perf")
        self.assertIn(b"early:made.py", result.names)
        self.assertIn(b"late:made.py", result.names)

    def test_mode_of_replaced_file(self):
        self.run_well("""
            import stat
            assert stat.S_IMODE(os.stat(MAP).st_mode) == 0o600
        """, "-X", "perf", before="""
            open(MAP, "w").close()
            os.chmod(MAP, 0o666)
            os.utime(MAP, (1, 1))
        """)

    @not_emulated("each emulator of a process passes for a new process")
    def test_file_of_this_process_is_appended_to(self):
        result = self.run_well("make_function('new')()", "-X", "perf",
                               before="""
            with open(MAP, "w") as file:
                file.write("1000 10 compiled by another\\n")
        """)
        self.assertEqual(result.names[0], b"compiled by another")
        self.assertIn(b"new:made.py", result.names)

    def test_file_made_while_off_is_appended_to(self):
        result = self.run_well("""
            import time
            time.sleep(0.1)
            with open(MAP, "w") as file:
                file.write("1000 10 compiled by another\\n")
            sys.activate_stack_trampoline("perf")
            make_function("new")()
        """)
        self.assertEqual(result.names[0], b"compiled by another")
        self.assertIn(b"new:made.py", result.names)

    def check_obstacle(self, obstacle, check="", needs_root=False):
        """obstacle makes it; check, run at the end, is about what it left."""
        if needs_root and os.geteuid() != 0:
            self.skipTest("only root can make this")
        check = textwrap.dedent(check)
        for age in ("pass", "os.utime(MAP, (1, 1), follow_symlinks=False)"):
            before = textwrap.dedent(obstacle) + "\n" + age
            with self.subTest(age=age, way="-X"):
                program = textwrap.dedent(self.CHECK_OFF) + check
                result = run(program, "-X", "perf", before=before)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout, "runs False\n")
                self.assert_one_warning(result)
                self.assertIn("-X perf has no effect", result.stderr)
            with self.subTest(age=age, way="sys"):
                program = textwrap.dedent(self.ACTIVATE) + check
                result = self.run_well(program, before=before)
                self.assertIn(result.stdout.strip(), IN_THE_WAY)
                self.assertTrue(result.stdout.strip())

    def test_symbolic_link(self):
        self.addCleanup(remove, "target")
        self.check_obstacle("""
            with open("target", "w") as file:
                file.write("precious")
            os.symlink(os.path.abspath("target"), MAP)
        """, """
            assert os.path.islink(MAP)
            assert open("target").read() == "precious"
        """)

    def test_dangling_symbolic_link(self):
        self.check_obstacle("""
            os.symlink(os.path.abspath("nowhere"), MAP)
        """, """
            assert not os.path.exists("nowhere")
        """)

    def test_hard_link(self):
        # On the file system of /tmp, which need not be the one of the test.
        self.check_obstacle("""
            with open(MAP + ".target", "w") as file:
                file.write("precious")
            os.link(MAP + ".target", MAP)
        """, """
            content = open(MAP + ".target").read()
            os.unlink(MAP + ".target")
            assert content == "precious", content
        """)

    def test_directory(self):
        self.check_obstacle("os.mkdir(MAP)", "assert os.path.isdir(MAP)")

    def test_fifo(self):
        self.check_obstacle("os.mkfifo(MAP)", """
            import stat
            assert stat.S_ISFIFO(os.lstat(MAP).st_mode)
        """)

    def test_fifo_with_reader(self):
        self.check_obstacle("""
            os.mkfifo(MAP)
            reader = os.open(MAP, os.O_RDONLY | os.O_NONBLOCK)
            os.dup2(reader, 50, inheritable=True)
        """, """
            assert os.read(50, 1) == b""
        """)

    def test_socket(self):
        self.check_obstacle("""
            import socket
            socket.socket(socket.AF_UNIX).bind(MAP)
        """)

    def test_device(self):
        self.check_obstacle("""
            import stat
            os.mknod(MAP, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        """, needs_root=True)

    def test_file_of_other_user(self):
        self.check_obstacle("""
            with open(MAP, "w") as file:
                file.write("precious")
            os.chown(MAP, 65534, 65534)
        """, """
            assert open(MAP).read() == "precious"
        """, needs_root=True)

    def test_unwritable_directory(self):
        # Someone without write permission for an own file: root has it always.
        if os.geteuid() == 0:
            self.skipTest("root may write to every file")
        result = run(self.CHECK_OFF, "-X", "perf", before="""
            open(MAP, "w").close()
            os.chmod(MAP, 0o400)
        """)
        self.assertEqual(result.stdout, "runs False\n")
        self.assert_one_warning(result)

    def test_activation_succeeds_once_the_way_is_clear(self):
        result = self.run_well("""
            os.mkdir(MAP)
            for _ in range(3):
                try:
                    sys.activate_stack_trampoline("perf")
                except OSError:
                    pass
                assert not sys.is_stack_trampoline_active()
            os.rmdir(MAP)
            sys.activate_stack_trampoline("perf")
            assert sys.is_stack_trampoline_active()
            make_function("late")()
        """)
        self.assertIn(b"late:made.py", result.names)


@requires_trampoline
class DescriptorTest(MapTestCase):
    """Programs that close descriptors they do not know."""

    def test_closed(self):
        result = self.run_well("""
            make_function("one")()
            os.closerange(3, 4096)
            make_function("two")()
        """, "-X", "perf")
        self.assertIn(b"one:made.py", result.names)
        self.assertIn(b"two:made.py", result.names)

    def test_number_reused(self):
        result = self.run_well("""
            import fcntl, tempfile
            make_function("one")()
            number = next(int(fd) for fd in os.listdir("/proc/self/fd")
                          if os.path.exists(f"/proc/self/fd/{fd}")
                          and os.readlink(f"/proc/self/fd/{fd}") == MAP)
            os.closerange(3, 4096)
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), number)
                make_function("two")()
                make_function("three")()
                assert os.fstat(number).st_size == 0
                assert os.lseek(number, 0, os.SEEK_CUR) == 0
            # Deactivation does not close it either.
            sys.deactivate_stack_trampoline()
            os.fstat(number)
        """, "-X", "perf")
        for name in b"one:made.py", b"two:made.py", b"three:made.py":
            self.assertEqual(result.names.count(name), 1)

    def test_number_reused_for_a_pipe_at_exit(self):
        self.run_well("""
            number = next(int(fd) for fd in os.listdir("/proc/self/fd")
                          if os.path.exists(f"/proc/self/fd/{fd}")
                          and os.readlink(f"/proc/self/fd/{fd}") == MAP)
            reader, writer = os.pipe()
            os.dup2(writer, number)
            os.close(writer)
            os.set_blocking(reader, False)
            class AtEnd:
                def __del__(self, read=os.read, reader=reader):
                    try:
                        assert False, read(reader, 100)
                    except BlockingIOError:
                        pass
            sys.at_end = AtEnd()
        """, "-X", "perf")

    def test_file_removed(self):
        # By someone who tidies /tmp: nothing to be done, and no error.
        self.run_well("""
            os.unlink(MAP)
            make_function("unheard")()
        """, "-X", "perf")

    def test_few_descriptors(self):
        # No number as high as the map would like.
        result = self.run_well("make_function('f')()", "-X", "perf", before="""
            import resource
            resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
        """)
        self.assertIn(b"f:made.py", result.names)

    def test_no_descriptors_left(self):
        result = self.run_well("""
            import resource
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
            try:
                sys.activate_stack_trampoline("perf")
            except OSError as error:
                print(errno.errorcode[error.errno], error.filename == MAP)
            print(sys.is_stack_trampoline_active())
        """)
        self.assertEqual(result.stdout, "EMFILE True\nFalse\n")


def mount_command(options):
    """A wrapper that runs a command with an own /tmp, or a reason why not."""
    if os.path.realpath(sys.executable).startswith("/tmp/"):
        return None, "the interpreter lies in /tmp"
    if shutil.which("unshare") is None:
        return None, "needs unshare(1)"
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    wrapper = [*unshare, "sh", "-c", f'mount {options} && exec "$@"', "sh"]
    probe = subprocess.run([*wrapper, "true"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    if probe.returncode != 0:
        return None, f"cannot mount: {probe.stdout.strip()}"
    return wrapper, None


@requires_trampoline
class FailureTest(MapTestCase):
    """One warning, no torn line, and the program runs as it would."""

    MANY = """
        for number in range(2000):
            make_function(f"function_{number}", "a file of ours.py")()
        print("done", sys.is_stack_trampoline_active())
    """
    def check_cut_map(self, data, size_at_least):
        self.assert_whole_lines(data)
        self.assertIn(b"function_0:a file of ours.py\n", data)
        self.assertNotIn(b"function_1999:a file of ours.py\n", data)
        self.assertGreater(len(data), size_at_least)

    def own_tmp(self, options):
        wrapper, why_not = mount_command(options)
        if wrapper is None:
            self.skipTest(why_not)
        return wrapper

    def test_disk_full(self):
        wrapper = self.own_tmp("-t tmpfs -o size=16k tmpfs /tmp")
        result = run(self.MANY + """
        with open(MAP) as file:
            print(file.read(), end="")
        """, "-X", "perf", wrapper=wrapper, read=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_one_warning(result)
        self.assertIn(os.strerror(errno.ENOSPC), result.stderr)
        done, _, data = result.stdout.partition("\n")
        self.assertEqual(done, "done True")
        self.check_cut_map(data.encode(), 15 * 1024)

    def test_disk_full_from_the_start(self):
        wrapper = self.own_tmp("-t tmpfs -o size=16k tmpfs /tmp")
        result = run("""
            print("runs", sys.is_stack_trampoline_active())
            print(os.path.exists(MAP) and os.path.getsize(MAP))
        """, "-X", "perf", wrapper=wrapper, read=False, before="""
            filler = os.open("/tmp/filler", os.O_WRONLY | os.O_CREAT)
            try:
                while True:
                    os.write(filler, bytes(4096))
            except OSError:
                pass
        """)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_one_warning(result)
        self.assertEqual(result.stdout.splitlines()[0], "runs False")
        self.assertIn(result.stdout.splitlines()[1], ("False", "0"))

    FILL = """
        filler = os.open("/tmp/filler", os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, bytes(4096))
        except OSError:
            pass
    """

    def test_room_again(self):
        # All that did not fit is written with the next new function.
        wrapper = self.own_tmp("-t tmpfs -o size=64k tmpfs /tmp")
        result = run(self.FILL + """
        for number in range(500):
            make_function(f"function_{number}", "a file of ours.py")()
        os.unlink("/tmp/filler")
        os.close(filler)
        make_function("afterwards")()
        with open(MAP) as file:
            print(file.read(), end="")
        """, "-X", "perf", wrapper=wrapper, read=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_one_warning(result)
        names = [line.split(" ", 2)[2] for line in result.stdout.splitlines()]
        self.assertEqual(len(set(names)), len(names))
        for number in range(500):
            self.assertIn(f"py::function_{number}:a file of ours.py", names)
        self.assertGreater(names.index("py::afterwards:made.py"),
                           names.index("py::function_499:a file of ours.py"))

    def test_activation_writes_what_is_missing(self):
        wrapper = self.own_tmp("-t tmpfs -o size=64k tmpfs /tmp")
        result = run(self.FILL + """
        for number in range(100):
            make_function(f"function_{number}", "a file of ours.py")()
        try:
            sys.activate_stack_trampoline("perf")
        except OSError as error:
            print(errno.errorcode[error.errno], error.filename == MAP,
                  sys.is_stack_trampoline_active())
        os.unlink("/tmp/filler")
        os.close(filler)
        sys.activate_stack_trampoline("perf")
        with open(MAP) as file:
            names = [line.split(" ", 2)[2] for line in file]
        assert len(set(names)) == len(names)
        print(sum(" file of ours.py" in name for name in names))
        """, "-X", "perf", wrapper=wrapper, read=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_one_warning(result)
        self.assertEqual(result.stdout, "ENOSPC True True\n100\n")

    def test_read_only(self):
        wrapper = self.own_tmp("-t tmpfs -o ro tmpfs /tmp")
        result = run(self.MANY, "-X", "perf", wrapper=wrapper)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_one_warning(result)
        self.assertIn(os.strerror(errno.EROFS), result.stderr)
        self.assertEqual(result.stdout, "done False\n")

    def test_file_size_limit(self):
        for action in ("SIG_IGN", "SIG_DFL"):
            with self.subTest(action=action):
                result = run(self.MANY, "-X", "perf", before=f"""
                    import resource, signal
                    signal.signal(signal.SIGXFSZ, signal.{action})
                    resource.setrlimit(resource.RLIMIT_FSIZE, (20001, 20001))
                """)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout, "done True\n")
                self.assert_one_warning(result)
                self.assertIn(os.strerror(errno.EFBIG), result.stderr)
                self.check_cut_map(result.map, 19000)

    def test_file_size_limit_from_the_start(self):
        for limit in 0, 10:
            with self.subTest(limit=limit):
                result = run("print('runs', sys.is_stack_trampoline_active())",
                             "-X", "perf", before=f"""
                    import resource, signal
                    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                    resource.setrlimit(resource.RLIMIT_FSIZE,
                                       ({limit}, {limit}))
                """)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout, "runs False\n")
                self.assert_one_warning(result)
                self.assertFalse(result.map)

    @not_emulated("it does not enforce RLIMIT_AS")
    def test_no_address_space(self):
        result = self.run_well("""
            import mmap, resource
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * mmap.PAGESIZE
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (used + 500_000, hard))
            try:
                sys.activate_stack_trampoline("perf")
            except OSError as error:
                print(errno.errorcode[error.errno])
            print(sys.is_stack_trampoline_active())
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            sys.activate_stack_trampoline("perf")
            make_function("late")()
        """)
        self.assertEqual(result.stdout, "ENOMEM\nFalse\n")
        self.assertIn(b"late:made.py", result.names)

    @not_emulated("it does not enforce RLIMIT_AS")
    def test_no_address_space_from_the_start(self):
        # Less and less: the program runs out of memory that the arena takes,
        # until the arena does not fit; then there is enough again.
        peak = int(self.run_well("""
            with open("/proc/self/status") as file:
                print(next(line.split()[1] for line in file
                           if line.startswith("VmPeak:")))
        """, "-S").stdout)
        for limit in range(peak + 2048, peak - 2048, -64):
            result = run("print('runs', sys.is_stack_trampoline_active())",
                         "-S", "-X", "perf", prelude="import sys\n",
                         before=f"""
                import resource
                resource.setrlimit(resource.RLIMIT_AS,
                                   ({limit * 1024}, {limit * 1024}))
            """)
            if result.stderr.startswith("python:"):
                break
            self.assertGreaterEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "runs False\n")
        self.assertEqual(result.stderr, "python: -X perf has no effect: "
                         f"[Errno {errno.ENOMEM}] {os.strerror(errno.ENOMEM)}"
                         "\n")

    @not_emulated("it does not enforce RLIMIT_AS")
    def test_arena_full_and_no_address_space(self):
        result = run("""
            import mmap, resource
            template = make_function("f").__code__
            def call(number):
                exec(template.replace(co_qualname=str(number)))
            for number in range(63_000):
                call(number)
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * mmap.PAGESIZE
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (used + 1_000_000, hard))
            for number in range(63_000, 67_000):
                call(number)
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            make_function("afterwards")()
            print("done")
        """, "-X", "perf")
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"),
                         result.stderr)
        self.assert_whole_lines(result.map)
        self.assertIn(b"62999:made.py", result.names)
        self.assertNotIn(b"66999:made.py", result.names)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(b"afterwards:made.py", result.names)

    def test_no_memory_may_become_executable(self):
        # PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN, Linux 6.3.
        refuse = """
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.prctl(65, 1, 0, 0, 0) != 0:
                print("no", errno.errorcode[ctypes.get_errno()])
                sys.exit()
        """
        work = """
            import ctypes
            if ctypes.CDLL(None).prctl(66, 0, 0, 0, 0) == 1:
                make_function("f")()
                print(sys.is_stack_trampoline_active())
        """
        result = self.run_well(work, "-X", "perf", before=refuse)
        if result.stdout.startswith("no"):
            self.skipTest(f"this kernel has no PR_SET_MDWE: {result.stdout}")
        self.assertEqual(result.stdout, "True\n")
        self.assertIn(b"f:made.py", result.names)


@requires_trampoline
class CAPITest(MapTestCase):
    """The functions of perf_trampoline.h that write to the map."""

    API = """
import ctypes
api = ctypes.CDLL(None, use_errno=True)     # CDLL: called without the GIL
init = api.PyUnstable_PerfMapState_Init
fini = api.PyUnstable_PerfMapState_Fini
fini.restype = None
write = api.PyUnstable_WritePerfMapEntry
write.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_char_p]
copy = api.PyUnstable_CopyPerfMapFile
copy.argtypes = [ctypes.c_char_p]
def failure():
    return errno.errorcode[ctypes.get_errno()]
"""

    def run_api(self, program, *options, **kwargs):
        return self.run_well(self.API + textwrap.dedent(program), *options,
                             **kwargs)

    def test_write(self):
        result = self.run_api(r"""
            assert not os.path.exists(MAP)
            assert write(0x1000, 0x20, b"one") == 0
            assert os.stat(MAP).st_mode & 0o777 == 0o600
            assert write(2**64 - 1, 2**32 - 1, b"two words") == 0
            assert write(0x2000, 1, b"a\nb\tc\x7f\x01") == 0
            assert write(0x3000, 1, "\U0001f40d\\".encode()) == 0
            assert not sys.is_stack_trampoline_active()
        """)
        self.assertEqual(result.map.split(b"\n"), [
            b"1000 20 one", b"ffffffffffffffff ffffffff two words",
            rb"2000 1 a\x0ab\x09c\x7f\x01",
            b"3000 1 " + "\U0001f40d\\".encode(), b""])

    def test_name_that_is_not_utf_8(self):
        # One such name would make the whole file unreadable as text.
        result = self.run_api(r"""
            for name in (b"caf\xe9", b"\xff\xfe", b"\x80", b"\xc0\x80",
                         b"\xe2\x82", b"\xe2\x82x", b"\xed\xa0\x80",
                         b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
                         b"\xf8\x88\x80\x80\x80",
                         b"\xf4\x8f\xbf\xbf\xee\x80\x80\xdf\xbf"):
                assert write(1, 2, name) == 0
        """)
        self.assertEqual(result.map.splitlines(), [b"1 2 " + name for name in (
            rb"caf\xe9", rb"\xff\xfe", rb"\x80", rb"\xc0\x80",
            rb"\xe2\x82", rb"\xe2\x82x", rb"\xed\xa0\x80",
            rb"\xf0\x80\x80\x80", rb"\xf4\x90\x80\x80",
            rb"\xf8\x88\x80\x80\x80", "\U0010ffff\ue000\u07ff".encode())])

    def test_name_with_line_breaks_beyond_ascii(self):
        result = self.run_api(r"""
            name = "a\x85b\u2028c\u2029d\xa0"
            assert write(1, 2, name.encode()) == 0
        """)
        self.assertEqual(result.map.decode(),
                         "1 2 a\\x85b\\u2028c\\u2029d\xa0\n")

    def test_long_name(self):
        result = self.run_api("""
            assert write(1, 2, b"n" * 10 ** 6) == 0
            for length in range(450, 530):
                assert write(length, 2, b"m" * length) == 0
        """)
        lines = result.lines
        self.assertEqual(lines[0], b"1 2 " + b"n" * 10 ** 6)
        self.assertEqual(lines[1:], [b"%x 2 " % length + b"m" * length
                                     for length in range(450, 530)])

    def test_init(self):
        result = self.run_api("""
            assert init() == init() == 0
            assert os.path.getsize(MAP) == 0
            fini()
            fini()
            assert write(1, 2, b"after fini") == 0
            assert init() == 0
            assert write(3, 4, b"after init") == 0
        """)
        self.assertEqual(result.lines, [b"1 2 after fini", b"3 4 after init"])

    def test_cannot_open(self):
        self.run_api("""
            os.mkdir(MAP)
            assert init() == -1
            assert failure() in ("EEXIST", "EISDIR")
            assert write(1, 2, b"f") == -1
            assert failure() in ("EEXIST", "EISDIR")
            fini()
        """)

    def test_with_trampoline(self):
        result = self.run_api("""
            make_function("one")()
            assert init() == 0
            assert write(1, 2, b"by another") == 0
            fini()
            make_function("two")()
            assert write(3, 4, b"by another again") == 0
        """, "-X", "perf")
        positions = [result.names.index(name) for name in
                     (b"one:made.py", b"by another", b"two:made.py",
                      b"by another again")]
        self.assertEqual(positions, sorted(positions))

    def test_threads(self):
        result = self.run_api("""
            import threading
            def work(thread):
                for number in range(5000):
                    length = 1 + number % 100 * 9
                    name = b"%d:%d:" % (thread, number) + b"n" * length
                    assert write(number, thread, name) == 0
                    if number % 500 == 0:
                        make_function(f"function_{thread}_{number}")()
            threads = [threading.Thread(target=work, args=[thread])
                       for thread in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """, "-X", "perf")
        self.assert_whole_lines(result.map)
        seen = [line for line in result.lines if line.endswith(b"n")
                and re.match(rb"[0-9a-f]+ [0-3] \d:\d+:n+\Z", line)]
        self.assertEqual(len(seen), 20000)
        expected = {b"%x %x %d:%d:" % (number, thread, thread, number)
                    + b"n" * (1 + number % 100 * 9)
                    for thread in range(4) for number in range(5000)}
        self.assertEqual(set(seen), expected)
        for thread in range(4):
            self.assertIn(b"function_%d_4500:made.py" % thread, result.names)

    def test_copy(self):
        with tempfile.NamedTemporaryFile() as file:
            content = b"".join(b"%x 10 parent_%d\n" % (number * 16, number)
                               for number in range(1, 3000))
            file.write(content)
            file.flush()
            result = self.run_api(f"""
                assert write(1, 2, b"before") == 0
                assert copy({os.fsencode(file.name)!r}) == 0
                assert write(3, 4, b"after") == 0
            """)
        self.assertEqual(result.map,
                         b"1 2 before\n" + content + b"3 4 after\n")

    def test_copy_what_cannot_be_read(self):
        self.run_api("""
            assert copy(b"/nonexistent/map") == -1
            assert failure() == "ENOENT"
            assert copy(b"/") == -1
            assert failure() == "EISDIR"
            os.mkfifo(MAP + ".fifo")
            try:
                copy(os.fsencode(MAP + ".fifo"))    # must not hang
            finally:
                os.unlink(MAP + ".fifo")
        """)

    def test_copy_own_map(self):
        # Limited, so that a copy without end is seen as such.
        result = self.run_api("""
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (10 ** 6, 10 ** 6))
            assert write(1, 2, b"once") == 0
            copy(os.fsencode(MAP))
        """)
        self.assertLessEqual(result.lines.count(b"1 2 once"), 2)

    def test_copy_to_full_disk(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"1000 10 a symbol of the parent\n" * 1000)
            file.flush()
            result = self.run_api(f"""
                import resource
                resource.setrlimit(resource.RLIMIT_FSIZE, (10001, 10001))
                assert copy({os.fsencode(file.name)!r}) == -1
                assert failure() == "EFBIG"
            """)
        self.assertEqual(result.map, b"")

    FORK = """
        assert write(1, 2, b"parent") == 0
        if os.fork() == 0:
            assert write(3, 4, b"child") == 0
            own = f"/tmp/perf-{os.getpid()}.map"
            with open(own) as file:
                lines = file.readlines()
            os.unlink(own)
            assert "3 4 child\\n" in lines, lines
            assert "1 2 parent\\n" not in lines, lines
            os._exit(0)
        assert os.wait()[1] == 0
    """

    def check_fork(self, *options):
        result = self.run_api(self.FORK, *options)
        self.assertIn(b"parent", result.names)
        self.assertNotIn(b"child", result.names)

    def test_fork(self):
        self.check_fork("-X", "perf")

    def test_fork_without_trampoline(self):
        self.check_fork()


if __name__ == "__main__":
    unittest.main()
