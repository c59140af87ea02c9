"""Children that are forked before, or while, the first function is called, and
how processes of other kinds get their maps.
"""

import textwrap
import unittest

from test.support.perf_fork import run
from test.support.perf_helper import requires_trampoline


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
