"""The jobs of package_job.py with tools that look at a program while it runs.

Each returns {step: result}: what the program says, and what the tool says of
it that does not depend on time.
"""

import collections
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from package_suites import job


@job
def debugpy():
    """An editor's session with a program of its own."""
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write("import threading\n"
                       "def inner(n):\n"
                       "    square = n * n\n"
                       "    return square\n"
                       "def outer(n):\n"
                       "    return sum(inner(i) for i in range(n))\n"
                       "def fail():\n"
                       "    raise ValueError('wanted')\n"
                       "thread = threading.Thread(target=outer, args=(3,))\n"
                       "thread.start()\n"
                       "thread.join()\n"
                       "total = outer(4)\n"
                       "try:\n"
                       "    fail()\n"
                       "except ValueError as error:\n"
                       "    print(total, error)\n")
        with DebugSession(script) as session:
            return session.run()


class DebugSession:
    """Speaks the Debug Adapter Protocol to debugpy."""

    def __init__(self, script):
        self.script = script
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "debugpy", "--listen",
             f"127.0.0.1:{port}", "--wait-for-client", script],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(600):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.1)
        self.file = self.socket.makefile("rb")
        self.number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
        self.process.kill()
        self.process.communicate()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, command, **arguments):
        self.number += 1
        data = json.dumps({"seq": self.number, "type": "request",
                           "command": command, "arguments": arguments})
        self.socket.sendall(f"Content-Length: {len(data)}\r\n\r\n"
                            f"{data}".encode())
        return self.number

    def read(self):
        length = 0
        while (line := self.file.readline()) != b"\r\n":
            if not line:
                raise EOFError("debugpy has ended the session")
            length = int(line.split(b":")[1])
        return json.loads(self.file.read(length))

    def ask(self, command, **arguments):
        number = self.send(command, **arguments)
        while True:
            message = self.read()
            if message["type"] == "event":
                self.events.append(message)
            elif message.get("request_seq") == number:
                return message.get("body")

    def wait(self, *events):
        while True:
            message = self.events.pop(0) if self.events else self.read()
            if message["type"] == "event" and message["event"] in events:
                return message

    def run(self):
        self.ask("initialize", adapterID="test", pathFormat="path",
                 linesStartAt1=True)
        self.send("attach", justMyCode=True)
        self.wait("initialized")
        self.ask("setBreakpoints", source={"path": self.script},
                 breakpoints=[{"line": 4, "condition": "n > 1"}])
        self.ask("setExceptionBreakpoints", filters=["raised"])
        self.send("configurationDone")
        stops = []
        while True:
            event = self.wait("stopped", "terminated")
            if event["event"] == "terminated":
                break
            thread = event["body"]["threadId"]
            frames = self.ask("stackTrace", threadId=thread)["stackFrames"]
            value = self.ask("evaluate", expression="sorted(locals())",
                             frameId=frames[0]["id"])["result"]
            stops.append([event["body"]["reason"], value,
                          [(frame["name"], frame["line"])
                           for frame in frames
                           if frame["source"]["path"] == self.script]])
            command = "next" if len(stops) % 2 else "continue"
            self.ask(command, threadId=thread)
        self.send("disconnect")
        self.close()
        out = self.process.communicate(timeout=60)[0]
        return {"out": out, "status": self.process.returncode} | {
            f"stop {n}": stop for n, stop in enumerate(stops)}


PROGRAM = """\
import json
import sys

def fill(n):
    return bytearray(n)

def collect(times):
    return [fill(1 << 20) for _ in range(times)]

class Tree:
    def __init__(self, depth):
        self.weight = fill(1 << 16)
        self.children = [Tree(depth - 1) for _ in range(2)] if depth else []

    def __iter__(self):
        yield len(self.weight)
        for child in self.children:
            yield from child

def loop(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total

def main():
    chunks = collect(16)
    tree = Tree(7)
    words = json.loads(json.dumps(list(range(1000))), parse_int=lambda n: n)
    sums = [loop(50_000) for _ in range(int(sys.argv[1]))]
    return len(chunks), sum(tree), len(words), sum(sums)

print(*main())
"""


def run_tool(directory, times, *options):
    """Run PROGRAM under a module; return its output and its script's path."""
    script = pathlib.Path(directory, "program.py")
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", *options, script, str(times)],
                          cwd=directory, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=600)
    if done.returncode != 0:
        sys.exit(f"package_job: {options}: status {done.returncode}\n"
                 f"{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout, script


@job
def memray():
    """Who holds the program's large memory at its peak, by memray's word."""
    from memray import FileReader
    with tempfile.TemporaryDirectory() as directory:
        results = os.path.join(directory, "memray.bin")
        out, script = run_tool(directory, 1, "memray", "run", "--native",
                               "--quiet", "-o", results)
        reader = FileReader(results)
        sizes = collections.Counter()
        native = 0
        for record in reader.get_high_watermark_allocation_records(
                merge_threads=True):
            stack = [f"{name}:{line}" for name, path, line
                     in record.stack_trace() if path == str(script)]
            # What is small is at its peak by chance.
            if record.size >= 1 << 16 and stack:
                sizes[" ".join(stack)] += record.size >> 16
                native += len(record.hybrid_stack_trace()) > len(stack)
    return {"out": out, "native": native > 0, **sizes}


@job
def scalene():
    """In which functions the program spent its time, by scalene's word."""
    with tempfile.TemporaryDirectory() as directory:
        results = pathlib.Path(directory, "scalene.json")
        out, script = run_tool(directory, 200, "scalene", "run", "--cpu-only",
                               "--outfile", results)
        profile = json.loads(results.read_text())
    functions = profile["files"][str(script)]["functions"]
    shares = {function["line"]: function["n_cpu_percent_python"]
              + function["n_cpu_percent_c"] for function in functions}
    most = max(shares, key=shares.get, default=None)
    return {"out": out, "most": most, "half of it": shares.get(most, 0) > 50}
