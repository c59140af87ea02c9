"""Fetch the sources of a package from PyPI, for tests that its wheel lacks.

Used by packages.py.  Nothing is built and nothing of the sources is run here;
the file must have the hash that PyPI's index gives.
"""

import hashlib
import html
import io
import pathlib
import re
import shutil
import tarfile
import tempfile
import urllib.parse
import urllib.request

INDEX = "https://pypi.org/simple/"
LINK = re.compile(r'<a [^>]*?href="([^"#]+)#sha256=([0-9a-f]{64})"')


class Failure(Exception):
    pass


def installed_version(project, packages):
    """Return the version of a project below the directory packages."""
    for path in pathlib.Path(packages).glob("*.dist-info"):
        name, version = path.stem.rsplit("-", 1)
        if normal(name) == normal(project):
            return version
    raise Failure(f"{packages} has no {project}")


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def find(project, version):
    """Return the address and the hash of the sources."""
    page = urllib.parse.urljoin(INDEX, f"{normal(project)}/")
    with urllib.request.urlopen(page) as answer:
        links = LINK.findall(answer.read().decode())
    for link, digest in links:
        address = urllib.parse.urljoin(page, html.unescape(link))
        name = urllib.parse.unquote(address.rpartition("/")[2])
        stem = name.removesuffix(".tar.gz")
        if (stem != name and stem.endswith(f"-{version}") and normal(
                stem.removesuffix(f"-{version}")) == normal(project)):
            return address, digest
    raise Failure(f"{page} has no sources of {project} {version}")


def fetch(project, packages, directory):
    """Unpack the sources of what packages has to a directory, once."""
    directory = pathlib.Path(directory)
    if directory.exists():
        return
    address, digest = find(project, installed_version(project, packages))
    with urllib.request.urlopen(address) as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != digest:
        raise Failure(f"{address} has not the hash that {INDEX} gives")
    with tempfile.TemporaryDirectory() as new:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(new, filter="data")
        top, = pathlib.Path(new).iterdir()
        shutil.copytree(top, directory, symlinks=True)
