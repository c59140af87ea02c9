#!/bin/sh
# Brings an autoconf that this machine's Debian does not have to base/autoconf/ and
# installs nothing.  It is the one of Debian 13, which runs everywhere, as it is made
# of Perl and m4.  Called by Tools/base/generate-configure.sh, which make -j runs for
# two trees at once: the second call waits for the first, and finds it done.
#
#   base/autoconf/bin/      autoconf and autoheader
#   base/autoconf/root/     the unpacked package
#   base/autoconf/apt/      apt's private state and what it fetched
#
# usage: Tools/base/fetch-autoconf.sh VERSION    the least that will do
set -eu
cd "$(dirname "$0")/../.."
. Tools/machine/private-apt.sh
. Tools/machine/fail.sh
least=$1
suite=trixie
dir=$PWD/base/autoconf

new_enough() {
    number=$("$dir/bin/autoconf" --version 2>/dev/null | sed -n '1s/.* //p')
    [ -n "$number" ] && dpkg --compare-versions "$number" ge "$least"
}

mkdir -p base
exec 9>base/.autoconf.lock
flock 9
! new_enough || exit 0
remedy="install autoconf $least or newer as autoconf$least"
command -v apt-get >/dev/null ||
    fail "there is no apt here to fetch autoconf $least with;" "$remedy"
# shellcheck disable=SC1091  # of the machine
release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
make_private_apt "$dir/apt"
add_sources suite with_suite "$release" "$suite"
echo "fetch-autoconf: reading the list of packages of $suite, by apt"
apt apt-get update -q || echo "fetch-autoconf: some lists failed" >&2
rm -rf "$dir/bin"
mkdir "$dir/bin"
unpack_packages "$dir/root" autoconf ||
    fail "the download failed, see above; is the mirror reachable?" \
         "Then run make again, or $remedy"
# The programs and their configuration name the place where they expect each other.
sed -i "s,/usr/share/autoconf,$dir/root&,; s,'\(/usr/bin/auto\),'$dir/root\1," \
    "$dir"/root/usr/bin/* "$dir/root/usr/share/autoconf/autom4te.cfg"
ln -s ../root/usr/bin/autoconf ../root/usr/bin/autoheader "$dir/bin"
new_enough ||
    fail "that of $suite is older than $least, or does not run;" "$remedy"
echo "fetch-autoconf: base/autoconf has autoconf $number"
