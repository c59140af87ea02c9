#!/bin/sh
# Makes the overlay's files appear in tree/ as symbolic links, so that an edit
# of one rebuilds just that, and removes the links of files that are gone.
# Called by the Makefile when the list of files has changed.
set -eu
cd "$(dirname "$0")/.."

Tools/overlay-files.sh >tree/.overlay.new
touch tree/.overlay
LC_ALL=C comm -13 tree/.overlay.new tree/.overlay | while read -r file; do
    [ ! -h "tree/$file" ] || rm "tree/$file"
done
while read -r file; do
    if [ -e "base/src/$file" ]; then
        echo "link-overlay: $file exists in the base;" \
             "change it by a patch instead (see CONTRIBUTING.rst)" >&2
        exit 1
    fi
    mkdir -p "tree/$(dirname "$file")"
    up=$(echo "$file" | sed 's,[^/]*,..,g')
    ln -sfn "$up/$file" "tree/$file"
done <tree/.overlay.new
mv tree/.overlay.new tree/.overlay
