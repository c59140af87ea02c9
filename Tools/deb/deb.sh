#!/bin/sh
# Builds dist/python3.X-perf_*.deb: the interpreter as the distribution builds its
# own, from its source package and by its rules, with our patches; and perfpy.
# Called by `make deb`.  DEB_BUILD_OPTIONS are the distribution's: "nopgo nolto"
# makes a slow interpreter in a few minutes, parallel=N limits the processors.
#
# The same sources give the same bytes, without a profile to optimise by: it is
# measured.  Dates are $SOURCE_DATE_EPOCH, or else that of the commit or tarball.
#
#   $work/PACKAGE/          the package's source: what Tools/deb/rules.in tells
#   $work/PACKAGE/.sources  what cpython/ was built from
#   $work/PACKAGE/.date     what $SOURCE_DATE_EPOCH was then
#   $work/build.log         everything that the build said
set -eu
cd "$(dirname "$0")/../.."
. Tools/base/base.sh
. Tools/patches/applied.sh
. Tools/machine/fail.sh
source_package=$(base_field 2)
package=python$base-perf
work=build-deb$suffix
source=$work/$package
ours=$(cat Lib/perfpy/VERSION)

upstream_of() {
    echo "${1%-*}"
}

version=$(sed -n "s/^$source_package \([^,]*\).*/\1/p" "$sources/origin")
dsc=$sources/download/${source_package}_$version.dsc
[ -e "$dsc" ] || fail \
    "the base is $(cat "$sources/origin"), which is no source package of a" \
    "distribution; ./configure without --with-base takes this release's"
upstream=$(upstream_of "$version")
installed=$(dpkg-query -W -f '${Version}' "python$base" 2>/dev/null) || fail \
    "this system has no package python$base, which $package stands beside;" \
    "apt-get install python$base, on a release that has it"
[ "$(upstream_of "$installed")" = "$upstream" ] || fail \
    "python$base is $installed here, and the base is $version:" \
    "apt-get install python$base, or make distclean to fetch the base again"

options=${DEB_BUILD_OPTIONS-}
case " $options " in
    *" parallel="*) ;;
    *) options="${options:+$options }parallel=$(getconf _NPROCESSORS_ONLN)" ;;
esac
if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
    SOURCE_DATE_EPOCH=$([ -e .git ] && git log -1 --format=%ct 2>/dev/null ||
                        stat -c %Y Lib/perfpy/VERSION)
fi
export SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS="$options"

# --- The sources ---

# What the interpreter is made of; the date and perfpy do not count.
interpreter_sources() {
    echo "$version $options" | sed 's/ *parallel=[^ ]*//'
    # shellcheck disable=SC2046  # names of patches have no spaces
    sha256sum Lib/perfpy/VERSION Tools/deb/config.site $(series) \
        $(Tools/patches/overlay-files.sh Include Modules Objects Python)
}

