#!/bin/sh
# Takes Debian's changes for its own system Python out of its sources: there pip
# installs to PREFIX/local, and ensurepip refers to apt.  Ours goes below a prefix
# of its own, with a pip of its own.
# Called by Tools/fetch-base.sh with the directory it has unpacked.
#
# usage: Tools/undebianize.sh SOURCES
set -eu
cd "$1"

# The last that was applied comes first.
for name in ensurepip-disabled multiarch-extname sysconfig-debian-schemes \
    distutils-install-layout; do
    patch=debian/patches/$name.diff
    [ -e "$patch" ] || continue
    if patch -R -p1 -s -f --dry-run <"$patch" >/dev/null; then
        patch -R -p1 -s -f --no-backup-if-mismatch <"$patch"
    else
        echo "undebianize: Debian's $name.diff stays, it does not apply" >&2
    fi
done
