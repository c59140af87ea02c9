#!/bin/sh
# Regenerates configure and pyconfig.h.in of a CPython tree, when its
# configure.ac differs from the one they were generated from.
# Called by Tools/apply-patches.sh, Tools/copy-base.sh and Tools/export-patch.sh.
#
# usage: Tools/generate-configure.sh TREE
set -eu
cd "$1"

generated=$(cat configure.ac aclocal.m4 | sha256sum)
[ "$generated" != "$(cat .generated 2>/dev/null)" ] || exit 0
echo "generate-configure: $1"
# CPython 3.11 checks in what 2.69 writes; another release's output would
# drown the few changed lines.
autoconf2.69
autoheader2.69
rm -rf autom4te.cache configure~ pyconfig.h.in~
echo "$generated" >.generated
