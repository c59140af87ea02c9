#!/bin/sh
# Brings a perf that is newer than that of Debian 12, 6.8 at least, to base/perf/
# and installs nothing: from the backports of this machine's Debian release, or
# the machine's own if that is new enough.  Called by .ci/run, which names
# base/perf/perf in the variable PERF for the tests of -X perf_jit.
#
#   base/perf/perf       runs it
#   base/perf/root/      the unpacked packages
#   base/perf/apt/       apt's private state and what it fetched
set -eu
cd "$(dirname "$0")/../.."
. Tools/machine/private-apt.sh
. Tools/machine/fail.sh
dir=$PWD/base/perf
least=6.8

# Prints the version of the perf that is given, if it runs and is new enough.
new_enough() {
    number=$("$1" --version 2>/dev/null | sed -n 's/^perf version //p')
    [ -n "$number" ] && dpkg --compare-versions "$number" ge "$least" &&
        echo "$number"
}

# Prints package=version of perf and of the libraries that are missing.
needed_packages() {
    apt apt-get install --simulate --quiet=2 "linux-perf/$release-backports" |
        sed -n 's/^Inst \([^ ]*\) \(\[[^]]*\] \)\{0,1\}(\([^ ]*\) .*/\1=\3/p'
}

# Libraries that the machine has are not in root/, so programs that perf starts
# are not affected.
write_wrapper() {
    multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    cat >"$dir/perf.new" <<EOF_WRAPPER
#!/bin/sh
# Written by Tools/machine/fetch-perf.sh.
root='$dir/root'
LD_LIBRARY_PATH=\$root/usr/lib/$multiarch:\$root/lib/$multiarch
export LD_LIBRARY_PATH
exec "\$root/usr/bin/perf" "\$@"
EOF_WRAPPER
    chmod +x "$dir/perf.new"
    mv "$dir/perf.new" "$dir/perf"
}

command -v apt-get >/dev/null ||
    fail "there is no apt here to fetch perf with;" \
         "install perf $least or newer and name it in PERF"

if [ -x "$dir/perf" ] && version=$(new_enough "$dir/perf"); then
    echo "fetch-perf: base/perf/perf is perf $version already"
    exit 0
fi
mkdir -p "$dir"
if own=$(command -v perf) && version=$(new_enough "$own"); then
    ln -sfn "$own" "$dir/perf"
    echo "fetch-perf: base/perf/perf is this machine's own perf $version"
    exit 0
fi

# shellcheck disable=SC1091  # of the machine
release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
[ -n "$release" ] || fail "this system does not say which release it is;" \
    "install perf $least or newer and name it in PERF"
make_private_apt "$dir/apt"
add_sources own cat
add_sources backports with_suite "$release" "$release-backports"
echo "fetch-perf: reading the lists of packages of $release-backports, by apt"
apt apt-get update -q || echo "fetch-perf: some lists failed" >&2
packages=$(needed_packages) && [ -n "$packages" ] ||
    fail "apt finds no linux-perf in $release-backports, see above;" \
         "is the mirror reachable?  Then run it again, or install perf" \
         "$least or newer and name it in PERF"
# shellcheck disable=SC2086  # a list of words
unpack_packages "$dir/root" $packages ||
    fail "the download failed, see above; run it again"
write_wrapper
version=$(new_enough "$dir/perf") || {
    "$dir/perf" --version >&2 || :
    rm "$dir/perf"
    fail "the perf that was fetched is older than $least or does not run"
}
echo "fetch-perf: base/perf/perf is perf $version"
