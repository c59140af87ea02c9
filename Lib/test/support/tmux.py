"""A terminal for tests: tmux, with a server of its own."""

import os
import shutil
import subprocess
import time
import unittest
from test import support

requires_tmux = unittest.skipUnless(shutil.which("tmux"),
                                    "tmux is not installed")


class Terminal:
    """A shell in a terminal that one can type into, resize and look at."""

    def __init__(self, directory, env, width=100, height=24):
        self._socket = os.path.join(directory, "tmux")
        self._env = env
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", str(width),
                   "-y", str(height), "-c", directory, "env PS1='prompt% ' sh")
        self.wait_for("prompt%")

    def _tmux(self, *arguments, check=True):
        return subprocess.run(
            ["tmux", "-S", self._socket, *arguments], env=self._env,
            check=check, capture_output=True, text=True,
            timeout=support.SHORT_TIMEOUT).stdout

    def type(self, text):
        self._tmux("send-keys", "-l", text)

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self):
        """Return the lines that are shown."""
        return self._tmux("capture-pane", "-p").split("\n")

    def wait_for(self, *texts, gone=()):
        """Wait until each text is shown, and none of those gone."""
        deadline = time.monotonic() + support.SHORT_TIMEOUT
        while time.monotonic() < deadline:
            lines = self.screen()
            shown = "\n".join(lines)
            if (all(text in shown for text in texts)
                    and not any(text in shown for text in gone)):
                return lines
            time.sleep(0.1)
        raise AssertionError(f"{texts} without {gone} not shown:\n{shown}")

    def settings(self):
        """Return what the terminal does with what is typed."""
        pane = self._tmux("display-message", "-p", "#{pane_tty}").strip()
        return subprocess.run(["stty", "-F", pane, "-g"], check=True,
                              capture_output=True, text=True).stdout

    def close(self):
        self._tmux("kill-server", check=False)
