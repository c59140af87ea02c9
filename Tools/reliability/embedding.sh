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

cat >"$work/embed.c" <<'PROGRAM'
/* Calls Python from C and C from Python, in two interpreters one after the other
   and in a thread, through macros and inline functions that the headers compiled
   into this program. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <pthread.h>
#include <unistd.h>

static PyObject *
twice(PyObject *module, PyObject *function)
{
    PyObject *first = PyObject_CallNoArgs(function);
    if (first == NULL) {
        return NULL;
    }
    PyObject *second = PyObject_CallNoArgs(function);
    PyObject *both = second ? PyTuple_Pack(2, first, second) : NULL;
    Py_DECREF(first);
    Py_XDECREF(second);
    return both;
}

static PyObject *
caller(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    PyCodeObject *code = PyFrame_GetCode(PyEval_GetFrame());
    /* Read through the layout that the headers know. */
    PyObject *name = Py_NewRef(code->co_qualname);
    Py_DECREF(code);
    return name;
}

static PyMethodDef methods[] = {
    {"twice", twice, METH_O, NULL},
    {"caller", caller, METH_NOARGS, NULL},
    {NULL}
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "host", NULL, -1, methods
};

static PyObject *
create(void)
{
    return PyModule_Create(&definition);
}

static const char program[] =
    "import host, sys, json, decimal\n"
    "class Item:\n"
    "    def who(self):\n"
    "        return host.caller()\n"
    "def fib(n):\n"
    "    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
    "def numbers():\n"
    "    yield from range(3)\n"
    "print(host.twice(lambda: fib(15)), Item().who(), list(numbers()),\n"
    "      json.dumps({'a': str(decimal.Decimal(1) / 7)}))\n"
    "try:\n"
    "    host.twice(lambda: 1 / 0)\n"
    "except ZeroDivisionError as error:\n"
    "    print(error, flush=True)\n";

static void *
in_thread(void *arg)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int failed = PyRun_SimpleString(program);
    PyGILState_Release(state);
    return failed ? arg : NULL;
}

int
main(int argc, char **argv)
{
    PyImport_AppendInittab("host", create);
    for (int i = 0; i < 2; i++) {
        PyConfig config;
        PyConfig_InitPythonConfig(&config);
        config.parse_argv = 0;
        PyStatus status = PyConfig_SetBytesArgv(&config, argc, argv);
        if (!PyStatus_Exception(status)) {
            status = Py_InitializeFromConfig(&config);
        }
        PyConfig_Clear(&config);
        if (PyStatus_Exception(status)) {
            Py_ExitStatusException(status);
        }
        if (PyRun_SimpleString(program) != 0) {
            return 1;
        }
        pthread_t thread;
        void *failed;
        PyThreadState *save = PyEval_SaveThread();
        pthread_create(&thread, NULL, in_thread, &config);
        pthread_join(thread, &failed);
        PyEval_RestoreThread(save);
        if (failed || Py_FinalizeEx() < 0) {
            return 1;
        }
    }
    /* For the script: how many symbols were announced. */
    char path[100];
    snprintf(path, sizeof(path), "/tmp/perf-%ld.map", (long)getpid());
    FILE *map = fopen(path, "r");
    int lines = 0;
    for (int c; map != NULL && (c = getc(map)) != EOF;) {
        lines += c == '\n';
    }
    unlink(path);
    fprintf(stderr, "%d\n", lines);
    return 0;
}
PROGRAM

# shellcheck disable=SC2046  # each is a list of words
cc -o "$work/embed" "$work/embed.c" $($config --cflags) $($config --ldflags --embed)

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
