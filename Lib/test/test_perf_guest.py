"""The perf trampoline as a guest in somebody else's program: what it does
there that the program could notice, or be killed for.

Its signals, its standard error, the numbers of its descriptors, its address
space and the system calls that it may make belong to the program.
"""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from test.support.perf_base import HAS_NO_GIL
from test.support.perf_guest import LIMIT, MANY
from test.support.perf_helper import not_emulated, requires_trampoline
from test.support.perf_jitdump_case import JitdumpTestCase
from test.support.perf_map import MapTestCase, run


def symbols_in(result, back_end):
    """Return the bytes of the file that a JitdumpTestCase's program wrote."""
    if back_end == "perf":
        return result.map
    with open(result.path, "rb") as file:
        return file.read()


@requires_trampoline
class SignalTest(MapTestCase):

    def check_full(self, program, lines=1, before=None):
        for back_end in "perf", "perf_jit":
            with self.subTest(back_end=back_end), \
                    tempfile.TemporaryDirectory() as directory:
                result = run(f"os.environ['JITDUMPDIR'] = {directory!r}\n"
                             + MANY + LIMIT + textwrap.dedent(program)
                             .replace("BACK_END", repr(back_end)),
                             before=before)
                self.assertEqual((result.returncode, result.stdout),
                                 (0, "done\n"), result.stderr)
                self.assertEqual(result.stderr.count("\n"), lines,
                                 result.stderr)
                if lines:
                    self.assertIn(os.strerror(errno.EFBIG), result.stderr)

    def test_file_size_limit(self):
        self.check_full("""
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            sys.activate_stack_trampoline(BACK_END)
            limit(20001)
            call_many()
            print("done")
        """)

    @not_emulated("it writes a file when the C library looks for the stack")
    def test_file_size_limit_at_activation(self):
        self.check_full("""
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            limit(10)
            try:
                sys.activate_stack_trampoline(BACK_END)
            except OSError as error:
                assert error.errno == errno.EFBIG
                assert not sys.is_stack_trampoline_active()
                print("done")
        """, lines=0)

    def test_handler(self):
        # It hears of the program's own writes, and of no others.
        self.check_full("""
            seen = []
            signal.signal(signal.SIGXFSZ, lambda *args: seen.append(args))
            sys.activate_stack_trampoline(BACK_END)
            limit(20001)
            call_many()
            assert not seen, seen
            with open(os.environ["JITDUMPDIR"] + "/own", "wb") as file:
                os.truncate(file.fileno(), 20001)
                try:
                    os.pwrite(file.fileno(), b"too much", 20001)
                except OSError as error:
                    assert error.errno == errno.EFBIG
            assert len(seen) == 1, seen
            print("done")
        """)

    def test_blocked(self):
        # One that waited before waits afterwards; one that did not does not.
        self.check_full("""
            limited = {signal.SIGXFSZ}
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_BLOCK, limited)
            sys.activate_stack_trampoline(BACK_END)
            limit(20001)
            call_many()
            assert not signal.sigpending(), signal.sigpending()
            signal.raise_signal(signal.SIGXFSZ)
            call_many("another")
            assert signal.sigpending() == limited
            assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == limited
            print("done")
        """)

    def test_nobody_reads_the_warning(self):
        self.check_full("""
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            sys.activate_stack_trampoline(BACK_END)
            limit(20001)
            call_many()
            print("done")
        """, lines=0, before="""
            reader, writer = os.pipe()
            os.dup2(writer, 2)
            os.close(reader)
            os.close(writer)
        """)

    def test_nobody_reads_but_the_pipe_is_full(self):
        # The warning must not wait for ever.
        self.check_full("""
            sys.activate_stack_trampoline(BACK_END)
            limit(20001)
            call_many()
            print("done")
        """, lines=0, before="""
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            try:
                while True:
                    os.write(writer, bytes(4096))
            except BlockingIOError:
                pass
            os.set_blocking(writer, True)
            os.dup2(writer, 2)
            os.set_inheritable(reader, True)
        """)


