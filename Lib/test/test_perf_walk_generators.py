"""Native profilers see generators and coroutines once, where they run.

See test_perf_walk for how the tests look.
"""

import asyncio
import contextlib
import threading
import unittest

from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import PerfTestCase, also_with_details


def setUpModule():
    remove_own_map_at_exit()


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


also_with_details(globals())


if __name__ == "__main__":
    unittest.main()
