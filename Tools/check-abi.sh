#!/bin/sh
# Compares the ABI of libpython3.11.so with that of the unpatched base: what was
# there must stay as it was, additions are fine.  Called by `make check-abi`,
# after tree/ and base-tree/ have been made.
#
# PyInterpreterState may grow at its end.  Only the interpreter itself makes
# one, and extension modules know no offset into it that moves.
set -eu
cd "$(dirname "$0")/.."

unset MAKEFLAGS MFLAGS MAKELEVEL
library() {
    tree=$1
    build=$2
    [ -e "$build/config.status" ] ||
        Tools/configure-base.sh "$tree" "$build" --enable-shared
    echo "check-abi: building libpython3.11 in $build (log: $build/make.log)"
    make -s -C "$build" -j"$(getconf _NPROCESSORS_ONLN)" libpython3.11.so \
        >"$build/make.log" 2>&1 || {
        tail -n 20 "$build/make.log" >&2
        exit 1
    }
}

library base-tree build-base-shared
library tree build-shared

status=0
abidiff build-base-shared/libpython3.11.so.1.0 build-shared/libpython3.11.so.1.0 \
    --suppressions Tools/abidiff.suppr >build-shared/abidiff.txt || status=$?
cat build-shared/abidiff.txt
# abidiff's status is a set of bits: 1 and 2 are errors, 4 is any change, 8 one
# that breaks programs.  Added symbols alone are a change.
if [ $((status & 11)) != 0 ] ||
    grep -q '^ *[1-9][0-9]* \(Removed\|Changed\)\|, [1-9][0-9]* Changed\|: [1-9][0-9]* Removed' \
        build-shared/abidiff.txt; then
    echo "check-abi: the ABI is not the base's plus additions, see above" >&2
    exit 1
fi
echo "check-abi: nothing but additions"
