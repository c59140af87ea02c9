"""Other interpreters in the process, by the module that the base has for them.

Used by Lib/test/test_perf_*.py and the programs that they run.  ImportError if
there is no such module.

run_string() is a function in C, as some tests want it; hand its result to
raise_failure().
"""

try:
    import _interpreters
except ImportError:
    from _xxsubinterpreters import create, destroy, run_string

    def raise_failure(result):
        pass
else:
    from _interpreters import destroy, run_string

    def create(*, isolated=True):
        """Make one, with a lock of its own if it is isolated: it cannot import
        all extension modules then."""
        return _interpreters.create("isolated" if isolated else "legacy")

    def raise_failure(result):
        if result is not None:
            raise RuntimeError(result.errdisplay)
