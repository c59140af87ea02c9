#!/bin/sh
# The part of Tools/deb/check-deb.sh --pypi that runs in the Debian made for
# it: pip with our interpreter, and perfpy in virtual environments that each of
# the usual tools has made with the distribution's.  Installs the package and,
# at the end, removes it.
#
# usage: environments.sh BASE DIRECTORY    with new.deb and check/ in it
set -eu
base=$1
cd "$2"
. check/common.sh
application=$PWD/check/flask_job.py
ours=python$base-perf
theirs=python$base

# Files with what is in them, links, and what Python has cached.
contents() {
    find "$1" \( -type f -o -type l \) -printf '%p %l\n' | LC_ALL=C sort
    find "$1" -type f -exec sha256sum {} + | LC_ALL=C sort -k 2
}

# Runs perfpy in an environment; it must say whose place its interpreter takes.
record() {
    rm -f recorded.collapsed.txt
    perfpy run -o recorded.collapsed.txt "$@" >said 2>&1 || {
        cat said >&2
        fail "perfpy run $* failed"
    }
    line="perfpy: running /usr/bin/$ours as $environment/bin/python"
    grep -q "^$line" said || {
        cat said >&2
        fail "perfpy run $* did not run ours as $environment/bin/python"
    }
    grep -q "prefix_is_$environment" recorded.collapsed.txt ||
        fail "perfpy run $* did not run in $environment"
    grep -q count_words recorded.collapsed.txt ||
        fail "perfpy run $* does not show count_words"
}

# An environment with flask and pytest in it.
check_environment() {
    environment=$(readlink -f "$1")
    echo "environments: $2"
    contents "$environment" >contents.before
    (
        VIRTUAL_ENV=$environment
        PATH=$environment/bin:$PATH
        export VIRTUAL_ENV
        record "$application" 3
        record -m pytest -q -p no:cacheprovider test_job.py
        # By its name alone.
        record pytest -q -p no:cacheprovider test_job.py
    )
    # One that is not active.
    record "$environment/bin/pytest" -q -p no:cacheprovider test_job.py
    contents "$environment" >contents.after
    diff contents.before contents.after >differences || {
        cat differences >&2
        fail "files of the environment of $2 have changed"
    }
}

# The certificates of this system, for tools that bring their own.
for name in PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE; do
    export "$name=/etc/ssl/certs/ca-certificates.crt"
done
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# Of a run that failed.
rm -rf own tools environments
apt-get update -qq
install "$theirs-venv" "$theirs-dev" gcc python3-pip linux-perf ./new.deb
cat >test_job.py <<'TEST'
import os, runpy, sys

def test_job():
    sys.argv = ["job", "3"]
    runpy.run_path(os.path.join("check", "flask_job.py"))
TEST

echo "environments: pip without an environment, as $theirs has it"
for python in "$theirs" "$ours"; do
    "$python" -m pip --version >"$python.pip"
    "$python" -m pip list >>"$python.pip"
    ! "$python" -m pip install flask >>"$python.pip" 2>&1 ||
        fail "$python -m pip has installed a package to /usr"
done
diff "$theirs.pip" "$ours.pip" || fail "$ours -m pip does something else"

echo "environments: pip, wheels and a package of C that is compiled"
"$ours" -m venv own
own/bin/python -m pip install -q numpy pandas cryptography lxml Django \
    uvicorn flask pytest
own/bin/pip install -q --no-binary markupsafe --force-reinstall markupsafe
own/bin/pip check
own/bin/python - <<'IMPORTS'
import sys
import cryptography.hazmat.primitives.ciphers.aead as aead
import django, lxml.etree, markupsafe._speedups, numpy, pandas, uvicorn
from django.conf import settings
from django.template import Context, Template

assert "cpython-perf" in sys.version
frame = pandas.DataFrame({"a": numpy.arange(10)})
assert frame["a"].map(lambda a: a * 2).sum() == 90
assert lxml.etree.fromstring("<a><b/></a>")[0].tag == "b"
key = aead.AESGCM.generate_key(128)
aead.AESGCM(key).encrypt(b"0" * 12, b"text", None)
settings.configure(TEMPLATES=[
    {"BACKEND": "django.template.backends.django.DjangoTemplates"}])
django.setup()
assert Template("{{ a }}").render(Context({"a": "<"})) == "&lt;"
assert uvicorn.Config("app:app").port == 8000
IMPORTS
own/bin/python -m pytest -q -p no:cacheprovider test_job.py
perfpy run -q -o recorded.collapsed.txt own/bin/pytest -q test_job.py
grep -q "prefix_is_$PWD/own" recorded.collapsed.txt ||
    fail "own/bin/pytest did not run in its environment"

"$theirs" -m venv tools
tools/bin/pip install -q virtualenv uv poetry pipx
mkdir environments

"$theirs" -m venv environments/venv
environments/venv/bin/pip install -q flask pytest
check_environment environments/venv venv

tools/bin/virtualenv -q -p "$theirs" environments/virtualenv
environments/virtualenv/bin/pip install -q flask pytest
check_environment environments/virtualenv virtualenv

# Which leaves it to the first run to compile packages.
tools/bin/uv venv -q -p "/usr/bin/$theirs" environments/uv
tools/bin/uv pip install -q -p environments/uv/bin/python flask pytest
check_environment environments/uv uv

# Which asks PyPI in a way of its own, that mirrors do not always know; pip
# does not.
mkdir environments/project
cat >environments/project/pyproject.toml <<PROJECT
[project]
name = "project"
version = "1"
requires-python = ">=$base"
[tool.poetry]
package-mode = false
PROJECT
(
    cd environments/project
    export POETRY_VIRTUALENVS_IN_PROJECT=true
    ../../tools/bin/poetry env use -q "/usr/bin/$theirs"
    ../../tools/bin/poetry run pip install -q flask pytest
)
check_environment environments/project/.venv poetry

export PIPX_HOME="$PWD/environments/pipx" PIPX_BIN_DIR="$PWD/environments/bin"
tools/bin/pipx install -q --python "/usr/bin/$theirs" pytest
tools/bin/pipx inject -q pytest flask
check_environment environments/pipx/venvs/pytest pipx
environment=$PWD/environments/pipx/venvs/pytest
record environments/bin/pytest -q -p no:cacheprovider test_job.py

apt-get purge -qy "$ours" >apt.log
rm -rf own tools environments
echo "environments: all of them work, and none has changed"
