#!/bin/sh
# Lists the overlay: our files that are laid over the base, each at its path
# in CPython's tree, and those that are for this base alone, below
# patches/3.X/files.  What .gitignore calls litter does not count, and neither do
# translations, for which CPython's documentation has other repositories.
# Called by the Makefile, Tools/patches/link-overlay.sh and
# Tools/patches/export-patch.sh.
#
# usage: Tools/patches/overlay-files.sh [DIR...]    of these only, such as Python
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh

[ $# -gt 0 ] || set -- Doc Include Lib Modules Objects Python Tools/scripts
for dir; do
    for place in "$dir" "$patches/files/$dir"; do
        [ ! -d "$place" ] || find "$place" -name __pycache__ -prune -o \
            -path Doc/locale -prune -o \
            -type f ! -name '.*' ! -name '*~' ! -name '*.o' ! -name '*.orig' \
            ! -name '*.pyc' ! -name '*.rej' ! -name '*.swp' -print
    done
done | LC_ALL=C sort