# Not from $tree, where what Debian changes for its own system may be taken back.
make_interpreter() {
    rm -rf "$source"
    mkdir -p "$source"
    dpkg-source --no-copy --no-check --extract "$dsc" "$source/cpython" \
        >"$work/dpkg-source.log" 2>&1 || {
        tail -n 5 "$work/dpkg-source.log" >&2
        fail "$dsc is broken; make distclean removes it"
    }
    rm -r "$source/cpython/.pc"
    for patch in $(series); do
        patch -p1 --fuzz=0 --silent -d "$source/cpython" <"$patch" ||
            fail "$patch does not apply to $version; see make lint"
    done
    # The distribution's lacks the seam of asyncio-tasks.patch.
    echo '  _asyncio  extension' \
        >>"$source/cpython/debian/PVER-minimal.README.Debian.in"
    # Without our tests, with which the distribution's rules would train it.
    for file in $(Tools/patches/overlay-files.sh | grep -v Lib/test/); do
        place=$source/cpython/${file#"$patches/files/"}
        mkdir -p "${place%/*}"
        cp "$file" "$place"
    done
    Tools/base/generate-configure.sh "$source/cpython"
    Tools/base/generate-code.sh "$source/cpython"
    mv "$work/.sources" "$source/.sources"
}

fill() {
    sed -e "s/@BASE@/$base/g" -e "s/@UPSTREAM@/$upstream/g" \
        -e "s/@NEXT@/${upstream%.*}.$((${upstream##*.} + 1))/g" \
        -e "s/@OURS@/$ours/g" -e "s/@DATE@/$(date_as +%Y-%m-%d)/g" \
        -e "s/@MAINTAINER@/$maintainer/g" "Tools/deb/$1.in"
}

date_as() {
    LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" "$1"
}

write_package() {
    maintainer="${DEBFULLNAME:-the cpython-perf authors}\
 <${DEBEMAIL:-cpython-perf@example.org}>"
    (cd "$source" && rm -rf debian perfpy bin man && mkdir debian bin man)
    tar -chf - -C "$tree/Lib" --exclude=__pycache__ perfpy |
        tar -xf - -C "$source"
    cp CHANGELOG.rst "$source"
    fill perfpy >"$source/bin/perfpy"
    for file in check-frame-pointers check-interpreter config.site dtrace; do
        cp Tools/deb/$file "$source/bin"
    done
    fill perfpy.1 >"$source/man/perfpy.1"
    fill python-perf.1 >"$source/man/$package.1"
    for file in control rules; do
        fill $file >"$source/debian/$file"
    done
    fill lintian-overrides >"$source/debian/$package.lintian-overrides"
    {
        fill copyright
        printf '\nLicense: Expat\n'
        sed '/^MIT License$/d; s/^$/./; s/^/ /' LICENSE
    } >"$source/debian/copyright"
    cat >"$source/debian/changelog" <<EOF_CHANGELOG
$package ($version+perf$ours) $(base_field 3); urgency=medium

  * cpython-perf $ours for the distribution's python$base $version.

 -- $maintainer  $(date_as '+%a, %d %b %Y %H:%M:%S +0000')
EOF_CHANGELOG
    chmod +x "$source/debian/rules" "$source/bin/perfpy"
}

mkdir -p "$work" dist
interpreter_sources >"$work/.sources"
if cmp -s "$work/.sources" "$source/.sources"; then
    echo "deb: the interpreter's sources are those of the last build"
else
    make_interpreter
fi
# The date is compiled into one file, and no build sees that it has changed.
if [ "$(cat "$source/.date" 2>/dev/null)" != "$SOURCE_DATE_EPOCH" ]; then
    rm -f "$source/cpython/stamps/stamp-build-static" \
        "$source/cpython/build-static/Modules/getbuildinfo.o"
    echo "$SOURCE_DATE_EPOCH" >"$source/.date"
fi
write_package

# --- The build ---

case " $options " in
    *" nopgo "*) how="without a profile, which takes minutes" ;;
    *) how="with a profile, for which
    CPython's tests run: this takes an hour or two on 2 processors" ;;
esac
echo "deb: building $package $version+perf$ours, $how"
echo "deb: the log is $work/build.log; DEB_BUILD_OPTIONS='nopgo nolto' make deb" \
     "is quick"

unset MAKEFLAGS MFLAGS MAKELEVEL
rm -f "$work/.status"
{
    status=0
    (cd "$source" && dpkg-buildpackage -b -nc -us -uc -d) || status=$?
    echo $status >"$work/.status"
} 2>&1 | tee "$work/build.log" | awk -f Tools/build/shorten-make.awk
if [ "$(cat "$work/.status")" != 0 ]; then
    tail -n 20 "$work/build.log" >&2
    fail "failed; the last lines of $work/build.log are above"
fi
# The distribution's rules make a directory for tests, whether there are any or not.
rmdir "$(cat "$source/cpython/debian/testdir")" 2>/dev/null || :
deb=$(cd "$work" && ls "${package}_$version+perf${ours}"_*.deb)
mv "$work/$deb" dist/
echo "deb: apt-get install ./dist/$deb"