SANDBOX = """
from test.support.perf_arch import HERE
from test.support.perf_seccomp import (
    ALLOW, ANY_BIT, ARGUMENTS, EQUAL, KILL, LOAD, NUMBER, RETURN, install)
def enter_sandbox():
    '''Be killed for any system call but those that a computation needs.'''
    numbers = dict(HERE.system_calls)
    code = [(LOAD, 0, 0, NUMBER),
            (EQUAL, 0, 3, numbers.pop("write")),        # to 1 only
            (LOAD, 0, 0, ARGUMENTS[0]), (EQUAL, 0, 1, 1),
            (RETURN, 0, 0, ALLOW),
            (LOAD, 0, 0, NUMBER),
            (EQUAL, 0, 3, numbers.pop("mmap")),         # without PROT_EXEC
            (LOAD, 0, 0, ARGUMENTS[2]), (ANY_BIT, 1, 0, 4),
            (RETURN, 0, 0, ALLOW),
            (LOAD, 0, 0, NUMBER)]
    for number in numbers.values():
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, KILL))
    try:
        install(code)
    except OSError:
        os.write(1, b"cannot")
        os._exit(0)
"""


@requires_trampoline
class SandboxTest(JitdumpTestCase):

    PROGRAM = SANDBOX + textwrap.dedent("""
        def outer():
            def inner(n):
                return sum(number for number in range(n))
            return inner
        class Class:
            def method(self):
                return outer()(10)
        def later():
            yield Class().method()
        exec("def unseen(): return 1")
        unseen_code = "def unseen_as_well(): return 2"
        compiled = compile(unseen_code, "made", "exec")
        paused = (str(Class().method()).encode() for _ in range(1))
        SEAL
        enter_sandbox()
        scope = {}
        exec(compiled, scope)
        assert scope["unseen_as_well"]() == 2
        for number in range(5000):                  # fill the arena
            run(f"new {number}")
        os.write(1, next(paused))
        os._exit(next(later()) - 45)
    """)

    def setUp(self):
        super().setUp()
        # Without a GIL, CPython's allocator makes calls of its own.
        if HAS_NO_GIL:
            result = self.run_command(self.command(
                self.PROGRAM.replace("SEAL", "")))
            if result.status == -signal.SIGSYS:
                self.skipTest("this interpreter makes such calls, too")

    def run_sandbox(self, back_end, seal):
        result = self.run_command(self.command(
            self.PROGRAM.replace("SEAL", seal), "-X", back_end))
        if result.out == "cannot":
            self.skipTest("this kernel has no seccomp")
        return result

    @not_emulated("it makes system calls of its own")
    def test_not_sealed(self):
        # What is tested below makes a difference.
        result = self.run_sandbox("perf", "")
        self.assertEqual(result.status, -signal.SIGSYS)

    @not_emulated("it makes system calls of its own")
    def test_sealed(self):
        for back_end in "perf", "perf_jit":
            with self.subTest(back_end=back_end):
                result = self.run_sandbox(back_end,
                                          "sys.seal_stack_trampoline()")
                self.assertEqual((result.status, result.out, result.err),
                                 (0, "45", ""))
                data = symbols_in(result, back_end)
                for name in ("outer", "outer.<locals>.inner", "Class.method",
                             "outer.<locals>.inner.<locals>.<genexpr>",
                             "later", "<genexpr>", "unseen"):
                    self.assertIn(f"py::{name}:".encode(), data)
                self.assertNotIn(b"unseen_as_well", data)
                self.assertNotIn(b"py::new 1:", data)

    @not_emulated("it makes system calls of its own")
    def test_sealed_at_once(self):
        # C has called no function since the activation.
        for back_end in "perf", "perf_jit":
            result = self.run_command(self.command(self.PROGRAM.replace(
                "SEAL", f"sys.activate_stack_trampoline({back_end!r}); "
                        "sys.seal_stack_trampoline()")))
            if result.out == "cannot":
                self.skipTest("this kernel has no seccomp")
            self.assertEqual((result.status, result.out, result.err),
                             (0, "45", ""))

    @not_emulated("it makes system calls of its own")
    def test_other_thread(self):
        # Nor has C called one in this thread.
        result = self.run_command(self.command(SANDBOX + textwrap.dedent('''
            import threading
            def in_thread():
                ready.release()
                go.acquire()
                enter_sandbox()
                result = sorted([2, 1], key=lambda n: nested(n, 200))
                os.write(1, b"12" if result == [1, 2] else b"wrong")
                os._exit(0)
            def nested(n, depth):
                return list(map(nested, [n], [depth - 1]))[0] if depth else n
            ready, go = threading.Lock(), threading.Lock()
            ready.acquire()
            go.acquire()
            thread = threading.Thread(target=in_thread)
            thread.start()
            ready.acquire()
            sys.activate_stack_trampoline("perf")
            sys.seal_stack_trampoline()
            go.release()
            thread.join()
        ''')))
        if result.out == "cannot":
            self.skipTest("this kernel has no seccomp")
        self.assertEqual((result.status, result.out, result.err),
                         (0, "12", ""))

    def test_unsealed_by_activation(self):
        for back_end in "perf", "perf_jit":
            result = self.run_script(f"""
                sys.activate_stack_trampoline({back_end!r})
                sys.seal_stack_trampoline()
                sys.seal_stack_trampoline()
                run("while sealed")
                name = {{"perf": f"/tmp/perf-{{os.getpid()}}.map",
                        "perf_jit": path(os.getpid())}}[{back_end!r}]
                def names():
                    with open(name, "rb") as file:
                        data = file.read()
                    return [b"py::while sealed:" in data, b"py::f:" in data]
                assert names() == [False, False]
                pid = os.fork()
                if pid == 0:
                    run("in child")
                    own = name.replace(str(os.getppid()), str(os.getpid()))
                    assert not os.path.exists(own)
                    sys.activate_stack_trampoline({back_end!r})
                    with open(own, "rb") as file:
                        data = file.read()
                    os.unlink(own)
                    assert b"py::while sealed:" in data
                    assert b"py::in child:" in data
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
                sys.activate_stack_trampoline({back_end!r})
                run("f")
                assert names() == [True, True]
            """)
            self.assertEqual((result.status, result.err), (0, ""))

    def test_inactive(self):
        result = self.run_script("""
            sys.seal_stack_trampoline()
            print(sys.is_stack_trampoline_active())
            sys.activate_stack_trampoline("perf_jit")
            run("f")
        """)
        self.assertEqual((result.status, result.out, result.err),
                         (0, "False\n", ""))


