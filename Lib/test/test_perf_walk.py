"""Native profilers see each running Python function once, in order.

Each test runs Python functions of some kind and, inside them, compares the
labels found by walking the frame pointers with the frames of sys._getframe().
"""

import asyncio
import contextlib
import copy
import functools
import gc
import importlib
import itertools
import operator
import os
import re
import signal
import sys
import textwrap
import threading
import unittest
import weakref

from test.support import import_helper, os_helper
from test.support.perf_base import INLINES_COMPREHENSIONS
from test.support.perf_helper import (SMALL_QUARANTINE,
                                      remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import (Native, PerfTestCase, StackChecker,
                                    also_native, symbol)

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

    def test_callbacks_from_c(self):
        check = self.check

        def callback(*_):
            check()
            return 0

        def use():
            sorted([2, 1], key=callback)
            max([2, 1], key=callback)
            list(map(callback, [1, 2]))
            list(filter(callback, [1, 2]))
            functools.reduce(callback, [1, 2, 3])
            functools.partial(callback, 1)()
            sorted([2, 1], key=functools.cmp_to_key(callback))
            re.sub("a", lambda match: callback() or "b", "aa")
            list(itertools.takewhile(callback, [1]))
            list(itertools.groupby([1, 2], callback))
            next(iter(callback, 1))
            {}.get(0) or dict.fromkeys(map(callback, [1]))
            type("C", (), {"__hash__": callback})().__hash__()
            "".join(map(lambda _: str(callback()), "ab"))

        self.repeat(use, checks=22)

    def test_callback_below_c_frames(self):
        for frames in 0, 1, 10, 100:
            self.repeat(lambda: _testperf.call(self.check, frames))

    def test_ctypes_callback(self):
        # libffi keeps no frame pointers, so profilers do not get past it.
        ctypes = import_helper.import_module("ctypes")

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
        def callback(number):
            return inner(number)

        def inner(number):
            self.check(depth=3)
            return number

        def use():
            self.assertEqual(callback(5), 5)
            self.check()

        self.repeat(use, checks=2)

    def test_destructors_and_weak_references(self):
        check = self.check

        class Object:
            def __del__(self):
                check()

        def use():
            Object()                            # at once, in the evaluator
            instance = Object()
            reference = weakref.ref(instance, check)
            weakref.finalize(instance, check)
            del instance
            cycle = Object()
            cycle.itself = cycle
            del cycle
            gc.collect()
            return reference

        with self.gc_callback():
            self.repeat(use, checks=7)

    @contextlib.contextmanager
    def gc_callback(self):
        def on_collection(phase, info):
            self.check()

        # A collection of its own would add to the checks.
        gc.collect()
        gc.disable()
        gc.callbacks.append(on_collection)
        try:
            yield
        finally:
            gc.callbacks.remove(on_collection)
            gc.enable()

    def test_signal_handler(self):
        def handler(number, frame):
            self.check()

        self.addCleanup(signal.signal, signal.SIGUSR1,
                        signal.signal(signal.SIGUSR1, handler))

        def use():
            signal.raise_signal(signal.SIGUSR1)
            self.check()

        self.repeat(use, checks=2)

    def test_audit_hook_and_atexit(self):
        self.run_script(textwrap.dedent("""
            import atexit, os, sys
            from test.support.perf_walk import StackChecker

            checker = StackChecker()

            def hook(event, args):
                if event == "our event":
                    checker.check()

            def at_exit():
                checker.check()
                inner()
                checker.finish(at_least=4)

            def inner():
                checker.check()

            class AtEnd:
                def __del__(self, checker=checker, exit=os._exit):
                    checker.check()
                    if checker.mismatches:
                        exit(9)

            sys.addaudithook(hook)
            atexit.register(at_exit)
            sys.activate_stack_trampoline("perf")
            sys.audit("our event")
            def function():
                sys.audit("our event")
            function()
            sys.kept = AtEnd()
            """))


@requires_trampoline
class GeneratorTest(PerfTestCase):

    def test_generators(self):
        def numbers(n):
            for i in range(n):
                self.check()
                yield i

        def consume():
            for _ in numbers(3):
                self.check()
            sum(numbers(2))
            next(numbers(1))
            list(map(str, numbers(2)))
            a, b = numbers(2)

        self.repeat(consume, checks=13)

    def test_yield_from(self):
        def inner():
            self.check()
            received = yield 1
            self.check()
            yield received
            self.check()
            return 5

        def middle():
            result = yield from inner()
            self.check()
            yield from [result]
            self.check()

        def outer():
            yield from middle()
            self.check()

        def consume():
            generator = outer()
            next(generator)
            generator.send(2)
            self.assertEqual(list(generator), [5])
            self.check()

        self.repeat(consume, checks=7)

    def test_throw_through_yield_from(self):
        # throw() hands the exception from C to the innermost generator; the
        # frames of those that delegate to it have no evaluator meanwhile.
        def inner():
            try:
                yield 1
            except KeyError:
                self.check()
            yield 2

        def outer():
            try:
                yield from inner()
            except ValueError:
                self.check()
            yield 3

        def consume():
            generator = outer()
            next(generator)
            self.assertEqual(generator.throw(KeyError), 2)
            self.check()
            self.assertEqual(generator.throw(ValueError), 3)
            self.check()

        self.repeat(consume, checks=4)

    def test_deep_yield_from(self):
        def nested(depth):
            if depth > 0:
                yield from nested(depth - 1)
            self.check()
            yield depth

        self.repeat(lambda: list(nested(45)), checks=46)

    def test_resumed_from_different_depths(self):
        def generator():
            while True:
                self.check()
                yield

        def resume(depth):
            if depth > 0:
                return resume(depth - 1)
            next(running)

        running = generator()
        for depth in (0, 5, 1, 60, 3, 0, 200, 2):
            resume(depth)
        self.assert_checked(at_least=8)

    def test_close_throw_and_collect(self):
        def generator():
            try:
                yield self.check()
                yield self.check()
            except ValueError:
                self.check()
                yield
            finally:
                self.check()

        def helper_in_finally():
            try:
                yield
            finally:
                self.check()
                inner()

        def inner():
            self.check()

        def use():
            closed = generator()
            next(closed)                                # 1
            closed.close()                              # 1
            thrown = generator()
            next(thrown)                                # 1
            thrown.throw(ValueError)                    # 1
            thrown.close()                              # 1
            raising = generator()
            next(raising)                               # 1
            with self.assertRaises(KeyError):
                raising.throw(KeyError)                 # 1
            collected = helper_in_finally()
            next(collected)
            del collected                               # 2
            unstarted = generator()
            with self.assertRaises(KeyError):
                unstarted.throw(KeyError)
            never_run = generator()
            del never_run
            self.check()                                # 1

        self.repeat(use, checks=10)

    def test_generator_that_runs_itself(self):
        def generator():
            with self.assertRaises(ValueError):
                next(me)
            self.check()
            yield

        def use():
            nonlocal me
            me = generator()
            next(me)
            self.check()

        me = None
        self.repeat(use, checks=2)

    def test_generator_in_two_threads(self):
        def generator():
            while True:
                self.check()
                yield

        shared = generator()

        def resume():
            for _ in range(5):
                with lock:
                    next(shared)

        lock = threading.Lock()
        threads = [threading.Thread(target=resume) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        resume()
        self.assert_checked(at_least=20)

    def test_coroutines_with_a_driver(self):
        check = self.check

        class Awaitable:
            def __await__(self):
                check()
                result = yield 1
                check()
                return result

        async def inner():
            check()
            await Awaitable()
            check()

        async def outer():
            check()
            await inner()
            async with Manager():
                check()
            async for _ in Iterator():
                check()

        class Manager:
            async def __aenter__(self):
                check()

            async def __aexit__(self, *_):
                check()

        class Iterator:
            def __init__(self):
                self.left = 2

            def __aiter__(self):
                check()
                return self

            async def __anext__(self):
                check()
                if self.left == 0:
                    raise StopAsyncIteration
                self.left -= 1

        def drive():
            coroutine = outer()
            coroutine.send(None)
            with contextlib.suppress(StopIteration):
                coroutine.send(2)
            check()

        self.repeat(drive, checks=15)

    def test_asyncio(self):
        async def generator():
            for i in range(3):
                self.check()
                await asyncio.sleep(0)
                yield i

        async def worker(number):
            self.check()
            await asyncio.sleep(0)
            self.check()
            async for i in generator():
                self.check()
            return [i async for i in generator()]

        async def main():
            loop = asyncio.get_running_loop()
            loop.call_soon(self.check)
            await asyncio.gather(*map(worker, range(3)))
            await loop.run_in_executor(None, self.check)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(cancelled(), 0.001)

        async def cancelled():
            try:
                await asyncio.sleep(60)
            finally:
                self.check()

        self.addCleanup(asyncio.set_event_loop_policy, None)
        self.TIMES = 3
        self.repeat(lambda: asyncio.run(main()), checks=3 * 11 + 3)

    def test_async_generator_closed_and_thrown_into(self):
        async def generator():
            try:
                self.check()
                yield 1
                self.check()
                yield 2
            except ValueError:
                self.check()
                yield 3
            finally:
                self.check()

        async def main():
            closed = generator()
            await closed.asend(None)
            await closed.aclose()
            thrown = generator()
            await thrown.asend(None)
            await thrown.athrow(ValueError)
            await thrown.aclose()
            self.check()

        def drive():
            coroutine = main()
            with contextlib.suppress(StopIteration):
                coroutine.send(None)

        self.repeat(drive, checks=6)


@requires_trampoline
class ExceptionTest(PerfTestCase):

    def test_raised_and_caught_at_several_depths(self):
        def raiser(depth, catcher):
            try:
                if depth == 0:
                    self.check()
                    raise ValueError
                raiser(depth - 1, catcher)
            except ValueError:
                self.check()
                if depth != catcher:
                    raise
            self.check()

        def use():
            for catcher in (0, 1, 5, 40):
                raiser(40, catcher)
                self.check()

        # Each depth that catches and each that goes on, and ends.
        checks = sum(1 + (catcher + 1) + (40 - catcher + 1) + 1
                     for catcher in (0, 1, 5, 40))
        self.repeat(use, checks=checks)

    def test_finally_with_and_else(self):
        def function(error):
            try:
                with contextlib.suppress(KeyError):
                    if error:
                        raise error
                    self.check()
            except ValueError:
                self.check()
            else:
                self.check()
            finally:
                self.check()

        def use():
            function(None)
            function(KeyError)
            function(ValueError)
            with self.assertRaises(IndexError):
                function(IndexError)

        self.repeat(use, checks=3 + 2 + 2 + 1)

    def test_exception_group(self):
        def raiser():
            raise ExceptionGroup("several", [ValueError(1), KeyError(2)])

        def use():
            try:
                raiser()
            except* ValueError:
                self.check()
            except* KeyError:
                self.check()
            self.check()

        self.repeat(use, checks=3)

    def test_through_c(self):
        def raiser(_):
            raise KeyError

        def use():
            for call in (lambda: sorted([1, 2], key=raiser),
                         lambda: list(map(raiser, [1])),
                         lambda: functools.partial(raiser, 1)(),
                         lambda: _testperf.call(lambda: raiser(1), 3)):
                with self.assertRaises(KeyError):
                    call()
                self.check()

        self.repeat(use, checks=4)

    def test_unraisable(self):
        class Object:
            def __del__(self):
                raise KeyError

        def use():
            Object()
            self.check()

        def hook(unraisable):
            self.check()

        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = hook
        self.repeat(use, checks=2)

    def test_recursion_error(self):
        def recurse(depth):
            # Near the limit there is no room for a check.
            try:
                return recurse(depth + 1)
            except RecursionError:
                if depth > 200:
                    raise
                self.check()
                if depth > 190:
                    raise

        def use():
            recurse(0)
            self.check()

        limit = sys.getrecursionlimit()
        self.addCleanup(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(900)
        before = self.checker.count
        for _ in range(5):
            use()
            self.assert_checked()
        self.assertEqual(self.checker.count - before, 5 * 12)

    def test_recursion_error_in_a_callback(self):
        def recurse(_):
            sorted([1], key=recurse)

        def use():
            with self.assertRaises(RecursionError):
                recurse(0)
            self.check()

        self.repeat(use)


@requires_trampoline
class TraceTest(PerfTestCase):

    def traced(self):
        """Something of everything, to be traced."""
        def generator():
            yield 1
            with contextlib.suppress(KeyError):
                raise KeyError
            yield 2

        def recurse(n):
            return n and recurse(n - 1)

        sum(generator())
        recurse(5)
        sorted([2, 1], key=lambda x: -x)
        return [x for x in generator()]

    def test_settrace(self):
        def trace(frame, event, arg):
            self.check()
            return trace

        def use():
            sys.settrace(trace)
            try:
                self.traced()
            finally:
                sys.settrace(None)

        self.addCleanup(sys.settrace, sys.gettrace())
        for _ in range(5):
            use()
        self.assert_checked(at_least=5 * 50)

    def test_setprofile(self):
        def profile(frame, event, arg):
            self.check()

        def use():
            sys.setprofile(profile)
            try:
                self.traced()
            finally:
                sys.setprofile(None)

        self.addCleanup(sys.setprofile, sys.getprofile())
        for _ in range(5):
            use()
        self.assert_checked(at_least=5 * 30)

    def test_trace_functions_that_raise(self):
        def make(install, raise_at):
            events = 0

            def trace(frame, event, arg):
                nonlocal events
                self.check()
                events += 1
                if events == raise_at:
                    raise ZeroDivisionError
                return trace

            def use():
                try:
                    install(trace)
                    self.traced()
                    install(None)
                except ZeroDivisionError:
                    install(None)
                    return True
                return False

            return use

        self.addCleanup(sys.settrace, sys.gettrace())
        self.addCleanup(sys.setprofile, sys.getprofile())
        for install in sys.settrace, sys.setprofile:
            raise_at = 1
            while make(install, raise_at)():
                self.check()
                raise_at += 1
            self.assertGreater(raise_at, 20)
        self.assert_checked(at_least=1000)


@requires_trampoline
class ThreadTest(PerfTestCase):

    def test_threads(self):
        def recurse(n):
            if n == 0:
                self.check()
            else:
                recurse(n - 1)
            self.check()

        threads = [threading.Thread(target=recurse, args=(n,))
                   for n in (1, 30, 70, 100)]
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-5)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assert_checked()
        self.assertEqual(self.checker.count, 1 + 30 + 70 + 100 + 2 * 4)

    def test_thread_that_c_creates(self):
        def function():
            self.check()
            sorted([1], key=self.check)

        for stack_size in 0, 256 * 1024:
            _testperf.call_in_thread(function, stack_size)
        self.assert_checked()
        self.assertEqual(self.checker.count, 4)

    def test_thread_that_ran_before(self):
        # It waits in functions without label, and then calls one that has one.
        self.run_script(textwrap.dedent("""
            import sys, threading
            from test.support.perf_walk import StackChecker

            checker = StackChecker()
            ready, go = threading.Event(), threading.Event()

            def old():
                frame = sys._getframe()
                while frame:
                    checker.called_while_off(frame)
                    frame = frame.f_back
                ready.set()
                while not go.wait(0.01):
                    pass
                new()

            def new():
                checker.check()

            thread = threading.Thread(target=old)
            thread.start()
            ready.wait()
            sys.activate_stack_trampoline("perf")
            go.set()
            thread.join()
            checker.finish(at_least=1)
            """))

    def test_small_stack(self):
        # The smallest that threading allows: recursion as deep as unprofiled.
        self.run_script(textwrap.dedent("""
            import os, sys, threading
            import _testperf
            from test.support.perf_walk import LabelNames

            def recurse(n):
                if n == 0:
                    found.append(_testperf.labels())
                    return 0
                return 1 + recurse(n - 1)

            def run():
                results.append(recurse(depth))

            found, results, names = [], [], LabelNames()
            threading.stack_size(
                max(32 * 1024, os.sysconf("SC_THREAD_STACK_MIN")))
            sys.activate_stack_trampoline("perf")
            for limit, depth in (1000, 900), (10_000, 9000):
                sys.setrecursionlimit(limit)
                for _ in range(5):
                    thread = threading.Thread(target=run)
                    thread.start()
                    thread.join()
            assert results == [900] * 5 + [9000] * 5, results
            for labels in found:
                name = names.of(labels[0])
                assert name == f"py::recurse:{__file__}", name
            """))

    def test_subinterpreters(self):
        interpreters = import_helper.import_module(
            "test.support.perf_interpreters")
        source = textwrap.dedent("""
            import sys
            from test.support.perf_walk import StackChecker

            checker = StackChecker()

            def function(n):
                if not sys.is_stack_trampoline_active():
                    checker.called_while_off()
                if n == 0:
                    checker.check(below=below.split("\\n"))
                else:
                    sorted([n - 1], key=function)

            {activate}
            function(0)
            function(3)
            report = checker.report()
            if report:
                raise Exception(report)
            """)
        for activate in "", "sys.activate_stack_trampoline('perf')":
            interpreter = interpreters.create(isolated=False)
            try:
                below = self.checker.expected(sys._getframe())
                result = interpreters.run_string(
                    interpreter, source.format(activate=activate),
                    shared={"below": "\n".join(below)})
                interpreters.raise_failure(result)
            finally:
                interpreters.destroy(interpreter)
        self.check()
        self.assert_checked()


@requires_trampoline
class DepthTest(PerfTestCase):

    def test_default_recursion_limit(self):
        def recurse(n):
            if n % 10 == 0:
                self.check()
            if n:
                recurse(n - 1)

        depth = 800
        recurse(depth)
        self.assert_checked()
        self.assertEqual(self.checker.count, depth // 10 + 1)

    def test_exact_to_the_documented_depth(self):
        self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def recurse(n):
                if n % 50 == 0:
                    checker.check()
                if n < 2000:
                    recurse(n + 1)
                if n % 50 == 0:
                    checker.check()

            sys.setrecursionlimit(5000)
            sys.activate_stack_trampoline("perf")
            recurse(0)
            checker.finish(at_least=80)
            """))

    def test_with_callbacks_and_generators_in_between(self):
        self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def recurse(n):
                if n % 20 == 0:
                    checker.check()
                if n == 0:
                    return
                if n % 70 == 0:
                    sorted([n - 1], key=recurse)
                elif n % 33 == 0:
                    list(generator(n - 1))
                else:
                    recurse(n - 1)
                if n % 20 == 0:
                    checker.check()

            def generator(n):
                yield
                recurse(n)

            sys.setrecursionlimit(5000)
            sys.activate_stack_trampoline("perf")
            recurse(1500)
            checker.finish(at_least=150)
            """))

    def test_innermost_function_at_any_depth(self):
        # Three functions in turn, so that a stale label would be noticed.
        # Each looks at the labels itself: a call would make new ones.
        functions = "".join(textwrap.dedent(f"""
            def {name}(n):
                compare({name}, n, n % 700 < 3 and _testperf.labels())
                if n:
                    {callee}(n - 1)
                compare({name}, n, n % 700 < 3 and _testperf.labels())
            """) for name, callee in zip("abc", "bca"))
        self.run_script(DEEP_PREAMBLE + functions + textwrap.dedent("""
            def compare(function, n, labels):
                if labels:
                    actual = names.of(labels[0])
                    assert actual == symbol(function.__code__), (n, actual)
                    seen.append(n)

            seen = []
            sys.setrecursionlimit(10**6)
            sys.activate_stack_trampoline("perf")
            a(400_000)
            assert len(seen) > 3000, len(seen)
            """))

    def test_exception_from_any_depth(self):
        self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def a(n):
                try:
                    b(n - 1)
                except KeyError:
                    compare(a, n, n % 502 == 0 and _testperf.labels())
                    raise

            def b(n):
                if n < 0:
                    raise KeyError
                try:
                    a(n - 1)
                finally:
                    compare(b, n, n % 501 == 0 and _testperf.labels())

            def compare(function, n, labels):
                if labels:
                    actual = names.of(labels[0])
                    assert actual == symbol(function.__code__), (n, actual)
                    seen.append(n)

            seen = []
            sys.setrecursionlimit(10**6)
            sys.activate_stack_trampoline("perf")
            for _ in range(2):
                try:
                    a(50_000)
                except KeyError:
                    checker.check()
            assert len(seen) > 250, len(seen)
            checker.finish(at_least=2)
            """))

    def test_c_stack_per_call(self):
        out = self.run_script(DEEP_PREAMBLE + textwrap.dedent("""
            def recurse(n):
                if n in (0, 10, 100, 900, 9_000, 90_000):
                    pointers[n] = _testperf.stack_pointer()
                return n and recurse(n - 1)

            pointers = {}
            sys.setrecursionlimit(10**6)
            sys.activate_stack_trampoline("perf")
            for depth in (900, 90_000):
                pointers.clear()
                recurse(depth)
                print((pointers[depth] - pointers[0]) / depth)
            """))
        for line in out.split():
            self.assertLess(float(line), 32)


DEEP_PREAMBLE = textwrap.dedent("""
    import sys
    import _testperf
    from test.support.perf_walk import LabelNames, StackChecker, symbol

    sys.tracebacklimit = 5
    checker, names = StackChecker(), LabelNames()
    """)


@requires_trampoline
class ToggleTest(PerfTestCase):

    def setUp(self):
        super().setUp()
        self.off = sys.deactivate_stack_trampoline
        self.on = self.activate
        self.addCleanup(self.on)

    def called(self):
        """Start a function: expect a label or none, as things are."""
        if not sys.is_stack_trampoline_active():
            self.checker.called_while_off(sys._getframe())
            self.checker.called_while_off(sys._getframe(1))
        self.check()

    def test_off_in_running_functions(self):
        def outer():
            self.called()
            middle()
            self.check()
            later()
            self.on()
            later()
            self.check()

        def middle():
            self.called()
            self.off()
            self.check()
            later()
            sorted([1], key=later)
            self.check()

        def later(_=None):
            self.called()
            even_later()
            self.check()

        def even_later():
            self.called()

        self.repeat(outer, checks=18)

    def test_on_in_running_functions(self):
        def outer():
            self.called()
            middle()
            self.check()
            later()
            sorted([1], key=later)
            self.check()

        def middle():
            self.called()
            self.on()
            later()
            self.check()

        def later(_=None):
            self.called()
            even_later()
            self.check()

        def even_later():
            self.called()

        def use():
            self.off()
            outer()

        self.repeat(use, checks=14)

    def test_at_each_depth(self):
        # Each function's caller has switched on or off, in patterns.
        def recurse(n, period):
            self.called()
            if n:
                switch = self.on if n % period else self.off
                switch()
                recurse(n - 1, period)
                self.check()

        for period in (1, 2, 3, 7, 35, 40):
            self.on()
            recurse(120, period)
            self.assert_checked()
        self.assertEqual(self.checker.count, 6 * (121 + 120))

    def test_exception_after_a_switch(self):
        def outer():
            self.called()
            for switch in self.on, self.off, self.on:
                with contextlib.suppress(KeyError):
                    middle(switch)
                self.check()

        def middle(switch):
            self.called()
            switch()
            inner()

        def inner():
            self.called()
            raise KeyError

        self.repeat(outer, checks=10)

    def test_generators_take_the_state_of_each_resumption(self):
        def generator():
            frame = sys._getframe()
            while True:
                if sys.is_stack_trampoline_active():
                    self.check()
                else:
                    # Without a label this time.
                    unlabelled = self.checker._unlabelled
                    unlabelled.append(frame)
                    self.check()
                    unlabelled.remove(frame)
                yield

        def use():
            running = generator()
            for switch in self.on, self.off, self.off, self.on, self.on:
                switch()
                next(running)
            self.check()

        self.repeat(use, checks=6)

    def test_in_a_trace_function(self):
        def trace(frame, event, arg):
            switch = self.on if next(turns) % 2 else self.off
            switch()

        def traced():
            return [inner(i) for i in range(20)]

        def inner(i):
            return sum(x for x in range(3))

        turns = itertools.count()
        self.addCleanup(sys.setprofile, sys.getprofile())
        sys.setprofile(trace)
        try:
            traced()
        finally:
            sys.setprofile(None)
            self.on()
        self.assertGreater(next(turns), 100)
        self.repeat(self.check)

    def test_in_another_thread(self):
        def recurse(n):
            if n:
                recurse(n - 1)
            else:
                walks.append(_testperf.labels())

        def run():
            while not done:
                recurse(50)

        # Which functions have labels is a matter of chance; only these can.
        walks, done = [], []
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(2000):
            self.off()
            self.on()
        done.append(True)
        for thread in threads:
            thread.join()
        known = {symbol(recurse.__code__), symbol(run.__code__),
                 *(symbol(getattr(threading.Thread, name).__code__)
                   for name in ("run", "_bootstrap", "_bootstrap_inner"))}
        names = {self.checker.names.of(label)
                 for labels in walks for label in labels}
        self.assertLessEqual(names, known)
        self.assertIn(symbol(recurse.__code__), names)


@requires_trampoline
class OtherEvaluatorTest(PerfTestCase):
    """Another tool has an evaluator of its own (PEP 523)."""

    def remove_evaluator(self):
        sys.deactivate_stack_trampoline()
        return _testperf.remove_evaluator()

    def functions(self):
        """Return a function and the number of checks in it."""
        def outer():
            self.check()
            sorted([1], key=inner)
            inner(2)
            for _ in generator():
                pass
            with contextlib.suppress(KeyError):
                raiser()

        def inner(_):
            self.check()

        def generator():
            yield 1
            self.check()

        def raiser():
            raise KeyError

        return outer, 4

    def test_before_activation(self):
        outer, checks = self.functions()
        self.addCleanup(self.activate)
        sys.deactivate_stack_trampoline()
        _testperf.install_evaluator()
        try:
            self.assertTrue(_testperf.evaluator_is_current())
            self.activate()
            self.assertTrue(sys.is_stack_trampoline_active())
            self.assertTrue(_testperf.evaluator_is_current())
            self.repeat(outer, checks)
            calls = _testperf.evaluator_calls()
            sys.deactivate_stack_trampoline()
            self.assertTrue(_testperf.evaluator_is_current())
            self.assertFalse(sys.is_stack_trampoline_active())
            self.activate()
            self.repeat(outer, checks)
        finally:
            all_calls = self.remove_evaluator()
        # Each function that ran was counted once: outer, inner twice, the
        # generator twice, raiser and the check's own.
        self.assertGreaterEqual(calls, self.TIMES * (6 + checks))
        self.assertGreaterEqual(all_calls - calls, self.TIMES * (6 + checks))
        self.activate()
        self.repeat(outer, checks)

    def test_after_activation(self):
        outer, checks = self.functions()
        _testperf.install_evaluator()
        try:
            self.assertTrue(sys.is_stack_trampoline_active())
            self.assertTrue(_testperf.evaluator_is_current())
            self.repeat(outer, checks)
        finally:
            calls = _testperf.remove_evaluator()
        self.assertGreaterEqual(calls, self.TIMES * (6 + checks))
        self.assertTrue(sys.is_stack_trampoline_active())
        self.repeat(outer, checks)


@requires_trampoline
class SymbolTest(PerfTestCase):

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


@requires_trampoline
class ShapeTest(PerfTestCase):
    """The whole walk, C functions included."""

    # By which C enters a Python function.
    code_of_areas = ["_PyPerf_EnterArea", "_PyPerf_ShareArea"]

    def walk(self):
        addresses, _ = _testperf.walk()
        return addresses, set(_testperf.labels())

    def shape(self, walk):
        """Return the names of C and Python functions, innermost first."""
        addresses, labels = walk
        native = Native()
        return [self.checker.names.of(address) if address in labels
                else native.name(address) for address in addresses]

    def test_no_c_function_between_inlined_calls(self):
        def outer():
            return middle(1)

        def middle(n):
            return [inner(x) for x in range(n)][0]

        def inner(_):
            return self.walk()

        for _ in range(self.TIMES):
            walk = outer()
        shape = self.shape(walk)
        first = min(shape.index(code) for code in self.code_of_areas
                    if code in shape)
        self.assertEqual(shape[first - 1], "_PyEval_EvalFrameDefault_labelled")
        names = [symbol(code.__code__)
                 for code in (self.walk, inner, middle, outer)]
        if not INLINES_COMPREHENSIONS:
            names.insert(2, symbol(middle.__code__.co_consts[1]))
        self.assertEqual(shape[first + 1:first + 1 + len(names)], names)

    def between_key_and_outer(self):
        """Return what stands between functions that map() connects."""
        def key(_):
            walks.append(self.walk())

        def outer():
            list(map(key, [1]))

        walks = []
        for _ in range(self.TIMES):
            outer()
        shape = self.shape(walks[-1])
        start = shape.index(symbol(key.__code__))
        return shape[start + 1:shape.index(symbol(outer.__code__))]

    def test_c_functions_between_python_functions(self):
        self.assertEqual(self.between_key_and_outer(), [])

    def test_every_group_of_labels_has_its_area(self):
        def recurse(n):
            if n == 0:
                walks.append(self.walk())
            elif n % 3 == 0:
                sorted([n - 1], key=recurse)
            else:
                recurse(n - 1)

        walks = []
        for depth in range(0, 400, 57):
            recurse(depth)
        for walk in walks:
            previous = ""
            for name in self.shape(walk):
                name = name or "(a C function elsewhere)"
                if name.startswith("py::") and not previous.startswith("py::"):
                    # Callers of this test may be profiled in another way.
                    self.assertRegex(previous, "^_PyPerf_(Enter|Share)Area"
                                               "(WithUnwindInfo)?$")
                previous = name

    def test_the_walk_reaches_main(self):
        shape = self.shape(self.walk())
        # The C library, which called it, and what called that.
        self.assertIn(shape.pop(), (None, "_start"))
        while shape[-1] is None:
            shape.pop()
        self.assertIn(shape[-1], ("main", "Py_BytesMain", "pythread_wrapper"))


also_native(globals())


class NativeShapeTest(ShapeTest):

    native = True
    code_of_areas = ["_PyPerf_EnterArea"]

    def test_c_functions_between_python_functions(self):
        between = self.between_key_and_outer()
        self.assertIn("map_next", between)
        self.assertEqual(between[-2:], ["_PyEval_EvalFrameDefault_labelled",
                                        "_PyPerf_EnterArea"])
        self.assertFalse([name for name in between
                          if name is None or name.startswith("py::")])


if __name__ == "__main__":
    unittest.main()
