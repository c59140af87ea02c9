#!/bin/sh
# Compiles for macOS what is ready for it, and looks at the objects, which stay in
# build/macos/: see Tools/check/check_macos.py.  Nothing of it is run.
# Called by `make check-macos` and .ci/run, after a build.
#
#   base/zig/lib/       PyPI's ziglang: a compiler with macOS's headers; nothing is
#                       installed
#   base/zig/cache/     what that compiles for itself
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
requirements=Tools/check/macos.txt
zig=base/zig

fail() {
    echo "check-macos: $*" >&2
    exit 1
}

if ! cmp -s $requirements $zig/requirements.txt; then
    python3 -m pip --version >/dev/null ||
        fail "there is no pip for python3; the package python3-pip has it"
    rm -rf $zig
    mkdir -p $zig
    python3 -m pip download --quiet --no-deps --only-binary :all: \
        --require-hashes -r $requirements -d $zig/download ||
        fail "pip could not fetch what $requirements lists, see above"
    python3 -m zipfile -e $zig/download/*.whl $zig/lib
    # A zip file's rights are lost on the way.
    chmod +x $zig/lib/ziglang/zig
    rm -r $zig/download
    cp $requirements $zig/requirements.txt
fi
python3 Tools/check/check_macos.py $zig/lib "$tree" "$build" "$build/macos"
