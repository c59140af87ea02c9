#!/bin/sh
# Fails when README.rst's table of packages is not Tools/machine/packages.txt's.
# Called by `make lint`.
set -eu
cd "$(dirname "$0")/../.."

status=0
while IFS='|' read -r purpose package reason; do
    row=$(echo "$purpose $package $reason" | tr -s ' ')
    if ! tr -s ' ' <README.rst | sed 's/$/ /' | grep -q -F -e "$row"; then
        echo "lint-readme: README.rst lacks this row: $row" >&2
        status=1
    fi
done <<ROWS
$(grep -v '^#' Tools/machine/packages.txt)
ROWS
exit $status
