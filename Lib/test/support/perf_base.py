"""What our tests have to know of the CPython that they run in.

No test of ours asks for the version of Python itself.  Used by
Lib/test/test_perf_*.py.
"""

import os
import sys
import sysconfig

# A comprehension is part of the function that it stands in (PEP 709).
INLINES_COMPREHENSIONS = sys.version_info >= (3, 12)

# "yield from" and "await" resume a generator without a call in C.
INLINES_SEND = sys.version_info >= (3, 12)

# PyUnstable_PerfTrampoline_SetPersistAfterFork() returns what it was given.
RETURNS_PERSIST = sys.version_info >= (3, 12)

# Without a GIL, CPython keeps what code has as constants for ever, and memory
# that threads have freed for a while.
KEEPS_MEMORY = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

# Nor has it another allocator than mimalloc, which takes memory by the GiB;
# and functions in C lock objects, which stay locked when a C++ exception skips
# them.
HAS_NO_GIL = KEEPS_MEMORY

# The kernel knows the names that threads give themselves, as far as they fit.
NAMES_THREADS = sys.version_info >= (3, 14)

# asyncio's tasks that are written in Python enter their steps by C.
STEPS_OF_PYTHON_TASKS_BY_C = sys.version_info < (3, 14)

# The file of a program that another interpreter of the process is given.
FILE_IN_INTERPRETER = ("<script>" if sys.version_info >= (3, 14)
                       else "<string>")

# A process is asked to name its functions by writing into it.
SERVES_REQUESTS = sys.version_info < (3, 14)

# What a JIT compiler of CPython's has made is told to profilers.
ANNOUNCES_JIT_CODE = sys.version_info >= (3, 15)


def has_jit():
    """Was a JIT compiler built in?"""
    flags = sysconfig.get_config_var("PY_CORE_CFLAGS") or ""
    return "-D_Py_JIT" in flags.split()


def uses_jit():
    """Does it compile traces in this process?"""
    if hasattr(sys, "_jit"):
        return sys._jit.is_enabled()
    return has_jit() and os.environ.get("PYTHON_JIT") != "0"


def has_tier_2():
    """Are there traces, compiled or not, and does _opcode tell of them?"""
    import _opcode
    try:
        _opcode.get_executor(has_tier_2.__code__, 0)
    except ValueError:
        return True         # there is none here
    except (AttributeError, RuntimeError):
        return False
    return True
