"""Forked children: labels are inherited, and each process has its own map.

Each test is a script in an interpreter of its own, which forks.
"""

import textwrap
import unittest

from test.support.perf_helper import requires_trampoline
from test.support.perf_walk import run_script

PREAMBLE = textwrap.dedent("""
    import atexit, os, re, sys, threading, time, traceback
    import warnings
    import _testperf
    from test.support.perf_base import RETURNS_PERSIST
    from test.support.perf_helper import map_path, read_map, remove_map
    from test.support.perf_walk import LabelNames, StackChecker, symbol

    checker = StackChecker()

    # Forks are what is tested here, in processes with threads as well.
    warnings.simplefilter("ignore", DeprecationWarning)

    def activate():
        sys.activate_stack_trampoline("perf")

    def make(name):
        '''Return a new function; its symbol is py::<name>:<string>.'''
        scope = {"_testperf": _testperf}
        exec(f"def {name}(): return (_testperf.labels() or [None])[0]", scope)
        return scope[name]

    def symbols(pid=None):
        '''Return {name: start} of a process's map.'''
        return {name.removeprefix("py::").removesuffix(":<string>"): start
                for start, _, name in read_map(pid or os.getpid())}

    def arenas():
        '''Return the mappings that hold the symbols of this process's map.'''
        starts = symbols().values()
        with open("/proc/self/maps") as maps:
            ranges = [[int(bound, 16) for bound in line.split()[0].split("-")]
                      for line in maps]
        return [(low, high) for low, high in ranges
                if any(low <= start < high for start in starts)]

    def is_in(start, arenas):
        return any(low <= start < high for low, high in arenas)

    def run_in_child(function, *args):
        '''Fork, call function in the child and return the child's pid.'''
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                checker.names = LabelNames()
                function(*args)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        remove_at_exit(pid)
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
        return pid

    def remove_at_exit(pid):
        atexit.register(remove_map, pid)

    started = time.time() - 0.01        # file times lag by up to a tick

    def is_newer_map(pid):
        '''Has pid a map that is not left from an earlier process?'''
        try:
            return os.stat(map_path(pid)).st_mtime > started
        except FileNotFoundError:
            return False

    def map_descriptors():
        found = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{fd}")
            except FileNotFoundError:
                continue
            if re.search(r"perf-[0-9]+[.]map", target):
                found.append(target)
        return found
    """)


