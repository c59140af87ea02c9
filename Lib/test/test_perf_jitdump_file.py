"""The jitdump back end of the perf trampoline: when and where the file is
written, and what stands in its way.
"""

import errno
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import unittest

from test import support
from test.support import perf_jitdump
from test.support.perf_arch import HERE
from test.support.perf_helper import EMULATOR, not_emulated
from test.support.perf_jitdump_case import (JitdumpTestCase, clean_environment,
                                            symbol_of)


class FileTest(JitdumpTestCase):

    TRY = """
        try:
            sys.activate_stack_trampoline("perf_jit")
        except OSError as error:
            print(errno.errorcode[error.errno],
                  error.filename == path(os.getpid()))
        print(sys.is_stack_trampoline_active())
    """
    # What is there before: with the same process number, through exec.
    START = """
        os.execv(sys.executable,
                 [sys.executable, "-X", "perf_jit", "-c",
                  "import sys; print(sys.is_stack_trampoline_active())"])
    """

    def run_after(self, prepare, then, **kwargs):
        """Run prepare, where PATH is the path of the file, then the other."""
        return self.run_command(self.command(
            "\n".join(["PATH = path(os.getpid())", textwrap.dedent(prepare),
                       textwrap.dedent(then)])), **kwargs)

    def assert_refused(self, prepare, code, **kwargs):
        """No way of switching on succeeds after prepare; return Results."""
        called = self.run_after(prepare, self.TRY, **kwargs)
        self.assertEqual((called.status, called.out, called.err),
                         (0, f"{code} True\nFalse\n", ""))
        started = self.run_after(prepare, self.START, **kwargs)
        number = getattr(errno, code)
        self.assertEqual((started.status, started.out), (0, "False\n"))
        self.assertEqual(started.err, "python: -X perf_jit has no effect: "
                         f"[Errno {number}] {os.strerror(number)}: "
                         f"'{started.path}'\n")
        return called, started

    def assert_made(self, prepare):
        for then in self.TRY, self.START:
            result = self.run_after(prepare, then)
            self.assertEqual((result.status, result.out, result.err),
                             (0, "True\n", ""))
            self.assertEqual(perf_jitdump.read(result.path).header.pid,
                             result.pid)
            st = os.lstat(result.path)
            self.assertEqual(stat.filemode(st.st_mode), "-rw-------")
            self.assertEqual(st.st_nlink, 1)

    def test_new(self):
        self.assert_made("os.umask(0)")

    def test_default_directory(self):
        for value in {"JITDUMPDIR": ""}, {}:
            env = clean_environment(**value)
            with subprocess.Popen(
                    [sys.executable, "-X", "perf_jit", "-c", ""], env=env,
                    stderr=subprocess.PIPE) as process:
                _, err = process.communicate(timeout=support.LONG_TIMEOUT)
            self.assertEqual(err, b"")
            path = f"/tmp/jit-{process.pid}.dump"
            self.addCleanup(os.unlink, path)
            self.assertEqual(perf_jitdump.read(path).header.pid, process.pid)

    def test_relative_directory(self):
        result = self.run_script(self.TRY, cwd=self.directory,
                                 variables={"JITDUMPDIR": "."})
        self.assertEqual(result.out, "True\n")
        self.assertTrue(perf_jitdump.read(result.path).loads)

    def test_closed_in_programs(self):
        result = self.run_script("""
            import subprocess
            for fd in os.listdir("/proc/self/fd"):
                try:
                    print(fd, os.readlink(f"/proc/self/fd/{fd}"))
                except OSError:
                    pass
            sys.stdout.flush()
            subprocess.run("echo; ls -l /proc/self/fd", shell=True,
                           close_fds=False)
        """, "-X", "perf_jit")
        here, _, there = result.out.partition("\n\n")
        self.assertIn(result.path, here)
        self.assertIn("/proc/", there)
        self.assertNotIn(".dump", there)

    STALE = """
        with open(PATH, "wb") as file:
            file.write(b"from an earlier process")
        os.utime(PATH, (10**9, 10**9))
    """

    def test_stale(self):
        self.assert_made(self.STALE)
        self.assert_made(textwrap.dedent(self.STALE)
                         + "os.chmod(PATH, 0o444)")

    @not_emulated("the process seems to have started later than it did")
    def test_own_younger_file(self):
        results = self.assert_refused("""
            with open(PATH, "wb") as file:
                file.write(b"young")
        """, "EEXIST")
        for result in results:
            self.assertEqual(pathlib.Path(result.path).read_bytes(), b"young")

    @not_emulated("the process seems to have started later than it did")
    def test_other_headers(self):
        # What differs from a header of ours in one field stays as it is.
        for field in "magic", "version", "elf_mach", "pid":
            with self.subTest(field):
                results = self.assert_refused(f"""
                    import struct
                    header = dict(magic=0x4A695444, version=1, total_size=40,
                                  elf_mach={HERE.elf_machine}, pad1=0,
                                  pid=os.getpid())
                    header[{field!r}] += 1
                    with open(PATH, "wb") as file:
                        file.write(struct.pack("=6I2Q", *header.values(), 1, 0)
                                   + b"16 bytes or more")
                """, "EEXIST")
                for result in results:
                    self.assertEqual(os.path.getsize(result.path), 56)

    @not_emulated("the process seems to have started later than it did")
    def test_exec(self):
        # The process goes on with its file, as another program.
        result = self.run_script("""
            run("before")
            os.execv(sys.executable, [sys.executable, "-X", "perf_jit", "-c",
                     "exec('def after(): pass\\\\nafter()')"])
        """, "-X", "perf_jit")
        self.assertEqual((result.status, result.err), (0, ""))
        dump = perf_jitdump.read(result.path)
        names = [load.name for load in dump.loads]
        self.assertIn(symbol_of("before"), names)
        self.assertIn("py::after:<string>", names)
        self.assertLess(names.index(symbol_of("before")),
                        names.index("py::after:<string>"))
        # What perf names its files by, and what makes their code differ.
        self.assertEqual(len({load.code_index for load in dump.loads}),
                         len(names))
        self.assertEqual(len({load.code for load in dump.loads}), len(names))

    # Things of an old date that are not ours to remove.
    OBSTACLES = {
        "link": """
            os.symlink(PATH + ".target", PATH)
            open(PATH + ".target", "w").write("target")
            os.utime(PATH + ".target", (10**9, 10**9))
        """,
        "dangling link": """
            os.symlink(PATH + ".target", PATH)
        """,
        "hard link": """
            open(PATH + ".target", "w").write("target")
            os.link(PATH + ".target", PATH)
        """,
        "directory": "os.mkdir(PATH)",
        "fifo": "os.mkfifo(PATH)",
    }

    def test_obstacles(self):
        for name, prepare in self.OBSTACLES.items():
            with self.subTest(name):
                results = self.assert_refused(
                    textwrap.dedent(prepare)
                    + "\nos.utime(PATH, (10**9, 10**9),"
                    " follow_symlinks=False)",
                    "EEXIST")
                for result in results:
                    self.assert_untouched(name, result.path)

    def assert_untouched(self, name, path):
        st = os.lstat(path)
        target = pathlib.Path(path + ".target")
        self.assertEqual(st.st_mtime, 10**9)
        self.assertEqual({"link": stat.S_ISLNK, "dangling link": stat.S_ISLNK,
                          "hard link": stat.S_ISREG, "directory": stat.S_ISDIR,
                          "fifo": stat.S_ISFIFO}[name](st.st_mode), True)
        if name in ("link", "hard link"):
            self.assertEqual(target.read_text(), "target")
            self.assertEqual(target.stat().st_mtime, 10**9)
        elif name == "dangling link":
            self.assertFalse(target.exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root can do it")
    def test_file_of_another_user(self):
        results = self.assert_refused(
            textwrap.dedent(self.STALE) + "os.chown(PATH, 12345, -1)\n",
            "EEXIST")
        for result in results:
            self.assertEqual(pathlib.Path(result.path).read_bytes(),
                             b"from an earlier process")

    def test_bad_directory(self):
        for directory, code in (("/nonexistent", "ENOENT"),
                                ("/dev/null", "ENOTDIR")):
            with self.subTest(directory):
                self.assert_refused("", code, directory=directory)

    def test_long_directory(self):
        result = self.run_after("", self.TRY,
                                variables={"JITDUMPDIR": "/tmp" * 2000})
        self.assertEqual(result.out.split()[0::2], ["ENAMETOOLONG", "False"])

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_directory_without_permission(self):
        os.mkdir(locked := os.path.join(self.directory, "locked"), 0o500)
        self.assert_refused("", "EACCES", directory=locked)

    def in_tmpfs(self, options, command, directory):
        """Return a command that runs command with a tmpfs of its own mounted
        on directory, and copies what is in it to the test's directory."""
        shell = ["unshare", "--mount", "sh", "-c", textwrap.dedent("""\
            directory=$1 options=$2 copy=$3
            shift 3
            mount -t tmpfs -o "$options" tmpfs "$directory" || exit 99
            "$@"
            status=$?
            cp -R "$directory" "$copy"
            exit $status
        """), "sh", directory, options, os.path.join(self.directory, "copy")]
        if shutil.which("unshare") is None:
            self.skipTest("unshare, of util-linux, is not installed")
        probe = self.run_command([*shell, "true"])
        if probe.status != 0:
            self.skipTest(f"cannot mount a tmpfs: {probe.err.strip()}")
        shutil.rmtree(os.path.join(self.directory, "copy"))
        return shell + command

    def mount_point(self):
        os.mkdir(directory := os.path.join(self.directory, "mounted"))
        return directory

    @not_emulated("it maps no file executable")
    def test_directory_without_execution(self):
        # perf finds the file by an executable mapping.
        directory = self.mount_point()
        command = self.in_tmpfs("noexec", self.command(self.TRY), directory)
        result = self.run_command(command, directory)
        self.assertEqual((result.status, result.out, result.err),
                         (0, "EPERM True\nFalse\n", ""))
        # Nothing is left there.
        self.assertEqual(os.listdir(os.path.join(self.directory, "copy")), [])

    LONG_RUN = """
        for number in range(2000):
            run(f"f{number}")
        print("done")
    """

    def assert_warned_once(self, result, code):
        self.assertEqual((result.status, result.out), (0, "done\n"))
        self.assertRegex(
            result.err, r"\Apython: profilers will not know some functions by "
            r"name: '\S+/jit-\d+\.dump': "
            rf"{re.escape(os.strerror(getattr(errno, code)))}\n\Z")

    def test_full_disk(self):
        directory = self.mount_point()
        command = self.in_tmpfs("size=200k", self.command(
            self.LONG_RUN, "-X", "perf_jit"), directory)
        result = self.run_command(command, directory)
        self.assert_warned_once(result, "ENOSPC")
        [file] = os.listdir(os.path.join(self.directory, "copy"))
        dump = perf_jitdump.read(os.path.join(self.directory, "copy", file))
        self.assert_has(dump, "f0", "f100")
        self.assert_lacks(dump, "f1999")

    def test_disk_full_for_a_while(self):
        directory = self.mount_point()
        command = self.in_tmpfs("size=400k", self.command("""
            filler = os.path.join(os.environ["JITDUMPDIR"], "filler")
            with open(filler, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError as error:
                    assert error.errno == errno.ENOSPC
            for number in range(100):
                run(f"full{number}")
            os.unlink(filler)
            run("space again")
            with open(path(os.getpid()), "rb") as file:
                data = file.read()
            # Nothing that was full waits for the end.
            assert b"py::full99:" in data and b"py::space again:" in data
            print("done")
        """, "-X", "perf_jit"), directory)
        result = self.run_command(command, directory)
        self.assert_warned_once(result, "ENOSPC")
        [file] = os.listdir(os.path.join(self.directory, "copy"))
        dump = perf_jitdump.read(os.path.join(self.directory, "copy", file))
        self.assert_has(dump, "space again", "full0", "full50", "full99")

    LIMIT = """
        import resource
        def limit(size):
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    """

    def test_limited_file(self):
        # The limit falls on each kind of place in a symbol's records.
        for excess in 1, 119, 120, 121, 200, 2000:
            with self.subTest(excess):
                result = self.run_command(self.command(
                    textwrap.dedent(self.LIMIT)
                    + f"limit(os.path.getsize(path(os.getpid())) + {excess})\n"
                    + textwrap.dedent(self.LONG_RUN), "-X", "perf_jit"))
                self.assert_warned_once(result, "EFBIG")
                dump = perf_jitdump.read(result.path)
                self.assert_lacks(dump, "f1999")

    def start_limited(self, size):
        return self.run_after(
            textwrap.dedent(self.LIMIT) + f"limit({size})", """
            os.execv(sys.executable, [sys.executable, "-X", "perf_jit",
                                      "-c", "print('done')"])
        """)

    def test_limited_from_the_start(self):
        # No room for the header and a symbol.
        for size in 0, 39, 40, 100:
            with self.subTest(size):
                result = self.start_limited(size)
                self.assertEqual((result.status, result.out), (0, "done\n"))
                self.assertEqual(result.err, "python: -X perf_jit has no "
                                 f"effect: [Errno {errno.EFBIG}] "
                                 f"{os.strerror(errno.EFBIG)}: "
                                 f"'{result.path}'\n")
        # No room for all symbols of start-up, which may be written at once.
        for size in 1000, 10_000:
            with self.subTest(size):
                result = self.start_limited(size)
                self.assert_warned_once(result, "EFBIG")
                perf_jitdump.read(result.path)

    def test_sudden_ends(self):
        for end, status in (("os._exit(3)", 3),
                            ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
                            ("os.abort()", -signal.SIGABRT)):
            if EMULATOR and "abort" in end:
                continue                # it adds a message of its own
            with self.subTest(end):
                dump = self.dump_of(f"""
                    import resource
                    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                    for number in range(100):
                        run(f"f{{number}}")
                    {end}
                """, status=status)
                self.assert_has(dump, *(f"f{number}" for number in range(100)))

    def test_deleted(self):
        # The next new function finds out.
        dump = self.dump_of("""
            run("before")
            os.unlink(path(os.getpid()))
            run("f")
        """, "-X", "perf_jit")
        self.assert_has(dump, "before", "f")

    def test_closed_by_program(self):
        # Closing unknown descriptors is what daemons do.
        dump = self.dump_of("""
            run("before")
            os.closerange(3, 1000)
            run("after")
        """)
        self.assert_has(dump, "before", "after")

    def test_number_reused_by_program(self):
        result = self.run_script("""
            other = os.path.join(os.environ["JITDUMPDIR"], "other")
            run("before")
            os.closerange(3, 1000)
            fds = [os.open(other, os.O_CREAT | os.O_RDWR)]
            while fds[-1] < 200:
                fds.append(os.dup(fds[0]))
            run("after")
            assert os.path.getsize(other) == 0
        """, "-X", "perf_jit")
        self.assert_has(perf_jitdump.read(result.path), "before", "after")


if __name__ == "__main__":
    unittest.main()
