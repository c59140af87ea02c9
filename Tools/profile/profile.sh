#!/bin/sh
# Profiles a script with perfpy and prints which function calls which.
# Called by `make profile`, which hands on SCRIPT= and ARGS=.
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
script=${SCRIPT:-Tools/profile/example.py}
python=$build/python
page=$build/profile.html
cannot_record=125       # perfpy's own exit code

[ -r "$script" ] || {
    echo "profile: SCRIPT=$script: there is no such file" >&2
    exit 1
}

echo "profile: $python -m perfpy run -o $page $script ${ARGS-}"
status=0
# shellcheck disable=SC2086  # ARGS is a list of words
$python -m perfpy run -o "$page" "$script" ${ARGS-} || status=$?
if [ "$status" = "$cannot_record" ]; then
    $python -m perfpy doctor || :
    exit 1
fi

echo
echo "profile: which functions call which, with their share of the time"
$python -m perfpy report --tree "$build/profile.perfpy"
if [ "$status" != 0 ]; then
    echo "profile: the script failed, see above" >&2
    exit 1
fi
