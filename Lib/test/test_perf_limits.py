"""The perf trampoline where the system gives little: address space,
descriptors, file size, a read-only directory, and no executable memory.

Each limit is set for both back ends, before the interpreter starts, with -X,
and in a running program.  The result is one line on standard error or one
OSError, and a program that runs on; without the limit, activation works.  What
happens to the map in such places is told in more detail by test_perf_map, to
the jitdump by test_perf_jitdump_file.
"""

import errno
import os
import re
import sys
import textwrap
import unittest
from test import support
from test.support import perf_jitdump
from test.support.perf_base import HAS_NO_GIL
from test.support.perf_helper import not_emulated
from test.support.perf_jitdump_case import JitdumpTestCase
from test.support.perf_map import mount_command

# Functions for the programs, each of which sets a limit and may lift it again.
LIMITS = """
import ctypes, resource
libc = ctypes.CDLL(None, use_errno=True)

def set_limit(name, value):
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    return lambda: resource.setrlimit(kind, (soft, hard))

def limit_address_space():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    return set_limit("RLIMIT_AS", pages * resource.getpagesize() + 300_000)

def limit_descriptors():
    return set_limit("RLIMIT_NOFILE", 0)

def limit_file_size():
    return set_limit("RLIMIT_FSIZE", 20)

def refuse_executable_memory(anonymous_only=0):
    '''Let the kernel answer EPERM to mmap(), with PROT_EXEC.'''
    from test.support.perf_arch import HERE
    from test.support.perf_seccomp import (ALLOW, ANY_BIT, ARGUMENTS, EQUAL,
                                           LOAD, NUMBER, REFUSE, RETURN,
                                           install)
    try:
        install([(LOAD, 0, 0, NUMBER),
                 (EQUAL, 0, 5, HERE.system_calls["mmap"]),
                 (LOAD, 0, 0, ARGUMENTS[2]),
                 (ANY_BIT, 0, 3, 4),                    # PROT_EXEC
                 (LOAD, 0, 0, ARGUMENTS[4]),            # a descriptor
                 (EQUAL, 0, anonymous_only, 2**32 - 1),
                 (RETURN, 0, 0, REFUSE | errno.EPERM),
                 (RETURN, 0, 0, ALLOW)])
    except OSError as error:
        print("cannot", errno.errorcode[error.errno])
        sys.exit()

def refuse_gain_of_execution():
    '''Memory that was not executable must not become so (Linux 6.3).'''
    if libc.prctl(65, 1, 0, 0, 0) != 0:                 # PR_SET_MDWE
        print("cannot", errno.errorcode[ctypes.get_errno()])
        sys.exit()
"""

BACK_ENDS = "perf", "perf_jit"
WORK = """
import sys
print("runs", sys.is_stack_trampoline_active())
"""


