# shellcheck shell=sh
# How scripts give up.  To be sourced in the top directory.
#
#   fail TEXT [LINE...]     says it, and what to do about it in lines of their own

fail() {
    fail_name=${0##*/}
    echo "${fail_name%.sh}: $1" >&2
    shift
    for fail_line; do echo "    $fail_line" >&2; done
    exit 1
}
