#!/bin/sh
# Makes the overlay's files appear in $tree/ as symbolic links, so that an edit
# of one rebuilds just that, and removes the links of files that are gone.
# Called by the Makefile when the list of files has changed.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/patches/applied.sh

in_tree() {
    echo "${1#"$patches/files/"}"
}

Tools/patches/overlay-files.sh >"$tree/.overlay.new"
touch "$tree/.overlay"
LC_ALL=C comm -13 "$tree/.overlay.new" "$tree/.overlay" | while read -r file; do
    place=$tree/$(in_tree "$file")
    [ ! -h "$place" ] || rm "$place"
done
while read -r file; do
    place=$(in_tree "$file")
    if [ -e "$sources/src/$place" ] &&
       ! replaced_files | grep -q -x -F -e "$place"; then
        echo "link-overlay: $place exists in the base; change it by a patch" \
             "instead, or name it in $patches/replaced (see CONTRIBUTING.rst)" >&2
        exit 1
    fi
    mkdir -p "$tree/$(dirname "$place")"
    up=$(echo "$place" | sed 's,[^/]*,..,g')
    ln -sfn "$up/$file" "$tree/$place"
done <"$tree/.overlay.new"
mv "$tree/.overlay.new" "$tree/.overlay"
