#!/bin/sh
# Brings CPython 3.13 as Debian 13 has it, to compare with, to base/peer/, by apt:
# this machine's own source entries, of that release instead of this one.
# Called by the Makefile, for `make bench-peers`.
#
#   base/peer/src/      the source package, unpacked, never modified
#   base/peer/origin    what it is; written last
#   base/peer/apt/, base/peer/download/   apt's private state and what it fetched
set -eu
cd "$(dirname "$0")/../.."
. Tools/machine/private-apt.sh
dir=$PWD/base/peer
suite=trixie
source_package=python3.13

fail() {
    echo "fetch-peer: $1" >&2
    shift
    for line; do echo "    $line" >&2; done
    exit 1
}

sources_of_suite() {
    with_suite "$1" "$2" | as_source
}

command -v apt-get >/dev/null ||
    fail "there is no apt here to fetch Debian's $source_package with"
# shellcheck disable=SC1091  # of the machine
release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")

rm -rf "$dir/src" "$dir/origin"
make_private_apt "$dir/apt"
add_sources peer sources_of_suite "$release" $suite
add_sources security sources_of_suite "$release-security" $suite-security
echo "fetch-peer: reading the lists of sources of $suite, by apt"
apt apt-get update -q || echo "fetch-peer: some lists failed" >&2
download_source $source_package "$dir/download" ||
    fail "apt finds no $source_package that it could download and verify;" \
         "is this a Debian, and its mirror reachable?  If apt complained" \
         "above about a key, upgrade the package debian-archive-keyring"
dpkg-source --no-copy --extract \
    "$dir/download/${source_package}_$version.dsc" "$dir/src" \
    >"$dir/dpkg-source.log" 2>&1 || {
    tail -n 5 "$dir/dpkg-source.log" >&2
    fail "the downloaded source package is broken;" \
         "remove base/peer/download and run it again"
}
echo "$source_package $version" >"$dir/origin"
echo "fetch-peer: the peer is $source_package $version"
