"""Import a dozen modules of the standard library, again and again."""

import importlib
import sys

MODULES = (
    "argparse", "ast", "collections", "csv", "dataclasses", "decimal",
    "email.message", "http.client", "inspect", "logging", "tempfile",
    "unittest",
)

before = set(sys.modules)
for _ in range(6):
    for name in MODULES:
        importlib.import_module(name)
    for name in set(sys.modules) - before:
        if not name.startswith("_") and name not in sys.builtin_module_names:
            del sys.modules[name]
