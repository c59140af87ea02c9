#!/bin/sh
# Builds a free-threaded interpreter with ThreadSanitizer, ours and the unpatched
# base's, in a clone of the last commit, build-tsan/, and compares what is reported
# of the programs of Tools/stress.  Called by hand: takes an hour.
#
# usage: Tools/reliability/tsan.sh [BASE [ARG...]]
#
# BASE is 3.14 if it is not given; ARG is for Tools/reliability/races.py.  The
# compiler is CC, or clang.  With SANITIZER=address it is AddressSanitizer, and an
# interpreter with a GIL.
set -eu
cd "$(dirname "$0")/../.."
export BASE="${1:-3.14}"
[ $# = 0 ] || shift
sanitizer=${SANITIZER:-thread}
[ "$sanitizer" = thread ] && gil=--disable-gil || gil=

Tools/machine/setup.sh build "$BASE" check
make "base/$BASE/origin"
work=build-$sanitizer-sanitizer
[ -d "$work" ] || git clone -q . "$work"
cd "$work"
git pull -q
[ -e base ] || ln -s ../base base
# What CPython itself does while it is built is not looked at.
export TSAN_OPTIONS=exitcode=0 ASAN_OPTIONS=detect_leaks=0
# shellcheck disable=SC2086  # none, or one
./configure -q --with-base="$BASE" $gil "--with-$sanitizer-sanitizer" \
    CC="${CC:-clang}"
make all base
. Tools/base/base.sh
make "$build/ext/.built"
Tools/reliability/races.py --report races.txt \
    "build-base$suffix/python" "$build/python" "$@"
