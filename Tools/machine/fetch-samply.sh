#!/bin/sh
# Brings samply, a profiler, to base/samply/ and installs nothing: from Debian's
# unstable suite, the only one that has it, with the libraries that it needs.
# Called by .ci/run, which names base/samply/samply in the variable SAMPLY for
# test_perf_samply and test_perf_doc.
#
#   base/samply/samply   runs it
#   base/samply/root/    the unpacked packages
#   base/samply/apt/     apt's private state and what it fetched
set -eu
cd "$(dirname "$0")/../.."
. Tools/machine/private-apt.sh
. Tools/machine/fail.sh
dir=$PWD/base/samply

# The suite's own C library runs it: by that library's loader, and nothing in
# the environment, so that the programs it starts are not affected.
write_wrapper() {
    loader=$(cd "$dir/root" && ls usr/lib*/ld-linux-*.so.* | head -n 1)
    libraries=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    cat >"$dir/samply.new" <<EOF_WRAPPER
#!/bin/sh
# Written by Tools/machine/fetch-samply.sh.
root='$dir/root'
exec "\$root/$loader" --library-path "\$root/$libraries" \\
    "\$root/usr/bin/samply" "\$@"
EOF_WRAPPER
    chmod +x "$dir/samply.new"
    mv "$dir/samply.new" "$dir/samply"
}

if [ -x "$dir/samply" ] && version=$("$dir/samply" --version 2>/dev/null); then
    echo "fetch-samply: base/samply/samply is $version already"
    exit 0
fi
command -v apt-get >/dev/null ||
    fail "there is no apt here to fetch samply with; install it and name it" \
         "in SAMPLY"

# shellcheck disable=SC1091  # of the machine
release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
[ -n "$release" ] || fail "this system does not say which release it is;" \
    "install samply and name it in SAMPLY"
mkdir -p "$dir"
# What the machine has installed does not count.
make_private_apt "$dir/apt" "$(dpkg --print-architecture)"
add_sources unstable with_suite "$release" unstable
echo "fetch-samply: reading the lists of packages of unstable, by apt"
apt apt-get update -q || echo "fetch-samply: some lists failed" >&2
packages=$(apt apt-get install --simulate --quiet=2 samply |
    sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p') && [ -n "$packages" ] ||
    fail "apt finds no samply in unstable, see above;" \
         "is the mirror reachable?  Then run it again, or install samply" \
         "and name it in SAMPLY"
# shellcheck disable=SC2086  # a list of words
unpack_packages "$dir/root" $packages ||
    fail "the download failed, see above; run it again"
write_wrapper
version=$("$dir/samply" --version) || {
    rm "$dir/samply"
    fail "the samply that was fetched does not run, see above"
}
echo "fetch-samply: base/samply/samply is $version"
