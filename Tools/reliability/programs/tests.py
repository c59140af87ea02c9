"""pytest on some of pandas' own tests."""
import os
import sys

import pandas
import pytest

DIRECTORY = os.path.join(os.path.dirname(pandas.__file__), "tests")
TESTS = ("frame/methods/test_sort_values.py", "frame/methods/test_rename.py",
         "series/methods/test_replace.py", "frame/methods/test_reindex.py")

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider",
                      *(os.path.join(DIRECTORY, name) for name in TESTS)]))
