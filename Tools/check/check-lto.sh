#!/bin/sh
# Compiles our C and both evaluators for optimisation at link time, as
# distributions build, and links them.  What two files declare in different ways
# is an error there and in no other build.  Called by `make check-lto`, after
# $build/ has been made.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT

for file in "$tree"/Python/perf_*.c "$tree"/Python/ceval*.c; do
    case $file in
        *_stub.c) continue ;;       # stands in for the others
    esac
    "${CC:-gcc}" -flto -O1 -std=c11 -fno-strict-aliasing -DPy_BUILD_CORE \
        -I"$build" -I"$tree/Include" -I"$tree/Include/internal" \
        -c "$file" -o "$objects/$(basename "$file" .c).o"
done
"${CC:-gcc}" -flto=auto -r -flinker-output=nolto-rel -o "$objects/all" \
    "$objects"/*.o
echo "check-lto: the declarations of $(find "$objects" -name '*.o' | wc -l)" \
     "files agree"
