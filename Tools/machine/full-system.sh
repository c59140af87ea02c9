#!/bin/sh
# Shows that profiling works on a kernel of another architecture: boots Debian's
# kernel in qemu with the interpreter that a cross build has made, Debian's perf
# and little else, profiles Tools/profile/example.py there through the map and
# through the jitdump, and looks at the stacks that perf reports.
#
# Called by .ci/run and by hand, after ./configure --host=HOST and make.  Takes a
# few minutes and needs no root.  Its packages: Tools/machine/setup.sh cross system.
#
#   base/system-HOST/   what is fetched: kernel, perf, their libraries
#   $build/system/      the memory disk, and console.log
#
# usage: Tools/machine/full-system.sh
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/machine/fail.sh

host=$(cat config.host 2>/dev/null) && [ -n "$host" ] ||
    fail "configure for another architecture: ./configure --host=aarch64-linux-gnu"
[ -e "$build/.built" ] || fail "there is no build; run make"
# shellcheck disable=SC1091  # of the machine
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
case $host in
    aarch64-*)
        kernel=linux-image-arm64
        perf=linux-perf/$release-backports
        console=ttyAMA0
        emulator_package=qemu-system-arm
        # With SVE perf asks for a register that only hardware events give.
        set -- qemu-system-aarch64 -machine virt \
            -cpu max,sve=off,pauth-impdef=on ;;
    riscv64-*)
        kernel=linux-image-riscv64
        perf=linux-perf
        console=ttyS0
        emulator_package="qemu-system-misc, since Debian 13 qemu-system-riscv"
        set -- qemu-system-riscv64 -machine virt ;;
    *)
        fail "how to run a kernel of $host is not known here yet" ;;
esac
command -v "$1" >/dev/null ||
    fail "$1 is missing; install $emulator_package"
command -v cpio >/dev/null ||
    fail "cpio is missing; run Tools/machine/setup.sh system"

Tools/machine/fetch-sysroot.sh "$host" "base/system-$host" "$kernel" \
    busybox-static "$perf"
fetched=base/system-$host/root
disk=$build/system/root
rm -rf "$build/system"
mkdir -p "$disk"

# No one reads manuals there, and drivers are for disks.
echo "full-system: making the memory disk"
(cd "$fetched" && find . \( -path './usr/share' -o -path './usr/include' -o \
    -path './boot' -o -path '*/modules' -o -path './usr/lib/gcc*' -o \
    -name '*.a' \) -prune -o -print | cpio --quiet -o -H newc) |
    (cd "$disk" && cpio --quiet -id)
mkdir -p "$disk/proc" "$disk/sys" "$disk/dev" "$disk/tmp" "$disk/root"
make -C "$build" DESTDIR="$PWD/$disk" prefix=/usr/local \
    bininstall libinstall sharedinstall >"$build/system/install.log" 2>&1 || {
    tail -n 20 "$build/system/install.log" >&2
    fail "the installation to the disk failed, see above"
}
# Two thirds of it, for nothing: CPython's tests, and libraries to link with.  For
# riscv64, qemu takes no disk above half a gigabyte.
rm -rf "$disk"/usr/local/lib/python*/test
find "$disk/usr/local/lib" -name '*.a' -exec rm {} +
cp Tools/profile/example.py Tools/machine/full-system/*.py "$disk/root/"
cp Tools/machine/full-system/init "$disk/init"
chmod +x "$disk/init"
(cd "$disk" && find . | cpio --quiet -o -H newc) >"$build/system/disk"

echo "full-system: booting $kernel in $1 (log: $build/system/console.log)"
image=$(find "$fetched/boot" -name 'vmlinu[xz]-*' | sort -V | tail -n 1)
timeout 1200 "$@" -m 3G -smp 2 -display none -nic none -no-reboot \
    -serial "file:$build/system/console.log" -kernel "$image" \
    -initrd "$build/system/disk" -append "console=$console panic=-1 quiet" \
    </dev/null || fail "qemu failed, see $build/system/console.log"

sed -n 's/\r*$//; /^full-system: /p' "$build/system/console.log"
grep -q '^full-system: all is well' "$build/system/console.log" ||
    fail "not all is well, see $build/system/console.log"
