#!/bin/sh
# Brings a base, CPython's sources, to base/3.X/: as $sources/chosen says,
# from Debian by apt or from a directory or tarball.  Called by the Makefile; a rerun
# continues where a failed one stopped.
#
# Where apt's lists have no such source package, or no mirror has what they list,
# the version that $patches/pin names comes from the mirror's pool, and must have
# the hashes given there.  A pin without a .dsc is the upstream release alone.
#
#   $sources/src/       the base as it is, never modified
#   $sources/vanilla/   the upstream release it is made from
#   $sources/origin     what src is; written last
#   $sources/apt/, $sources/download/   apt's private state and what it fetched
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/machine/private-apt.sh
. Tools/machine/fail.sh
source_package=$(base_field 2)
suite=$(base_field 3)
download=$PWD/$sources/download
remedy="give a CPython $base instead: ./configure --with-base=DIR|TARBALL"

# --- From Debian ---

sources_of_suite() {
    with_suite "$1" "$2" | as_source
}

# This machine's entries, and for another release's base the same of that release.
add_entries() {
    # shellcheck disable=SC1091  # of the machine
    release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    add_sources debian as_source
    [ "$release" = "$suite" ] || {
        add_sources suite sources_of_suite "$release" "$suite"
        add_sources security sources_of_suite "$release-security" \
            "$suite-security"
    }
}

# Prints a field of the pin, which has lines like a .dsc's.
pin_field() {
    sed -n "s/^$1: //p" "$patches/pin"
}

# Prints the mirrors of this machine's entries that have a pool.
mirrors() {
    apt apt-get indextargets --format '$(ORIGIN) $(SITE)' 'Created-By: Sources' \
        2>/dev/null | sed -n 's/^Debian //p' | sort -u
}

# Leaves the version in $version.
download_pin() {
    version=$(pin_field Version)
    directory=$(pin_field Directory)
    echo "fetch-base: downloading $source_package $version, as pinned in" \
         "$patches/pin"
    sed -n 's/^ \([0-9a-f]*\) \([^ ]*\)$/\1 \2/p' "$patches/pin" |
    while read -r hash file; do
        rm -f "$download/$file" "$download/$file.FAILED"
        for mirror in $(mirrors); do
            ! (cd "$download" && apt /usr/lib/apt/apt-helper download-file \
                   "$mirror/$directory/$file" "$file" \
                   "SHA256:$hash") >&2 || continue 2
        done
        [ ! -e "$download/$file.FAILED" ] || fail \
            "$file has another hash than $patches/pin" \
            "says: a mirror, or what is in between, has changed it; use another," \
            "or $remedy"
        fail "no mirror has $file, or none can be reached," \
            "see above; run make again later, use another mirror in apt's" \
            "configuration, or $remedy"
    done || exit 1
}

fetch_from_debian() {
    command -v apt-get >/dev/null || fail \
        "there is no apt here to fetch Debian's sources with;" "$remedy"
    make_private_apt "$PWD/$sources/apt"
    add_entries
    echo "fetch-base: reading the lists of sources, by apt"
    apt apt-get update -q || echo "fetch-base: some lists failed" >&2
    mkdir -p "$download"
    download_source "$source_package" "$download" || download_pin
    echo "fetch-base: unpacking"
    dsc=$download/${source_package}_$version.dsc
    if [ -e "$dsc" ]; then
        unpack_source_package
    else
        unpack "$(upstream_archive "$version")" "$sources/src"
        ln -s src "$sources/vanilla"
    fi
}

# Prints the file that has the upstream release of that version.
upstream_archive() {
    for archive in "$download/${source_package}_$1".orig.tar.*; do
        case $archive in
            *.asc | *.FAILED) ;;
            *) echo "$archive" ;;
        esac
    done
}

unpack_source_package() {
    dpkg-source --no-copy --extract "$dsc" "$sources/src" \
        >"$sources/dpkg-source.log" 2>&1 || {
        tail -n 5 "$sources/dpkg-source.log" >&2
        fail "the downloaded source package is broken;" \
             "remove $sources/download and run make again"
    }
    unpack "$(upstream_archive "${version%-*}")" "$sources/vanilla"
}

unpack() {
    mkdir -p "$2"
    tar -xf "$1" -C "$2" --strip-components=1 ||
        fail "$1 is broken, tar cannot unpack it;" "$remedy"
}

# ---

chosen=$(cat "$sources/chosen")
rm -rf "$sources/src" "$sources/vanilla" "$sources/origin"
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
            mkdir -p "$sources/src"
            tar -cf - -C "$chosen" --exclude-vcs . | tar -xf - -C "$sources/src"
        else
            unpack "$chosen" "$sources/src"
        fi
        ln -s src "$sources/vanilla" ;;
esac

version=$(Tools/base/base-version.sh "$sources/src")
case $version in
    "$base".*) ;;
    *) fail "the base is CPython ${version:-of no known version}, and the" \
            "patches are for $base; choose another by ./configure --with-base=" ;;
esac
echo "$origin" >"$sources/origin"
echo "fetch-base: the base is $origin (CPython $version)"
