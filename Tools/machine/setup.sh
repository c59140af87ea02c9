#!/bin/sh
# Installs what Tools/machine/packages.txt lists and this machine lacks, with
# apt-get as root or through sudo.  Runs no apt-get when nothing is missing.  Called
# by `make setup` and, with --check, before a build.
#
# usage: Tools/machine/setup.sh [PURPOSE...]          install
#        Tools/machine/setup.sh --check [PURPOSE...]  only say what is missing, and
# fail
#
# PURPOSE is a word of the table's first column; without any, all are meant.
set -eu
here=$(dirname "$0")

check=no
if [ "${1-}" = --check ]; then
    check=yes
    shift
fi

case ${1-} in
    -*)
        echo "usage: Tools/machine/setup.sh [--check] [PURPOSE...]" >&2
        exit 2
        ;;
esac

# Prints the rows "package | reason" for the purposes asked for.
wanted() {
    awk -F ' *[|] *' -v purposes=" $* " '
        /^#/ || NF < 3 { next }
        purposes == "  " || index(purposes, " " $1 " ") { print $2 " | " $3 }
        ' "$here/packages.txt"
}

installed() {
    # Node.js often comes from elsewhere, and Debian's npm would replace it.
    [ "$1" = npm ] && command -v npm >/dev/null && return
    status=$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) &&
        [ "$status" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
    echo "setup: this is no Debian system, so nothing is checked or installed."
    echo "setup: the build needs the equivalents of:"
    wanted "$@" | sed 's/^/    /'
    exit 0
fi

missing=
rows=$(wanted "$@")
while IFS='|' read -r package reason; do
    package=${package% }
    if [ -n "$package" ] && ! installed "$package"; then
        [ -n "$missing" ] || echo "setup: these packages are missing:"
        printf '    %-20s%s\n' "$package" "$reason"
        missing="$missing $package"
    fi
done <<ROWS
$rows
ROWS

[ -n "$missing" ] || exit 0
command="apt-get install --yes --no-install-recommends$missing"

if [ "$check" = yes ]; then
    echo "setup: \`make setup\` installs them."
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    echo "setup: to install them needs root, and there is no sudo here." >&2
    echo "setup: run as root: $command" >&2
    exit 1
fi

echo "setup: installing them: $as_root $command"
# Through env, because sudo drops variables; a question would wait for ever.
as_root="$as_root env DEBIAN_FRONTEND=noninteractive"
# A third party's broken mirror must not stop us: the install tells.
$as_root apt-get update || echo "setup: apt-get update failed; trying on." >&2
# shellcheck disable=SC2086  # both variables are lists of words
$as_root $command || {
    echo "setup: apt-get failed, see above; once it is mended, run" >&2
    echo "setup: make setup    or, as root,    $command" >&2
    exit 1
}
