#!/bin/sh
# Copies the pristine base without what belongs to Debian's packaging, which
# would confuse our own quilt.  Called by the Makefile (base-tree) and by
# Tools/apply-patches.sh (tree).
#
# usage: Tools/copy-base.sh TO
set -eu
cd "$(dirname "$0")/.."

rm -rf "$1"
mkdir -p "$1"
tar -cf - -C base/src --exclude=./.pc --exclude=./debian . | tar -xf - -C "$1"
