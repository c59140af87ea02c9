"""The perf trampoline's files in somebody else's program, which closes,
removes and replaces what it finds, and has a family of processes.
"""

import os
import re
import tempfile
import textwrap
import unittest

from test.support import perf_jitdump
from test.support.perf_guest import LIMIT, MANY
from test.support.perf_helper import (not_emulated, parse_map,
                                      requires_trampoline)
from test.support.perf_jitdump_case import JitdumpTestCase
from test.support.perf_map import MapTestCase, mount_command, run


@requires_trampoline
class OthersFilesTest(MapTestCase):
    """Descriptors and inodes that were ours are the program's now."""

    def test_inode_is_not_used_again(self):
        result = self.run_well("""
            import fcntl
            make_function("one")()
            number = descriptor_of_map()
            map_status = os.stat(MAP)
            os.unlink(MAP)
            os.closerange(3, 4096)
            # Like the map, but the program's.
            for attempt in range(300):
                path = f"{MAP}.own.{attempt}"
                fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
                os.unlink(path)
                if os.path.samestat(os.fstat(fd), map_status):
                    break
                if attempt < 299:
                    os.close(fd)
            os.dup2(fd, number)
            os.close(fd)
            make_function("two")()
            sys.activate_stack_trampoline("perf")
            assert os.fstat(number).st_size == 0, os.pread(number, 100, 0)
            class AtEnd:
                def __del__(self, fstat=os.fstat, number=number):
                    assert fstat(number).st_size == 0
            sys.at_end = AtEnd()
        """, "-X", "perf")
        for name in b"one:made.py", b"two:made.py":
            self.assertEqual(result.names.count(name), 1)

    def test_own_descriptor_of_the_map(self):
        # A program that reads its own map, by the number that was ours.
        self.run_well("""
            number = descriptor_of_map()
            os.closerange(3, 4096)
            fd = os.open(MAP, os.O_RDONLY)
            os.dup2(fd, number)
            sys.activate_stack_trampoline("perf_jit")
            os.unlink(f"{os.environ.get('JITDUMPDIR', '/tmp')}/jit-"
                      f"{os.getpid()}.dump")
            assert os.pread(number, 1, 0)
        """, "-X", "perf")

    def test_warning_into_a_data_file(self):
        for close in ("os.close(2)", "os.unlink(path); os.close(2)"):
            with tempfile.TemporaryDirectory() as directory:
                # Standard error is a file, so that its inode can be reused.
                path = os.path.join(directory, "err")
                result = run(MANY + LIMIT + f"""
path = {path!r}
call_many("early")
limit(os.path.getsize(MAP) + 100)
{close}
data = os.open({directory!r} + "/data", os.O_RDWR | os.O_CREAT, 0o600)
assert data == 2
call_many()
assert os.fstat(2).st_size == 0, os.pread(2, 1000, 0)
print("done")
""", "-X", "perf", before=f"""
                    fd = os.open({path!r}, os.O_RDWR | os.O_CREAT, 0o600)
                    os.dup2(fd, 2)
                    os.close(fd)
                """)
                if os.path.exists(path):
                    with open(path) as file:
                        self.assertEqual(file.read(), "")
            self.assertEqual((result.returncode, result.stdout), (0, "done\n"))

    def test_warning_into_a_file(self):
        # Standard error is that file.
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "err")
            run(MANY + LIMIT + """
limit(os.path.getsize(MAP) + 100)
call_many()
""", "-X", "perf", before=f"""
                fd = os.open({path!r}, os.O_RDWR | os.O_CREAT, 0o600)
                os.dup2(fd, 2)
                os.close(fd)
            """)
            with open(path) as file:
                self.assertEqual(file.read().count("profilers will not"), 1)

    def test_standard_streams_closed(self):
        for option in "perf", "perf_jit":
            for closed in (2,), (0, 1, 2), (0, 2):
                with self.subTest(option=option, closed=closed), \
                        tempfile.TemporaryDirectory() as directory:
                    report = os.path.join(directory, "report")
                    run(f"""
                        make_function("f")()
                        opened = []
                        for fd in {closed}:
                            try:
                                os.fstat(fd)
                                opened.append(fd)
                            except OSError:
                                pass
                        assert sys.is_stack_trampoline_active()
                        fd = os.open({report!r}, os.O_RDWR | os.O_CREAT)
                        os.write(fd, repr(opened).encode())
                    """, "-X", option, before=f"""
                        import resource
                        resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
                        os.environ["JITDUMPDIR"] = {directory!r}
                        for fd in {closed}:
                            os.close(fd)
                    """)
                    with open(report) as file:
                        self.assertEqual(file.read(), "[]")

    @unittest.skipUnless(os.geteuid() == 0, "only root can change the root")
    def test_children_without_tmp(self):
        with tempfile.TemporaryDirectory() as directory:
            result = run(f"""
                make_function("before")()
                os.chroot({directory!r})
                for number in range(5):
                    pid = os.fork()
                    if pid == 0:
                        make_function(f"of_child_{{number}}")()
                        os._exit(0)
                    assert os.waitpid(pid, 0)[1] == 0
                make_function("after")()
            """, "-X", "perf")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(b"before:made.py", result.names)
        self.assertIn(b"after:made.py", result.names)

    def test_child_of_a_process_that_has_warned(self):
        result = run(MANY + LIMIT + """
limit(20001)
call_many()
pid = os.fork()
if pid == 0:
    call_many("child")
    os.unlink(f"/tmp/perf-{os.getpid()}.map")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(pid)
""", "-X", "perf")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            [int(pid)
             for pid in re.findall(r"perf-(\d+)\.map", result.stderr)],
            [result.pid, int(result.stdout)], result.stderr)


