"""How deep recursion through C gets before the C stack is used up.

For test_perf_c_stack and Tools/reliability/c_stack.py.  Imports nothing of the
tests.
"""

import contextlib
import mmap
import os
import resource
import signal
import struct
import subprocess
import tempfile
import textwrap

SWITCHES = ("PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT")

KIBI = 1024
UNLIMITED = 0       # the size of a thread by default, `ulimit -s unlimited`

# Each defines go(depth), which calls enter(depth) and recurses through C, on
# any base: some inline what others do in C.
WAYS = {
    "generators": """
        def numbers(depth):
            enter(depth)
            yield next(numbers(depth + 1))
        def go(depth):
            next(numbers(depth))
        """,
    "getattr": """
        class Attributes:
            def __getattr__(self, name):
                self.depth += 1
                enter(self.depth)
                return getattr(self, "another")
        def go(depth):
            attributes = Attributes()
            attributes.depth = depth
            attributes.first
        """,
    "repr": """
        class Item:
            def __repr__(self):
                self.depth += 1
                enter(self.depth)
                return repr(self)
        def go(depth):
            item = Item()
            item.depth = depth
            repr(item)
        """,
    "sort": """
        def go(depth):
            enter(depth)
            sorted([depth + 1], key=go)
        """,
    "json": """
        import json
        class Default(json.JSONEncoder):
            def default(self, depth):
                enter(depth.real)
                return [Number(depth.real + 1)]
        class Number:
            def __init__(self, real):
                self.real = real
        def go(depth):
            json.dumps(Number(depth), cls=Default, indent=1,
                       check_circular=False)
        """,
    "partial": """
        import functools
        def go(depth):
            enter(depth)
            functools.partial(go, depth + 1)()
        """,
}

PROGRAM = """\
import mmap, struct, sys, threading
path, size = sys.argv[1], int(sys.argv[2])
with open(path, "r+b") as file:
    memory = mmap.mmap(file.fileno(), 8)
store = struct.Struct("q").pack_into
def enter(depth):
    store(memory, 0, depth)
{way}
sys.setrecursionlimit(10**8)
if size:
    threading.stack_size(size)
thread = threading.Thread(target=go, args=(1,))
thread.start()
thread.join()
"""


def depth_of(command, way, size):
    """Return how deep an interpreter gets in a thread with so many bytes."""
    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if size == UNLIMITED:
            resource.setrlimit(resource.RLIMIT_STACK,
                               (resource.RLIM_INFINITY,) * 2)

    program = PROGRAM.format(way=textwrap.dedent(WAYS[way]))
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "depth")
        with open(path, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        environment = {name: value for name, value in os.environ.items()
                       if name not in SWITCHES} | {"JITDUMPDIR": directory}
        with subprocess.Popen(
                [*command, "-c", program, path, str(size)], env=environment,
                preexec_fn=prepare, text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                error = process.communicate(timeout=300)[1]
            finally:
                process.kill()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"/tmp/perf-{process.pid}.map")
        # Some bases see the end of the stack before they get there.
        if (process.returncode != -signal.SIGSEGV
                and "\nRecursionError: " not in error):
            raise RuntimeError(f"{' '.join(command)}: {way} ended with "
                               f"{process.returncode}:\n{error[-1000:]}")
        with open(path, "rb") as result:
            return struct.unpack("q", result.read(8))[0]


def loss(depth, expected):
    """Return by how many percent depth is less than expected.

    One level, at the bottom of a small stack, is no percentage.
    """
    return 100 * (1 - depth / expected) if expected - depth > 1 else 0
