"""perfpy's formats, each read back by programs that were made to read it."""

import base64
import contextlib
import gzip
import io
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from perfpy.formats import FORMATS, function_name
from perfpy.profile import NO_STACK, Kind, Profile
from test import support
from test.support import chromium, perfpy_samples as samples
from test.support.perfpy_case import RecordingTestCase
from test.support.perfpy_viewers import (
    PROFILER_CLI, SPEEDSCOPE, requires_chromium, requires_pprof,
    requires_profiler_cli, requires_speedscope)


def written(name, profile):
    file = io.BytesIO()
    FORMATS[name].write(profile, file)
    return file.getvalue()


class Base(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="test_perfpy_formats-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def save(self, name, profile):
        path = self.directory / f"profile{FORMATS[name].suffix}"
        path.write_bytes(written(name, profile))
        return path

    def run_program(self, *command, **environment):
        """Run a program without the network and return what it printed."""
        result = subprocess.run(
            command, capture_output=True, timeout=support.LONG_TIMEOUT,
            stdin=subprocess.DEVNULL, env={**os.environ, **environment})
        self.assertEqual(result.returncode, 0,
                         result.stderr.decode("utf-8", "replace"))
        return result.stdout.decode("utf-8", "surrogateescape")


class RegistryTests(unittest.TestCase):

    def test_an_empty_profile_can_be_written(self):
        for name in FORMATS.keys() - {"html"}:
            with self.subTest(name):
                written(name, Profile())

    def test_each_format_says_how_to_view_it(self):
        for format in FORMATS.values():
            with self.subTest(format.name):
                self.assertIn("my.file", format.how_to_view.format("my.file"))
                self.assertTrue(format.suffix.startswith("."))

    def test_equal_profiles_give_equal_bytes(self):
        for name in FORMATS.keys() - {"html"}:
            with self.subTest(name):
                self.assertEqual(written(name, samples.example()),
                                 written(name, samples.example()))


class CollapsedTests(Base):

    def lines(self, profile):
        text = written("collapsed", profile).decode("utf-8")
        self.assertEqual(text.count("\n"), len(text.splitlines()))
        for line in text.splitlines():
            stack, _, weight = line.rpartition(" ")
            yield stack.split(";"), int(weight)

    def test_stacks_and_weights(self):
        lines = {";".join(names): weight
                 for names, weight in self.lines(samples.example())}
        example = samples.EXAMPLE
        way = f"python3.11 100;main;<module> ({example});foo ({example})"
        self.assertEqual(lines, {
            f"{way};Thing.bar ({example});_PyEval_EvalFrameDefault": 600_000,
            f"{way};_PyEval_EvalFrameDefault;work": 100_000,
            f"{way};_PyEval_EvalFrameDefault;work;clear_page_[k]": 300_000,
            f"python3.11 100, thread worker 101;main;foo ({example});"
            f"[unknown] ({samples.LIBRARY})": 500_000,
        })

    def test_no_name_breaks_a_line(self):
        profile = samples.hostile()
        lines = list(self.lines(profile))
        self.assertEqual(len(lines), len(Kind) * len(samples.HOSTILE_NAMES))
        self.assertEqual({len(names) for names, _ in lines}, {3})
        self.assertEqual(sum(weight for _, weight in lines),
                         round(profile.duration() * 1e6))
        for names, _ in lines:
            for name in names:
                self.assertTrue(name.strip() or name.isspace())
                self.assertTrue(name.isprintable() or not re.search(
                    r"[\x00-\x1f\x7f\x85\u2028\u2029]", name), name)

    def test_samples_without_a_stack_are_the_threads(self):
        profile = Profile()
        profile.thread(7, 7, "idle").add_sample(0, NO_STACK, 0.25)
        self.assertEqual(list(self.lines(profile)), [(["idle 7"], 250_000)])


class SpeedscopeTests(Base):

    def test_samples(self):
        profile = samples.example()
        result = json.loads(written("speedscope", profile))
        names = [frame["name"] for frame in result["shared"]["frames"]]
        main, worker = result["profiles"]
        self.assertEqual([names[frame] for frame in main["samples"][0]],
                         ["main", "<module>", "foo", "Thing.bar",
                          "_PyEval_EvalFrameDefault"])
        self.assertEqual([round(weight, 6) for weight in main["weights"]],
                         [0.6, 0.1, 0.3])
        self.assertAlmostEqual(worker["endValue"], 0.5)
        self.assertEqual(result["activeProfileIndex"], 0)

    @requires_chromium
    @requires_speedscope
    def test_speedscope_reads(self):
        """speedscope itself reads three formats, with the same figures."""
        with chromium.Browser() as browser:
            for name in ("speedscope", "collapsed", "pprof"):
                with self.subTest(name):
                    rows = self.sandwich(browser, name, samples.example())
                    self.check(name, rows)
            for name in ("speedscope", "collapsed", "pprof"):
                with self.subTest(name, hostile=True):
                    rows = self.sandwich(browser, name, samples.hostile())
                    # Of speedscope's own format it shows one thread.
                    self.assertGreaterEqual(
                        len(rows), 2 if name == "speedscope"
                        else len(samples.HOSTILE_NAMES))

    def check(self, name, rows):
        per_thread = name == "speedscope"   # the others show the sum of both
        bar = (function_name(samples.BAR) if name == "collapsed"
               else "Thing.bar")
        self.assertEqual(rows[bar][0], "60%" if per_thread else "40%")
        kernel = "clear_page_[k]" if name == "collapsed" else "clear_page"
        self.assertEqual(rows[kernel],
                         ("30%", "30%") if per_thread else ("20%", "20%"))

    def sandwich(self, browser, name, profile):
        """Return speedscope's table of functions: name to total and self."""
        path = self.save(name, profile)
        loader = self.directory / "load.js"
        loader.write_text("speedscope.loadFileFromBase64({}, {})".format(
            json.dumps(path.name),
            json.dumps(base64.b64encode(path.read_bytes()).decode())))
        browser.open(f"{SPEEDSCOPE.as_uri()}#view=sandwich"
                     f"&localProfilePath={loader}")
        table = browser.wait_for("""(() => {
            const rows = [...document.querySelectorAll("tr")]
                .map(row => [...row.cells].map(cell => cell.textContent))
                .filter(cells => cells.length === 3);
            return rows.length > 1 && rows;
        })()""")
        self.assertIn("speedscope", browser.evaluate("document.title"))
        return {symbol: tuple(re.search(r"\((.*)\)", cell)[1]
                              for cell in (total, own))
                for total, own, symbol in table
                if "(" in total}


class PprofTests(Base):

    def test_is_compressed(self):
        data = gzip.decompress(written("pprof", samples.example()))
        self.assertIn(b"Thing.bar", data)

    @requires_pprof
    def test_pprof_reads(self):
        path = self.save("pprof", samples.example())
        home = str(self.directory)
        top = self.run_program("go", "tool", "pprof", "-top", path, HOME=home)
        self.assertIn("Type: cpu", top)
        self.assertIn("1.50s total", re.sub(r"1500ms", "1.50s", top))
        rows = {line.split(maxsplit=5)[5]: line.split()[:4:3]
                for line in top.splitlines() if re.match(r" +\d", line)
                and "flat%" not in line}
        self.assertEqual(rows["Thing.bar"], ["0", "600ms"])
        self.assertEqual(rows["work"], ["100ms", "400ms"])
        self.assertEqual(rows["clear_page"], ["300ms", "300ms"])
        self.assertEqual(rows["<module>"], ["0", "1000ms"])
        self.assertEqual(rows["foo"], ["0", "1500ms"])

    @requires_pprof
    def test_pprof_sees_threads_and_files(self):
        path = self.save("pprof", samples.example())
        home = str(self.directory)
        raw = self.run_program("go", "tool", "pprof", "-raw", path, HOME=home)
        self.assertIn("thread:[worker]", raw)
        self.assertIn("tid:[101]", raw)
        self.assertIn("event: cpu-clock", raw)
        self.assertIn("Period: 1000000\n", raw)
        self.assertIn("2026-01-31 10:20:30", raw)
        self.assertIn(f"Thing.bar {samples.EXAMPLE}", raw)
        worker = self.run_program("go", "tool", "pprof", "-top",
                                  "-tagfocus=thread=worker", path, HOME=home)
        self.assertIn("500ms", worker)
        self.assertNotIn("Thing.bar", worker)

    @requires_pprof
    def test_pprof_reads_any_name(self):
        path = self.save("pprof", samples.hostile())
        raw = self.run_program("go", "tool", "pprof", "-raw", path,
                               HOME=str(self.directory))
        for name in samples.HOSTILE_NAMES[:2]:
            self.assertIn(name, raw)


class GeckoTests(Base):

    @contextlib.contextmanager
    def profiler(self, path):
        """Load a file into the Firefox Profiler; yield a way to ask it.

        A server has the profile, and commands ask the server.  It is started
        here as the command "load" does, which would wait half a second for it.
        """
        settings = {"HOME": str(self.directory), "PROFILER_CLI_SESSION_DIR":
                    str(self.directory / "sessions")}

        def ask(*command):
            return json.loads(self.run_program(
                "node", PROFILER_CLI, *command, "--session", "test", "--json",
                **settings))

        # Not by a command: one that comes too early forgets the session.
        log = self.directory / "sessions" / "test.log"

        def is_ready():
            time.sleep(0.05)
            return log.exists() and "Profile loaded" in log.read_text()

        server = subprocess.Popen(
            ["node", PROFILER_CLI, "--daemon", path, "--session", "test"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, **settings})
        try:
            deadline = time.monotonic() + support.LONG_TIMEOUT
            while not is_ready():
                self.assertIsNone(server.poll(), "the server ended")
                self.assertLess(time.monotonic(), deadline)
            yield ask
        finally:
            server.terminate()
            server.wait(support.SHORT_TIMEOUT)

    @requires_profiler_cli
    def test_the_firefox_profiler_reads(self):
        with self.profiler(self.save("gecko", samples.example())) as ask:
            threads = ask("thread", "list")["threads"]
            functions = ask("thread", "functions", "--thread",
                            threads[0]["threadHandle"])["functions"]
            hot = ask("thread", "samples", "--thread",
                      threads[0]["threadHandle"])
        self.assertEqual([thread["name"] for thread in threads],
                         ["python3.11", "worker"])
        rows = {function["name"]: (round(function["selfSamples"]),
                                   round(function["totalSamples"]))
                for function in functions}
        self.assertEqual(rows, {
            "main": (0, 1000), "<module>": (0, 1000), "foo": (0, 1000),
            "Thing.bar": (0, 600), "_PyEval_EvalFrameDefault": (600, 1000),
            "work": (100, 400), "clear_page": (300, 300)})
        libraries = {function["name"]: function.get("library")
                     for function in functions}
        self.assertEqual(libraries["work"], "libwork.so.1")
        categories = {category["name"]: round(category["samples"])
                      for category in hot["categoryBreakdown"]["categories"]}
        self.assertEqual(categories, {"Interpreter": 600, "Native": 100,
                                      "Kernel": 300})

    @requires_profiler_cli
    def test_the_firefox_profiler_reads_any_name(self):
        with self.profiler(self.save("gecko", samples.hostile())) as ask:
            threads = ask("thread", "list")["threads"]
        self.assertEqual(len(threads), len(samples.HOSTILE_NAMES))

    def test_the_tables_agree(self):
        """Each index is one of a row that exists."""
        for profile in (samples.example(), samples.hostile()):
            for thread in json.loads(written("gecko", profile))["threads"]:
                for name, table in thread.items():
                    if not isinstance(table, dict):
                        continue
                    for column, values in table.items():
                        if isinstance(values, list):
                            self.assertEqual(len(values), table["length"],
                                             f"{name}.{column}")
                stacks = thread["stackTable"]
                for stack, parent in enumerate(stacks["prefix"]):
                    self.assertTrue(parent is None or parent < stack)
                self.assertLess(max(stacks["frame"]),
                                thread["frameTable"]["length"])
                self.assertLess(max(thread["funcTable"]["name"]),
                                len(thread["stringArray"]))


class RecordedTests(RecordingTestCase):
    """The profile of a script that was recorded just now."""

    @requires_pprof
    def test_recorded(self):
        script = self.script("""
            def foo():
                busy(0.5)

            foo()
            """)
        self.perfpy("run", "-q", "-o", "out.pb.gz", script)
        top = subprocess.run(
            ["go", "tool", "pprof", "-top", "-cum", self.path("out.pb.gz")],
            capture_output=True, text=True, check=True,
            env={**os.environ, "HOME": self.directory}).stdout
        share = re.search(r" ([0-9.]+)%  foo$", top, re.MULTILINE)
        self.assertGreater(float(share[1]), 50, top)

    def test_order_in_time(self):
        # What is a flame graph elsewhere can be seen as it went on.
        self.perfpy("run", "-q", "-o", "out.perfpy", self.script("""
            def first(): busy(0.2)
            def second(): busy(0.2)
            def phases():
                for function in first, second, first:
                    function()
            thread = threading.Thread(target=phases, name="phases")
            thread.start()
            thread.join()
            if os.fork() == 0:
                second()
                first()
                os._exit(0)
            os.wait()
            """))
        parts = {}
        for name in "speedscope", "gecko":
            self.perfpy("report", "--format", name, "-o", name, "out.perfpy")
            with open(self.path(name)) as file:
                parts[name] = dict(getattr(self, name)(json.load(file)))
        for name, found in parts.items():
            with self.subTest(name):
                self.assertEqual(found["phases"],
                                 ["first", "second", "first"])
                self.assertEqual(found["child 1"], ["second", "first"])

    def phases(self, names):
        """Return which of the functions samples were in, as that changed."""
        return [name for name, _ in itertools.groupby(
            name for stack in names for name in stack
            if name in ("first", "second"))]

    def thread(self, *names):
        """Return what tells a thread of the program from the others."""
        for word in "phases", "child 1":
            if any(word in name for name in names):
                return word
        return "main"

    def speedscope(self, found):
        frames = [frame["name"] for frame in found["shared"]["frames"]]
        for part in found["profiles"]:
            yield self.thread(part["name"]), self.phases(
                [frames[frame] for frame in stack]
                for stack in part["samples"])

    def gecko(self, found):
        for part in found["threads"]:
            times = part["samples"]["time"]
            self.assertEqual(times, sorted(times))
            functions = [part["stringArray"][part["funcTable"]["name"][
                part["frameTable"]["func"][frame]]]
                for frame in part["stackTable"]["frame"]]
            prefix = part["stackTable"]["prefix"]

            def names(stack):
                while stack is not None:
                    yield functions[stack]
                    stack = prefix[stack]

            yield (self.thread(part["name"], part["processName"]),
                   self.phases(map(names, part["samples"]["stack"])))


if __name__ == "__main__":
    unittest.main()
