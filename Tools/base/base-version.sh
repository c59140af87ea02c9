#!/bin/sh
# Prints the version (3.11.2) of a CPython source tree or tarball, or nothing
# when it is neither.  Called by configure and Tools/base/fetch-base.sh.
#
# usage: Tools/base/base-version.sh DIR|TARBALL
set -eu

patchlevel() {
    if [ -d "$1" ]; then
        cat "$1/Include/patchlevel.h"
    else
        # The star stands for the directory that release tarballs wrap.
        tar -xOf "$1" --wildcards '*/Include/patchlevel.h'
    fi
}

patchlevel "$1" 2>/dev/null | awk '
    $2 == "PY_MAJOR_VERSION" { major = $3 }
    $2 == "PY_MINOR_VERSION" { minor = $3 }
    $2 == "PY_MICRO_VERSION" { micro = $3 }
    END { if (major != "") print major "." minor "." micro }'