@requires_trampoline
class RemovedFileTest(JitdumpTestCase):
    """Activation gives a complete file or an error."""

    PREPARE = """
        BACK_END, OTHER = {back_end!r}, {other!r}
        name = {{"perf": f"/tmp/perf-{{os.getpid()}}.map",
                "perf_jit": path(os.getpid())}}[BACK_END]
        def names():
            with open(name, "rb") as file:
                data = file.read()
            return [line for line in ("early", "late")
                    if data.count(f"py::{{line}}:".encode()) == 1]
        sys.activate_stack_trampoline(BACK_END)
        run("early")
    """

    def check(self, script):
        for back_end, other in (("perf", "perf_jit"), ("perf_jit", "perf")):
            with self.subTest(back_end=back_end):
                prepare = self.PREPARE.format(back_end=back_end, other=other)
                result = self.run_script(textwrap.dedent(prepare)
                                         + textwrap.dedent(script))
                self.assertEqual((result.status, result.err), (0, ""))
                if back_end == "perf_jit":
                    self.assert_has(perf_jitdump.read(result.path), "early",
                                    "late")

    HARM = {
        "removed": "os.unlink(name)",
        "renamed": "os.rename(name, name + '.away')",
        "cut": "os.truncate(name, 100)",
        "emptied": "os.truncate(name, 0)",
        "replaced": "os.unlink(name); open(name, 'w').close()",
        "removed and closed": "os.unlink(name); os.closerange(3, 1000)",
    }

    def test_off_and_on(self):
        for what, harm in self.HARM.items():
            with self.subTest(what):
                self.check(f"""
                    {harm}
                    sys.deactivate_stack_trampoline()
                    sys.activate_stack_trampoline(BACK_END)
                    assert names() == ["early"], names()
                    run("late")
                    assert names() == ["early", "late"], names()
                """)

    def test_active(self):
        for what, harm in self.HARM.items():
            with self.subTest(what):
                self.check(f"""
                    {harm}
                    sys.activate_stack_trampoline(BACK_END)
                    assert names() == ["early"], names()
                    run("late")
                """)

    def test_other_back_end_and_back(self):
        for what, harm in self.HARM.items():
            with self.subTest(what):
                self.check(f"""
                    sys.activate_stack_trampoline(OTHER)
                    {harm}
                    sys.activate_stack_trampoline(BACK_END)
                    assert names() == ["early"], names()
                    run("late")
                    sys.activate_stack_trampoline(OTHER)
                    {harm}
                    sys.activate_stack_trampoline(BACK_END)
                    assert names() == ["early", "late"], names()
                """)

    def test_something_else_in_its_place(self):
        self.check("""
            os.unlink(name)
            os.mkdir(name)
            for again in range(2):
                try:
                    sys.activate_stack_trampoline(BACK_END)
                except OSError as error:
                    assert error.errno == errno.EEXIST, error
                else:
                    assert False
            os.rmdir(name)
            sys.activate_stack_trampoline(BACK_END)
            assert names() == ["early"], names()
            run("late")
        """)

    def test_next_new_function(self):
        # Without an activation: by someone who tidies /tmp.
        self.check("""
            os.unlink(name)
            run("late")
            assert names() == ["early", "late"], names()
        """)


