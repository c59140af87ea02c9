"""Native profilers see each running Python function once, in order.

Each test runs Python functions of some kind and, inside them, compares the
labels found by walking the frame pointers with the frames of sys._getframe().
"""

import contextlib
import copy
import functools
import importlib
import operator
import os
import sys
import textwrap
import unittest

from test.support import import_helper, os_helper
from test.support.perf_base import KEEPS_MEMORY
from test.support.perf_helper import (SMALL_QUARANTINE, remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import PerfTestCase, also_with_details

import _testperf


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
class FunctionKindsTest(PerfTestCase):

    def test_nested_functions(self):
        def outer():
            middle()
            self.check()

        def middle():
            inner()
            inner()

        def inner():
            self.check()

        self.repeat(outer, checks=3)

    def test_signatures(self):
        def plain(a, b):
            self.check()

        def defaults(a, b=2, *, c=3, d=4):
            self.check()

        def positional_only(a, /, b=2):
            self.check()

        def variadic(*args, **kwargs):
            self.check()

        def many_locals(a):
            b = c = d = e = f = g = h = i = j = k = a
            self.check()
            return b, c, d, e, f, g, h, i, j, k

        def call_all():
            arguments, keywords = (1, 2), {"b": 2, "a": 1}
            plain(1, 2)
            plain(1, b=2)
            plain(*arguments)
            plain(**keywords)
            defaults(1)
            defaults(1, 2)
            defaults(1, c=5)
            defaults(*arguments, d=6)
            positional_only(1)
            positional_only(1, b=3)
            variadic()
            variadic(1, 2, x=3)
            variadic(*arguments, **keywords)
            many_locals(1)

        self.repeat(call_all, checks=14)

    def test_wrong_arguments(self):
        def function(a, *, b):
            self.check()

        def call_all():
            for arguments, keywords in [((), {}), ((1,), {}), ((1, 2), {}),
                                        ((1,), {"c": 2})]:
                with self.assertRaises(TypeError):
                    function(*arguments, **keywords)
                self.check()
            function(1, b=2)

        self.repeat(call_all, checks=5)

    def test_methods(self):
        check = self.check

        class Base:
            def method(self):
                check()

            @classmethod
            def class_method(cls):
                check()

            @staticmethod
            def static_method():
                check()

            @property
            def value(self):
                check()

            @value.setter
            def value(self, value):
                check()

            @value.deleter
            def value(self):
                check()

            @functools.cached_property
            def cached(self):
                check()

        class Derived(Base):
            def method(self):
                super().method()
                check()

        def call_all():
            instance = Derived()
            instance.method()
            bound = instance.method
            bound()
            Base.method(instance)
            instance.class_method()
            Derived.class_method()
            instance.static_method()
            instance.value
            instance.value = 1
            del instance.value
            instance.cached
            instance.cached

        self.repeat(call_all, checks=12)

    def test_operators(self):
        check = self.check
        uses = {}

        def special(name, result, use):
            code = f"def {name}(self, *_): check(); return result"
            scope = {"check": check, "result": result}
            exec(code, scope)
            uses[name] = use
            return scope[name]

        namespace = {
            name: special(name, result, use) for name, result, use in [
                ("__getitem__", 1, lambda x: x[0]),
                ("__setitem__", None, lambda x: operator.setitem(x, 0, 1)),
                ("__delitem__", None, lambda x: operator.delitem(x, 0)),
                ("__contains__", True, lambda x: 1 in x),
                ("__len__", 3, len),
                ("__bool__", True, lambda x: not x),
                ("__iter__", iter(()), list),
                ("__reversed__", None, reversed),
                ("__call__", None, lambda x: x(1)),
                ("__add__", 1, lambda x: x + 1),
                ("__radd__", 1, lambda x: 1 + x),
                ("__iadd__", 1, lambda x: operator.iadd(x, 1)),
                ("__matmul__", 1, lambda x: x @ 1),
                ("__pow__", 1, lambda x: x ** 2),
                ("__neg__", 1, lambda x: -x),
                ("__invert__", 1, lambda x: ~x),
                ("__abs__", 1, abs),
                ("__int__", 1, int),
                ("__float__", 1.0, float),
                ("__index__", 1, lambda x: [0, 1][x]),
                ("__round__", 1, round),
                ("__divmod__", 1, lambda x: divmod(x, 1)),
                ("__eq__", True, lambda x: x == 1),
                ("__ne__", True, lambda x: x != 1),
                ("__lt__", True, lambda x: x < 1),
                ("__hash__", 1, hash),
                ("__repr__", "", repr),
                ("__str__", "", str),
                ("__format__", "", lambda x: f"{x}"),
                ("__bytes__", b"", bytes),
                ("__dir__", [], dir),
                ("__getattr__", 1, lambda x: x.missing),
                ("__setattr__", None, lambda x: setattr(x, "name", 1)),
                ("__delattr__", None, lambda x: delattr(x, "name")),
                ("__enter__", None, contextlib.ExitStack().enter_context),
                ("__reduce_ex__", (int, ()), copy.copy),
            ]}
        namespace["__exit__"] = lambda self, *_: None
        instance = type("Special", (), namespace)()

        for name, use in uses.items():
            with self.subTest(name):
                before = self.checker.count
                for _ in range(self.TIMES):
                    use(instance)
                    self.assert_checked()
                self.assertGreaterEqual(self.checker.count - before,
                                        self.TIMES)

    def test_subscript_in_a_hot_loop(self):
        # Specialised to a call that is inlined without a CALL instruction.
        check = self.check

        class Sequence:
            def __getitem__(self, index):
                check()
                return index

        def subscript(sequence):
            return [sequence[i] for i in range(5)]

        self.repeat(lambda: subscript(Sequence()), checks=5)

    def test_context_manager(self):
        check = self.check

        class Manager:
            def __enter__(self):
                check()

            def __exit__(self, *exception):
                check()
                return True

        @contextlib.contextmanager
        def manager():
            check()
            yield
            check()

        def use():
            with Manager(), manager():
                check()
            with Manager():
                raise ValueError
            check()

        self.repeat(use, checks=8)

    def test_descriptor_and_attribute_hooks(self):
        check = self.check

        class Descriptor:
            def __set_name__(self, owner, name):
                check()

            def __get__(self, instance, owner):
                check()

            def __set__(self, instance, value):
                check()

            def __delete__(self, instance):
                check()

        def use():
            class Owner:
                attribute = Descriptor()

                def __getattribute__(self, name):
                    check()
                    return super().__getattribute__(name)

            owner = Owner()
            owner.attribute
            owner.attribute = 1
            del owner.attribute
            Owner.attribute

        self.repeat(use, checks=6)

    def test_classes_and_metaclasses(self):
        check = self.check

        class Meta(type):
            @classmethod
            def __prepare__(cls, name, bases):
                check()
                return {}

            def __new__(cls, *args):
                check()
                return super().__new__(cls, *args)

            def __init__(cls, *args):
                check()
                super().__init__(*args)

            def __call__(cls, *args):
                check()
                return super().__call__(*args)

            def __instancecheck__(cls, instance):
                check()
                return True

        class Base(metaclass=Meta):
            def __init_subclass__(cls):
                check()

            def __new__(cls):
                check()
                return super().__new__(cls)

            def __init__(self):
                check()

        start = self.checker.count
        self.assertEqual(start, 3)

        def use():
            class Derived(Base):
                check()

                class Nested:
                    check()

            self.assertIsInstance(Derived(), Derived)
            isinstance(None, Derived)

        # Derived() has exactly that class, which isinstance() sees itself.
        self.repeat(use, checks=10)

    def test_decorators(self):
        def decorator(function):
            self.check()

            @functools.wraps(function)
            def wrapper(*args):
                self.check()
                return function(*args)
            return wrapper

        def use():
            @decorator
            @functools.lru_cache
            @decorator
            def function(argument):
                self.check()

            function(1)
            function(1)

        self.repeat(use, checks=6)

    def test_lambdas_and_comprehensions(self):
        check = self.check

        def use():
            (lambda: check())()
            [check() for _ in range(2)]
            {check() for _ in range(2)}
            {check(): check() for _ in range(2)}
            list(check() for _ in range(2))
            [[check() for _ in range(2)] for _ in range(2)]
            [(lambda: check())() for _ in range(2)]

        self.repeat(use, checks=17)

    def test_exec_and_eval(self):
        scope = {"check": self.check}

        def use():
            exec("check()\ndef f(): check()\nf()\nclass C: check()", scope)
            eval("check() or [check() for _ in range(2)]", scope)
            exec(compile("check()", "another file", "exec"), scope)

        self.repeat(use, checks=7)

    def test_import(self):
        source = textwrap.dedent("""
            from test.test_perf_walk import shared_check
            shared_check()
            def __getattr__(name):
                shared_check()
            class Body:
                shared_check()
            """)
        global shared_check
        shared_check = self.check
        sys.modules.setdefault("test.test_perf_walk", sys.modules[__name__])
        with (os_helper.temp_dir() as directory,
              import_helper.DirsOnSysPath(directory)):
            for name in ("perf_walked_one", "perf_walked_two"):
                with open(os.path.join(directory, f"{name}.py"), "w") as file:
                    file.write(source)
                importlib.invalidate_caches()
                self.addCleanup(import_helper.forget, name)
                module = importlib.import_module(name)
                module.anything
                importlib.reload(module)
        self.assert_checked(at_least=10)
        self.assertEqual(self.checker.count, 10)


@requires_trampoline
class SymbolTest(PerfTestCase):

    lines_do_not_matter = "this is about names: test_perf_lines has the rest"

    def test_equal_symbols_share_a_label(self):
        source = "def function():\n    found.append(_testperf.labels()[0])\n"
        found = []
        for padding in "", "\n", "# a comment, to move the line\n":
            scope = {"found": found, "_testperf": _testperf}
            exec(compile(padding + source, "one file", "exec"), scope)
            scope["function"]()
            scope["function"]()
        self.assertEqual(len(found), 6)
        self.assertEqual(len(set(found)), 1)
        self.assertEqual(self.checker.names.of(found[0]),
                         "py::function:one file")

    def test_different_symbols_have_different_labels(self):
        found = {}
        for name in ("f", "g"):
            for path in ("one file", "another file"):
                scope = {"_testperf": _testperf}
                exec(compile(f"def {name}(): return _testperf.labels()[0]",
                             path, "exec"), scope)
                label = scope[name]()
                found[label] = self.checker.names.of(label)
        self.assertEqual(sorted(found.values()),
                         ["py::f:another file", "py::f:one file",
                          "py::g:another file", "py::g:one file"])

    @unittest.skipIf(KEEPS_MEMORY, "the memory that is used grows anyway")
    def test_memory_stays_flat(self):
        # 100,000 times exec, a million lambdas, and code objects that differ.
        out = self.run_script(textwrap.dedent("""
            import os, sys, tracemalloc
            from test.support.perf_helper import read_map

            def resident():
                with open("/proc/self/statm") as statm:
                    pages = int(statm.read().split()[1])
                return pages * os.sysconf("SC_PAGESIZE")

            def execute(times):
                scope = {}
                for _ in range(times):
                    exec("def f(): pass\\nf()", scope)

            def call_lambdas(times):
                for _ in range(times):
                    (lambda: 0)()

            def call_copies(times):
                code = (lambda: 0).__code__
                function = lambda: 0
                for i in range(times):
                    function.__code__ = code.replace(co_firstlineno=i)
                    function()

            def all_of_them(scale):
                execute(scale)
                call_lambdas(scale * 10)
                call_copies(scale)

            sys.activate_stack_trampoline("perf")
            all_of_them(1000)
            read_map(os.getpid())
            memory, lines = resident(), len(read_map(os.getpid()))
            all_of_them(100_000)
            print(resident() - memory)
            print(len(read_map(os.getpid())) - lines)

            tracemalloc.start()
            all_of_them(100)
            before = tracemalloc.get_traced_memory()[0]
            all_of_them(3000)
            print(tracemalloc.get_traced_memory()[0] - before)
            """), env=SMALL_QUARANTINE)
        resident, lines, traced = map(int, out.split())
        self.assertLess(resident, 1 << 20)
        self.assertEqual(lines, 0)
        self.assertLess(traced, 1 << 16)


also_with_details(globals())


if __name__ == "__main__":
    unittest.main()
