#!/bin/sh
# Says whether the patches fit other sources of a minor version that there are
# patches for, a newer release or source package; then builds and tests with them.
# Called by `make try-base FROM=...`, before such sources become the base.
#
# usage: Tools/base/try-base.sh [--patches] DIR|TARBALL|DSC
#
# --patches: builds nothing.  Everything happens in build-try/VERSION/: sources/, and
# a copy of the working tree that has them as its base.  It stays, for a look and for
# the next run; the sources of a version are taken once, until it is removed.
set -eu
here=$PWD
cd "$(dirname "$0")/../.."
. Tools/machine/fail.sh

usage="usage: Tools/base/try-base.sh [--patches] DIR|TARBALL|DSC"
build_too=yes
if [ "${1-}" = --patches ]; then
    build_too=
    shift
fi
[ $# -eq 1 ] && [ -n "$1" ] || fail "name the sources to try;" "$usage"
case $1 in
    /*) from=$1 ;;
    *) from=$here/$1 ;;
esac
[ -e "$from" ] || fail "there is no $from;" "$usage"

# --- The sources, and the base that they are a version of ---

scratch=build-try/new
rm -rf $scratch
mkdir -p $scratch/sources
trap 'rm -rf $scratch' EXIT
new=$scratch/sources
if [ -d "$from" ]; then
    tar -cf - -C "$from" --exclude-vcs . | tar -xf - -C $new
elif [ "${from%.dsc}" != "$from" ]; then
    command -v dpkg-source >/dev/null ||
        fail "dpkg-source is missing, which unpacks $from; run make setup"
    rmdir $new
    dpkg-source --no-copy --extract "$from" $new >$scratch/log 2>&1 || {
        tail -n 3 $scratch/log >&2
        fail "$from cannot be unpacked, see above; the files that it lists have" \
             "to be beside it"
    }
else
    tar -xf "$from" -C $new --strip-components=1 ||
        fail "$from is no tarball that tar can read"
fi
version=$(Tools/base/base-version.sh $new)
[ -n "$version" ] || fail "$from is no CPython: it has no Include/patchlevel.h"
BASE=${version%.*}
export BASE
names=$(BASE='' . Tools/base/base.sh && base_names | paste -sd ' ')
case " $names " in
    *" $BASE "*) . Tools/base/base.sh ;;
    *) fail "$from is CPython $version, and there are patches for $names" ;;
esac
# The text says more than three numbers: 3.15.0rc2.
version=$(sed -n 's/^#define PY_VERSION[[:space:]]*"\(.*\)".*/\1/p' \
          $new/Include/patchlevel.h)
copy=build-try/$version
[ -e "$copy/sources" ] || {
    mkdir -p "$copy/base"
    mv $new "$copy/sources"
}
[ -e "$sources/src" ] || make -s "$sources/origin"

echo "try-base: CPython $version, with the patches for $(cat "$sources/origin")"
python3 Tools/patches/try_patches.py "$base" "$copy/sources" || fail \
    "see above; CONTRIBUTING.rst tells how patches are changed." \
    "Patches that fit both versions are the best ones."
[ -n "$build_too" ] || exit 0

# --- The build ---

command -v git >/dev/null || fail "git is missing; run make setup"
[ -e .git ] || fail "this is no git clone, which would tell what to copy;" \
    "--patches alone does without"
# With the edits, without what is generated and what is deleted; what stays as it
# is keeps its time, so that another run builds little.
git ls-files --cached --others --exclude-standard | LC_ALL=C sort -u >$scratch/all
while read -r file; do [ ! -e "$file" ] || echo "$file"; done \
    <$scratch/all >$scratch/files
tar -cf - -T $scratch/files | tar -xf - -C "$copy"
[ ! -e base/autoconf ] || ln -sfn ../../../base/autoconf "$copy/base/autoconf"

cd "$copy"
unset MAKEFLAGS MFLAGS MAKELEVEL
for step in "./configure --with-base=sources" "make check-evaluator" \
    "make test-quick"
do
    echo "try-base: $step, in $copy"
    $step || fail "CPython $version: this failed: $step (in $copy, see above)"
done
echo "try-base: CPython $version: the patches apply, it builds, the stock evaluator" \
     "is the base's, and the tests pass"
