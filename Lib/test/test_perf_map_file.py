"""What may be in the way of the perf map file, /tmp/perf-PID.map.

Where something must stand at the map's path before the program starts, a
launcher puts it there and then becomes the program: exec keeps the pid and the
time at which the process started.
"""

import errno
import os
import textwrap
import unittest

from test.support.perf_helper import not_emulated, requires_trampoline
from test.support.perf_map import MapTestCase, mount_command, remove, run

IN_THE_WAY = ", ".join(errno.errorcode[number] for number in (
    errno.EEXIST, errno.ELOOP, errno.EISDIR))


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
            number = descriptor_of_map()
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
            number = descriptor_of_map()
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

    FILL = """
        filler = os.open("/tmp/filler", os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, bytes(4096))
        except OSError:
            pass
    """

    def test_disk_full_from_the_start(self):
        wrapper = self.own_tmp("-t tmpfs -o size=16k tmpfs /tmp")
        result = run("""
            print("runs", sys.is_stack_trampoline_active())
            print(os.path.exists(MAP) and os.path.getsize(MAP))
        """, "-X", "perf", wrapper=wrapper, read=False, before=self.FILL)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_one_warning(result)
        self.assertEqual(result.stdout.splitlines()[0], "runs False")
        self.assertIn(result.stdout.splitlines()[1], ("False", "0"))

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

    @not_emulated("it writes a file when a program reads /proc/self/maps")
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


if __name__ == "__main__":
    unittest.main()
