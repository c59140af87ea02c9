#!/bin/sh
# Prints the command of the autoconf release that made what CPython checks in:
# another one's output would drown the few changed lines.  Where no command has the
# name with the version, the one without it may be meant, or else it is fetched.
# Called by Tools/base/generate-configure.sh and Tools/patches/export-patch.sh.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh

autoconf=$(base_field 5)
if ! command -v "$autoconf" >/dev/null; then
    version=${autoconf#autoconf}
    own=$(autoconf --version 2>/dev/null | sed -n '1s/.* //p')
    if [ -z "$version" ]; then
        echo "find-autoconf: autoconf is missing; run make setup" >&2
        exit 1
    elif [ "$own" = "$version" ]; then
        autoconf=autoconf
    else
        Tools/base/fetch-autoconf.sh "$version" >&2
        autoconf=$PWD/base/autoconf/bin/autoconf
    fi
fi
echo "$autoconf"
