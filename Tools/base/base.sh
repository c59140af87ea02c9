# shellcheck shell=sh disable=SC2034
# Tells which base is worked on, and where what belongs to it is.  To be sourced
# in the top directory, by the scripts and by the Makefile.
#
#   base            its name: $BASE, or else what configure was told
#   default_base    the one that belongs to this machine's release
#   sources         the base as it is: $sources/src, vanilla, origin
#   patches         its patches, with its own files of ours and its pin
#   tree, base_tree the sources that are built, with and without patches
#   build           where: build-base and the like end like it
#   suffix          what these end with, nothing for the default base
#   base_field N    prints the Nth field of the base's row of Tools/base/bases.txt

# Prints the fields of all rows, separated by single blanks.
base_table() {
    sed '/^#/d; /^$/d; s/ *| */ /g' Tools/base/bases.txt
}

base_names() {
    base_table | cut -d ' ' -f 1
}

base_field() {
    base_table | awk -v name="$base" -v n="$1" '$1 == name { print $n }'
}

find_default_base() {
    # shellcheck disable=SC1091  # of the machine
    base_release=$(. /etc/os-release 2>/dev/null && echo "${VERSION_ID-}")
    base_table | awk -v release="$base_release" '
        NR == 1 || $4 == release { name = $1 }
        END { print name }'
}

default_base=$(find_default_base)
base=${BASE:-}
if [ -z "$base" ] && [ -e config.base ]; then
    base=$(cat config.base)
fi
base=${base:-$default_base}
if [ -z "$(base_field 1)" ]; then
    echo "there is no base $base; there are: $(base_names | paste -sd ' ')" >&2
    exit 1
fi
suffix=
[ "$base" = "$default_base" ] || suffix=-$base
sources=base/$base
patches=patches/$base
tree=tree$suffix
base_tree=base-tree$suffix
build=build$suffix
