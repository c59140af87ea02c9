#!/bin/sh
# Applies the exported patch to a vanilla tree, builds that as a user of the
# patch would, and looks whether the result knows -X perf.
# Called by `make check-export`.
#
# usage: Tools/check/check-export.sh PATCH
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
work=build-export$suffix

rm -rf "$work"
mkdir "$work"
cp -a "$sources/vanilla/." "$work/"
patch -p1 --fuzz=0 --silent -d "$work" <"$1"
(cd "$work" && ./configure -q)
unset MAKEFLAGS MFLAGS MAKELEVEL
echo "check-export: building in $work (log: $work/make.log)"
make -s -C "$work" -j"$(getconf _NPROCESSORS_ONLN)" >"$work/make.log" 2>&1 || {
    tail -n 20 "$work/make.log" >&2
    echo "check-export: the patched vanilla tree does not build" >&2
    exit 1
}

cat >"$work/check.py" <<'EOF_CHECK'
import sys
import sysconfig

assert sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") == 1
assert sys.is_stack_trampoline_active()
sys.deactivate_stack_trampoline()
assert not sys.is_stack_trampoline_active()
EOF_CHECK
"$work/python" -X perf "$work/check.py"
echo "check-export: $("$work/python" --version) with $1 builds and runs"