class LimitTest(JitdumpTestCase):

    def run_limited(self, script, *options, **kwargs):
        result = self.run_command(
            self.command(LIMITS + textwrap.dedent(script), *options), **kwargs)
        if result.out.startswith("cannot"):
            self.skipTest(f"this kernel cannot do it: {result.out}")
        self.assertEqual(result.status, 0, result.err)
        return result

    # --- In a running program ---

    def check_running(self, limit, code, lift=True):
        for back_end in BACK_ENDS:
            with self.subTest(back_end=back_end):
                result = self.run_limited(f"""
                    def activate():
                        sys.activate_stack_trampoline({back_end!r})
                    run("before")
                    lift = {limit}
                    try:
                        for _ in range(3):
                            try:
                                activate()
                            except OSError as error:
                                error_code = errno.errorcode[error.errno]
                    finally:
                        if {lift}:
                            lift()
                    print(error_code, sys.is_stack_trampoline_active())
                    run("after")
                    if {lift}:
                        activate()
                        run("last")
                        name = {{"perf": f"/tmp/perf-{{os.getpid()}}.map",
                                "perf_jit": path(os.getpid())}}[{back_end!r}]
                        with open(name, "rb") as file:
                            print(b"py::last:made" in file.read())
                """)
                expected = f"{code} False\n" + ("True\n" if lift else "")
                self.assertEqual((result.out, result.err), (expected, ""))
                if lift and back_end == "perf_jit":
                    perf_jitdump.read(result.path)

    @not_emulated("it does not enforce RLIMIT_AS")
    def test_address_space(self):
        self.check_running("limit_address_space()", "ENOMEM")

    def test_descriptors(self):
        self.check_running("limit_descriptors()", "EMFILE")

    def test_file_size(self):
        self.check_running("limit_file_size()", "EFBIG")

    def test_no_executable_memory(self):
        self.check_running("refuse_executable_memory()", "EPERM", lift=False)

    def test_no_gain_of_execution(self):
        # Arenas are born executable.
        for back_end in BACK_ENDS:
            result = self.run_limited(f"""
                refuse_gain_of_execution()
                sys.activate_stack_trampoline({back_end!r})
                run("f")
                print(sys.is_stack_trampoline_active())
            """)
            self.assertEqual((result.out, result.err), ("True\n", ""))

    # --- Before the start ---

    def start_limited(self, limit, back_end):
        return self.run_limited(f"""
            {limit}
            os.execv(sys.executable, [sys.executable, "-W", "ignore",
                                      "-X", {back_end!r}, "-c", {WORK!r}])
        """)

    def assert_refused(self, result, back_end, code):
        number = getattr(errno, code)
        self.assertEqual(result.out, "runs False\n")
        self.assertRegex(
            result.err, rf"\Apython: -X {back_end} has no effect: \[Errno "
            rf"{number}\] {re.escape(os.strerror(number))}(: '.*')?\n\Z")

    def check_start(self, limit, code):
        for back_end in BACK_ENDS:
            with self.subTest(back_end=back_end):
                result = self.start_limited(limit, back_end)
                self.assert_refused(result, back_end, code)

    def test_file_size_at_start(self):
        self.check_start("limit_file_size()", "EFBIG")

    def test_no_executable_memory_at_start(self):
        # The loader has to map libraries.
        self.check_start("refuse_executable_memory(anonymous_only=1)",
                         "EPERM")

    def test_no_gain_of_execution_at_start(self):
        for back_end in BACK_ENDS:
            result = self.start_limited("refuse_gain_of_execution()",
                                        back_end)
            self.assertEqual((result.out, result.err), ("runs True\n", ""))

    @not_emulated("it does not enforce RLIMIT_AS")
    @unittest.skipIf(support.check_sanitizer(address=True),
                     "AddressSanitizer takes terabytes of address space")
    @unittest.skipIf(HAS_NO_GIL, "without a GIL, PYTHONMALLOC=malloc is none "
                                 "of CPython's allocators")
    def test_address_space_at_start(self):
        # Less and less, until what is missing is the arena: with a little
        # more, that is there, but nothing else.  The interpreter must take
        # smaller pieces than ours, as its own allocator does not everywhere.
        variables = {"PYTHONMALLOC": "malloc"}
        peak = int(self.run_command(
            [sys.executable, "-S", "-c",
             "print(next(line.split()[1] for line in open('/proc/self/status')"
             " if line.startswith('VmPeak:')))"], variables=variables).out)
        for back_end in BACK_ENDS:
            for limit in range(peak + 2048, peak - 2048, -64):
                script = (f"import resource as r; r.setrlimit(r.RLIMIT_AS, "
                          f"({limit * 1024},) * 2)\n"
                          f"os.execv(sys.executable, [sys.executable, '-S', "
                          f"'-X', {back_end!r}, '-c', {WORK!r}])")
                result = self.run_command(self.command(script),
                                          variables=variables)
                if result.err.startswith("python:") and result.status == 0:
                    break
                self.assertGreaterEqual(result.status, 0, result.err)
            self.assertEqual(result.status, 0, result.err)
            self.assert_refused(result, back_end, "ENOMEM")

    # --- A read-only directory ---

    def test_read_only_directory(self):
        directories = {"perf": "/tmp",
                       "perf_jit": os.path.join(self.directory, "mounted")}
        os.mkdir(directories["perf_jit"])
        for back_end, directory in directories.items():
            with self.subTest(back_end=back_end):
                wrapper, why_not = mount_command(
                    f"-t tmpfs -o ro tmpfs {directory}")
                if wrapper is None:
                    self.skipTest(why_not)
                result = self.run_command(
                    [*wrapper, sys.executable, "-X", back_end, "-c", WORK],
                    directories["perf_jit"])
                self.assert_refused(result, back_end, "EROFS")


if __name__ == "__main__":
    unittest.main()
