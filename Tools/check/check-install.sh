#!/bin/sh
# Does what a user does who wants an interpreter of ours: `make install PREFIX=` in
# a fresh clone, which must build once, and then pip and virtual environments, which
# must install below the prefix and the environment.  Called by .ci/run; the clone,
# in build-install/, has the base that is here.
set -eu
cd "$(dirname "$0")/../.."
. Tools/machine/fail.sh

rm -rf build-install
git clone -q . build-install
cd build-install
ln -s ../base base
make install PREFIX=prefix | tee log
[ "$(grep -c '^build: build ' log)" = 1 ] || fail "it was built more than once"

prefix=$PWD/prefix
python=$(echo "$prefix"/bin/python3.[0-9]*[0-9])
"$python" - <<'WHEEL'
import zipfile
with zipfile.ZipFile("hello-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("hello.py", "def main(): print(__file__)\n")
    for name, text in {
        "METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                 "Tag: py3-none-any\n",
        "entry_points.txt": "[console_scripts]\nhello = hello:main\n",
        "RECORD": "",
    }.items():
        wheel.writestr(f"hello-1.dist-info/{name}", text)
WHEEL

# Whose command prints where it is.
expect() {
    found=$("$1/bin/hello")
    case $found in
        "$1"/lib/python3.*/site-packages/hello.py) ;;
        *) fail "below $1, pip has installed to $found" ;;
    esac
    [ ! -e "$1/local" ] || fail "there is $1/local"
}

export PIP_ROOT_USER_ACTION=ignore
"$python" -m pip install -q --no-index hello-1-py3-none-any.whl
expect "$prefix"
"$python" -m venv venv
venv/bin/pip install -q --no-index hello-1-py3-none-any.whl
expect "$PWD/venv"
"$python" -m venv --without-pip bare
"$python" -m pip --python bare/bin/python install -q --no-index \
    hello-1-py3-none-any.whl
expect "$PWD/bare"
venv/bin/python -m perfpy --version | grep -q "$PWD/venv/bin/python" ||
    fail "perfpy does not know its environment"
cd ..
rm -rf build-install
echo "check-install: pip and virtual environments work"
