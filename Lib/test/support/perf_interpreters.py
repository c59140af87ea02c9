"""Other interpreters in the process, by the module that the base has for them.

Used by Lib/test/test_perf_*.py and the programs that they run.  ImportError if
there is no such module.
"""

try:
    import _interpreters
except ImportError:
    from _xxsubinterpreters import create, destroy, run_string
else:
    from _interpreters import destroy

    def create(*, isolated=True):
        """Make one, with a lock of its own if it is isolated: it cannot import
        all extension modules then."""
        return _interpreters.create("isolated" if isolated else "legacy")

    def run_string(interpreter, source, shared=None):
        failure = _interpreters.run_string(interpreter, source, shared)
        if failure is not None:
            raise RuntimeError(failure.errdisplay)
