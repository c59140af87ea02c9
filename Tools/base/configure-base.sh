#!/bin/sh
# Runs CPython's configure out of tree, with what the project always wants and
# then the arguments of our own configure, which therefore win.
# Called by the Makefile and Tools/check/check-abi.sh.
#
# usage: Tools/base/configure-base.sh TREE BUILD [ARG...]
#
# For a tree that has no such option, frame pointers are asked for through
# BASECFLAGS, where the patched configure puts them too: the builds then
# differ in nothing but the patches.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
ours=$build
tree=$1
build=$2
shift 2

# Debian's tree lacks the bundled expat, and its pyexpat.c needs a macro that only
# Debian's own build defines.  gdbm stands in for ndbm in Debian.
set -- --with-system-expat LIBEXPAT_CFLAGS=-DPy_BUILD_CORE_MODULE \
    --with-dbmliborder=gdbm "$@"
# Some of Debian's trees lack the bundled pip, too: packages have it.
wheels=/usr/share/python-wheels
if [ ! -e "$(echo "$tree"/Lib/ensurepip/_bundled/pip-*.whl)" ]; then
    if [ -e "$(echo $wheels/pip-*.whl)" ]; then
        set -- --with-wheel-pkg-dir=$wheels "$@"
    else
        set -- --without-ensurepip "$@"
    fi
fi
host=$(cat config.host)
if [ -n "$host" ]; then
    sysroot=$PWD/base/sysroot-$host/root
    # What configure would find out by running programs; and the C library that
    # the others were built with, should the compiler's own be an older one.
    set -- --build="$("$tree/config.guess")" \
        CC="$host-gcc --sysroot=$sysroot -L$sysroot/usr/lib/$host" \
        --with-build-python="$(Tools/base/find-build-python.sh)" \
        ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no \
        ac_cv_buggy_getaddrinfo=no --without-ensurepip "$@"
    export PKG_CONFIG_SYSROOT_DIR="$sysroot" \
        PKG_CONFIG_LIBDIR="$sysroot/usr/lib/$host/pkgconfig" \
        PKG_CONFIG_SYSTEM_INCLUDE_PATH="$sysroot/usr/include"
fi
eval "set -- \"\$@\" $(cat config.args)"

if ! grep -q with_frame_pointers "$tree/configure.ac" && [ -e "$ours/Makefile" ]; then
    BASECFLAGS=$(sed -n 's/^BASECFLAGS=//p' "$ours/Makefile" | tr -s '[:space:]' \
                 '\n' | grep 'no-omit.*frame-pointer' | paste -sd ' ')
    export BASECFLAGS
fi

mkdir -p "$build"
cd "$build"
# CPython's make does not see that what it has compiled got other options.
if [ -e Makefile ] && [ "$*" != "$(cat .configured 2>/dev/null)" ]; then
    echo "configure-base: other options than before: building $build anew"
    make clean >/dev/null 2>&1 || :
fi
echo "$*" >.configured
echo "configure-base: $build, from $tree (log: $build/config.log)"
"../$tree/configure" -q "$@"
