#!/bin/sh
# Makes a Debian as it comes, of this machine's release or another one, with nothing
# but git, make and ca-certificates, copies a clone of this repository into it, and runs a
# command there.  Needs root, for debootstrap and chroot, and the package debootstrap.
#
# usage: Tools/machine/fresh-machine.sh [--release NAME] [--as-user] DIRECTORY
#            [COMMAND...]
#
# The command (default: make profile && make test) runs in the clone, as root or
# as a user with sudo.  DIRECTORY is kept, and used again if it is there; with
# --as-user that user's clone is another one.  Remove it with
# rm -r --one-file-system, which spares what is mounted below it.
set -eu
cd "$(dirname "$0")/../.."
. Tools/machine/debian-tree.sh
. Tools/machine/fail.sh

usage="[--release NAME] [--as-user] DIRECTORY [COMMAND...]"
user=root
while :; do
    case ${1-} in
        --as-user) user=tester ;;
        --release) tree_release=${2-}; shift ;;
        "" | --*) fail "usage: Tools/machine/fresh-machine.sh $usage" ;;
        *) break ;;
    esac
    shift
done
machine=$1
shift
command=${*:-make profile && make test}

make_tree "$machine" git make

home=/root
if [ $user != root ]; then
    home=/home/$user
    in_tree sh -c "command -v sudo >/dev/null ||
        { apt-get update -q && apt-get install -qy --no-install-recommends sudo; }
        id $user >/dev/null 2>&1 || useradd --create-home --shell /bin/sh $user
        echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user"
fi
rm -rf "$made$home/cpython-perf"
git clone -q --no-hardlinks . "$made$home/cpython-perf"
in_tree chown -R $user: $home/cpython-perf

in_tree su $user -c "cd $home/cpython-perf && $command"
