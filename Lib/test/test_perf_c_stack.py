"""Recursion ends where it does without the trampoline: the C stack that it
takes for itself is little, in threads of any size, whoever has made them.

Tools/reliability/c_stack.py measures more sizes, and compares with an
unpatched interpreter.
"""

import sys
import textwrap
import unittest
from test.support import perf_c_stack
from test.support.perf_helper import not_emulated, requires_trampoline
from test.support.perf_jitdump_case import JitdumpTestCase

OPTIONS = "perf", "perf=native", "perf_jit", "perf_jit=native"
MOST = 3        # percent


@requires_trampoline
class DepthTest(unittest.TestCase):

    @not_emulated("the emulator has frames on the stack, too")
    @unittest.skipIf(hasattr(sys, "gettotalrefcount"),
                     "frames of a debug build have other sizes")
    def test_depth(self):
        for size in 64, 512:
            for way in perf_c_stack.WAYS:
                expected = self.depth(way, size)
                for option in OPTIONS:
                    with self.subTest(way=way, size=size, option=option):
                        depth = self.depth(way, size, "-X", option)
                        self.assertLessEqual(
                            perf_c_stack.loss(depth, expected), MOST,
                            (depth, expected))

    def depth(self, way, kibibytes, *options):
        return perf_c_stack.depth_of([sys.executable, *options], way,
                                     kibibytes * perf_c_stack.KIBI)


@requires_trampoline
class ThreadTest(JitdumpTestCase):
    """With the default recursion limit."""

    THREADS = textwrap.dedent("""
        import ctypes, json, threading
        libc = ctypes.CDLL(None)
        ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

        def in_thread(kibibytes, function, *args):
            old_size = threading.stack_size(kibibytes * 1024)
            thread = threading.Thread(target=function, args=args)
            thread.start()
            threading.stack_size(old_size)
            thread.join()

        def in_native_thread(kibibytes, function, *args):
            '''In one that Python has not made.'''
            entry = ENTRY(lambda _: function(*args))
            attributes = ctypes.create_string_buffer(256)
            size = ctypes.c_size_t(kibibytes * 1024)
            thread = ctypes.c_ulong()
            libc.pthread_attr_init(attributes)
            assert libc.pthread_attr_setstacksize(attributes, size) == 0
            assert libc.pthread_create(ctypes.byref(thread), attributes,
                                       entry, None) == 0
            libc.pthread_join(thread, None)

        def dump(depth):
            value = nested = []
            for _ in range(depth):
                nested.append(nested := [])
            print(len(json.dumps(value, indent=1)))

        def plain(depth):
            def recurse(n):
                return n and recurse(n - 1)
            print(recurse(depth))

        class Attributes:
            def __getattr__(self, name):
                return getattr(self, name + "x"[1:])

        def attributes():
            try:
                Attributes().any
            except RecursionError:
                print("RecursionError")
        """)

    def run_program(self, program, *options):
        return self.run_command(self.command(self.THREADS + program, *options))

    def check(self, *programs):
        ran = 0
        for program in programs:
            off = self.run_program(program)
            if off.status != 0 or not off.out:
                continue        # it needs more here, whoever profiles it
            ran += 1
            for option in OPTIONS:
                with self.subTest(program=program, option=option):
                    on = self.run_program(program, "-X", option)
                    self.assertEqual((on.status, on.out, on.err),
                                     (0, off.out, ""))
        self.assertGreaterEqual(ran, min(2, len(programs)))

    @not_emulated("the emulator has frames on the stack, too")
    def test_json(self):
        self.check("in_thread(64, dump, 110)", "in_thread(256, dump, 500)",
                   "in_thread(512, dump, 950)", "in_thread(1024, dump, 950)",
                   "in_native_thread(128, dump, 230)",
                   "in_native_thread(256, dump, 500)",
                   "in_native_thread(512, dump, 950)",
                   "in_native_thread(768, dump, 950)")

    @not_emulated("the emulator has frames on the stack, too")
    def test_attributes(self):
        self.check("in_thread(800, attributes)",
                   "in_native_thread(800, attributes)")

    def test_plain_calls(self):
        self.check("in_native_thread(16, plain, 900)",
                   "in_native_thread(32, plain, 900)",
                   "in_native_thread(128, plain, 900)",
                   "in_native_thread(256, plain, 900)",
                   "in_thread(32, plain, 900)",
                   "in_thread(64, plain, 900)",
                   "in_thread(256, plain, 900)")

    @not_emulated("the emulator has frames on the stack, too")
    def test_size_that_was_set_back(self):
        # When the thread first runs a function, the size is another one.
        self.check(textwrap.dedent("""
            go = threading.Lock()
            go.acquire()
            def wait():
                go.acquire()
                dump(110)
            threading.stack_size(65536)
            thread = threading.Thread(target=wait)
            thread.start()
            threading.stack_size(0)
            big = threading.Thread(target=dump, args=(950,))
            big.start()
            big.join()
            go.release()
            thread.join()
            """))


if __name__ == "__main__":
    unittest.main()
