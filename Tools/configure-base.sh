#!/bin/sh
# Runs CPython's configure out of tree, with what the project always wants and
# then the arguments of our own configure, which therefore win.
# Called by the Makefile and Tools/check-abi.sh.
#
# usage: Tools/configure-base.sh TREE BUILD [ARG...]
#
# For a tree that has no such option, frame pointers are asked for through
# BASECFLAGS, where the patched configure puts them too: the builds then
# differ in nothing but the patches.
set -eu
cd "$(dirname "$0")/.."
tree=$1
build=$2
shift 2

# Debian's tree lacks the bundled expat and pip, and its pyexpat.c needs a macro
# that only Debian's own build defines.  gdbm stands in for ndbm in Debian.
set -- --with-system-expat LIBEXPAT_CFLAGS=-DPy_BUILD_CORE_MODULE \
    --without-ensurepip --with-dbmliborder=gdbm "$@"
eval "set -- \"\$@\" $(cat config.args)"

if ! grep -q with_frame_pointers "$tree/configure.ac" && [ -e build/Makefile ]; then
    BASECFLAGS=$(sed -n 's/^BASECFLAGS=//p' build/Makefile | tr -s '[:space:]' \
                 '\n' | grep 'no-omit.*frame-pointer' | paste -sd ' ')
    export BASECFLAGS
fi

mkdir -p "$build"
cd "$build"
echo "configure-base: $build, from $tree (log: $build/config.log)"
"../$tree/configure" -q "$@"
