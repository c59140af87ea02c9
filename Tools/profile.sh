#!/bin/sh
# Profiles a script with perf and prints a report that shows its functions.
# Called by `make profile`, which hands on SCRIPT= and ARGS=.
set -eu
cd "$(dirname "$0")/.."
script=${SCRIPT:-Tools/profile/example.py}
python=build/python
data=build/perf.data

fail() {
    echo "profile: $1" >&2
    exit 1
}

[ -r "$script" ] || fail "SCRIPT=$script: there is no such file"
command -v perf >/dev/null || fail "perf is missing; run make setup"

# What this user may record: the best of cycles and a timer, with the kernel or
# without.  A virtual machine has no counters, and perf_event_paranoid of 2,
# usual for users other than root, keeps the kernel out.
event=
for candidate in cycles cpu-clock cycles:u cpu-clock:u; do
    if perf record -q -e "$candidate" -o "$data" true >/dev/null 2>&1 &&
        perf script -i "$data" 2>/dev/null | grep -q .; then
        event=$candidate
        break
    fi
done
if [ -z "$event" ]; then
    perf record -e cpu-clock:u -o "$data" true 2>&1 | sed 's/^/    /' >&2 || :
    fail "perf may not record here: see /proc/sys/kernel/perf_event_paranoid"
fi

switch='-X perf'
if ! $python -c 'import sys; sys.activate_stack_trampoline' 2>/dev/null; then
    switch=
    echo "profile: this interpreter has no -X perf, so there are C frames only"
fi

echo "profile: perf record -F 999 -g -e $event $python $switch $script ${ARGS-}"
# shellcheck disable=SC2086  # ARGS is a list of words
perf record -q -F 999 -g -e "$event" -o "$data" \
    $python $switch "$script" ${ARGS-} || fail "the script failed, see above"

report() {
    perf report -i "$data" --stdio --children "$@" 2>/dev/null |
        grep -v -e '^#' -e '^$' || :
}

echo
echo "profile: which functions call which, with their share of the time"
# The first entry is the outermost function: all others are in its tree.
report -g caller,5 --fields overhead_children,symbol --percent-limit 50 |
    awk '/^ +[0-9.]+%/ && seen++ { exit } { print }' | head -n 40
echo
echo "profile: time in each function and those it calls, and in itself"
report -g none --fields overhead_children,overhead,symbol --percent-limit 2 |
    head -n 25
echo
echo "profile: explore it all with: perf report -i $data"
