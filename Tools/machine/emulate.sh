#!/bin/sh
# Writes BUILD/emulated-python, which runs BUILD/python, of another architecture,
# in qemu with the libraries it was built with.  It is an executable like any
# other, so that the programs and tests that start sys.executable work.
# Called by the Makefile.
#
# usage: Tools/machine/emulate.sh HOST BUILD SYSROOT
set -eu
host=$1
build=$(readlink -f "$2")
sysroot=$(readlink -f "$3")
qemu=qemu-${host%%-*}

command -v "$qemu" >/dev/null || {
    echo "emulate: $qemu is missing; \`make setup\` installs it" >&2
    exit 1
}
# Signing return addresses as the architecture says takes most of the time.
case $host in
    aarch64*) cpu='-cpu max,pauth-impdef=on' ;;
    *) cpu= ;;
esac
command="$qemu${cpu:+ $cpu} -L '$sysroot'"
# The tests start other programs of this architecture as well, and look at them
# with the tools that the compiler came with.
cat >"$build/emulated-python.new" <<EOF_SCRIPT
#!/bin/sh
# Written by Tools/machine/emulate.sh.
export PERF_TEST_EMULATOR="$command" PATH="/usr/$host/bin:\$PATH"
exec $command -0 "\$0" '$build/python' "\$@"
EOF_SCRIPT
chmod +x "$build/emulated-python.new"
mv "$build/emulated-python.new" "$build/emulated-python"
