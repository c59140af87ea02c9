#!/bin/sh
# Runs programs that embed Debian's libpython3.11 with ours in its place.
#
# Compiles a small one with Debian's headers and links it to Debian's library; then
# runs it with both libraries, with ours also profiled.  gdb and uWSGI, as Debian
# compiled them, follow.  Called by hand, for a build with --enable-shared.
#
# usage: Tools/reliability/embedding.sh [DIRECTORY with libpython3.11.so.1.0]
set -eu
cd "$(dirname "$0")/../.."

fail() {
    echo "embedding: $*" >&2
    exit 1
}

library=${1:-build}
[ -e "$library/libpython3.11.so.1.0" ] || fail "no libpython3.11.so.1.0 in" \
    "$library: ./configure --enable-shared && make, or give its directory"
library=$(cd "$library" && pwd)
config=/usr/bin/python3.11-config    # Debian's, whatever is first on the path
[ -x $config ] ||
    fail "missing: apt-get install libpython3.11-dev python3.11-dev"
[ "$(command -v gdb)" ] || fail "missing: apt-get install gdb"

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || :; rm -rf "$work"' EXIT
# What the person who runs this has set must not decide.
for name in $(env | sed -n 's/^\(PYTHON[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
# Both libraries use Debian's standard library: ours would look below its prefix.
export PYTHONHOME=/usr PYTHONDONTWRITEBYTECODE=1 JITDUMPDIR="$work"

# shellcheck disable=SC2046  # each is a list of words
cc -o "$work/embed" Tools/reliability/embed.c $($config --cflags) $($config --ldflags --embed)

embed() {
    name=$1
    shift
    env "$@" "$work/embed" >"$work/$name.out" 2>"$work/$name.err" ||
        fail "$name: exit status $?: $(cat "$work/$name.err")"
    cmp -s "$work/stock.out" "$work/$name.out" ||
        fail "$name prints something else: $(diff "$work/stock.out" "$work/$name.out")"
    echo "embed, $name: $(wc -l <"$work/$name.out") lines as with Debian's library," \
        "$(tail -n 1 "$work/$name.err") lines in its map"
}

# Is it our library that a program gets?
ldd "$work/embed" | grep -q "=> /lib.*libpython3.11" ||
    fail "the program is not linked to Debian's library"
LD_LIBRARY_PATH="$library" ldd "$work/embed" | grep -q "=> $library/libpython" ||
    fail "LD_LIBRARY_PATH does not bring the library in $library"

embed stock ONE=1
embed off LD_LIBRARY_PATH="$library"
embed perf LD_LIBRARY_PATH="$library" PYTHONPERFSUPPORT=1
[ "$(tail -n 1 "$work/perf.err")" -gt 50 ] || fail "perf: no symbols"
embed perf_jit LD_LIBRARY_PATH="$library" PYTHON_PERF_JIT_SUPPORT=1
grep -q -a "py::Item.who:<string>" "$work"/jit-*.dump ||
    fail "perf_jit: Item.who is not in the jitdump"

ask='python import os, sys; print(os.getpid(), sys.is_stack_trampoline_active(),
 gdb.parse_and_eval("6 * 7"))'
for mode in OFF=1 PYTHONPERFSUPPORT=1 PYTHON_PERF_JIT_SUPPORT=1; do
    said=$(env LD_LIBRARY_PATH="$library" $mode gdb -nx -batch -ex \
        "$(echo "$ask" | tr -d '\n')" 2>&1)
    rm -f "/tmp/perf-${said%% *}.map"
    case "$mode $said" in
    "OFF=1 "*" False 42") ;;
    PYTHON*"=1 "*" True 42") ;;
    *) fail "gdb, $mode: $said" ;;
    esac
    echo "gdb, $mode: active and an answer: ${said#* }"
done

# Two workers, forked after the application was imported.  uWSGI tells Python of
# the fork only if asked to.
plugin=/usr/lib/uwsgi/plugins/python3_plugin.so
if [ ! -e "$plugin" ] || [ -z "$(command -v uwsgi)" ]; then
    echo "uwsgi: left out; apt-get install uwsgi-core uwsgi-plugin-python3"
    exit 0
fi
cat >"$work/site.py" <<'PROGRAM'
import os
import sys


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {sys.is_stack_trampoline_active()}".encode()]
PROGRAM
cat >"$work/client.py" <<'PROGRAM'
"""Ask until both workers have answered; print the mode and their numbers."""
import socket
import sys
import time

workers, modes = set(), set()
end = time.monotonic() + 30
while len(workers) < 2 and time.monotonic() < end:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(sys.argv[1])
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b""
            while part := client.recv(4096):
                answer += part
    except OSError:
        time.sleep(0.1)
        continue
    pid, mode = answer.rpartition(b"\r\n\r\n")[2].decode().split()
    workers.add(pid)
    modes.add(mode)
print(*modes, *workers)
PROGRAM
serve() {
    mode=$1 option=$2
    # shellcheck disable=SC2086  # an option, or none
    env LD_LIBRARY_PATH="$library" "$mode" uwsgi --plugin python3 $option \
        --http-socket "$work/socket" --master --processes 2 --die-on-term \
        --chdir "$work" --wsgi-file site.py >"$work/uwsgi.log" 2>&1 &
    server=$!
    answers=$(/usr/bin/python3.11 "$work/client.py" "$work/socket")
    kill "$server"
    wait "$server" || true
    first=$server
    server=
    rm -f "$work/socket"
    expected=True
    [ "$mode" != OFF=1 ] || expected=False
    # shellcheck disable=SC2086  # the mode and the workers
    set -- $answers
    [ $# -eq 3 ] && [ "$1" = $expected ] ||
        fail "uwsgi, $mode: $answers: $(tail -n 20 "$work/uwsgi.log")"
    shift
    for pid in "$@"; do
        case $mode in
        PYTHONPERF*) file=/tmp/perf-$pid.map ;;
        PYTHON_PERF*) file=$work/jit-$pid.dump ;;
        *) continue ;;
        esac
        grep -q -a "py::application:.*site.py" "$file" ||
            fail "uwsgi $option, $mode: $file lacks the application"
    done
    for pid in "$first" "$@"; do
        rm -f "/tmp/perf-$pid.map"
    done
    echo "uwsgi $option, $mode: both workers answer, active: $expected"
}

for mode in OFF=1 PYTHONPERFSUPPORT=1 PYTHON_PERF_JIT_SUPPORT=1; do
    serve $mode --py-call-osafterfork
    serve $mode ""
done
