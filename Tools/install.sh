#!/bin/sh
# Installs the build below $PREFIX, as CPython's own install does, after
# building again with that prefix when it is another than configured: the prefix
# is part of the interpreter.  Called by `make install`; $DESTDIR is honoured.
set -eu
cd "$(dirname "$0")/.."
. Tools/base.sh

configured=$(sed -n 's/^prefix=[[:space:]]*//p' "$build/Makefile")
prefix=${PREFIX:-$configured}
case $prefix in
    /*) ;;
    *) prefix=$PWD/$prefix ;;
esac
if [ "$prefix" != "$configured" ]; then
    eval "./configure $(cat config.args) --prefix=\"\$prefix\""
    make all
fi

unset MAKEFLAGS MFLAGS MAKELEVEL PREFIX
echo "install: to ${DESTDIR-}$prefix (log: $build/install.log)"
make -C "$build" install >"$build/install.log" 2>&1 || {
    tail -n 20 "$build/install.log" >&2
    echo "install: failed; is ${DESTDIR-}$prefix writable for you?" >&2
    exit 1
}
echo "install: ${DESTDIR-}$prefix/bin/python$base"
