#!/bin/sh
# Copies the pristine base without what belongs to Debian's packaging, which
# would confuse our own quilt.  Called by the Makefile (base-tree) and by
# Tools/patches/apply-patches.sh (tree).
#
# usage: Tools/base/copy-base.sh FROM TO
set -eu
cd "$(dirname "$0")/../.."

rm -rf "$2"
mkdir -p "$2"
tar -cf - -C "$1" --exclude=./.pc --exclude=./debian . | tar -xf - -C "$2"
