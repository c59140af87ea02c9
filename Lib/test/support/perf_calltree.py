"""A random program whose functions say where they may be called from.

Each function is called by one other only, in one way, so that there is one
path to it, and any stack a profiler shows can be checked against that.  Used
by test_perfpy_stacks.py.
"""

import random

from test.support.perf_base import INLINES_COMPREHENSIONS

HEAD = '''\
import ctypes, functools, hashlib, json, os, re, sqlite3, sys, threading, time
import zlib

sys.setrecursionlimit(20_000)
threading.stack_size(32 << 20)
DATA = os.urandom(3000)
OBJECT = {str(number): [number, {}] for number in range(60)}
LETTER = re.compile("a")
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
QSORT = ctypes.CDLL(None).qsort
SUM = ("with recursive c(value) as (select 1 union all select value + 1 "
       "from c limit 300) select sum(value) from c")

class Attribute:
    def __init__(self, get):
        self.get = get
    def __getattr__(self, name):
        return self.get(name)

class Item:
    pass

'''

FOOT = '''
def run():
    end = time.process_time() + float(sys.argv[1])
    while time.process_time() < end:
        n()

thread = threading.Thread(target=run)
thread.start()
thread.join()
run()
'''

# What functions do themselves.
WORK = (
    "sum(range(3000))",
    "zlib.compress(DATA)",
    "hashlib.sha256(DATA * 20)",
    "json.dumps(OBJECT)",
    "sorted(DATA)",
    "DATA.decode('latin-1').encode('utf-16')",
    "sqlite3.connect(':memory:').execute(SUM).fetchall()",
    "for _ in range(2000): pass",
    "list(map(abs, DATA))",
    "'x'.join(map(str, DATA))",
)

# How to call function {0} from function {1}, and what stands in between.
WAYS = {
    "plain": ("{0}()", ()),
    "sorted": ("sorted((1, 2), key={0})", ()),
    "map": ("list(map({0}, (1,)))", ()),
    "reduce": ("functools.reduce({0}, (1, 2))", ()),
    "partial": ("functools.partial({0}, 1)()", ()),
    "re": ("LETTER.sub({0}, 'xa')", ()),
    "generator": ("for _ in ({0}() for _ in (1,)): pass",
                  ("{1}.<locals>.<genexpr>",)),
    "comprehension": ("[{0}() for _ in (1,)]",
                      () if INLINES_COMPREHENSIONS
                      else ("{1}.<locals>.<listcomp>",)),
    "exec": ("exec('{0}()')", ("<module>",)),
    "callback": ("CALLBACK({0})(1)", ()),
    "qsort": ("QSORT((ctypes.c_int * 2)(2, 1), 2, 4, COMPARE({0}))", ()),
    "sqlite": ("database = sqlite3.connect(':memory:'); "
               "database.create_function('f', 1, {0}); "
               "database.execute('select f(1)').fetchall()", ()),
    "getattr": ("Attribute({0}).name", ("Attribute.__getattr__",)),
    "property": ("type('T', (Item,), dict(name=property({0})))().name", ()),
    "class": ("type('T', (Item,), dict(__del__={0}))()", ()),
    "coroutine": ("\n"
                  "    try: {0}().send(None)\n"
                  "    except StopIteration: pass", ()),
    "throw": ("\n"
              "    generator = {0}()\n"
              "    next(generator)\n"
              "    try: generator.throw(ValueError)\n"
              "    except StopIteration: pass", ()),
    "raise": ("\n"
              "    try: {0}(1)\n"
              "    except KeyError: pass", ()),
    "recursion": ("{0}(300)", ()),
    "c_recursion": ("{0}(150)", ()),
}

# These are outermost functions: each greenlet has a stack of its own.
GREENLET = ("\n"
            "    other = greenlet.greenlet({0})\n"
            "    while not other.dead: other.switch()")

OUTERMOST = ""
SCRIPT = ("<module>",)
THREAD = ("Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run")


def _body(way, name, lines):
    """Return the definition of a function that is called in this way."""
    inside = "".join(f"    {line}\n" for line in lines)
    if way == "coroutine":
        return f"async def {name}():\n{inside}\n"
    if way == "throw":
        return (f"def {name}():\n    try: yield\n    except ValueError: pass\n"
                f"{inside}\n")
    if way in ("recursion", "c_recursion"):
        again = (f"{name}(depth - 1)" if way == "recursion"
                 else f"list(map({name}, (depth - 1,)))")
        return (f"def {name}(depth):\n    if depth:\n        {again}\n"
                f"        return 0\n{inside}    return 0\n\n")
    if way == "greenlet":
        lines.insert(len(lines) // 2, "greenlet.getcurrent().parent.switch()")
        inside = "".join(f"    {line}\n" for line in lines)
    end = {"raise": "raise KeyError", "re": "return ''"}.get(way, "return 1")
    return f"def {name}(*_):\n{inside}    {end}\n\n"


class Tree:
    """The program is in source; paths has the ways to all functions.

    Recursive functions are in a path once.  If greenlets are asked for, the
    program imports greenlet.
    """

    def __init__(self, seed, functions=250, greenlets=False):
        chance = random.Random(seed)
        self.paths = set()
        children, way_of, path_of = {"n": []}, {"n": "plain"}, {"n": ("n",)}
        names = ["n"]
        ways = [way for way in WAYS if way != "c_recursion"]
        for number in range(functions):
            # Deep rather than broad.
            parent = chance.choice(names[-30:])
            name = f"{parent}_{len(children[parent])}"
            way = ways[number] if number < len(ways) else chance.choice(ways)
            if number == functions * 3 // 4:
                way = "c_recursion"     # few functions are called by this one
            elif greenlets and chance.random() < 0.2:
                way = "greenlet"
            between = tuple(text.format(name, parent)
                            for text in WAYS.get(way, ("", ()))[1])
            children[parent].append(name)
            children[name], way_of[name] = [], way
            path_of[name] = path_of[parent] + between + (name,)
            if way == "greenlet":
                path_of[name] = (OUTERMOST, name)
            names.append(name)
        parts = [HEAD]
        if greenlets:
            parts.append("import greenlet\n\n")
        for name in names:
            lines = [chance.choice(WORK) for _ in range(2)]
            lines += [(GREENLET if way_of[child] == "greenlet" else
                       WAYS[way_of[child]][0]).format(child, name)
                      for child in children[name]]
            chance.shuffle(lines)
            parts.append(_body(way_of[name], name, lines))
        parts.append(FOOT)
        self.source = "".join(parts)
        for path in path_of.values():
            starts = [(*SCRIPT, "run"), (*THREAD, "run")]
            if path[0] == OUTERMOST:
                path, starts = path[1:], [()]
            for start in starts:
                whole = start + path
                self.paths.update(whole[:length]
                                  for length in range(1, len(whole) + 1))
