"""The perf map file, /tmp/perf-PID.map: its form, names and C functions."""

import os
import re
import tempfile
import textwrap
import unittest

from test.support.perf_helper import requires_trampoline
from test.support.perf_map import MapTestCase


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
