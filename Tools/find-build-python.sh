#!/bin/sh
# Prints the path of a Python 3.11 that runs here, if there is one: a build for
# another machine needs it.  Called by configure and Tools/configure-base.sh.
set -eu

for python in python3.11 /usr/bin/python3.11 python3; do
    # Not sys.executable: a shim's target may lack what the shim sets up.
    if "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
            2>/dev/null; then
        command -v "$python"
        exit 0
    fi
done
