"""Write files so that a failure does not cost what was there before.

Called by recording.py and output.py.
"""

import contextlib
import os


@contextlib.contextmanager
def replaced(path):
    """Give a name to write to; its file takes the place of path if all goes
    well, and is removed otherwise.
    """
    if not _is_replaceable(path):
        yield path
        return
    new = f"{path}.{os.getpid()}"
    try:
        yield new
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise


def _is_replaceable(path):
    """Return whether another file may take the place of this one."""
    # Not a device, not a link, which may lead to another disk, and not what
    # somebody gave permissions or a second name.
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    return (os.path.isfile(path) and not os.path.islink(path)
            and status.st_nlink == 1 and status.st_uid == os.geteuid())