@requires_trampoline
class StartUpTest(JitdumpTestCase):
    """A program that site starts."""

    PROGRAM = """
        import os, signal
        def compute():
            {end}
        compute()
    """

    def test_names_are_there(self):
        for back_end in "perf", "perf_jit":
            for end in ("os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"):
                for file, how in (("sitecustomize.py", ()),
                                  ("usercustomize.py", ("-s",))):
                    if how and not self.has_user_site():
                        continue
                    with self.subTest(back_end=back_end, end=end, file=file):
                        self.check(back_end, end, file)

    def has_user_site(self):
        return subprocess.run([sys.executable, "-c", "import site, sys;"
                               "sys.exit(not site.ENABLE_USER_SITE)"],
                              ).returncode == 0

    def check(self, back_end, end, name):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(textwrap.dedent(self.PROGRAM.format(end=end)))
        result = self.run_command([sys.executable, "-X", back_end, "-c", ""],
                                  variables={"PYTHONPATH": self.directory})
        os.unlink(path)
        data = symbols_in(result, back_end)
        # Those of site that led there, frozen or not, and its own.
        for symbol in ("execsitecustomize:" if name.startswith("site") else
                       "execusercustomize:",
                       f"<module>:{self.directory}/{name}",
                       f"compute:{self.directory}/{name}"):
            self.assertIn(f"py::{symbol}".encode(), data)

    def test_switched_meanwhile(self):
        # What is frozen waits for the end of the start, or for the switch.
        with open(os.path.join(self.directory, "sitecustomize.py"),
                  "w") as file:
            file.write(textwrap.dedent("""
                import sys, _frozen_importlib_external
                repr(_frozen_importlib_external.FileFinder("/"))
                sys.activate_stack_trampoline(sys.orig_argv[-1])
            """))
        for first, then in ("perf", "perf_jit"), ("perf_jit", "perf"):
            with self.subTest(first=first):
                result = self.run_command(
                    [sys.executable, "-X", first, "-c", "", then],
                    variables={"PYTHONPATH": self.directory})
                self.assertEqual((result.status, result.err), (0, ""))
                for back_end in first, then:
                    self.assertIn(b"py::FileFinder.__repr__:<frozen "
                                  b"importlib._bootstrap_external>",
                                  symbols_in(result, back_end))


if __name__ == "__main__":
    unittest.main()
