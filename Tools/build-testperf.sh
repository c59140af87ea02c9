#!/bin/sh
# Builds what our tests need in C, against the interpreter in place: the extension
# module _testperf, and the library that lets calls fail.  Neither is installed.
# Called by the Makefile.
#
# usage: Tools/build-testperf.sh PYTHON DIRECTORY
set -eu
cd "$(dirname "$0")/.."
python=$1
build=$(dirname "$python")
into=$2

config() {
    "$python" -c "import sysconfig; print(sysconfig.get_config_var('$1'))"
}

mkdir -p "$into"
module=$into/_testperf$(config EXT_SUFFIX)
# It looks at the interpreter's insides, hence the internal headers.
# shellcheck disable=SC2046  # each is a list of words
$(config CC) -shared $(config CFLAGS) $(config CCSHARED) \
    -DPy_BUILD_CORE_MODULE -I"$build" -Itree/Include -Itree/Include/internal \
    -o "$module" Modules/_testperf.c

# Without the interpreter's flags: it is loaded before any sanitizer's library.
# shellcheck disable=SC2046
$(config CC) -shared -fPIC -O2 -Wall -Wextra -I"$build" \
    -o "$into/testperf_faults.so" Modules/_testperf_faults.c -ldl
