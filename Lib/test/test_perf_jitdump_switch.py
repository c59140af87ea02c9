"""Jitdumps of forked children, and of programs that switch back ends."""

import os
import sys
import textwrap
import unittest

from test import support
from test.support import perf_jitdump
from test.support.perf_helper import remove_map
from test.support.perf_jitdump_case import JitdumpTestCase, symbol_of


class ForkTest(JitdumpTestCase):

    FORK = """
        def child():
            run("in child")
            os._exit(0)
        def fork():
            pid = os.fork()
            if pid == 0:
                child()
            os.waitpid(pid, 0)
            return pid
    """

    def run_fork(self, script, *options):
        """Return the dumps of parent and child, or None; the script prints the
        child's number first."""
        result = self.run_script(textwrap.dedent(self.FORK)
                                 + textwrap.dedent(script), *options)
        child = int(result.out.split()[0])
        self.addCleanup(remove_map, child)
        dumps = []
        for pid in result.pid, child:
            path = os.path.join(self.directory, f"jit-{pid}.dump")
            dumps.append(perf_jitdump.read(path)
                         if os.path.exists(path) else None)
            if dumps[-1] is not None:
                self.assertEqual(dumps[-1].header.pid, pid)
                self.assertEqual({load.pid for load in dumps[-1].loads}, {pid})
        return dumps

    def test_fork(self):
        self.check_fork()

    def test_untold_fork(self):
        # C programs can fork without calling PyOS_AfterFork_Child().
        self.check_fork("""
            import ctypes
            os.fork = ctypes.PyDLL(None).fork
        """)

    def check_fork(self, preparation=""):
        parent, child = self.run_fork(textwrap.dedent(preparation)
                                      + textwrap.dedent("""
            run("before")
            pid = fork()
            run("after")
            print(pid)
        """), "-X", "perf_jit")
        self.assert_has(parent, "before", "after")
        self.assert_lacks(parent, "in child", "child")
        self.assert_has(child, "before", "in child")
        self.assert_lacks(child, "after")
        # All that was there before the fork is at the same place after it.
        addresses = [{load.name: load.code_addr for load in dump.loads}
                     for dump in (parent, child)]
        inherited = addresses[0].keys() & addresses[1].keys()
        names = [load.name for load in parent.loads]
        self.assertLessEqual(set(names[:names.index(symbol_of("before")) + 1]),
                             inherited)
        for name in inherited:
            self.assertEqual(addresses[0][name], addresses[1][name])
        own = addresses[1].values()
        self.assertEqual(len(own), len(set(own)))

    def test_bytes_of_child(self):
        _, child = self.run_fork("""
            run("before")
            print(fork())
        """, "-X", "perf_jit")
        self.assertEqual([load.code_index for load in child.loads],
                         list(range(len(child.loads))))
        self.assertEqual(len({load.code for load in child.loads}),
                         len(child.loads))
        times = [child.header.timestamp, *(r.timestamp for r in child.records)]
        self.assertEqual(times, sorted(times))

    def test_marker_of_child(self):
        result = self.run_script("""
            pid = os.fork()
            if pid == 0:
                own = path(os.getpid())     # the call makes the file
                with open("/proc/self/maps") as maps:
                    for line in maps:
                        if ".dump" in line:
                            fields = line.split(maxsplit=5)
                            print(fields[1], fields[5].rstrip() == own)
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(pid, 0)
        """, "-X", "perf_jit")
        self.assertEqual(result.out, "r-xp True\n")

    def test_off_at_fork(self):
        parent, child = self.run_fork("""
            sys.activate_stack_trampoline("perf_jit")
            run("before")
            sys.deactivate_stack_trampoline()
            print(fork())
        """)
        self.assert_has(parent, "before")
        self.assertIsNone(child)

    def test_on_again_in_child(self):
        _, child = self.run_fork("""
            sys.activate_stack_trampoline("perf_jit")
            run("before")
            sys.deactivate_stack_trampoline()
            def child():
                sys.activate_stack_trampoline("perf_jit")
                run("in child")
                os._exit(0)
            print(fork())
        """)
        self.assert_has(child, "before", "in child")

    def test_directory_changed(self):
        # The child looks for itself.
        result = self.run_script("""
            new = os.environ["JITDUMPDIR"] + "/new"
            os.mkdir(new)
            os.environ["JITDUMPDIR"] = new
            pid = os.fork()
            if pid == 0:
                run("in child")
                os._exit(0)
            os.waitpid(pid, 0)
            print(path(pid))
        """, "-X", "perf_jit")
        self.assert_has(perf_jitdump.read(result.out.strip()), "in child")

    def test_directory_gone(self):
        result = self.run_script("""
            os.environ["JITDUMPDIR"] = "/nonexistent"
            pid = os.fork()
            if pid == 0:
                run("one")
                run("two")
                print("child runs", flush=True)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            print(pid)
        """, "-X", "perf_jit", err=support.ALWAYS_EQ)
        *runs, pid = result.out.split()
        self.assertEqual(runs, ["child", "runs"])
        self.assertEqual(result.err.count("\n"), 1)
        self.assertIn(f"'/nonexistent/jit-{pid}.dump': No such file or "
                      "directory", result.err)


