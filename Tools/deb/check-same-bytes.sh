#!/bin/sh
# Checks that the same commit gives the same package and the same `make dist`,
# byte by byte: makes both here and in a clone elsewhere, with another time
# zone, language, umask and number of jobs, and at another time.  The packages
# are built without a profile, which is measured and so never the same.  Called
# by hand.
#
# usage: Tools/deb/check-same-bytes.sh DIRECTORY
#
# DIRECTORY gets the clone, anew; what is in it is removed.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/machine/fail.sh

[ $# = 1 ] || fail "usage: Tools/deb/check-same-bytes.sh DIRECTORY"
[ ! -e "$1" ] || [ -e "$1/.same-bytes" ] || fail "$1 is not mine to remove"
[ -z "$(git status --porcelain)" ] ||
    fail "there are changes that are not committed"

unset SOURCE_DATE_EPOCH
export DEB_BUILD_OPTIONS="nopgo nolto"
rm -f "dist/python$base-perf"_*.deb dist/cpython-perf-*.tar.gz
make deb dist

rm -rf --one-file-system "$1"
git clone -q . "$1"
touch "$1/.same-bytes"
ln -s "$PWD/base" "$1/base"
here=$PWD
(
    cd "$1"
    umask 077
    env -u DEB_BUILD_MAINT_OPTIONS TZ=Pacific/Kiritimati LC_ALL=C LANG=C \
        DEB_BUILD_OPTIONS="nopgo nolto parallel=1" \
        make deb dist
    for file in dist/*; do
        cmp "$here/$file" "$file" || {
            echo "check-same-bytes: $file differs; compare with diffoscope" >&2
            exit 1
        }
        echo "check-same-bytes: $file is the same twice"
    done
)
