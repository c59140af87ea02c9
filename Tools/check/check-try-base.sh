#!/bin/sh
# Checks that Tools/base/try-base.sh tells patches that fit other sources from those
# that do not, by sources that are edited for it.  Builds nothing, takes seconds.
# Called by .ci/run, for the base that make works on.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/patches/applied.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each base has a patch of this file, in this function, for this line.
file=Python/pystate.c
function=_PyInterpreterState_GetEvalFrameFunc
line='    return interp->eval_frame;'
# A version that there will never be, so that nobody's build-try/ is touched.
version=$base.999
tried=build-try/$version
rm -rf "$tried"

fail() {
    echo "check-try-base: $*; it said:" >&2
    cat "$work/said" >&2
    exit 1
}

# Only what is looked at.
sources_like_base() {
    rm -rf "$work/src" "$tried"
    for name in Include/patchlevel.h $(files_in_patches) $(replaced_files); do
        mkdir -p "$work/src/$(dirname "$name")"
        [ ! -e "$sources/src/$name" ] ||
            cp "$sources/src/$name" "$work/src/$name"
    done
    sed -i 's/^\(#define PY_MICRO_VERSION\).*/\1 999/
            s/^\(#define PY_VERSION\)[[:space:]].*/\1 "'"$version"'"/' \
        "$work/src/Include/patchlevel.h"
}

try() {
    Tools/base/try-base.sh --patches "$work/src" >"$work/said" 2>&1
}

says() {
    tr -s ' \n' ' ' <"$work/said" | grep -q -F -e "$1" || fail "did not say: $1"
}

sources_like_base
try || fail "the base itself does not fit"
says " 0 of them at other lines, 0 in another function, rule or section; 0 do not apply"

# Lines move: fine.
sources_like_base
sed -i '1i /* one line more */' "$work/src/$file"
try || fail "a line more at the top prevents it"
! grep -q " 0 of them at other lines" "$work/said" || fail "saw no moved line"
says " 0 in another function, rule or section; 0 do not apply"

# What a function is called changes: to be looked at.
sources_like_base
sed -i "s/^$function(/another_name(/" "$work/src/$file"
try || fail "another name prevents it"
says "instead of $function("

# A line that a patch needs is gone: no.
sources_like_base
grep -v -x -F -e "$line" "$sources/src/$file" >"$work/src/$file"
! try || fail "a patch applies without a line that it needs"
says "pystate-tools-evaluator.patch: $file: hunk 2 does not apply; its lines are at:"
says "nowhere - return interp->eval_frame;"

# A file of ours is there already.
sources_like_base
mkdir -p "$work/src/Python"
touch "$work/src/Python/perf_map.c"
! try || fail "a file in our place is nothing to it"
says "Python/perf_map.c: is ours"

rm -rf "$tried"
echo "check-try-base: patches that fit $base are told from those that do not"
