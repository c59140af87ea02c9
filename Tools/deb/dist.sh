#!/bin/sh
# Writes dist/cpython-perf-VERSION.tar.gz, the sources of the last commit: the same
# bytes for the same commit.  Files have the commit's date, which Tools/deb/deb.sh
# takes where there is no git.  Called by `make dist`.
set -eu
cd "$(dirname "$0")/../.."
name=cpython-perf-$(cat Lib/perfpy/VERSION)

[ -e .git ] || {
    echo "dist: this is no git clone, so there is no commit to pack" >&2
    exit 1
}
changes=$(git status --porcelain)
[ -z "$changes" ] ||
    echo "dist: there are changes that are not committed, and not packed" >&2
mkdir -p dist
git -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD \
    >"dist/$name.tar"
gzip -n -9 -f "dist/$name.tar"
echo "dist: dist/$name.tar.gz, $(sha256sum <"dist/$name.tar.gz" | cut -c 1-64)"
