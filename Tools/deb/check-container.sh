#!/bin/sh
# Does what the Dockerfile in Doc/howto/perf_packages.rst says, without docker:
# each of its stages has a Debian of its own instead of an image, and last the
# image's command runs.  Needs root, and debootstrap.  Called by hand.
#
# usage: Tools/deb/check-container.sh DIRECTORY
#
# DIRECTORY gets the Debians, one a stage; they are kept, and used again if
# they are there.  The package is built there from the last commit, without a
# profile unless DEB_BUILD_OPTIONS says otherwise, and left in DIRECTORY/deb.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/machine/debian-tree.sh
. Tools/machine/fail.sh
page=Doc/howto/perf_packages.rst
options=${DEB_BUILD_OPTIONS-nopgo nolto}
# As on this machine: there is no git in the image that would tell it.
date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

say() {
    echo "check-container: $1"
}

# The lines of the page's Dockerfile.
dockerfile() {
    awk '
        /:caption: Dockerfile/ { inside = 1; next }
        inside && /^[^ ]/ { exit }
        inside && NF { sub(/^ +/, ""); print }
        ' "$page"
}

# What it copies from where it is built: a clone, and an application.
make_context() {
    rm -rf "$context"
    mkdir -p "$context"
    git clone -q --no-hardlinks . "$context/cpython-perf"
    cp Tools/deb/check/flask_job.py "$context/app.py"
}

# What docker would take from a registry.
from() {
    image=$1
    name=${3-last}
    [ "$image" = "debian:$(base_field 4)" ] ||
        fail "$page is for $image, and python$base is not that Debian's"
    [ -z "${made-}" ] || unmount_tree
    tree_release=$(base_field 3)
    say "stage $name, from $image"
    make_tree "$directory/$name"
}

copy() {
    origin=$context
    case $1 in
        --from=*) origin=$directory/${1#--from=}; shift ;;
    esac
    place=$made$2
    [ "$2" = "${2%/}" ] || mkdir -p "$place"
    # A directory's contents are copied, as docker does.
    if [ -d "$origin/$1" ]; then
        rm -rf "$place"
    fi
    # shellcheck disable=SC2086  # $1 may be a pattern
    cp -R "$origin"/$1 "$place"
}

run() {
    in_tree env DEB_BUILD_OPTIONS="$options" SOURCE_DATE_EPOCH="$date" \
        sh -c "cd / && $1" \
        >"$directory/log" 2>&1 || {
        tail -n 20 "$directory/log" >&2
        fail "this failed in stage $name, see $directory/log: $1"
    }
}

# ["a", "b"] as words of the shell.
words() {
    echo "$1" | sed "s/^\[//; s/\]\$//; s/, / /g; s/\"/'/g"
}

[ $# = 1 ] || fail "usage: Tools/deb/check-container.sh DIRECTORY"
mkdir -p "$1"
directory=$(readlink -f "$1")
context=$directory/context
make_context

command=
dockerfile | sed "s/^FROM debian:12/FROM debian:$(base_field 4)/" \
    >"$directory/Dockerfile"
grep -q '^FROM ' "$directory/Dockerfile" || fail "$page has no Dockerfile"
while read -r instruction rest <&3; do
    [ "$instruction" = FROM ] || say "$instruction $rest"
    # shellcheck disable=SC2086  # $rest is a list of words
    case $instruction in
        FROM) from $rest ;;
        COPY) copy $rest ;;
        RUN) run "$rest" ;;
        CMD) command=$(words "$rest") ;;
        *) fail "$page has an instruction that this does not know" ;;
    esac
done 3<"$directory/Dockerfile"

# The volume of the page's `docker run`.
rm -rf "$made/profiles"
mkdir "$made/profiles"
run "$command"
[ -s "$made/profiles/app.html" ] || fail "there is no app.html"
# The page is packed; the recording beside it has the same.
run "perfpy report -o /profiles/app.collapsed.txt /profiles/app.perfpy"
for word in count_words dispatch_request; do
    grep -q "$word" "$made/profiles/app.collapsed.txt" ||
        fail "the profile does not have $word"
done
run "perfpy doctor"
mkdir -p "$directory/deb"
mv "$directory"/build/cpython-perf/dist/*.deb "$directory/deb/"
say "the container's application was profiled"
