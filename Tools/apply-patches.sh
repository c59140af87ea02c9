#!/bin/sh
# Makes tree/: the base with patches/3.11 applied.  Called by the Makefile when
# the base or a patch has changed.
#
# Only files whose patched contents change are written, so that make rebuilds
# only what depends on them.  Edits of patched files in tree/ that no patch has
# yet are never lost: they make this script stop.
#
#   tree/.origin    the base that tree/ was copied from
#   tree/.applied   checksums of the patches and of the files they change, as
#                   of the last apply or refresh
#   tree.next/      only the patched files; quilt works here
set -eu
cd "$(dirname "$0")/.."
export QUILT_PATCHES=../patches/3.11
. Tools/applied.sh

same_base() {
    [ -e tree/.applied ] && cmp -s base/origin tree/.origin
}

if same_base && patches_as_applied; then
    touch tree/.applied
    exit 0
fi

rm -rf tree.next
mkdir tree.next
after=$(files_in_patches)
for file in $after; do
    mkdir -p "tree.next/$(dirname "$file")"
    [ ! -e "base/src/$file" ] || cp -p "base/src/$file" "tree.next/$file"
done
if ! (cd tree.next && quilt --quiltrc - push -a --fuzz=0 -q) >tree.next/.log 2>&1
then
    cat tree.next/.log >&2
    echo "apply-patches: this patch does not apply without fuzz to" >&2
    echo "    $(cat base/origin); see CONTRIBUTING.rst on refreshing" >&2
    exit 1
fi

before=
if [ -e tree/.applied ]; then
    before=$(patched_files)
    for file in $(edited_files); do
        if ! cmp -s "tree/$file" "tree.next/$file"; then
            echo "apply-patches: tree/$file has edits in no patch" >&2
            lost=yes
        fi
    done
    if [ -n "${lost-}" ]; then
        echo "apply-patches: \`make refresh\` puts them into the patches;" >&2
        echo "    to give them up: rm -r tree" >&2
        exit 1
    fi
fi
if ! same_base; then
    Tools/copy-base.sh base/src tree
    cp base/origin tree/.origin
    before=
fi

for file in $before; do
    [ -e "tree.next/$file" ] || cp -p "base/src/$file" "tree/$file"
done
for file in $after; do
    cmp -s "tree.next/$file" "tree/$file" || mv "tree.next/$file" "tree/$file"
done
rm -rf tree/.pc
mv tree.next/.pc tree/.pc
rm -rf tree.next

Tools/generate-configure.sh tree
note_applied
