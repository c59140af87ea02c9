#!/bin/sh
# Regenerates every patch from $tree/, whose edits thereby get into the patches:
# an edit belongs to the last patch of the series that changes the file.
# Without edits no byte changes.  Called by `make refresh`.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/patches/applied.sh
export QUILT_PATCHES="../$patches"

if ! patches_as_applied; then
    echo "refresh-patches: a patch has changed since it was applied to $tree/;" >&2
    echo "    run make first" >&2
    exit 1
fi

# A change that quilt does not know would be lost with tree/.
stray=$(diff -rq -x .pc "$sources/src" "$tree" 2>/dev/null |
    sed -n "s,^Files $sources/src/\\(.*\\) and .*,\\1,p" |
    grep -v -x -F -e "$(files_in_patches; replaced_files; generated_files)" || true)
if [ -n "$stray" ]; then
    echo "refresh-patches: edited in $tree/, but in no patch:" >&2
    echo "$stray" | sed 's/^/    /' >&2
    echo "    \`cd $tree && quilt new NAME.patch && quilt add FILE\` goes before" >&2
    echo "    the edit; to give it up: cp -p $sources/src/FILE $tree/FILE" >&2
    exit 1
fi

before=$(cat "$patches"/*.patch | sha256sum)
cd "$tree"
for patch in $(cat .pc/applied-patches); do
    # -f: also where a later patch changes the same file.
    quilt --quiltrc - refresh -f -p ab -U 1 --no-timestamps --no-index --sort \
        "$patch" | grep -v ' is unchanged$' || true
done
cd ..
# What is made of files that may have been edited.
if [ "$(cat "$patches"/*.patch | sha256sum)" != "$before" ]; then
    Tools/base/generate-configure.sh "$tree"
    Tools/base/generate-code.sh "$tree"
fi
note_applied
touch "$tree/.overlay"
