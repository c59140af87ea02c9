"""Give this program and all that it starts a /tmp of their own.

Used by regrtest.py and packages.py: the programs that they start by the
thousand leave maps in /tmp, and take each other's away.  Needs root; others
see nothing of it, and it ends with the program.
"""

import os
import sys

STARTED = "OWN_TMP"
SCRIPT = 'mount --bind "$OWN_TMP" /tmp && exec "$@"'


def use(directory):
    """Start again with that directory in the place of /tmp."""
    directory = os.path.abspath(directory)
    if os.environ.pop(STARTED, None) == directory:
        return
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o1777)
    os.environ[STARTED] = directory
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", SCRIPT, "sh",
                          sys.executable, *sys.argv])
