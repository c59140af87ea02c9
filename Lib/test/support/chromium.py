"""A headless Chromium for tests, driven through its own protocol by a pipe.

The Chrome DevTools Protocol: JSON messages that end in NUL, commands with a
number that their answer repeats, and events in between.  Used by
support/perfpy_page.py, test_perfpy_formats.py and
Tools/perfpy-viewer/screenshot.py.
"""

import base64
import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60

# Of keys without a character, as Windows numbers them.
KEY_CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36,
             "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
             "ArrowDown": 40}


def find():
    """Return the path of the browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Failure(Exception):
    """The browser, or a script in it, failed."""


class Browser:
    """One browser with one page at a time; a context manager."""

    def __init__(self, width=1280, height=900):
        self.size = width, height
        self._directory = tempfile.mkdtemp(prefix="test-chromium-")
        self._log = open(os.path.join(self._directory, "log"), "w+b")
        command = [
            find(), "--headless=new", "--remote-debugging-pipe",
            "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-extensions",
            "--hide-scrollbars", "--force-color-profile=srgb",
            f"--user-data-dir={self._directory}/profile", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")       # it refuses otherwise
        its_input, self._output = os.pipe()
        self._input, its_output = os.pipe()
        # The browser reads descriptor 3 and writes 4.
        self._process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{its_input} 4>&{its_output}', "sh",
             *command], pass_fds=(its_input, its_output),
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            env={**os.environ, "HOME": self._directory})
        os.close(its_input)
        os.close(its_output)
        self._buffer = b""
        self._number = 0
        self._session = None
        self.before_scripts = None      # a script to run before the page's
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failure, OSError):
            self._session = None
            self.call("Browser.close", seconds=5)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._input)
        os.close(self._output)
        self._log.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _failure(self, text):
        self._log.seek(0)
        log = self._log.read().decode("utf-8", "replace")
        return Failure(f"{text}; the browser said:\n{log[-2000:]}")

    def _receive(self, deadline):
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._input], [], [], left)[0]:
                raise self._failure("no answer in time")
            data = os.read(self._input, 1 << 16)
            if not data:
                raise self._failure("the browser ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, seconds=SECONDS, **parameters):
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._output, data):]
        deadline = time.monotonic() + seconds
        while True:
            answer = self._receive(deadline)
            if "method" in answer:
                self.events.append(answer)
            elif answer["id"] == self._number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url, dark=False, seconds=SECONDS):
        """Show url in a new page, and return when it has loaded."""
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")
        self._session = self.call("Target.attachToTarget", flatten=True,
                                  targetId=target["targetId"])["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")
        width, height = self.size
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme",
             "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])
        if self.before_scripts:
            self.call("Page.addScriptToEvaluateOnNewDocument",
                      source=self.before_scripts)
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait_for("location.href !== 'about:blank'"
                      " && document.readyState === 'complete'", seconds)

    def evaluate(self, expression, seconds=SECONDS):
        """Return the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", seconds=seconds,
                           expression=expression, returnByValue=True,
                           awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failure(details.get("exception", {}).get("description")
                          or details["text"])
        return result["result"].get("value")

    def wait_for(self, expression, seconds=SECONDS):
        """Return the expression's value as soon as it is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if value := self.evaluate(expression, seconds):
                return value
            time.sleep(0.05)
        raise Failure(f"never true: {expression}")

    def click(self, expression):
        """Click with the mouse on the middle of an element."""
        self.click_at(*self._middle(expression))

    def click_at(self, x, y):
        """Click with the mouse on a place in the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y,
                      button="left", clickCount=1)

    def hover_at(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def _middle(self, expression):
        return self.evaluate(f"""(() => {{
            const element = {expression};
            element.scrollIntoView({{block: "center"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, *keys):
        """Press keys, each called as KeyboardEvent.key has it."""
        for key in keys:
            code = KEY_CODES.get(key) or ord(key.upper())
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            for kind in ("keyDown", "keyUp"):
                self.call("Input.dispatchKeyEvent", type=kind, key=key,
                          text=text if kind == "keyDown" else "",
                          windowsVirtualKeyCode=code)

    def paint(self):
        """Return when the page has drawn what it has to draw."""
        self.evaluate("new Promise(done => requestAnimationFrame(() =>"
                      " requestAnimationFrame(done)))")

    def complaints(self):
        """Return what the page wrote to the console, and its exceptions."""
        self.evaluate("0")          # events before the answer have arrived
        result = []
        for event in self.events:
            details = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    result.append(str(details["exceptionDetails"]))
                case "Log.entryAdded":
                    result.append(str(details["entry"]))
                case "Runtime.consoleAPICalled":
                    result.append(str(details["args"]))
        return result

    def requests(self):
        """Return the URLs that the page asked for, itself included."""
        self.evaluate("0")
        return [event["params"]["request"]["url"] for event in self.events
                if event["method"] == "Network.requestWillBeSent"]

    def busy_seconds(self):
        """Return the CPU time that the page has taken."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics
                    if metric["name"] == "TaskDuration")

    def page_memory(self):
        """Return the bytes of memory that only the page's process has."""
        session, self._session = self._session, None
        try:
            processes = self.call("SystemInfo.getProcessInfo")["processInfo"]
        finally:
            self._session = session
        sizes = []
        for process in processes:
            if process["type"] != "renderer":
                continue
            with contextlib.suppress(OSError):
                with open(f"/proc/{process['id']}/status") as status:
                    match = re.search(r"RssAnon:\s*(\d+) kB", status.read())
                    sizes.append(int(match[1]) * 1024)
        return max(sizes, default=None)

    def accessible(self):
        """Return (role, name, properties) of what a screen reader sees."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", ""),
                 {item["name"]: item["value"].get("value")
                  for item in node.get("properties", ())})
                for node in nodes if not node["ignored"]]

    def screenshot(self):
        """Return a PNG of what is in the window."""
        return base64.b64decode(
            self.call("Page.captureScreenshot", format="png")["data"])
