# shellcheck shell=sh
# What the scripts share that Tools/deb/check-deb.sh runs in the Debian made
# for it.  To be sourced in its directory there.

fail() {
    echo "${0##*/}: $1" >&2
    exit 1
}

install() {
    apt-get install -qy --no-install-recommends "$@" >apt.log 2>&1 || {
        tail -n 20 apt.log >&2
        fail "apt-get install $* failed"
    }
}