class SwitchTest(JitdumpTestCase):

    def test_back_and_forth(self):
        result = self.run_script("""
            import shutil
            for turn, back_end in enumerate(["perf", "perf_jit"] * 2):
                sys.activate_stack_trampoline(back_end)
                assert sys.is_stack_trampoline_active()
                run(f"turn {turn}")
            pid = os.getpid()
            shutil.copy(f"/tmp/perf-{pid}.map", path(pid) + ".map")
        """)
        dump = perf_jitdump.read(result.path)
        names = {load.name for load in dump.loads}
        for turn in range(4):
            self.assertIn(symbol_of(f"turn {turn}"), names)
        for values in ([load.code for load in dump.loads],
                       [load.code_index for load in dump.loads]):
            self.assertEqual(len(values), len(set(values)))
        addresses = {}
        for load in dump.loads:
            self.assertEqual(addresses.setdefault(load.name, load.code_addr),
                             load.code_addr)
        with open(result.path + ".map") as file:
            lines = [line.rstrip("\n").split(" ", 2) for line in file]
        mapped = {name: int(start, 16) for start, _, name in lines}
        for turn in range(3):
            name = symbol_of(f"turn {turn}")
            self.assertEqual(mapped[name], addresses[name])

    def test_off_and_on(self):
        dump = self.dump_of("""
            run("one")
            sys.deactivate_stack_trampoline()
            run("two")
            sys.activate_stack_trampoline("perf_jit")
            run("three")
            sys.activate_stack_trampoline("perf_jit")
        """)
        self.assert_has(dump, "one", "three")
        self.assert_lacks(dump, "two")

    def test_failed_switch(self):
        # The old back end stays in use.
        result = self.run_script("""
            import shutil
            os.environ["JITDUMPDIR"] = "/nonexistent"
            try:
                sys.activate_stack_trampoline("perf_jit")
            except FileNotFoundError:
                print("refused", sys.is_stack_trampoline_active())
            run("after")
            with open(f"/tmp/perf-{os.getpid()}.map") as file:
                print("py::after:made" in file.read())
        """, "-X", "perf")
        self.assertEqual(result.out, "refused True\nTrue\n")

    def written(self, *options, **variables):
        """Which files does an interpreter make?"""
        result = self.run_command(
            [sys.executable, *options, "-c", textwrap.dedent("""
                import os, sys
                pid = os.getpid()
                directory = os.environ["JITDUMPDIR"]
                files = {"perf": f"/tmp/perf-{pid}.map",
                         "perf_jit": f"{directory}/jit-{pid}.dump"}
                print(sys.is_stack_trampoline_active(),
                      *[name for name in files if os.path.exists(files[name])])
            """)], variables=variables)
        self.assertEqual((result.status, result.err), (0, ""))
        return result.out.rstrip("\n")

    def test_precedence(self):
        map_variable = {"PYTHONPERFSUPPORT": "1"}
        variable = {"PYTHON_PERF_JIT_SUPPORT": "1"}
        for options, variables, expected in (
                ("", {}, "False"),
                ("-X perf_jit", {}, "True perf_jit"),
                ("-X perf_jit=1", {}, "True perf_jit"),
                ("-X perf_jit=0", {}, "False"),
                ("-X perf_jit=", {}, "False"),
                ("-X perf_jit=0 -X perf_jit", {}, "True perf_jit"),
                ("-X perf_jit -X perf_jit=0", {}, "False"),
                ("-X perf -X perf_jit", {}, "True perf_jit"),
                ("-X perf_jit -X perf", {}, "True perf_jit"),
                ("-X perf -X perf_jit=0", {}, "True perf"),
                ("-X perf=0 -X perf_jit", {}, "True perf_jit"),
                ("", variable, "True perf_jit"),
                ("", map_variable | variable, "True perf_jit"),
                ("", {"PYTHON_PERF_JIT_SUPPORT": "0"}, "False"),
                ("", {"PYTHON_PERF_JIT_SUPPORT": ""}, "False"),
                ("-E", variable, "False"),
                ("-I", variable, "False"),
                ("-E -X perf_jit", {}, "True perf_jit"),
                ("-X perf", variable, "True perf"),
                ("-X perf_jit", map_variable, "True perf_jit"),
                ("-X perf_jit=0", variable, "False"),
                ("-X perf_jit=0", variable | map_variable, "True perf"),
        ):
            with self.subTest(options=options, variables=variables):
                self.assertEqual(self.written(*options.split(), **variables),
                                 expected)

    def test_function_beats_option(self):
        result = self.run_script("""
            sys.activate_stack_trampoline("perf")
            run("f")
            with open(f"/tmp/perf-{os.getpid()}.map") as file:
                print("py::f:made" in file.read())
        """, "-X", "perf_jit")
        self.assertEqual(result.out, "True\n")
        self.assert_lacks(perf_jitdump.read(result.path), "f")


if __name__ == "__main__":
    unittest.main()
