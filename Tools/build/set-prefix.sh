#!/bin/sh
# Configures for $PREFIX if that is another prefix than before: it is part of the
# interpreter, so it must be known before the build.  Called by `make install`.
set -eu
cd "$(dirname "$0")/../.."

[ -n "${PREFIX-}" ] || exit 0
case $PREFIX in
    /*) prefix=$PREFIX ;;
    *) prefix=$PWD/$PREFIX ;;
esac

configured=/usr/local
eval "set -- $(cat config.args)"
for argument; do
    case $argument in
        --prefix=*) configured=${argument#--prefix=} ;;
    esac
done
[ "$prefix" = "$configured" ] || ./configure "$@" --prefix="$prefix"