def run(script, *options, env=()):
    return run_script(PREAMBLE + textwrap.dedent(script), *options, env=env)


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
class FirstCallTest(unittest.TestCase):
    """A child's file is made when it first calls a function."""

    # The functions have run in the parent, so no new symbol asks for a file.
    FUNCTIONS = """
        import functools, threading         # it has fork handlers
        def function(): checker.check()
        def generator(): yield function()
        class Class:
            def __getitem__(self, key): function()
            def __init__(self): function()
        def get(sequence): return sequence[0]
        def key(_): function()
        sequence = Class()
        def look(at_fork):
            own = symbols()
            assert at_fork.items() <= own.items(), at_fork.keys() - own.keys()
            assert [name for *_, name in read_map(os.getpid())
                    if "_after_fork:" in name]
            checker.finish(at_least=1)
        def fork(at_fork):
            pid = os.fork()
            if pid == 0:
                # Nothing but functions in C.
                path = f"/tmp/perf-{os.getpid()}.map"
                if os.access(path, 0) and os.stat(path).st_mtime > started:
                    os._exit(1)
                CALL
                if not os.access(path, 0):
                    os._exit(2)
                look(at_fork)
                os._exit(0)
            return pid
        for _ in range(20):             # until it is specialised
            CALL
        PREPARE
        pid = fork(symbols())
        remove_at_exit(pid)
        assert os.waitpid(pid, 0)[1] == 0
    """

    CALLS = {
        "plain": "function()",
        "from C": "sorted([1], key=key)",
        "generator": "next(generator())",
        "loop": "for _ in generator(): pass",
        "class": "Class()",
        "subscript": "sequence[0]",
        "partial": "functools.partial(function)()",
    }

    def check(self, call, prepare="pass"):
        with self.subTest(call=call):
            run(textwrap.dedent(self.FUNCTIONS).replace("CALL", call)
                .replace("PREPARE", prepare), "-X", "perf")

    def test_each_kind_of_call(self):
        for call in self.CALLS.values():
            self.check(call)

    def test_below_another_tool(self):
        for call in self.CALLS.values():
            self.check(call, "_testperf.install_evaluator()")

    def test_beside_another_tool(self):
        # Which is gone when the first function is called.
        self.check("_testperf.install_evaluator(); "
                   "_testperf.remove_evaluator(); function()")

    def test_no_call(self):
        # The fork handlers of threading are functions of Python.
        run("""
            import signal

            def check(pid, status=0):
                remove_at_exit(pid)
                assert os.waitpid(pid, 0)[1] == status
                assert not is_newer_map(pid)

            activate()
            make("before")()
            for _ in range(3):
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                check(pid)
                pid = os.fork()
                if pid == 0:
                    os.close(0)
                    os.execv("/bin/true", ["true"])
                check(pid)
                pid = os.fork()
                if pid == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                check(pid, signal.SIGKILL)
            """)

    def test_slow_fork_handler(self):
        # Its name is there before it is done.
        run("""
            def slow():
                before()
                while time.process_time() < 0.05:
                    pass
                late()
                are_there.append("late" in symbols())
            are_there = []
            before, late = make("early"), make("late")
            os.register_at_fork(after_in_child=slow)
            activate()
            pid = os.fork()
            if pid == 0:
                os._exit(not ({"slow:", "early", "late"}
                              <= {name.partition("/")[0] for name in
                                  symbols()} and are_there == [True]))
            remove_at_exit(pid)
            assert os.waitpid(pid, 0)[1] == 0
            """)

    def test_switched_before_the_first_call(self):
        run("""
            def child_deactivates():
                pass
            activate()
            make("before")()
            of_parent = symbols()
            own_names = symbols
            for again in False, True:
                pid = os.fork()
                if pid == 0:
                    sys.deactivate_stack_trampoline()
                    make("while_off")()
                    status = 0
                    if again:
                        sys.activate_stack_trampoline("perf")
                        make("while_on")()
                        own = symbols()
                        status = not (of_parent.items() <= own.items()
                                      and "while_on" in own
                                      and "while_off" not in own)
                    os._exit(status)
                remove_at_exit(pid)
                assert os.waitpid(pid, 0)[1] == 0
                assert is_newer_map(pid) == again
            """)

    def test_compile_code(self):
        # An addition that no call leads to.
        run("""
            activate()
            make("before")()
            code = make("compiled").__code__
            pid = os.fork()
            if pid == 0:
                _testperf.compile_code(code)
                os._exit(0)
            remove_at_exit(pid)
            assert os.waitpid(pid, 0)[1] == 0
            assert {"before", "compiled"} <= symbols(pid).keys()
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


@requires_trampoline
class ProcessTest(unittest.TestCase):

    def test_subprocess(self):
        run("""
            import subprocess

            def preexec():
                make("in_preexec")()

            activate()
            make("before")()
            # Without preexec_fn, no code of ours runs in the child.
            process = subprocess.Popen([sys.executable, "-c", "pass"])
            assert process.wait() == 0
            assert not is_newer_map(process.pid)

            process = subprocess.Popen(["true"], preexec_fn=preexec)
            remove_at_exit(process.pid)
            assert process.wait() == 0
            assert {"before", "in_preexec"} <= symbols(process.pid).keys()
            assert "in_preexec" not in symbols()

            process = subprocess.Popen([sys.executable, "-X", "perf", "-c",
                                        "exec('def own(): pass\\\\nown()')"])
            remove_at_exit(process.pid)
            assert process.wait() == 0
            assert "own" in symbols(process.pid)
            assert "before" not in symbols(process.pid)
            """)

    def test_multiprocessing_fork(self):
        run(MULTIPROCESSING + textwrap.dedent("""
            if __name__ == "__main__":
                activate()
                make("before")()
                for pid, active, own in work("fork"):
                    assert active
                    assert {"before", "of_worker"} <= own.keys()
                    assert own["before"] == symbols()["before"]
                assert "of_worker" not in symbols()
            """))

    def test_multiprocessing_starts_interpreters(self):
        # They look at the environment; what was activated in code is not for
        # them.
        for method in "forkserver", "spawn":
            run(MULTIPROCESSING + textwrap.dedent(f"""
                if __name__ == "__main__":
                    activate()
                    for pid, active, own in work({method!r}):
                        assert not active
                        assert own is None
                """))
            run(MULTIPROCESSING + textwrap.dedent(f"""
                if __name__ == "__main__":
                    make("of_main")()
                    for pid, active, own in work({method!r}):
                        assert active
                        assert "of_worker" in own
                        assert "of_main" not in own
                    assert "of_worker" not in symbols()
                """), env={"PYTHONPERFSUPPORT": "1"})


MULTIPROCESSING = textwrap.dedent("""
    import multiprocessing
    from multiprocessing import forkserver, resource_tracker

    def worker(_):
        make("of_worker")()
        pid = os.getpid()
        known = symbols() if map_descriptors() else None
        return pid, sys.is_stack_trampoline_active(), known

    def work(method):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            results = pool.map(worker, range(4))
            for process in pool._pool:
                remove_at_exit(process.pid)
        remove_at_exit(forkserver._forkserver._forkserver_pid)
        remove_at_exit(resource_tracker._resource_tracker._pid)
        return results
    """)


if __name__ == "__main__":
    unittest.main()
