#!/bin/sh
# Installs the package that `make deb` has built in a Debian made for it, profiles a
# web application and a program in a virtual environment there, upgrades and
# removes the package, and checks that the system is as it was.  Needs root and
# the packages that Tools/machine/packages.txt has for it.  Called by .ci/run.
#
# usage: Tools/deb/check-deb.sh [--pypi] DIRECTORY
#
# DIRECTORY gets the Debian; it is kept, and used again if it is there.
# --pypi: look at pip and at environments of venv, virtualenv, uv, poetry and
# pipx, too, with packages from PyPI.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/machine/debian-tree.sh
. Tools/machine/fail.sh
package=python$base-perf

say() {
    echo "check-deb: $1"
}

pypi=no
if [ "${1-}" = --pypi ]; then
    pypi=yes
    shift
fi
[ $# = 1 ] || fail "usage: Tools/deb/check-deb.sh [--pypi] DIRECTORY"
deb=$(ls -t "dist/${package}"_*.deb 2>/dev/null | head -n 1)
[ -n "$deb" ] || fail "there is no dist/${package}_*.deb; run make deb"

say "lintian $deb"
lintian --allow-root --fail-on error "$deb"

say "making a Debian in $1"
make_tree "$1"
work=/root/check-deb
rm -rf "$made$work"
mkdir "$made$work"
cp "$deb" "$made$work/new.deb"
cp -R Tools/deb/check "$made$work/"
# The same with a higher version, for the upgrade.
scratch=$(mktemp -d)
dpkg-deb -R "$deb" "$scratch/package"
sed -i 's/^Version: .*/&+next/' "$scratch/package/DEBIAN/control"
dpkg-deb --root-owner-group -b "$scratch/package" "$made$work/next.deb" >/dev/null
rm -r "$scratch"

in_tree sh $work/check/packages.sh "$base" $work
[ $pypi = no ] || in_tree sh $work/check/environments.sh "$base" $work
