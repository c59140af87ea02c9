#!/bin/sh
# Compares the ABI with that of the unpatched base: what was there must stay as it
# was, additions are fine.  Needs abidiff, which reads debug information.
#
# usage: Tools/check/check-abi.sh
#            builds both shared libraries and compares them.  Called by `make
#            check-abi`, after $tree/ and $base_tree/ have been made.
#        Tools/check/check-abi.sh UNPATCHED PATCHED
#            compares two programs: they offer extension modules what the library
#            does.  Called by `make check-abi-quick`.
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

if [ $# = 2 ]; then
    unpatched=$1
    patched=$2
else
    build_library "$base_tree" "build-base-shared$suffix"
    build_library "$tree" "build-shared$suffix"
    unpatched=build-base-shared$suffix/$library
    patched=build-shared$suffix/$library
fi

# Without debug information there would be no difference to be seen.
for file in "$unpatched" "$patched"; do
    readelf -SW "$file" | grep -q ' \.debug_info ' || {
        echo "check-abi: $file has no debug information; build it with -g" >&2
        exit 1
    }
done
# For the record, with what was added; then the judgement, without.
abidiff "$unpatched" "$patched" || :
if ! abidiff --no-added-syms "$unpatched" "$patched" >/dev/null; then
    echo "check-abi: the ABI is not the base's plus additions, see above" >&2
    exit 1
fi
echo "check-abi: nothing but additions"
