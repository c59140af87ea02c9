#!/bin/sh
# Brings pyperformance and pyperf from PyPI to base/pyperformance/, with pip, as
# this machine is set up for.  Nothing is installed, and none of it is run but the
# benchmarks.  Called by `make bench-peers`, which does without when this fails.
#
#   base/pyperformance/lib/        both packages, a directory for PYTHONPATH
#   base/pyperformance/download/   what pip fetched
set -eu
cd "$(dirname "$0")/../.."
. Tools/machine/fail.sh
dir=base/pyperformance
requirements=Tools/bench/requirements.txt

if cmp -s "$requirements" $dir/requirements.txt; then
    exit 0
fi
python3 -m pip --version >/dev/null ||
    fail "there is no pip for python3; the package python3-pip has it"
rm -rf $dir
mkdir -p $dir/lib
python3 -m pip download --quiet --no-deps --only-binary :all: \
    --require-hashes -r "$requirements" -d $dir/download ||
    fail "pip could not fetch what $requirements lists, see above"
for wheel in $dir/download/*.whl; do
    python3 -m zipfile -e "$wheel" $dir/lib
done
cp "$requirements" $dir/requirements.txt
