#!/bin/sh
# Runs CPython's make on all processors, shows one short line for each file it
# compiles, and fails when a standard module is missing from the result.
# Called by the Makefile.
#
# usage: Tools/build/build.sh BUILD
set -eu
cd "$(dirname "$0")/../.."
build=$1

# The outer make's flags are not for CPython's: -j comes from here.
unset MAKEFLAGS MFLAGS MAKELEVEL
echo "build: $build (log: $build/make.log)"
rm -f "$build/.status"
{
    status=0
    make -C "$build" -j"$(getconf _NPROCESSORS_ONLN)" || status=$?
    echo $status >"$build/.status"
} 2>&1 | tee "$build/make.log" | awk -f Tools/build/shorten-make.awk
if [ "$(cat "$build/.status")" != 0 ]; then
    echo "build: $build failed; the last lines of $build/make.log:" >&2
    tail -n 20 "$build/make.log" >&2
    exit 1
fi
# With --enable-shared, the library must be this build's, not the system's.
host=$(cat config.host)
python=$build/python
if [ -n "$host" ]; then
    Tools/machine/emulate.sh "$host" "$build" "base/sysroot-$host/root"
    python=$build/emulated-python
fi
LD_LIBRARY_PATH=$build "$python" Tools/build/check_modules.py
