#!/bin/sh
# Runs a program that embeds Python in the unpatched base and in ours.
#
# embed.c is compiled once, with the base's headers, and what comes out is linked
# to the base's library and to ours: macros and inline functions of the headers are
# the base's in both.  It must print the same with profiling off, with each back
# end and with lines.  Called by hand, for any base; embedding.sh does it with
# Debian's library.
#
# usage: Tools/reliability/embedding_bases.sh build-base-3.14 build-3.14
set -eu
cd "$(dirname "$0")/../.."

fail() {
    echo "embedding_bases: $*" >&2
    exit 1
}

[ $# -eq 2 ] || fail "usage: Tools/reliability/embedding_bases.sh BASE OURS"
stock=$1
ours=$2
for build in "$stock" "$ours"; do
    [ -x "$build/python" ] || fail "there is no interpreter in $build"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in $(env | sed -n 's/^\(PYTHON[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
export PYTHONDONTWRITEBYTECODE=1 JITDUMPDIR="$work"

# Prints variables of the build in $1, one after the other.
variables() {
    (cd "$1" && shift && ./python -c 'import sys, sysconfig
print(*(sysconfig.get_config_var(name) or "" for name in sys.argv[1:]))' "$@")
}

headers=$(cd "$stock" && ./python -c 'import sysconfig
print(sysconfig.get_path("include"))')
cc -c -O2 -I"$headers" -I"$stock" -o "$work/embed.o" Tools/reliability/embed.c

link() {
    # shellcheck disable=SC2046  # each is a list of words
    (cd "$2" && cc -o "$work/$1" "$work/embed.o" $(variables . LINKFORSHARED) \
        $(variables . BLDLIBRARY | sed 's/-L\. //') \
        $(variables . LIBS MODLIBS SYSLIBS))
}
link stock "$stock"
link ours "$ours"

run() {
    mode=$1 program=$2 build=$3
    shift 3
    # The library's own search would begin at the program.
    env PYTHONPATH="$(cd "$build" && ./python -c 'import os, sys
print(*(path for path in sys.path if os.path.isdir(path)), sep=":")')" "$@" \
        "$work/$program" >"$work/$mode.out" 2>"$work/$mode.err" ||
        fail "$mode: exit status $?: $(cat "$work/$mode.err")"
    cmp -s "$work/stock.out" "$work/$mode.out" || fail "$mode prints something" \
        "else: $(diff "$work/stock.out" "$work/$mode.out")"
    echo "embed, $mode: $(wc -l <"$work/$mode.out") lines as with the base," \
        "$(tail -n 1 "$work/$mode.err") lines in its map"
}

run stock stock "$stock"
[ -s "$work/stock.out" ] || fail "the program prints nothing"
run off ours "$ours"
run perf ours "$ours" PYTHONPERFSUPPORT=1
[ "$(tail -n 1 "$work/perf.err")" -gt 50 ] || fail "perf: no symbols"
run lines ours "$ours" PYTHONPERFSUPPORT=lines
[ "$(tail -n 1 "$work/lines.err")" -gt "$(tail -n 1 "$work/perf.err")" ] ||
    fail "lines: not more of them than names"
run perf_jit ours "$ours" PYTHON_PERF_JIT_SUPPORT=1
grep -q -a "py::Item.who:<string>" "$work"/jit-*.dump ||
    fail "perf_jit: Item.who is not in the jitdump"
