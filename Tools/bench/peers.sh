#!/bin/sh
# Builds the bases that Tools/base/bases.txt lists, or those in BASES, each with and
# without our patches, and lets Tools/bench/peers.py compare what -X perf costs.
# Called by `make bench-peers`.
#
# usage: Tools/bench/peers.sh [OPTION of peers.py ...]
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
names=${BASES:-$(base_names)}
runner=

unset MAKEFLAGS MFLAGS MAKELEVEL
for name in $names; do
    echo "peers: building CPython $name, with and without the patches"
    Tools/machine/setup.sh build "$name"
    make --no-print-directory BASE="$name" all base
    facts=$(BASE=$name; . Tools/base/base.sh; echo "$build build-base$suffix")
    ours=$PWD/${facts% *}/python
    set -- "$@" "$name=$ours,$PWD/${facts#* }/python"
    runner=${runner:-$ours}
done
if Tools/bench/fetch-pyperformance.sh; then
    set -- --pyperformance base/pyperformance/lib "$@"
else
    echo "peers: without pyperformance, see above"
fi
"$runner" Tools/bench/peers.py "$@"
