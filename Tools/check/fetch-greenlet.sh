#!/bin/sh
# Puts greenlet and gevent into the directory of our tests' own modules, from PyPI,
# with pip, unless the interpreter has them or Debian has them for it.  Called
# before the tests, which skip what is not there: so this never fails.
#
# usage: Tools/check/fetch-greenlet.sh PYTHON DIR
set -eu
python=$1
directory=$(realpath "$2")
cd "$(dirname "$0")/../.."
requirements=Tools/check/greenlet.txt
download=$directory/download

# They are imported as test_perf_greenlet does.
"$python" -c 'import sys
sys.path += [sys.argv[1], "/usr/lib/python3/dist-packages"]
import greenlet, gevent' "$directory" 2>/dev/null && exit
cmp -s $requirements "$directory/greenlet.tried" && exit

give_up() {
    echo "fetch-greenlet: without greenlet: $1" >&2
    cp $requirements "$directory/greenlet.tried"
    exit 0
}

# The version, and what the names of its extension modules have of it.
abi=$("$python" -c 'import sys, sysconfig
print("%d.%d" % sys.version_info[:2],
      "cp" + sysconfig.get_config_var("SOABI").split("-")[1])')
version=${abi% *}
abi=${abi#* }
python3 -m pip --version >/dev/null 2>&1 ||
    give_up "there is no pip for python3; the package python3-pip has it"
set -- --abi "$abi" --abi abi3 --abi none
for glibc in 17 24 28; do
    set -- "$@" --platform "manylinux_2_${glibc}_$(uname -m)"
done
python3 -m pip --no-input download --quiet --no-deps --only-binary :all: --require-hashes \
    --python-version "$version" "$@" -r $requirements -d "$download" ||
    give_up "pip could not fetch what $requirements lists for $abi, see above"
for wheel in "$download"/*.whl; do
    python3 -m zipfile -e "$wheel" "$directory"
done
# Or Debian's directory of that name would come first.
touch "$directory/zope/__init__.py"
