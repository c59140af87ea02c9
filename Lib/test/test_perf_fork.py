"""Forked children: labels are inherited, and each process has its own map.

Each test is a script in an interpreter of its own, which forks.
"""

import unittest

from test.support.perf_fork import run
from test.support.perf_helper import requires_trampoline


@requires_trampoline
class ForkTest(unittest.TestCase):

    def test_maps_of_parent_and_child(self):
        run("""
            def child():
                label = make("child_only")()
                own = symbols()
                assert own["before"] == at_fork["before"]
                assert at_fork.items() <= own.items()
                assert own["child_only"] < label < own["child_only"] + 16
                assert own["child_only"] not in at_fork.values()
                assert arenas() == parent_arenas

            activate()
            make("before")()
            at_fork = symbols()
            parent_arenas = arenas()
            assert len(parent_arenas) == 1, parent_arenas
            pid = run_in_child(child)
            make("parent_only")()
            assert "parent_only" in symbols()
            assert "child_only" not in symbols()
            assert "parent_only" not in symbols(pid)
            assert is_in(symbols()["parent_only"], parent_arenas)
            """)

    def test_walk_in_the_child(self):
        run("""
            def recurse(n):
                if n:
                    recurse(n - 1)
                else:
                    run_in_child(child)
                checker.check()

            def child():
                checker.check()
                list(map(checker.check, [1, 2]))
                again(40)
                checker.finish(at_least=44)

            def again(n):
                checker.check()
                if n:
                    again(n - 1)

            activate()
            recurse(50)
            recurse(1)
            checker.finish(at_least=53)
            """)

    def test_child_returns_through_functions_of_the_parent(self):
        run("""
            def recurse(n):
                if n == 0:
                    pid = os.fork()
                    if pid == 0:
                        checker.names = LabelNames()
                else:
                    pid = recurse(n - 1)
                checker.check()
                return pid

            activate()
            pid = recurse(60)
            if pid == 0:
                status = 1
                try:
                    checker.finish(at_least=61)
                    status = 0
                finally:
                    os._exit(status)
            remove_at_exit(pid)
            assert os.waitpid(pid, 0)[1] == 0
            checker.finish(at_least=61)
            """)

    def test_grandchild(self):
        run("""
            def child():
                make("of_child")()
                assert arenas() == known
                remove_map(run_in_child(grandchild, symbols()))

            def grandchild(of_parent):
                make("of_grandchild")()
                own = symbols()
                assert of_parent.items() <= own.items()
                assert {"before", "of_child", "of_grandchild"} <= own.keys()
                assert own["of_grandchild"] not in of_parent.values()
                assert arenas() == known

            activate()
            make("before")()
            known = arenas()
            run_in_child(child)
            """)

    def test_from_a_thread(self):
        run("""
            def thread():
                checker.check()
                pids.append(run_in_child(child))
                checker.check()

            def child():
                checker.check()
                make("child_only")()
                assert {"before", "child_only"} <= symbols().keys()
                checker.finish(at_least=2)

            pids = []
            activate()
            make("before")()
            t = threading.Thread(target=thread)
            t.start()
            t.join()
            assert "child_only" not in symbols()
            assert "child_only" in symbols(pids[0])
            checker.finish(at_least=2)
            """)

    def test_while_threads_write_symbols(self):
        # A child must not wait for a lock that a thread of its parent held.
        run("""
            import itertools, time

            def write_symbols():
                while not done:
                    for _ in range(10):
                        make(f"of_parent_{next(numbers)}")()
                    time.sleep(0.001)

            def child(number):
                make(f"of_child_{number}")()
                own = symbols()
                assert f"of_child_{number}" in own
                assert at_start.items() <= own.items()

            numbers, done = itertools.count(), []
            activate()
            at_start = symbols()
            threads = [threading.Thread(target=write_symbols, daemon=True)
                       for _ in range(3)]
            sys.setswitchinterval(1e-5)
            for thread in threads:
                thread.start()
            for number in range(40):
                remove_map(run_in_child(child, number))
            done.append(1)
            for thread in threads:
                thread.join()
            assert next(numbers) > 100
            assert not [name for name in symbols() if "of_child" in name]
            """)

    def test_inactive_parent(self):
        run("""
            def child():
                make("f")()
                assert not map_descriptors()
                assert not is_newer_map(os.getpid())

            def child_that_activates():
                activate()
                make("child_only")()
                assert {"early", "child_only"} <= symbols().keys()

            run_in_child(child)                 # never active
            activate()
            make("early")()
            sys.deactivate_stack_trampoline()
            run_in_child(child)
            run_in_child(child_that_activates)
            assert not sys.is_stack_trampoline_active()
            assert "child_only" not in symbols()
            """)

    def test_toggling_in_the_child(self):
        run("""
            def child():
                sys.deactivate_stack_trampoline()
                make("while_off")()
                assert "while_off" not in symbols()
                activate()
                make("while_on")()
                assert "while_on" in symbols()
                checker.check()
                checker.finish(at_least=1)

            activate()
            run_in_child(child)
            assert sys.is_stack_trampoline_active()
            make("later")()
            assert "later" in symbols()
            """)

    def test_untold_fork(self):
        # C programs can fork without calling PyOS_AfterFork_Child().
        run("""
            import ctypes

            def child(name):
                make(name)()
                own = symbols()
                assert {"before", name} <= own.keys(), own
                assert arenas() == parent_arenas
                assert map_descriptors() == [map_path(os.getpid())]
                checker.check()
                checker.finish(at_least=1)

            def child_that_activates():
                activate()
                make("late")()
                assert {"before", "late"} <= symbols().keys()
                assert map_descriptors() == [map_path(os.getpid())]

            os.fork = ctypes.PyDLL(None).fork
            activate()
            make("before")()
            parent_arenas = arenas()
            children = {name: run_in_child(child, name)
                        for name in ("one", "other")}
            for name, pid in children.items():
                assert [n for n in ("one", "other") if n in symbols(pid)] == [
                    name]
            sys.deactivate_stack_trampoline()
            run_in_child(child_that_activates)
            assert not {"one", "other", "late"} & symbols().keys()
            """)

    def test_descriptors(self):
        run("""
            import subprocess

            LOOK = ("import os; fds = os.listdir('/proc/self/fd')\\n"
                    "for path in [f'/proc/self/fd/{fd}' for fd in fds]:\\n"
                    "    assert not (os.path.islink(path)\\n"
                    "                and 'perf-' in os.readlink(path))")

            def child():
                assert map_descriptors() == [map_path(os.getpid())]

            activate()
            assert map_descriptors() == [map_path(os.getpid())]
            run_in_child(child)
            for options in {}, {"preexec_fn": make("preexec")}:
                process = subprocess.Popen([sys.executable, "-c", LOOK],
                                           close_fds=False, **options)
                assert process.wait() == 0
                remove_map(process.pid)
            run_in_child(os.execv, sys.executable,
                         [sys.executable, "-c", LOOK])
            """)


@requires_trampoline
class PreForkTest(unittest.TestCase):
    """What servers do that prepare everything and then fork."""

    def test_compile_code(self):
        run("""
            def child():
                assert symbols()["prepared"] == start
                assert start < function() < start + 16

            function = make("prepared")
            assert _testperf.compile_code(function.__code__) == 0   # inactive
            activate()
            assert "prepared" not in symbols()
            assert _testperf.compile_code(function.__code__) == 0
            start = symbols()["prepared"]
            assert _testperf.compile_code(function.__code__) == 0
            assert [name for *_, name in read_map(os.getpid())].count(
                "py::prepared:<string>") == 1
            for _ in range(2):
                run_in_child(child)
            assert start < function() < start + 16
            """)

    def test_persist_after_fork_is_always_on(self):
        run("""
            def child():
                assert symbols()["before"] == before

            activate()
            make("before")()
            before = symbols()["before"]
            for enable in 0, 1, 0:
                result = _testperf.set_persist_after_fork(enable)
                assert result == (enable if RETURNS_PERSIST else 0)
                run_in_child(child)
            """)


if __name__ == "__main__":
    unittest.main()
