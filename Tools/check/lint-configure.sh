#!/bin/sh
# Fails when our configure is not what autoconf makes from configure.ac.
# Called by `make lint`.
set -eu
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp configure.ac "$scratch"
(cd "$scratch" && autoconf2.69)
if ! cmp -s "$scratch/configure" configure; then
    echo "lint-configure: configure is not current; run make regen-configure" >&2
    exit 1
fi
echo "lint-configure: configure is current"
