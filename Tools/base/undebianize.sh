#!/bin/sh
# Takes Debian's changes for its own system Python out of its sources: there pip
# installs to PREFIX/local, ensurepip refers to apt, and LDFLAGS that configure is
# told, as for sanitizers, get lost.  Ours goes below a prefix of its own, with a pip
# of its own.  Called by the Makefile after a base has been fetched; does nothing when
# done before, and to other sources than Debian's.
#
# usage: Tools/base/undebianize.sh SOURCES    where src and origin are
set -eu
cd "$1"

# The last that was applied comes first.
for name in makefile-bootstrap ensurepip-disabled multiarch-extname \
    sysconfig-debian-schemes distutils-install-layout; do
    patch=src/debian/patches/$name.diff
    [ -e "$patch" ] || continue
    if patch -R -p1 -s -f --dry-run -d src <"$patch" >/dev/null; then
        patch -R -p1 -s -f --no-backup-if-mismatch -d src <"$patch"
        taken=yes
    elif ! patch -p1 -s -f --dry-run -d src <"$patch" >/dev/null; then
        echo "undebianize: Debian's $name.diff stays, it does not apply" >&2
    fi
done
# By its origin a base is told from another.
[ -z "${taken-}" ] || grep -q ', for a prefix of its own$' origin ||
    sed -i '$s/$/, for a prefix of its own/' origin
