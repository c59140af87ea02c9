# Read by Tools/patches/apply-patches.sh and Tools/patches/refresh-patches.sh: what
# they agree on about $tree/.applied.  To be sourced in the top directory, after
# Tools/base/base.sh. shellcheck shell=sh disable=SC2154

series() {
    sed "s/[[:space:]]*#.*//; /^\$/d; s,^,$patches/," "$patches/series"
}

# The files that the patches change, as the patches say.
files_in_patches() {
    # shellcheck disable=SC2046  # names of patches have no spaces
    sed -n 's,^+++ b/\([^[:space:]]*\).*,\1,p' $(series) /dev/null |
        LC_ALL=C sort -u
}

# The files of the base in whose place ours stand.
replaced_files() {
    [ ! -e "$patches/replaced" ] || sed '/^#/d; /^$/d' "$patches/replaced"
}

# The files that generators make anew of what the patches change.
generated_files() {
    echo configure
    echo pyconfig.h.in
    [ ! -e "$patches/generated" ] ||
        sed '/^#/d; /^$/d; s/ .*//' "$patches/generated"
}

# The files that the patches changed, as of the last apply or refresh.
patched_files() {
    sed -n "s,^[0-9a-f]*  $tree/,,p" "$tree/.applied"
}

note_applied() {
    # shellcheck disable=SC2046
    sha256sum "$patches/series" $(series) \
        $(files_in_patches | sed "s,^,$tree/,") >"$tree/.applied.new"
    mv "$tree/.applied.new" "$tree/.applied"
}

changed_since_applied() {
    LC_ALL=C sha256sum --check --quiet "$tree/.applied" 2>/dev/null |
        sed -n 's/: FAILED.*//p'
}

edited_files() {
    changed_since_applied | sed -n "s,^$tree/,,p"
}

patches_as_applied() {
    [ -z "$(changed_since_applied | grep '^patches/')" ]
}
