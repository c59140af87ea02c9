#!/usr/bin/env python3
"""Profile a Flask application in gunicorn's workers while it serves requests.

Debian's gunicorn and Flask, in our interpreter, with profiling off, with a map
and with a jitdump; perf records the server from its start to its end.  Each
answer must be right, each worker's file must name the view function, and perf
must show it in each worker.  Prints a table.  Called by hand.

usage: Tools/reliability/server.py [--requests N] [--workers N]
                                   [--python PYTHON] [--packages DIRECTORY]

For a base that Debian here has no packages for, from PyPI:

    python3 -m pip install --target DIRECTORY --python-version 3.14 \\
        --only-binary :all: flask gunicorn
"""

import argparse
import collections
import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "Lib" / "test" / "support"))
import perf_jitdump

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
NEEDED = {"flask": "python3-flask", "gunicorn": "python3-gunicorn"}
MODES = {"off": {}, "perf": {"PYTHONPERFSUPPORT": "1"},
         "perf_jit": {"PYTHON_PERF_JIT_SUPPORT": "1"}}
CLIENTS = 8
CONNECTIONS = 500     # so many that all workers get some
SECONDS_TO_START = 60
SECONDS_TO_SERVE = 900

APPLICATION = """\
import os

from flask import Flask, jsonify

app = Flask(__name__)


def price(number, count):
    return number * count + 1


@app.route("/item/<int:number>")
def item(number):
    answer = jsonify(total=sum(price(number, count) for count in range(50)))
    answer.headers["Worker"] = str(os.getpid())
    return answer
"""


def right_answer(number):
    return {"total": number * 1225 + 50}


class Failure(Exception):
    pass


def blocks(lines):
    """Yield lists of lines that empty lines separate."""
    block = []
    for line in lines:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


