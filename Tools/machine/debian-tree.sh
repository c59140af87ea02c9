# shellcheck shell=sh
# A Debian in a directory, as it comes, of the release that $tree_release names or
# else of the one that this machine has.
# To be sourced by Tools/machine/fresh-machine.sh, Tools/deb/check-deb.sh and
# Tools/deb/check-container.sh, as root, beside Tools/machine/fail.sh.
#
#   make_tree DIR [PACKAGE...]   makes it if it is not there, with the network's ways
#                                of this machine, and mounts what programs need
#   in_tree COMMAND...           runs a command in it
#   unmount_tree                 ends that, before another tree is made
#
# What is mounted is unmounted when the script ends, too.  DIR is kept.  Remove it
# with rm -r --one-file-system, which spares what is mounted below it after all.

make_tree() {
    [ "$(id -u)" = 0 ] || fail "only root can make one"
    command -v debootstrap >/dev/null || fail \
        "debootstrap is missing: apt-get install --no-install-recommends debootstrap"
    # shellcheck disable=SC1091  # of the machine
    machine_release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    tree_release=${tree_release:-$machine_release}
    # The mirror this machine uses for the release itself.
    tree_mirror=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(SITE)' \
                      'Created-By: Packages' |
                  sed -n "s/^Debian $machine_release //p" | head -n 1)
    [ -n "$tree_mirror" ] || fail \
        "this machine's apt has no entry for $machine_release to take over"

    made=$1
    shift
    if [ ! -e "$made/.made" ]; then
        # It may not know newer releases; all of Debian's are made like sid.
        scripts=/usr/share/debootstrap/scripts
        [ -e "$scripts/$tree_release" ] && script=$tree_release || script=sid
        debootstrap --variant=minbase \
            --include="$(echo ca-certificates "$@" | tr ' ' ',')" \
            "$tree_release" "$made" "$tree_mirror" "$scripts/$script"
        touch "$made/.made"
    fi
    made=$(readlink -f "$made")

    # What the way to the network takes here: names, mirrors, certificates.  Files
    # that debootstrap made are replaced.
    cp -L --remove-destination /etc/resolv.conf /etc/hosts "$made/etc/"
    rm -rf "$made/etc/apt/sources.list" "$made/etc/apt/sources.list.d"
    for item in apt ssl ca-certificates.conf; do
        [ ! -e "/etc/$item" ] ||
            cp -RL --remove-destination "/etc/$item" "$made/etc/"
    done
    # A package that is installed there later asks about files of its own.
    for file in /etc/apt/apt.conf.d/*; do
        if owner=$(dpkg-query -S "$file" 2>/dev/null) &&
            [ ! -e "$made/var/lib/dpkg/info/${owner%%:*}.list" ]; then
            rm "$made$file"
        fi
    done
    find "$made/etc/apt" -name '*.list' -o -name '*.sources' |
        xargs -r sed -i "s/\<$machine_release\>/$tree_release/g"
    for item in keyrings ca-certificates; do
        [ ! -d "/usr/share/$item" ] ||
            cp -RL --remove-destination "/usr/share/$item" "$made/usr/share/"
    done
    [ ! -d /usr/local/share/ca-certificates ] ||
        cp -RL --remove-destination /usr/local/share/ca-certificates \
            "$made/usr/local/share/"

    mounted=
    trap unmount_tree EXIT
    trap 'exit 130' INT TERM
    for point in proc sys dev dev/pts dev/shm; do
        mkdir -p "$made/$point"
        mount --bind "/$point" "$made/$point"
        mounted="$point $mounted"
    done
}

unmount_tree() {
    for point in $mounted; do
        umount "$made/$point"
    done
    mounted=
}

in_tree() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LANG=C.UTF-8 TERM="${TERM:-dumb}" DEBIAN_FRONTEND=noninteractive \
        chroot "$made" "$@"
}
