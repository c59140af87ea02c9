#!/bin/sh
# Brings the libraries and headers of another architecture to a directory, for a
# cross build, and installs nothing: packages of this machine's Debian release,
# unpacked, or of the next release where this one lacks the architecture.
# Called by the Makefile and Tools/machine/full-system.sh.
#
#   DIRECTORY/root/     the unpacked packages
#   DIRECTORY/apt/      apt's private state and what it fetched
#   DIRECTORY/packages  their names and versions; written last
#
# usage: Tools/machine/fetch-sysroot.sh HOST DIRECTORY [PACKAGE...]
#
# HOST is what configure's --host is, such as aarch64-linux-gnu.  Fetches the
# libraries that Tools/machine/packages.txt lists for a build of any base, as they
# share the directory, and each PACKAGE, which may be one of the release's
# backports, such as linux-perf/bookworm-backports.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/machine/private-apt.sh
. Tools/machine/fail.sh

[ $# -ge 2 ] || fail \
    "usage: Tools/machine/fetch-sysroot.sh HOST DIRECTORY [PACKAGE...]"
host=$1
mkdir -p "$2"
dir=$(readlink -f "$2")
shift 2
command -v apt-get >/dev/null || fail \
    "there is no apt here to fetch the libraries of $host with;" \
    "name a compiler that has them: ./configure --host=$host CC=..."
arch=$(dpkg-architecture --host-type "$host" -qDEB_HOST_ARCH 2>/dev/null) ||
    fail "Debian has no architecture that is called $host"
# Not a library that one builds with: compilers link it where they need it.
# shellcheck disable=SC2046  # a list of words
set -- "$@" libatomic1 $(awk -F ' *[|] *' -v purposes=" build $(base_names | paste -sd ' ') " '
                  index(purposes, " " $1 " ") && $2 ~ /-dev$/ && $2 !~ /^dpkg/ {
                      print $2
                  }' Tools/machine/packages.txt)

entries_of() {
    with_suite "$release$1" "$2" | any_arch
}

read_lists() {
    echo "fetch-sysroot: reading the lists of packages for $arch, by apt"
    apt apt-get update -q || echo "fetch-sysroot: some lists failed" >&2
}

# Of the lists that were read, says that this one's release has no such packages.
release_lacks_arch() {
    cat "$dir"/apt/lists/*Release 2>/dev/null |
        awk -v release="$release" -v arch=" $arch " '
            /^Codename:/ { is_ours = $2 == release }
            /^Architectures:/ && is_ours && !index($0 " ", arch) { lacks = 1 }
            END { exit !lacks }'
}

# Debian's own table of its releases, in their order.
next_release() {
    awk -F, -v this="$release" 'found { print $3; exit } $3 == this { found = 1 }
        ' /usr/share/distro-info/debian.csv
}

# A link with an absolute target points outside of root/.
make_links_relative() {
    find "$dir/root" -type l -lname '/*' | while read -r link; do
        target=$(readlink "$link")
        up=$(dirname "${link#"$dir/root/"}" | sed 's:[^/]\{1,\}:..:g')
        ln -sfn "$up$target" "$link"
    done
}

# shellcheck disable=SC1091  # of the machine
release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
make_private_apt "$dir/apt" "$arch"
add_sources own any_arch
add_sources backports entries_of "" "$release-backports"
read_lists
if release_lacks_arch; then
    next=$(next_release)
    [ -n "$next" ] || fail "$release has no $arch, and no release follows it"
    echo "fetch-sysroot: $release has no $arch; trying the next release, $next"
    make_private_apt "$dir/apt" "$arch"
    for suite in "" -updates -security; do
        add_sources "next$suite" entries_of "$suite" "$next$suite"
    done
    read_lists
fi
apt apt-get install --simulate --quiet=2 "$@" |
    sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p' >"$dir/apt/needed"
[ -s "$dir/apt/needed" ] || fail "apt does not find all of these for $arch:" \
    "$*" "is the mirror reachable?  Then run it again"
if cmp -s "$dir/apt/needed" "$dir/packages"; then
    echo "fetch-sysroot: $dir has the newest packages"
    exit 0
fi
echo "fetch-sysroot: downloading $(wc -l <"$dir/apt/needed") packages"
# shellcheck disable=SC2046  # a list of words
unpack_packages "$dir/root" $(cat "$dir/apt/needed") >/dev/null ||
    fail "the download failed, see above; run it again"
# Later releases have these below usr/ only, and the links to them in a package
# that no library depends on.
for part in bin sbin lib lib64; do
    if [ -e "$dir/root/usr/$part" ] && [ ! -e "$dir/root/$part" ]; then
        ln -s "usr/$part" "$dir/root/$part"
    fi
done
make_links_relative
mv "$dir/apt/needed" "$dir/packages"
echo "fetch-sysroot: $dir/root"
