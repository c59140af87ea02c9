"""Where tests find what the build fetched for perfpy, and why they don't."""

import functools
import pathlib
import shutil
import subprocess
import sysconfig
import unittest

from test.support import chromium

SOURCES = pathlib.Path(sysconfig.get_config_var("srcdir") or ".")
PACKAGES = SOURCES.resolve().parent / "base" / "viewer" / "node_modules"
SPEEDSCOPE = PACKAGES / "speedscope" / "dist" / "release" / "index.html"
PROFILER_CLI = (PACKAGES / "@firefox-devtools" / "profiler-cli" / "dist"
                / "profiler-cli.js")

requires_chromium = unittest.skipUnless(
    chromium.find(), f"no browser: {', '.join(chromium.NAMES)}")
requires_speedscope = unittest.skipUnless(
    SPEEDSCOPE.exists(), "`make viewer` has not been run: no speedscope")
requires_pprof = unittest.skipUnless(shutil.which("go"), "go is not installed")


@functools.cache
def why_no_profiler_cli():
    """Return why the Firefox Profiler cannot run here, or None."""
    if not PROFILER_CLI.exists():
        return "`make viewer` has not been run: no profiler-cli"
    if not shutil.which("node"):
        return "node is not installed"
    trial = subprocess.run(["node", PROFILER_CLI, "--version"],
                           capture_output=True, text=True, timeout=60)
    if trial.returncode != 0:
        return f"profiler-cli does not run: {trial.stderr.strip()[-200:]}"
    return None


def requires_profiler_cli(test):
    @functools.wraps(test)
    def wrapper(self):
        if reason := why_no_profiler_cli():
            self.skipTest(reason)
        test(self)
    return wrapper
