#!/bin/sh
# Builds what our tests need in C, against the interpreter in place: the extension
# modules _testperf, _testperf_evaluators and _testperf_unwind, and the library that
# lets calls fail.  None is installed.
# Called by the Makefile.
#
# usage: Tools/build/build-testperf.sh PYTHON DIRECTORY
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
python=$1
headers=$(dirname "$python")
into=$2

config() {
    "$python" -c "import sysconfig; print(sysconfig.get_config_var('$1'))"
}

mkdir -p "$into"
# They look at the interpreter's insides, hence the internal headers.
for module in _testperf _testperf_evaluators; do
    # shellcheck disable=SC2046  # each is a list of words
    $(config CC) -shared $(config CFLAGS) $(config CCSHARED) \
        -DPy_BUILD_CORE_MODULE -I"$headers" -I"$tree/Include" \
        -I"$tree/Include/internal" \
        -o "$into/$module$(config EXT_SUFFIX)" "Modules/$module.c"
done

# In a cross build there may be no compiler for this.
cxx=$(config CXX)
if command -v "${cxx%% *}" >/dev/null; then
    # shellcheck disable=SC2046,SC2086
    $cxx -shared $(config CCSHARED) -O2 -Wall -Wextra -I"$headers" -I"$tree/Include" \
        -o "$into/_testperf_unwind$(config EXT_SUFFIX)" \
        Modules/_testperf_unwind.cpp
fi

# Without the interpreter's flags: it is loaded before any sanitizer's library.
# shellcheck disable=SC2046
$(config CC) -shared -fPIC -O2 -Wall -Wextra -I"$headers" \
    -o "$into/testperf_faults.so" Modules/_testperf_faults.c -ldl
