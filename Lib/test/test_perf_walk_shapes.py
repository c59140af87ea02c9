"""Exact stacks of labels and C functions, by the shape of the calls.

See test_perf_walk for how the tests look.
"""

import unittest

from test.support.perf_base import INLINES_COMPREHENSIONS
from test.support.perf_helper import (remove_own_map_at_exit,
                                      requires_trampoline)
from test.support.perf_walk import Native, PerfTestCase, symbol

import _testperf


def setUpModule():
    remove_own_map_at_exit()


@requires_trampoline
class ShapeTest(PerfTestCase):

    lines_do_not_matter = "this is about what stands between functions"
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
            elif n % 6 == 0:
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
