#!/bin/sh
# Prints the path of a Python of the base's version that runs here, if there is
# one: a build for another machine needs it.  Called by configure and
# Tools/base/configure-base.sh.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh

for python in "python$base" "/usr/bin/python$base" python3; do
    # Not sys.executable: a shim's target may lack what the shim sets up.
    if "$python" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$base')" \
            2>/dev/null; then
        command -v "$python"
        exit 0
    fi
done
