#!/bin/sh
# Fetches the viewers that the tests read perfpy's formats with, to
# base/viewer/: npm does, and checks them by the hashes in
# Tools/perfpy-viewer/package-lock.json; none of their scripts is run.  Called
# by `make viewer` and, with --optional, before the tests, which skip what is
# not there.
#
# usage: Tools/perfpy-viewer/fetch-viewer.sh    fail if they cannot be had
#        Tools/perfpy-viewer/fetch-viewer.sh --optional    say so, and succeed
set -eu
cd "$(dirname "$0")/../.."
lock=Tools/perfpy-viewer/package-lock.json
fetched=base/viewer
optional=${1-}

give_up() {
    echo "fetch-viewer: $1" >&2
    [ "$optional" = --optional ] || exit 1
    exit 0
}

[ -e $fetched/.fetched ] && cmp -s $lock $fetched/package-lock.json && exit
command -v npm >/dev/null ||
    give_up "npm is missing; \`make viewer\` installs it"
rm -rf $fetched
mkdir -p $fetched
cp Tools/perfpy-viewer/package.json Tools/perfpy-viewer/.npmrc $lock $fetched
retries=2
[ "$optional" != --optional ] || retries=0
echo "fetch-viewer: fetching viewers, by npm"
(cd $fetched && npm ci --fetch-retries=$retries >npm.log 2>&1) || {
    tail -n 5 $fetched/npm.log >&2
    rm -rf $fetched
    give_up "npm failed, see above; is its registry reachable?"
}
touch $fetched/.fetched
