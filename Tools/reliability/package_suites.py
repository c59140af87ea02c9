"""The jobs of package_job.py that are a package's own tests.

Each returns {test: outcome}.  The tests are in the package, or in its sources,
which packages.py has fetched to the directory PACKAGE_JOB_SOURCES.  Where a
whole suite takes more than about a minute, a part of it runs.  Tests of other
programs, such as type checkers, and of the network are left out.
"""

import contextlib
import importlib
import logging
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import unittest

PACKAGES = pathlib.Path(os.environ["PYTHONPATH"])       # one directory
SOURCES = pathlib.Path(os.environ.get("PACKAGE_JOB_SOURCES", "."))
JOBS = {}           # those of package_job.py and package_tools.py, too


def job(function):
    JOBS[function.__name__] = function
    return function


def run_pytest(*arguments):
    import pytest
    outcomes = {}

    class Collector:
        def pytest_runtest_logreport(self, report):
            if report.when == "call" or report.outcome != "passed":
                # Some names have addresses of objects in them.
                name = re.sub("0x[0-9a-f]+", "0x", report.nodeid)
                outcomes[name] = report.outcome

        def pytest_collectreport(self, report):
            if report.failed:
                outcomes[report.nodeid] = "error"

    with contextlib.redirect_stdout(sys.stderr):
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:randomly",
                     "-o", "addopts=", "--import-mode=append", "-W", "ignore",
                     *map(str, arguments)],
                    plugins=[Collector()])
    return outcomes