class Server:
    """Gunicorn, and perf around it unless mode is off."""

    def __init__(self, directory, mode, python, workers, packages):
        self.directory = pathlib.Path(directory)
        self.mode = mode
        (self.directory / "shop.py").write_text(APPLICATION)
        self.pid_file = self.directory / "pid"
        self.data = self.directory / "perf.data"
        self.log = self.directory / "log"
        command = [python, "-m", "gunicorn", "--workers", str(workers),
                   "--worker-class", "gthread", "--threads", str(CLIENTS),
                   "--keep-alive", "60", "--graceful-timeout", "5",
                   "--pid", self.pid_file, "--bind", "127.0.0.1:0", "shop:app"]
        if mode != "off":
            command = [*self.perf("record"), "-q", "-F", "199", "-g", "-e",
                       "cpu-clock", "-k", "1", "-o", self.data, "--", *command]
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("PYTHON", "GUNICORN"))}
        environment |= MODES[mode] | {"PYTHONPATH": str(packages),
                                      "PYTHONDONTWRITEBYTECODE": "1",
                                      "JITDUMPDIR": str(directory)}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, cwd=directory, stdout=log,
                                            stderr=log, env=environment,
                                            start_new_session=True)

    def perf(self, *arguments):
        # What it caches stays out of the user's home.
        return ["perf", "--buildid-dir", self.directory / "cache", *arguments]

    def address(self):
        """Wait until it listens; return the port."""
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end and self.process.poll() is None:
            match = re.search(r"Listening at: http://127.0.0.1:(\d+)",
                              self.log.read_text())
            if match:
                return int(match[1])
            time.sleep(0.1)
        raise Failure("the server does not start:\n" + self.log.read_text())

    def stop(self):
        """End it as an administrator would, and perf with it."""
        self.first_pid = int(self.pid_file.read_text())
        os.kill(self.first_pid, signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            raise Failure("the server does not end") from None

    def kill(self):
        """Whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def symbols(self, pid):
        """Return the names in the file of process pid."""
        if self.mode == "perf":
            text = pathlib.Path(f"/tmp/perf-{pid}.map").read_text()
            return [line.split(" ", 2)[2] for line in text.splitlines()]
        data = (self.directory / f"jit-{pid}.dump").read_bytes()
        return [load.name for load in perf_jitdump.Jitdump(data).loads]

    def shares(self):
        """Return {pid: per cent of its samples with the view function}."""
        data = self.data
        if self.mode == "perf_jit":
            data = self.directory / "perf.jit.data"
            subprocess.run(self.perf("inject", "--jit", "-i", self.data, "-o",
                                     data), check=True, cwd=self.directory,
                           stderr=subprocess.DEVNULL)
        return self.count(data)

    def count(self, data):
        # Not `perf report --sort pid`: it goes by threads.
        script = subprocess.Popen(
            self.perf("script", "-i", data, "--no-inline", "-F", "pid,ip,sym"),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            errors="replace", cwd=self.directory)
        samples, shown = collections.Counter(), collections.Counter()
        with script:
            for block in blocks(script.stdout):
                pid = int(block[0])
                samples[pid] += 1
                shown[pid] += any(self.view() in line for line in block)
        if script.returncode != 0:
            raise Failure("perf script fails")
        return {pid: 100 * shown[pid] / samples[pid] for pid in shown
                if shown[pid]}

    def view(self):
        return f"py::item:{self.directory}/shop.py"


class Load:
    """Clients that ask in turns on connections that stay open for a while."""

    def __init__(self, port, requests):
        self.port = port
        self.shares = [requests // CLIENTS + (n < requests % CLIENTS)
                       for n in range(CLIENTS)]
        self.by_worker = collections.Counter()
        self.errors = []
        self.a_connection = max(1, requests // CONNECTIONS)
        self.lock = threading.Lock()
        self.end = time.monotonic() + SECONDS_TO_SERVE

    def wait_for(self, workers):
        """Ask until all have answered, or the first takes all connections."""
        end = time.monotonic() + SECONDS_TO_START
        while len(self.by_worker) < workers:
            if time.monotonic() > end:
                raise Failure(f"only {len(self.by_worker)} of {workers} "
                              f"workers answer")
            threads = [threading.Thread(target=self.client, args=(1,))
                       for _ in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.by_worker.clear()

    def run(self):
        threads = [threading.Thread(target=self.client, args=(share,))
                   for share in self.shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise Failure(f"{len(self.errors)} clients failed: "
                          f"{self.errors[0]}")

    def client(self, share):
        counts = collections.Counter()
        try:
            while share:
                some = min(share, self.a_connection)
                self.converse(some, counts)
                share -= some
        except (OSError, http.client.HTTPException, Failure) as error:
            self.errors.append(repr(error))
        with self.lock:
            self.by_worker.update(counts)

    def converse(self, requests, counts):
        with contextlib.closing(http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=60)) as connection:
            for number in range(requests):
                if time.monotonic() > self.end or self.errors:
                    raise Failure(f"stopped, at most {SECONDS_TO_SERVE} s")
                connection.request("GET", f"/item/{number}")
                response = connection.getresponse()
                body = response.read()
                if (response.status != 200
                        or json.loads(body) != right_answer(number)):
                    raise Failure(f"{response.status}, {body[:200]}")
                counts[int(response.headers["Worker"])] += 1


def check_workers(server, by_worker):
    """Return each worker's symbols and share; fail if one lacks the view."""
    shares = server.shares()
    rows = []
    for pid in by_worker:
        names = server.symbols(pid)
        if names.count(server.view()) != 1:
            raise Failure(f"the file of worker {pid} has {server.view()} "
                          f"{names.count(server.view())} times")
        if pid not in shares:
            raise Failure(f"perf does not show {server.view()} in worker "
                          f"{pid}, but in {shares}")
        rows.append((len(names), shares[pid]))
    return rows


def serve(mode, python, workers, requests, packages):
    """Print a line of the table."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(directory, mode, python, workers, packages)
        pids = set()
        try:
            load = Load(server.address(), requests)
            load.wait_for(workers)
            start = time.monotonic()
            load.run()
            seconds = time.monotonic() - start
            pids.update(load.by_worker)
            server.stop()
            pids.add(server.first_pid)
            if len(load.by_worker) != workers:
                raise Failure(f"{len(load.by_worker)} of {workers} workers "
                              f"served; others may have died:\n"
                              + server.log.read_text()[-2000:])
            rows = ([] if mode == "off"
                    else check_workers(server, load.by_worker))
        finally:
            server.kill()
            for pid in pids:
                pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    total = sum(load.by_worker.values())
    if total != requests:
        raise Failure(f"{total} answers, not {requests}")
    served = ", ".join(map(str, load.by_worker.values()))
    symbols = ", ".join(str(count) for count, _ in rows) or "-"
    shown = ", ".join(f"{share:.1f} %" for _, share in rows) or "-"
    print(f"{mode:<10}{total:>8}{seconds:>9.1f}  {served:<16}{symbols:<14}"
          f"{shown}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--python", default=TOP / "build" / "python",
                        help="our interpreter (default: build/python)")
    parser.add_argument("--packages", metavar="DIRECTORY",
                        type=os.path.abspath, default=DEBIAN_PACKAGES,
                        help="where Flask and gunicorn are (Debian's)")
    arguments = parser.parse_args()
    sys.path.append(arguments.packages)
    absent = [package for module, package in NEEDED.items()
              if importlib.util.find_spec(module) is None]
    if shutil.which("perf") is None:
        absent.append("linux-perf")
    if absent:
        parser.error(f"missing packages; apt-get install {' '.join(absent)}")
    python = os.path.abspath(arguments.python)
    if not os.access(python, os.X_OK):
        parser.error(f"no interpreter {python}; `make` builds it")
    print(f"{'':<27}  {'by each worker':<30}")
    print(f"{'mode':<10}{'requests':>8}{'seconds':>9}  {'requests':<16}"
          f"{'symbols':<14}view function in perf", flush=True)
    for mode in MODES:
        try:
            serve(mode, python, arguments.workers, arguments.requests,
                  arguments.packages)
        except Failure as failure:
            sys.exit(f"server: {mode}: {failure}")


if __name__ == "__main__":
    main()