@requires_trampoline
class FamilyTest(MapTestCase):

    def test_chain_of_forks(self):
        # The program goes on in its child, again and again.
        result = self.run_well("""
            def address_space():
                with open("/proc/self/statm") as file:
                    return int(file.read().split()[0]) * 4096
            def go_on(generations):
                for generation in range(generations):
                    pid = os.fork()
                    if pid != 0:
                        status = os.waitpid(pid, 0)[1]
                        os.unlink(f"/tmp/perf-{pid}.map")
                        os._exit(status != 0)
                    make_function(f"of_generation_{len(seen)}")()
                    seen.append(os.getpid())
            seen = []
            make_function("before")()
            pid = os.fork()
            if pid == 0:
                go_on(10)
                before = address_space()
                go_on(100)
                grown = address_space() - before
                assert grown < 500_000, grown
                with open(f"/tmp/perf-{os.getpid()}.map") as file:
                    lines = [line.split(" ", 2) for line in file]
                names = {name[4:].partition(":")[0] for *_, name in lines}
                assert {f"of_generation_{n}" for n in range(110)} <= names
                assert len({start for start, *_ in lines}) == len(lines)
                os._exit(0)
            status = os.waitpid(pid, 0)[1]
            os.unlink(f"/tmp/perf-{pid}.map")
            assert status == 0, status
        """, "-X", "perf")
        self.assertIn(b"before:made.py", result.names)

    @not_emulated("its addresses are those of the emulator")
    def test_exec_without_randomised_addresses(self):
        # Programs with one number must not share addresses.
        result = self.run_well("""
            import ctypes
            turn = os.environ.get("TURN", "0")
            for number in range(2000):
                make_function(f"of_turn_{turn}_{number}")()
            if turn < "4":
                os.environ["TURN"] = str(int(turn) + 1)
                ADDR_NO_RANDOMIZE = 0x0040000
                ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
                os.execv(sys.executable, sys.orig_argv)
        """, "-X", "perf")
        names = {}
        for start, _, name in parse_map(result.map.decode()):
            names.setdefault(start, set()).add(name)
        self.assertEqual([those for those in names.values()
                          if len(those) > 1], [])
        for turn in range(5):
            self.assertIn(b"of_turn_%d_1999:made.py" % turn, result.names)

    def in_namespace(self, options="-t tmpfs tmpfs /tmp"):
        wrapper, why_not = mount_command(options)
        if wrapper is None:
            self.skipTest(why_not)
        return wrapper

    SAME_NUMBER = """
        import ctypes, time
        def names():
            with open("/tmp/perf-1.map") as file:
                lines = [line.rstrip().split(" ", 2) for line in file]
            for start, _, name in lines:
                assert places.setdefault(start, name) == name, (name, places)
            return [name[4:].partition(":")[0] for *_, name in lines]
        places = {}
        assert os.getpid() == 1
        make_function("of_parent")()
        CLONE_NEWPID = 0x20000000
        assert ctypes.CDLL(None).unshare(CLONE_NEWPID) == 0
        reader, writer = os.pipe()
        reader_2, writer_2 = os.pipe()
        time.sleep(0.1)             # let the map look old
        if os.fork() == 0:
            assert os.getpid() == 1
            CHILD
        os.close(writer)
        assert os.read(reader, 1) == b"."
        make_function("of_parent_meanwhile")()
        make_function("of_parent_later")()
        os.write(writer_2, b".")
        assert os.wait()[1] == 0
        found = names()
        print(*[name for name in ("of_parent", "of_parent_meanwhile",
                                  "of_parent_later", "of_child",
                                  "of_child_later")
                if name in found])
    """

    def check_same_number(self, child, fork="os.fork()"):
        program = textwrap.dedent(self.SAME_NUMBER).replace(
            "    CHILD", textwrap.indent(textwrap.dedent(child), "    ")
            ).replace("os.fork()", fork)
        result = run(program, "-X", "perf", read=False,
                     wrapper=[*self.in_namespace(), "unshare", "--pid",
                              "--fork"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout.split(), [
            "of_parent", "of_parent_meanwhile", "of_parent_later", "of_child",
            "of_child_later"])

    CHILD = """
        make_function("of_child")()
        os.write(writer, b".")
        os.read(reader_2, 1)
        for number in range(100):
            make_function(f"of_child_{number}")()
        make_function("of_child_later")()
        os._exit(0)
    """

    @unittest.skipUnless(os.geteuid() == 0, "only root makes pid namespaces")
    def test_forked_child_with_the_number_of_its_parent(self):
        self.check_same_number(self.CHILD)

    @unittest.skipUnless(os.geteuid() == 0, "only root makes pid namespaces")
    @not_emulated("it does not wipe the page that tells of the fork")
    def test_untold_child_with_the_number_of_its_parent(self):
        self.check_same_number(self.CHILD, "ctypes.PyDLL(None).fork()")

    @unittest.skipUnless(os.geteuid() == 0, "only root makes pid namespaces")
    def test_program_with_the_number_of_its_parent(self):
        self.check_same_number("""
            os.set_inheritable(writer, True)
            os.set_inheritable(reader_2, True)
            program = sys.orig_argv[-1].partition("import ctypes")[0]
            program += "\\n".join([
                "make_function('of_child')()", f"os.write({writer}, b'.')",
                f"os.read({reader_2}, 1)",
                "make_function('of_child_later')()"])
            os.execv(sys.executable, [*sys.orig_argv[:-1], program])
        """)

    def test_old_map_without_proc(self):
        result = run("""
            assert not os.path.exists("/proc/self")
            make_function("new")()
            with open(MAP) as file:
                text = file.read()
            print("stale" in text, "py::new:" in text)
        """, "-X", "perf", read=False,
            wrapper=self.in_namespace("-t tmpfs tmpfs /proc"), before="""
            with open(MAP, "w") as file:
                file.write("1000 10 stale\\n")
            os.utime(MAP, (10**9, 10**9))
        """)
        self.assertEqual((result.returncode, result.stdout, result.stderr),
                         (0, "False True\n", ""))


if __name__ == "__main__":
    unittest.main()
