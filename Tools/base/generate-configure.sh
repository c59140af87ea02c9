#!/bin/sh
# Regenerates configure and pyconfig.h.in of a CPython tree, when its
# configure.ac differs from the one they were generated from.
# Called by Tools/patches/apply-patches.sh and the Makefile.
#
# usage: Tools/base/generate-configure.sh TREE
set -eu
cd "$(dirname "$0")/../.."

generated=$(cat "$1/configure.ac" "$1/aclocal.m4" | sha256sum)
[ "$generated" != "$(cat "$1/.generated" 2>/dev/null)" ] || exit 0
autoconf=$(Tools/base/find-autoconf.sh)
echo "generate-configure: $1"
cd "$1"
"$autoconf"
"$(echo "$autoconf" | sed 's/autoconf\([^/]*\)$/autoheader\1/')"
rm -rf autom4te.cache configure~ pyconfig.h.in~
echo "$generated" >.generated