class Outcomes(unittest.TextTestResult):
    """Writes down how each test ended."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outcomes = {}

    def stopTest(self, test):
        super().stopTest(test)
        self.outcomes.setdefault(test.id(), "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcomes[test.id()] = "skipped"

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.outcomes[test.id()] = "failed"

    def addError(self, test, error):
        super().addError(test, error)
        self.outcomes[test.id()] = "error"


def run_unittest(suite):
    runner = unittest.TextTestRunner(resultclass=Outcomes, stream=sys.stderr)
    return runner.run(suite).outcomes


def in_sources(directory, *names):
    """Return paths of test files there, of those that this version has."""
    paths = [SOURCES / directory / f"{name}.py" for name in names]
    return [path for path in paths if path.exists()]


@job
def greenlet():
    return run_unittest(unittest.TestLoader().discover(
        f"{PACKAGES}/greenlet/tests", top_level_dir=str(PACKAGES)))


@job
def numpy():
    # Not those that run compilers.  The variable tells numpy to skip tests
    # that need more memory.
    os.environ["NPY_AVAILABLE_MEM"] = "1GB"
    core = f"{PACKAGES}/numpy/_core"    # since numpy 2
    if not os.path.exists(f"{core}/tests"):
        core = f"{PACKAGES}/numpy/core"
    return run_pytest(*(f"{PACKAGES}/numpy/{part}/tests"
                        for part in ("linalg", "fft", "polynomial",
                                     "matrixlib")),
                      f"{core}/tests/test_ufunc.py",
                      f"{PACKAGES}/numpy/lib/tests/test_function_base.py")


@job
def zmq():
    # Those that take longest wait, compile or need a network.
    return run_pytest(*(f"{PACKAGES}/zmq/tests/test_{part}.py"
                        for part in ("message", "multipart", "pair", "poll",
                                     "pubsub", "reqrep", "asyncio", "error",
                                     "context", "device", "monitor")))


@job
def anyio_tests():
    return run_pytest("-m", "not network", "-p", "no:xdist", *in_sources(
        "tests", "test_concurrency_utils", "test_contextmanagers",
        "test_debugging", "test_from_thread", "test_functools",
        "test_lowlevel", "test_synchronization", "test_taskgroups",
        "test_to_interpreter", "test_to_process", "test_to_thread"))


@job
def attrs_tests():
    return run_pytest(
        SOURCES / "tests",
        *(f"--ignore={SOURCES}/tests/{name}.py"
          for name in ("test_mypy", "test_pyright", "test_packaging")))


@job
def cffi_tests():
    # Not what compiles.
    return run_pytest(*in_sources("src/c", "test_c"),
                      *in_sources("testing/cffi0", "test_ffi_backend",
                                  "test_parsing", "test_ctypes", "test_model"),
                      *in_sources("testing/cffi1", "test_ffi_obj",
                                  "test_cffi_binary"))


@job
def coverage_tests():
    # The other tests mostly look at reports.
    return run_pytest("-p", "no:xdist", f"--rootdir={SOURCES}", *in_sources(
        "tests", "test_api", "test_arcs", "test_bytecode", "test_collector",
        "test_concurrency", "test_context", "test_coverage", "test_numbits",
        "test_oddball", "test_parser", "test_plugins", "test_sysmon"))


@job
def cryptography_tests():
    return run_pytest(
        *in_sources("tests", "test_fernet", "test_utils", "test_warnings"),
        *in_sources("tests/x509", "test_x509_ext", "test_x509_crlbuilder",
                    "test_name", "test_ocsp"),
        *in_sources("tests/hazmat/primitives", "test_aead", "test_asym_utils",
                    "test_ec", "test_pkcs7", "test_serialization"))


def run_verbose(script, *arguments):
    """Run tests of unittest in a program of their own, which names them."""
    done = subprocess.run([sys.executable, script, *arguments], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, errors="replace",
                          cwd=script.parent, timeout=1200)
    # What a test prints may stand before its outcome.
    cases = re.findall(r"^(test\w+) \(([\w.]+)\).*? \.\.\. (?:.*?^)??"
                       r"(ok|skipped|FAIL|ERROR)\b", done.stdout, re.M | re.S)
    words = {"ok": "passed", "skipped": "skipped", "FAIL": "failed",
             "ERROR": "error"}
    return {f"{where} {case}": words[said] for case, where, said in cases} | {
        script.stem: "failed" if done.returncode else "passed"}


@job
def django_tests():
    return run_verbose(
        SOURCES / "tests" / "runtests.py", "-v", "2", "--parallel", "1",
        "--noinput", "--settings", "test_sqlite", "aggregation", "annotations",
        "asgi", "async", "basic", "cache", "dispatch", "expressions",
        "forms_tests", "handlers", "middleware", "model_fields",
        "model_inheritance", "queries", "signals", "template_tests",
        "transactions", "urlpatterns_reverse", "wsgi")


@job
def gevent_tests():
    """Each is a program of its own, which replaces the standard library."""
    outcomes = {}
    for name in ("core", "event", "exc_info", "greenlet", "greenlet_trace",
                 "hub", "hub_join", "iwait", "local", "lock", "monkey",
                 "pool", "queue", "select", "selectors", "semaphore",
                 "signal", "socket_close", "subprocess", "threading",
                 "threading_2", "threadpool", "timeout", "tracing"):
        path = PACKAGES / "gevent" / "tests" / f"test__{name}.py"
        if path.exists():
            outcomes |= {f"{name} {case}": outcome for case, outcome
                         in run_verbose(path, "-v").items()}
    return outcomes


@job
def lxml_tests():
    # Put beside the package, for they are a part of it.
    import lxml
    lxml.__path__.append(str(SOURCES / "src" / "lxml"))
    os.chdir(SOURCES)
    suite = unittest.TestSuite()
    for path in sorted((SOURCES / "src/lxml/tests").glob("test_*.py")):
        if path.stem == "test_http_io":             # network
            continue
        module = importlib.import_module(f"lxml.tests.{path.stem}")
        suite.addTests([module.test_suite()] if hasattr(module, "test_suite")
                       else unittest.defaultTestLoader.loadTestsFromModule(
                           module))
    return run_unittest(suite)


@job
def networkx():
    algorithms = PACKAGES / "networkx" / "algorithms"
    return run_pytest(
        PACKAGES / "networkx" / "classes" / "tests",
        *(algorithms / part / "tests"
          for part in ("connectivity", "flow", "isomorphism",
                       "shortest_paths", "traversal", "tree")))


@job
def pandas():
    """Python functions that compiled loops call, and frames of all kinds."""
    tests = PACKAGES / "pandas" / "tests"
    return run_pytest("-p", "no:xdist", tests / "apply",
                      tests / "groupby" / "test_groupby.py",
                      tests / "groupby" / "aggregate", tests / "reshape",
                      tests / "indexes" / "multi",
                      tests / "window" / "moments")


@job
def pybind11_tests():
    """Calls, classes that Python inherits from, exceptions, the GIL."""
    tests = SOURCES / "tests"
    names = [name for name in (
        "test_builtin_casters", "test_call_policies", "test_callbacks",
        "test_class", "test_eval", "test_exceptions", "test_gil_scoped",
        "test_iostream", "test_methods_and_attributes", "test_pytypes",
        "test_sequences_and_iterators", "test_virtual_functions")
             if (tests / f"{name}.py").exists()]
    # For every interpreter of the version, compiled by the first.
    built = SOURCES / "built"
    built.mkdir(exist_ok=True)
    includes = [PACKAGES / "pybind11" / "include", tests,
                sysconfig.get_path("include"),
                pathlib.Path(sysconfig.get_config_h_filename()).parent]
    modules = dict.fromkeys(
        ["pybind11_cross_module_tests", "cross_module_gil_utils",
         "cross_module_interleaved_error_already_set"], []) | {
             "pybind11_tests": names}
    for module, others in modules.items():
        if not (built / f"{module}.so").exists():
            subprocess.run(
                ["g++", "-shared", "-fPIC", "-std=c++17", "-O1",
                 "-fvisibility=hidden", *(f"-I{path}" for path in includes),
                 *(tests / f"{name}.cpp" for name in (module, *others)),
                 "-o", built / f"{module}.so"], check=True)
    sys.path.insert(0, str(built))
    return run_pytest(*(tests / f"{name}.py" for name in names))


@job
def pydantic_tests():
    return run_pytest(
        "-p", "no:xdist", f"--rootdir={SOURCES}", *in_sources(
            "tests", "test_abc", "test_annotated", "test_computed_fields",
            "test_construction", "test_create_model", "test_dataclasses",
            "test_decorators", "test_discriminated_union",
            "test_edge_cases", "test_errors", "test_fields",
            "test_forward_ref", "test_generics", "test_json", "test_main",
            "test_model_signature", "test_model_validator", "test_pickle",
            "test_private_attributes", "test_root_model", "test_serialize",
            "test_type_adapter", "test_type_alias_type", "test_types",
            "test_validate_call", "test_validators"))


def sqlalchemy(*arguments):
    # Its tests want the library beside them; that is to be the wheel's.
    library = SOURCES / "lib"
    if not library.is_symlink():
        library.rename(SOURCES / "lib.source")
        library.symlink_to(PACKAGES)
    os.chdir(SOURCES)
    # The tests are a package named test, which CPython has, too.
    # Which test a connection that nobody has closed fails is the collector's.
    return run_pytest("-p", "no:warnings", "-p", "no:logging",
                      "-p", "no:unraisableexception",
                      "--import-mode=prepend", f"--rootdir={SOURCES}",
                      *arguments)


@job
def sqlalchemy_tests():
    return sqlalchemy(
        SOURCES / "test/base",
        *in_sources("test/engine", "test_execute", "test_pool",
                    "test_transaction", "test_processors"),
        *in_sources("test/sql", "test_compiler", "test_cte", "test_lambdas",
                    "test_resultset", "test_select", "test_types"),
        *in_sources("test/orm", "test_attributes", "test_cascade",
                    "test_eager_relations", "test_hasparent",
                    "test_instrumentation", "test_lazy_relations",
                    "test_query", "test_session", "test_unitofwork"))


@job
def sqlalchemy_asyncio():
    """Greenlets below coroutines."""
    return sqlalchemy("--db", "aiosqlite", SOURCES / "test/ext/asyncio",
                      *in_sources("test/base", "test_concurrency"))


@job
def tornado():
    runtests = importlib.import_module("tornado.test.runtests")
    names = [name for name in runtests.TEST_MODULES
             if "netutil" not in name]              # network
    # As runtests does: each test wants to see no log but what it expects.
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)
    return run_unittest(unittest.defaultTestLoader.loadTestsFromNames(names))


@job
def trio():
    # Type checkers, tests that look at its sources, and minutes of DTLS.
    tests = PACKAGES / "trio" / "_tests"
    core = PACKAGES / "trio" / "_core" / "_tests"
    return run_pytest(
        "-p", "trio._tests.pytest_plugin", tests, core,
        *(f"--ignore={tests}/{name}.py"
          for name in ("test_exports", "test_dtls")),
        *(f"--ignore={path}" for path in (
            tests / "tools", tests / "type_tests", core / "type_tests")))
