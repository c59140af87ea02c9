#!/bin/sh
# Installs the build below the prefix it was configured for, as CPython's own
# install does.  Called by `make install` after Tools/build/set-prefix.sh; $DESTDIR
# is honoured.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh

prefix=$(sed -n 's/^prefix=[[:space:]]*//p' "$build/Makefile")

unset MAKEFLAGS MFLAGS MAKELEVEL PREFIX
echo "install: to ${DESTDIR-}$prefix (log: $build/install.log)"
make -C "$build" install >"$build/install.log" 2>&1 || {
    tail -n 20 "$build/install.log" >&2
    echo "install: failed; is ${DESTDIR-}$prefix writable for you?" >&2
    exit 1
}
echo "install: ${DESTDIR-}$prefix/bin/python$base"
