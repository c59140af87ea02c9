#!/bin/sh
# Regenerates configure and pyconfig.h.in of a CPython tree, when its
# configure.ac differs from the one they were generated from.
# Called by Tools/patches/apply-patches.sh and the Makefile.
#
# usage: Tools/base/generate-configure.sh TREE
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh

# Sets $autoconf to that of the release that made what CPython checks in: another
# one's output would drown the few changed lines.  Where no command has the name
# with the version, the one without it may be meant, or else it is fetched.
find_autoconf() {
    autoconf=$(base_field 5)
    ! command -v "$autoconf" >/dev/null || return 0
    version=${autoconf#autoconf}
    own=$(autoconf --version 2>/dev/null | sed -n '1s/.* //p')
    if [ "$own" = "$version" ]; then
        autoconf=autoconf
    else
        Tools/base/fetch-autoconf.sh "$version"
        autoconf=$PWD/base/autoconf/bin/autoconf
    fi
}

generated=$(cat "$1/configure.ac" "$1/aclocal.m4" | sha256sum)
[ "$generated" != "$(cat "$1/.generated" 2>/dev/null)" ] || exit 0
find_autoconf
echo "generate-configure: $1"
cd "$1"
"$autoconf"
"$(echo "$autoconf" | sed 's/autoconf\([^/]*\)$/autoheader\1/')"
rm -rf autom4te.cache configure~ pyconfig.h.in~
echo "$generated" >.generated
