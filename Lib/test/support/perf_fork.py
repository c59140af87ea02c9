"""Scripts that fork, in an interpreter of their own.

For test_perf_fork and test_perf_fork_first_call.
"""

import textwrap

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
