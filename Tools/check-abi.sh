#!/bin/sh
# Compares the ABI of libpython3.11.so with that of the unpatched base: what
# was there must stay as it was, additions are fine.  Called by `make
# check-abi`, after tree/ and base-tree/ have been made.
set -eu
cd "$(dirname "$0")/.."

unset MAKEFLAGS MFLAGS MAKELEVEL
library() {
    tree=$1
    build=$2
    if [ ! "$build/config.status" -nt "$tree/configure" ]; then
        Tools/configure-base.sh "$tree" "$build" --enable-shared
    fi
    echo "check-abi: building libpython3.11 in $build (log: $build/make.log)"
    make -s -C "$build" -j"$(getconf _NPROCESSORS_ONLN)" libpython3.11.so \
        >"$build/make.log" 2>&1 || {
        tail -n 20 "$build/make.log" >&2
        exit 1
    }
}

library base-tree build-base-shared
library tree build-shared

# For the record, with what was added; then the judgement, without.
base=build-base-shared/libpython3.11.so.1.0
patched=build-shared/libpython3.11.so.1.0
abidiff "$base" "$patched" || :
if ! abidiff --no-added-syms "$base" "$patched" >/dev/null; then
    echo "check-abi: the ABI is not the base's plus additions, see above" >&2
    exit 1
fi
echo "check-abi: nothing but additions"
