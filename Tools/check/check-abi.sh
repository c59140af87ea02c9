#!/bin/sh
# Compares the ABI of the shared library with that of the unpatched base: what
# was there must stay as it was, additions are fine.  Called by `make
# check-abi`, after $tree/ and $base_tree/ have been made.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
library=libpython$base.so

unset MAKEFLAGS MFLAGS MAKELEVEL
build_library() {
    if [ ! "$2/config.status" -nt "$1/configure" ]; then
        Tools/base/configure-base.sh "$1" "$2" --enable-shared
    fi
    echo "check-abi: building $library in $2 (log: $2/make.log)"
    make -s -C "$2" -j"$(getconf _NPROCESSORS_ONLN)" "$library" \
        >"$2/make.log" 2>&1 || {
        tail -n 20 "$2/make.log" >&2
        exit 1
    }
}

build_library "$base_tree" "build-base-shared$suffix"
build_library "$tree" "build-shared$suffix"

# For the record, with what was added; then the judgement, without.
unpatched=build-base-shared$suffix/$library.1.0
patched=build-shared$suffix/$library.1.0
abidiff "$unpatched" "$patched" || :
if ! abidiff --no-added-syms "$unpatched" "$patched" >/dev/null; then
    echo "check-abi: the ABI is not the base's plus additions, see above" >&2
    exit 1
fi
echo "check-abi: nothing but additions"
