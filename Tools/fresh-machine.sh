#!/bin/sh
# Makes a Debian 12 as it comes, with nothing but git, make and ca-certificates,
# copies a clone of this repository into it, and runs a command there.
# Needs root, for debootstrap and chroot, and the package debootstrap.
#
# usage: Tools/fresh-machine.sh [--as-user] DIRECTORY [COMMAND...]
#
# The command (default: make profile && make test) runs in the clone, as root or
# as a user with sudo.  DIRECTORY is kept, and used again if it is there; with
# --as-user that user's clone is another one.  Remove it with rm -r once nothing
# is mounted below it, which this script sees to.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "fresh-machine: $1" >&2
    exit 1
}

user=root
if [ "${1-}" = --as-user ]; then
    user=tester
    shift
fi
[ $# -gt 0 ] || fail "usage: Tools/fresh-machine.sh [--as-user] DIRECTORY [COMMAND...]"
machine=$1
shift
command=${*:-make profile && make test}

[ "$(id -u)" = 0 ] || fail "only root can make one"
command -v debootstrap >/dev/null ||
    fail "debootstrap is missing: apt-get install --no-install-recommends debootstrap"

# The mirror this machine uses for bookworm itself.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(SITE)' \
             'Created-By: Packages' | sed -n 's/^Debian bookworm //p' | head -n 1)
[ -n "$mirror" ] || fail "this machine's apt has no entry for bookworm to take over"

if [ ! -e "$machine/.made" ]; then
    debootstrap --variant=minbase --include=ca-certificates,git,make \
        bookworm "$machine" "$mirror"
    touch "$machine/.made"
fi
machine=$(readlink -f "$machine")

# What the way to the network takes here: names, mirrors, certificates.  Files
# that debootstrap made are replaced.
cp -L --remove-destination /etc/resolv.conf /etc/hosts "$machine/etc/"
rm -rf "$machine/etc/apt/sources.list" "$machine/etc/apt/sources.list.d"
for item in apt ssl ca-certificates.conf; do
    [ ! -e "/etc/$item" ] || cp -RL --remove-destination "/etc/$item" "$machine/etc/"
done
for item in keyrings ca-certificates; do
    [ ! -d "/usr/share/$item" ] || cp -RL --remove-destination "/usr/share/$item" "$machine/usr/share/"
done
[ ! -d /usr/local/share/ca-certificates ] ||
    cp -RL --remove-destination /usr/local/share/ca-certificates "$machine/usr/local/share/"

mounted=
unmount() {
    for point in $mounted; do
        umount "$machine/$point"
    done
}
trap unmount EXIT
trap 'exit 130' INT TERM
for point in proc sys dev dev/pts dev/shm; do
    mkdir -p "$machine/$point"
    mount --bind "/$point" "$machine/$point"
    mounted="$point $mounted"
done

in_machine() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LANG=C.UTF-8 TERM="${TERM:-dumb}" DEBIAN_FRONTEND=noninteractive \
        chroot "$machine" "$@"
}

home=/root
if [ $user != root ]; then
    home=/home/$user
    in_machine sh -c "command -v sudo >/dev/null ||
        { apt-get update -q && apt-get install -qy --no-install-recommends sudo; }
        id $user >/dev/null 2>&1 || useradd --create-home --shell /bin/sh $user
        echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user"
fi
rm -rf "$machine$home/cpython-perf"
git clone -q --no-hardlinks . "$machine$home/cpython-perf"
in_machine chown -R $user: $home/cpython-perf

in_machine su $user -c "cd $home/cpython-perf && $command"
