#!/bin/sh
# Writes one patch with everything in it, our files, the seams and what is generated
# from them, for `patch -p1` in a vanilla tree of the base's version.  Called by `make export`.
#
# usage: Tools/patches/export-patch.sh FILE
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
. Tools/base/base.sh
. Tools/patches/applied.sh
autoconf=$(Tools/base/find-autoconf.sh)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if ! command -v git >/dev/null; then
    echo "export-patch: git is missing; run make setup" >&2
    exit 1
fi

# Only the files that differ take part: a/ is the vanilla tree, b/ is ours.
generated='configure pyconfig.h.in'
seams=$(files_in_patches)
mkdir "$scratch/a" "$scratch/b" "$scratch/regenerated"
for file in $seams $(replaced_files) $(generated_files) \
    configure.ac aclocal.m4
do
    [ ! -e "$sources/vanilla/$file" ] || for side in a b; do
        mkdir -p "$scratch/$side/$(dirname "$file")"
        cp -p "$sources/vanilla/$file" "$scratch/$side/$file"
    done
done
for patch in $(series); do
    patch -p1 --fuzz=0 --silent -d "$scratch/b" <"$patch" || {
        echo "export-patch: $patch does not apply to $sources/vanilla;" \
             "see make lint" >&2
        exit 1
    }
done
find "$scratch/b" -name '*.orig' -exec rm {} +
# patch knows no binary files; the pictures in Doc/ are the only ones.
for file in $(Tools/patches/overlay-files.sh | grep -v '\.png$'); do
    place=${file#"$patches/files/"}
    mkdir -p "$scratch/b/$(dirname "$place")"
    cp "$file" "$scratch/b/$place"
done

# The base's own generators need the rest of it.
if [ -e "$patches/generated" ]; then
    cp -a "$sources/vanilla/." "$scratch/whole"
    cp -a "$scratch/b/." "$scratch/whole"
    Tools/base/generate-code.sh "$scratch/whole"
    sed '/^#/d; /^$/d; s/ .*//' "$patches/generated" | while read -r file; do
        cp -p "$scratch/whole/$file" "$scratch/b/$file"
    done
fi

# Autoconf here may differ in details from the one that the release was made
# with.  So both sides are generated here, and their difference is exported.
cd "$scratch"
for side in a b; do
    mkdir "regenerated/$side"
    cp "$side/configure.ac" "$side/aclocal.m4" "$side/pyconfig.h.in" \
        "regenerated/$side"
    (cd "regenerated/$side" && "$autoconf" &&
        "$(echo "$autoconf" | sed 's/autoconf\([^/]*\)$/autoheader\1/')")
done
for file in $generated; do
    diff -u "regenerated/a/$file" "regenerated/b/$file" |
        patch --silent "b/$file" || {
        echo "export-patch: the change of $file does not apply to the" \
             "release's" >&2
        exit 1
    }
done
find b -name '*.orig' -exec rm {} +

mkdir -p "$top/$(dirname "$1")"
{
    cat <<INTRODUCTION
cpython-perf for CPython $base: native profilers see Python functions by name.

In the directory of a CPython $base release, before ./configure:

    patch -p1 <cpython-$base-perf.patch

INTRODUCTION
    # git diff fails when there are differences; it knows modes and new files.
    # The user's settings must not change the format.
    GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_DIR=/dev/null \
        git diff --no-index --no-prefix --no-renames --no-color a b \
        >differences || [ $? = 1 ]
    sed 's,^diff --git b/,diff --git a/,' differences
} >"$top/$1.new"
mv "$top/$1.new" "$top/$1"
echo "export-patch: $1: $(grep -c '^diff --git ' "$top/$1") files," \
     "$(wc -l <"$top/$1") lines"
