#!/bin/sh
# Brings the base, CPython's sources, to base/: as asked for in config.base, from
# Debian by apt or from a directory or tarball.  Called by the Makefile; a rerun
# continues where a failed one stopped.
#
#   base/src/       the base as it is, never modified
#   base/vanilla/   the upstream release it is made from
#   base/origin     what base/src is; written last
#   base/apt/, base/download/   apt's private state and what it fetched
set -eu
cd "$(dirname "$0")/.."
. Tools/private-apt.sh
source_package=python3.11

fail() {
    echo "fetch-base: $1" >&2
    shift
    for line; do echo "    $line" >&2; done
    exit 1
}

fetch_from_debian() {
    command -v apt-get >/dev/null || fail \
        "there is no apt here to fetch Debian's sources with;" \
        "give a CPython 3.11 instead: ./configure --with-base=DIR|TARBALL"
    make_private_apt "$PWD/base/apt"
    add_sources debian as_source
    echo "fetch-base: reading the lists of sources, by apt"
    apt apt-get update -q || echo "fetch-base: some lists failed" >&2
    # Only 3.11 sources by that name count: apt-cache fails on none.
    [ -n "$(apt apt-cache showsrc --only-source "$source_package" \
                2>/dev/null)" ] || fail \
        "this machine's apt offers no source package $source_package;" \
        "is the mirror reachable (then run make again), or give a" \
        "CPython 3.11 instead: ./configure --with-base=DIR|TARBALL"
    download_source "$source_package" base/download || fail \
        "none of the listed versions of $source_package could be downloaded;" \
        "run make again later, or remove base/download if it is broken, or" \
        "give a CPython 3.11 instead: ./configure --with-base=DIR|TARBALL"
    upstream=$(echo "$version" | sed 's/-[^-]*$//')
    echo "fetch-base: unpacking"
    dpkg-source --no-copy --extract "base/download/${source_package}_$version.dsc" \
        base/src >base/dpkg-source.log 2>&1 || {
        tail -n 5 base/dpkg-source.log >&2
        fail "the downloaded source package is broken;" \
             "remove base/download and run make again"
    }
    unpack "base/download/${source_package}_$upstream".orig.tar.* base/vanilla
}

unpack() {
    mkdir -p "$2"
    tar -xf "$1" -C "$2" --strip-components=1
}

chosen=$(cat config.base)
mkdir -p base
rm -rf base/src base/vanilla base/origin
case $chosen in
    debian)
        fetch_from_debian
        origin="$source_package $version" ;;
    *)
        origin="$chosen"
        if [ -d "$chosen" ]; then
            [ ! -e "$chosen/pyconfig.h" ] || fail \
                "$chosen has been built in place, so its files would be" \
                "taken for the base's: run make distclean there first"
            mkdir -p base/src
            tar -cf - -C "$chosen" --exclude-vcs . | tar -xf - -C base/src
        else
            unpack "$chosen" base/src
        fi
        ln -s src base/vanilla ;;
esac

version=$(Tools/base-version.sh base/src)
case $version in
    3.11.*) ;;
    *) fail "the base is CPython ${version:-of no known version}, and the" \
            "patches are for 3.11; choose another by ./configure --with-base=" ;;
esac
echo "$origin" >base/origin
echo "fetch-base: the base is $origin (CPython $version)"
