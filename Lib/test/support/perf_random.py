"""Writes random programs of functions of many kinds that call each other.

They keep the model of perf_model.py.  Used by Lib/test/test_perf_random.py.
"""

from test.support.perf_base import INLINES_COMPREHENSIONS
from test.support.perf_model import MAX_DEPTH, MAX_RECURSION

FUNCTIONS_A_PROGRAM = 40


class Writer:
    """Writes a program, where FILE stands for the name of its file."""

    def __init__(self, rng):
        self.rng = rng
        self.calls = [["pass"]] * FUNCTIONS_A_PROGRAM
        kinds = [getattr(self, name) for name in dir(self)
                 if name.startswith("write_")]
        self.wanted = [rng.choice(kinds) for _ in range(FUNCTIONS_A_PROGRAM)]

    def program(self):
        """Return the lines of the program."""
        # Calls can only be written when it is known how to call each function:
        # write twice, with the same random numbers.
        state = self.rng.getstate()
        for _ in range(2):
            self.rng.setstate(state)
            written = [write(f"f{number}")
                       for number, write in enumerate(self.wanted)]
            self.calls = [calls for _, calls in written]
        lines = [line for source, _ in written for line in source]
        return lines + define("main", "", self.body(
            "main", *self.actions(FUNCTIONS_A_PROGRAM)))

    # Parts of functions.  Lines are indented by whoever uses them.

    def actions(self, count=None):
        """Return lines that call functions, from a function with a base b."""
        lines = []
        for _ in range(count or self.rng.randrange(1, 4)):
            choice = self.rng.random()
            if choice < 0.06:
                lines += ["if more():", "    toggle()", "verify(b)"]
            elif choice < 0.10:
                lines += ["if more():",
                          "    raise Oops(rng.randrange(6))"]
            else:
                lines += self.guarded_call()
        return lines

    def guarded_call(self):
        index = self.rng.randrange(FUNCTIONS_A_PROGRAM)
        which = self.rng.random()
        catches = self.rng.random() < 0.6
        calls = self.calls[index]
        call = calls[int(which * len(calls))].splitlines()
        if not catches:
            return ["if more():", *indent(call), "verify(b)"]
        return ["if more():",
                "    try:", *indent(call, 2),
                "    except Oops as oops:",
                "        verify(b)",
                "        if oops.functions > 0:",
                "            oops.functions -= 1",
                "            raise",
                "    verify(b)"]

    def body(self, qualname, *end):
        """Return the lines of an ordinary function."""
        return [f"b = enter('py::{qualname}:FILE')",
                "try:",
                "    verify(b)",
                *indent(self.actions()),
                *indent(end),
                "finally:",
                "    leave(b)"]

    # Kinds of functions: each returns its source and ways to call it.

    def write_function(self, name):
        parameters, calls = self.rng.choice([
            ("x, y", ["{0}(1, 2)", "{0}(y=1, x=2)", "{0}(*(1, 2))"]),
            ("x, y=2, z=3", ["{0}(1)", "{0}(1, 2)", "{0}(1, z=4)"]),
            ("", ["{0}()"]),
            ("x, /, *, y=1", ["{0}(1)", "{0}(1, y=2)"]),
            ("*args, **kwargs", ["{0}()", "{0}(1, 2)", "{0}(1, y=2)",
                                 "{0}(**{{'y': 2}})", "{0}(*'abc')"]),
        ])
        return (define(name, parameters, self.body(name)),
                [call.format(name) for call in calls])

    def write_method(self, name):
        source = [f"class {name}:",
                  *indent(define("m", "self, x", self.body(f"{name}.m"))),
                  "    @classmethod",
                  *indent(define("c", "cls", self.body(f"{name}.c"))),
                  "    @staticmethod",
                  *indent(define("s", "x=1", self.body(f"{name}.s"))),
                  f"class {name}Derived({name}):",
                  *indent(define("m", "self, x", self.body(
                      f"{name}Derived.m", "super().m(x)")))]
        return source, [f"{name}().m(1)", f"{name}Derived().m(2)",
                        f"{name}.c()", f"{name}().c()", f"{name}.s()",
                        f"m = {name}().m\nm(1)"]

    def write_special(self, name):
        method, parameters, end, call = self.rng.choice([
            ("__call__", "self", "pass", f"{name}()()"),
            ("__add__", "self, x", "return 1", f"{name}() + 1"),
            ("__init__", "self", "pass",
             f"if may_inline_always(b):\n    {name}()"),
            ("__len__", "self", "return 2", f"len({name}())"),
            ("__eq__", "self, x", "return True", f"{name}() == 1"),
            ("__getattr__", "self, x", "return 1", f"{name}().missing"),
            ("__iter__", "self", "return iter('a')", f"list({name}())"),
            ("__contains__", "self, x", "return 1", f"1 in {name}()"),
            ("__format__", "self, x", "return ''", f"f'{{{name}()}}'"),
            ("__hash__", "self", "return 1", f"{{{name}()}}"),
        ])
        return [f"class {name}:",
                *indent(define(method, parameters, self.body(
                    f"{name}.{method}", end)))], [call]

    def write_getitem(self, name):
        return ([f"class {name}:",
                 *indent(define("__getitem__", "self, i", self.body(
                     f"{name}.__getitem__", "return i")))],
                [f"if may_inline_always(b):\n    {name}()[1]"])

    def write_property(self, name):
        return ([f"class {name}:",
                 "    @property",
                 *indent(define("p", "self", self.body(f"{name}.p")))],
                [f"{name}().p"])

    def write_context_manager(self, name):
        return ([f"class {name}:",
                 *indent(define("__enter__", "self", self.body(
                     f"{name}.__enter__"))),
                 *indent(define("__exit__", "self, *error", self.body(
                     f"{name}.__exit__")))],
                [f"with {name}():\n    verify(b)",
                 f"with {name}():\n    raise Oops(2)"])

    def write_closure(self, name):
        inner = f"{name}.<locals>.inner"
        return define(name, "x=1", self.body(
            name, *define("inner", "y=x", self.body(inner)), "inner()",
            "verify(b)")), [f"{name}()"]

    def write_comprehension(self, name):
        kind, left, right = self.rng.choice([
            ("listcomp", "[", "]"), ("setcomp", "{", "}"),
            ("genexpr", "list(", ")")])
        inner = f"once('py::{name}.<locals>.<{kind}>:FILE')"
        if INLINES_COMPREHENSIONS and kind != "genexpr":
            inner = "verify(b)"
        return define(name, "", self.body(
            name, f"{left}{inner} for _ in range(3){right}",
            "verify(b)",
            f"(lambda: once('py::{name}.<locals>.<lambda>:FILE'))()",
            "verify(b)")), [f"{name}()"]

    def write_callback(self, name):
        return (define(name, "*_", self.body(name, "return 1")),
                [f"sorted([2, 1], key={name})",
                 f"list(map({name}, [1, 2]))",
                 f"list(filter({name}, [1, 2]))",
                 f"reduce({name}, [1, 2, 3])",
                 f"partial({name}, 1)()",
                 f"call({name})",
                 f"call({name}, {self.rng.randrange(20)})"])

    def write_substitution(self, name):
        return (define(name, "match", self.body(name, "return 'b'")),
                [f"pattern.sub({name}, 'aa')"])

    def write_thread(self, name):
        return (define(name, "", self.body(name)),
                [f"in_thread({name}) if rng.random() < 0.1 else {name}()"])

    def write_recursion(self, name):
        step = self.rng.randrange(20, 60)
        return define(name, "n", [
            f"b = enter('py::{name}:FILE')",
            "try:",
            f"    if n % {step} == 0:",
            "        verify(b)",
            "    if n > 0:",
            f"        {name}(n - 1)",
            "    else:",
            "        verify(b)",
            "        depth = deeper()",
            "        try:",
            *indent(self.actions(), 3),
            "        finally:",
            "            shallower(depth)",
            f"    if n % {step} == 0:",
            "        verify(b)",
            "finally:",
            "    leave(b)"]), [
                f"{name}(rng.randrange(5))",
                f"if rng.random() < 0.1 and len(model.stack) <= {MAX_DEPTH}:\n"
                f"    {name}(rng.randrange({MAX_RECURSION}))"]

    def write_generator(self, name):
        enter = f"b = enter('py::{name}:FILE')"
        return define(name, "", [
            enter,
            "try:",
            "    verify(b)",
            *indent(self.actions(1)),
            "    for i in range(3):",
            "        leave(b)",
            "        try:",
            "            yield i",
            "        except (Oops, GeneratorExit) as error:",
            f"            {enter}",
            "            verify(b)",
            *indent(self.actions(1), 3),
            "            if type(error) is GeneratorExit:",
            "                raise",
            "        else:",
            f"            {enter}",
            "        verify(b)",
            *indent(self.actions(1), 2),
            "finally:",
            "    leave(b)"]), [
                f"for _ in {name}():\n    verify(b)",
                f"list({name}())",
                f"sum({name}())",
                f"g = {name}()\nnext(g)\nverify(b)\ng.close()",
                f"g = {name}()\nnext(g)\nverify(b)\ndel g",
                f"g = {name}()\nnext(g)\nverify(b)\ng.throw(Oops(1))",
                f"g = {name}()\ng.close()"]

    def write_delegating_generator(self, name):
        inner = f"{name}_inner"
        return [*self.delegating(name, "", f"yield from {inner}(c)"),
                *define(inner, "c", self.suspended(inner, "yield"))], [
                    drive(name)]

    def write_coroutine(self, name):
        inner, pause = f"{name}_inner", f"{name}_Pause"
        await_name = f"{pause}.__await__"
        return [*self.delegating(name, "async ", f"await {inner}(c)"),
                *self.delegating(inner, "async ", f"await {pause}()"),
                f"class {pause}:",
                *indent(define("__await__", "self", self.suspended(
                    await_name, "yield")))], [drive(name)]

    def write_async_generator(self, name):
        items, pause = f"{name}_items", f"{name}_Pause"
        own, items_symbol = f"'py::{name}:FILE'", f"'py::{items}:FILE'"
        return [
            *define(name, "c", [
                f"b = enter({own})",
                "try:",
                "    verify(b)",
                f"    c.delegate({own}, b)",
                "    try:",
                f"        async for _ in {items}(c):",
                "            b = c.base()",
                "            verify(b)",
                *indent(self.actions(1), 3),
                "    finally:",
                "        b = c.returned()",
                "    verify(b)",
                "finally:",
                "    leave(b)"], "async "),
            *define(items, "c", [
                "for i in range(2):",
                f"    b = enter({items_symbol})",
                "    verify(b)",
                f"    c.delegate({items_symbol}, b)",
                "    try:",
                f"        await {pause}()",
                "    finally:",
                "        b = c.returned()",
                "    verify(b)",
                "    leave(b)",
                "    yield i"], "async "),
            f"class {pause}:",
            *indent(define("__await__", "self", self.suspended(
                f"{pause}.__await__", "yield")))], [drive(name)]

    def delegating(self, name, prefix, delegate):
        """Return a function that waits for an inner one, twice."""
        own = f"'py::{name}:FILE'"
        wait = [f"c.delegate({own}, b)",
                "try:",
                f"    {delegate}",
                "finally:",
                "    b = c.returned()",
                "verify(b)"]
        return define(name, "c", [
            f"b = enter({own})",
            "try:",
            "    verify(b)",
            *indent(wait),
            *indent(self.actions(1)),
            *indent(wait),
            "finally:",
            "    leave(b)"], prefix)

    def suspended(self, qualname, suspend):
        """Return lines that suspend a chain twice."""
        enter = f"b = enter('py::{qualname}:FILE')"
        return [enter,
                "try:",
                "    for i in range(2):",
                "        verify(b)",
                "        leave(b)",
                f"        {suspend}",
                f"        {enter}",
                "        verify(b)",
                *indent(self.actions(1), 2),
                "finally:",
                "    leave(b)"]


def indent(lines, levels=1):
    return ["    " * levels + line for line in lines]


def define(name, parameters, lines, prefix=""):
    return [f"{prefix}def {name}({parameters}):", *indent(lines)]


def drive(name):
    return (f"k = chain()\ng = {name}(k)\nwhile k.resume(g):\n    verify(b)")
