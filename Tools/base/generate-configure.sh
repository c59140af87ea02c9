#!/bin/sh
# Regenerates configure and pyconfig.h.in of a CPython tree, when its
# configure.ac differs from the one they were generated from.
# Called by Tools/patches/apply-patches.sh and the Makefile.
#
# usage: Tools/base/generate-configure.sh TREE
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
# Of the release that made what CPython checks in: another one's output would
# drown the few changed lines.
autoconf=$(base_field 5)
cd "$1"

generated=$(cat configure.ac aclocal.m4 | sha256sum)
[ "$generated" != "$(cat .generated 2>/dev/null)" ] || exit 0
echo "generate-configure: $1"
"$autoconf"
"$(echo "$autoconf" | sed 's/autoconf/autoheader/')"
rm -rf autom4te.cache configure~ pyconfig.h.in~
echo "$generated" >.generated
