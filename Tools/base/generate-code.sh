#!/bin/sh
# Makes what CPython's own generators make of files that patches have changed, as
# $patches/generated lists it.  A file that stays as it is keeps its time.
# Called by Tools/patches/apply-patches.sh.
#
# usage: Tools/base/generate-code.sh TREE
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
list=$PWD/$patches/generated
cd "$1"

[ -e "$list" ] || exit 0
sed '/^#/d; /^$/d' "$list" | while read -r file command; do
    cp -p "$file" "$file.before"
    # shellcheck disable=SC2086  # a list of words
    python3 -B $command </dev/null >.generate.log 2>&1 || {
        cat .generate.log >&2
        mv "$file.before" "$file"
        echo "generate-code: $1: this failed: python3 $command" >&2
        exit 1
    }
    if cmp -s "$file" "$file.before"; then
        mv "$file.before" "$file"
    else
        echo "generate-code: $1/$file"
        rm "$file.before"
    fi
done
