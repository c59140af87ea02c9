#!/bin/sh
# The part of Tools/deb/check-deb.sh that runs in the Debian made for it.
#
# usage: packages.sh BASE DIRECTORY    with new.deb, next.deb and check/ in it
set -eu
base=$1
cd "$2"
. check/common.sh
package=python$base-perf
application=$PWD/check/flask_job.py

# Every file, and what is in it, but logs and what apt and dpkg note for themselves.
snapshot() {
    find / -xdev \( -path "$PWD" -o -path /tmp -o -path /root/.cache \
        -o -path /var/log -o -path /var/cache -o -path /var/lib/apt \
        -o -path /var/lib/dpkg \) -prune -o -type f -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum
}

# That a profile has what the application's view calls, and Flask's own functions.
check_profile() {
    for name in count_words dispatch_request; do
        grep -q "$name" "$1" || fail "$1 does not have $name"
    done
}

# Of a run that failed.
! dpkg-query -W "$package" >/dev/null 2>&1 || apt-get purge -qy "$package" >apt.log
apt-get update -qq
install "python$base-venv" python3-flask python3-pytest linux-perf

echo "packages: installing"
snapshot >before
install ./new.deb
dpkg --verify "$package"
"python$base-perf" -VV
perfpy --version
ours=$(perfpy --version | sed 's/.* cpython-perf \([^,]*\),.*/\1/')
"python$base-perf" -VV | grep -q -F "cpython-perf $ours," ||
    fail "perfpy says that it is $ours, the interpreter does not"
dpkg-query -W -f '${Version}\n' "$package" | grep -q -F "+perf$ours" ||
    fail "perfpy says that it is $ours, the package does not"
# In a directory that is no user's: the distribution's libraries and packages.
"python$base-perf" -c "import flask, ssl, sqlite3, _decimal, ctypes"
"python$base-perf" -m pytest --version

echo "packages: profiling a Flask application"
perfpy run -q -o flask.collapsed.txt "$application" 5
check_profile flask.collapsed.txt

echo "packages: a virtual environment of the distribution's Python"
"python$base" -m venv --system-site-packages environment
find environment -type f -exec sha256sum {} + | LC_ALL=C sort -k 2 >environment.before
(
    . environment/bin/activate
    perfpy run -q -o environment.collapsed.txt "$application" 5
)
check_profile environment.collapsed.txt
grep -q "prefix_is_$PWD/environment" environment.collapsed.txt ||
    fail "the program did not run in the activated environment"
find environment -type f -exec sha256sum {} + | LC_ALL=C sort -k 2 |
    cmp - environment.before || fail "files of the environment have changed"

echo "packages: a virtual environment of ours, with pip"
"python$base-perf" -m venv ours
ours/bin/python -VV | grep -q cpython-perf || fail "ours/bin/python is not ours"
ours/bin/pip --version

echo "packages: upgrading and removing"
install ./next.deb
dpkg --verify "$package"
perfpy --version >/dev/null
apt-get remove -qy "$package" >apt.log
[ ! -e "/usr/bin/$package" ] || fail "the interpreter is still there"
install ./new.deb
apt-get purge -qy "$package" >apt.log
snapshot >after
diff before after >differences || {
    cat differences >&2
    fail "the system is not as it was"
}
echo "packages: the system is as it was"
