#!/bin/sh
# Makes $tree/: the base with its patches applied.  Called by the Makefile when
# the base or a patch has changed.
#
# Only files whose patched contents change are written, so that make rebuilds
# only what depends on them.  Edits of patched files in $tree/ that no patch has
# yet are never lost: they make this script stop.
#
#   $tree/.origin   the base that $tree/ was copied from
#   $tree/.applied   checksums of the patches and of the files they change, as
#                   of the last apply or refresh
#   $tree.next/     only the patched files; quilt works here
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/patches/applied.sh
export QUILT_PATCHES="../$patches"
next=$tree.next

same_base() {
    [ -e "$tree/.applied" ] && cmp -s "$sources/origin" "$tree/.origin"
}

if same_base && patches_as_applied; then
    touch "$tree/.applied"
    exit 0
fi

command -v quilt >/dev/null || {
    echo "apply-patches: quilt is missing; run make setup" >&2
    exit 1
}
rm -rf "$next"
mkdir "$next"
after=$(files_in_patches)
for file in $after; do
    mkdir -p "$next/$(dirname "$file")"
    [ ! -e "$sources/src/$file" ] ||
        cp -p "$sources/src/$file" "$next/$file"
done
if ! (cd "$next" && quilt --quiltrc - push -a --fuzz=0 -q) >"$next/.log" 2>&1
then
    cat "$next/.log" >&2
    echo "apply-patches: this patch does not apply without fuzz to" >&2
    echo "    $(cat "$sources/origin"); see CONTRIBUTING.rst on refreshing" >&2
    exit 1
fi

before=
if [ -e "$tree/.applied" ]; then
    before=$(patched_files)
    for file in $(edited_files); do
        if ! cmp -s "$tree/$file" "$next/$file"; then
            echo "apply-patches: $tree/$file has edits in no patch" >&2
            lost=yes
        fi
    done
    if [ -n "${lost-}" ]; then
        echo "apply-patches: \`make refresh\` puts them into the patches;" >&2
        echo "    to give them up: rm -r $tree" >&2
        exit 1
    fi
fi
if ! same_base; then
    Tools/base/copy-base.sh "$sources/src" "$tree"
    cp "$sources/origin" "$tree/.origin"
    before=
fi

for file in $before; do
    [ -e "$next/$file" ] || cp -p "$sources/src/$file" "$tree/$file"
done
for file in $after; do
    cmp -s "$next/$file" "$tree/$file" || mv "$next/$file" "$tree/$file"
done
rm -rf "$tree/.pc"
mv "$next/.pc" "$tree/.pc"
rm -rf "$next"

Tools/base/generate-configure.sh "$tree"
Tools/base/generate-code.sh "$tree"
note_applied
