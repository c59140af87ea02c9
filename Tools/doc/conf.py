"""Sphinx configuration to build our pages alone, without CPython's.

    sphinx-build -W -n -b html -c Tools/doc Doc build/doc

It does not lie in Doc/, where CPython's own conf.py is.  In the patched tree,
CPython's documentation has the pages through doc-index.patch.
"""

import pathlib

project = "cpython-perf"
version = release = (pathlib.Path(__file__).parents[2] / "Lib/perfpy/VERSION"
                     ).read_text().strip()
language = "en"
root_doc = "perf"
# From Doc/: Tools/doc/build-doc.sh copies Doc/locale/ there, as Sphinx
# compiles in place.
locale_dirs = ["../build/locale"]
gettext_compact = False
gettext_copyright = "the cpython-perf authors"
exclude_patterns = []

html_theme = "furo"
html_title = "cpython-perf"
html_show_copyright = False
html_show_sphinx = False

# Described in CPython's pages, which are not here.
nitpick_ignore = [
    ("c:identifier", "PyCodeObject"),
    ("envvar", "PYTHONPERFSUPPORT"),
    ("py:class", "threading.Thread"),
    ("py:exc", "KeyboardInterrupt"),
    ("py:exc", "OSError"),
    ("py:exc", "RecursionError"),
    ("py:exc", "SystemError"),
    ("py:exc", "ValueError"),
    ("py:func", "os.fork"),
    ("py:func", "sys.activate_stack_trampoline"),
    ("py:func", "sys.deactivate_stack_trampoline"),
    ("py:func", "sys.is_stack_trampoline_active"),
    ("py:func", "sys.setrecursionlimit"),
    ("py:func", "threading.stack_size"),
    ("py:meth", "bytearray.find"),
    ("py:mod", "multiprocessing"),
    ("py:mod", "sys"),
]
