#!/bin/sh
# Puts packages that our tests use into the directory of their own modules, from
# PyPI, with pip, unless the interpreter has them or Debian has them for it.  Called
# before the tests, which skip what is not there: so this never fails.
#
# usage: Tools/check/fetch-packages.sh PYTHON DIR
set -eu
python=$1
directory=$(realpath "$2")
cd "$(dirname "$0")/../.."

# The version, and what the names of its extension modules have of it.
abi=$("$python" -c 'import sys, sysconfig
print("%d.%d" % sys.version_info[:2],
      "cp" + sysconfig.get_config_var("SOABI").split("-")[1])')
version=${abi% *}
abi=${abi#* }

# Fetch what Tools/check/$1.txt lists, which the modules $2 are of.
fetch() {
    requirements=Tools/check/$1.txt
    download=$directory/download/$1
    # They are imported as test_perf_greenlet does.
    "$python" -c "import sys
sys.path += [sys.argv[1], '/usr/lib/python3/dist-packages']
import $2" "$directory" 2>/dev/null && return
    cmp -s "$requirements" "$directory/$1.tried" && return
    if ! python3 -m pip --version >/dev/null 2>&1; then
        give_up "$1" "there is no pip for python3; the package python3-pip has it"
        return
    fi
    set -- "$1" --abi "$abi" --abi abi3 --abi none
    for glibc in 17 24 28; do
        set -- "$@" --platform "manylinux_2_${glibc}_$(uname -m)"
    done
    name=$1
    shift
    if ! python3 -m pip --no-input download --quiet --no-deps --only-binary :all: \
        --require-hashes --python-version "$version" "$@" -r "$requirements" \
        -d "$download"; then
        give_up "$name" "pip could not fetch what $requirements lists for $abi, see above"
        return
    fi
    for wheel in "$download"/*.whl; do
        python3 -m zipfile -e "$wheel" "$directory"
    done
}

give_up() {
    echo "fetch-packages: without $1: $2" >&2
    cp "$requirements" "$directory/$1.tried"
}

fetch greenlet "greenlet, gevent"
# Or Debian's directory of that name would come first.
[ ! -d "$directory/zope" ] || touch "$directory/zope/__init__.py"
fetch uvloop uvloop
