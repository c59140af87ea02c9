# shellcheck shell=sh
# apt with a directory of its own: reads the machine's configuration and source
# entries, leaves them as they are, and installs nothing.
# Sourced by Tools/base/fetch-base.sh, fetch-autoconf.sh, fetch-perf.sh,
# fetch-samply.sh, fetch-sysroot.sh.
#
#   make_private_apt DIR        makes DIR anew, without source entries
#   make_private_apt DIR ARCH   the same for another architecture, for a machine
#                               on which nothing is installed yet
#   add_sources NAME FILTER...  adds the machine's entries, passed through FILTER
#   apt COMMAND ARG...          runs one of apt's commands with all this
#   unpack_packages ROOT PACKAGE[=VERSION]...   puts what is in them below ROOT,
#                               which is made anew
#   download_source PACKAGE DIR     the newest source package that is to be had
#
# Filters: as_source turns entries into those of sources, with_suite OLD NEW keeps
# the entries of the suite OLD and makes them entries of NEW, any_arch keeps all.

make_private_apt() {
    apt_dir=$1
    rm -rf "$apt_dir"
    mkdir -p "$apt_dir/sources.list.d" "$apt_dir/lists/partial" \
             "$apt_dir/cache/archives/partial"
    eval "$(apt-config shell apt_list Dir::Etc::sourcelist/f \
                             apt_parts Dir::Etc::sourceparts/d \
                             apt_status Dir::State::status/f)"
    apt_arch=${2-}
    if [ -n "$apt_arch" ]; then
        apt_status=$apt_dir/status
        : >"$apt_status"
    fi
    # The machine's hooks are for the machine's lists.  The user _apt, as whom
    # root's apt fetches, often cannot reach a clone, and only warns of it.
    # Nothing is installed, so the lock for that is not needed.
    cat >"$apt_dir/apt.conf" <<EOF_CONF
Dir::State "$apt_dir";
Dir::State::status "$apt_status";
Dir::State::lists "$apt_dir/lists";
Dir::Cache "$apt_dir/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt_dir/sources.list.d";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Debug::NoLocking "true";
#clear APT::Update;
EOF_CONF
    [ -z "$apt_arch" ] || cat >>"$apt_dir/apt.conf" <<EOF_CONF
APT::Architecture "$apt_arch";
#clear APT::Architectures;
APT::Architectures { "$apt_arch"; };
EOF_CONF
}

# FILTER finds the format of its input, list or sources, in apt_format.
add_sources() {
    apt_name=$1
    shift
    for apt_file in "$apt_list" "$apt_parts"*.list "$apt_parts"*.sources; do
        [ -r "$apt_file" ] || continue
        apt_format=${apt_file##*.}
        "$@" <"$apt_file" \
            >"$apt_dir/sources.list.d/$apt_name-${apt_file##*/}"
    done
}

as_source() {
    case $apt_format in
        sources) sed 's/^[Tt]ypes:.*/Types: deb-src/' ;;
        *) sed '/^[[:space:]]*deb-src[[:space:]]/d
                s/^\([[:space:]]*\)deb\([[:space:]]\)/\1deb-src\2/' ;;
    esac
}

with_suite() {
    case $apt_format in
        sources) awk -v RS= -v ORS='\n\n' -v old="$1" -v new="$2" '
            match($0, "(^|\n)[Ss]uites:[^\n]*") {
                suites = substr($0, RSTART, RLENGTH) " "
                if (index(suites, " " old " ")) {
                    sub("[Ss]uites:[^\n]*", "Suites: " new)
                    print
                }
            }' ;;
        *) sed -n "s/^\([[:space:]]*deb[[:space:]].*[[:space:]]\)$1\
\([[:space:]]\)/\1$2\2/p" ;;
    esac
}

any_arch() {
    sed -e '/^[Aa]rchitectures:/d' -e 's/\(\[.*\)arch=[^] ]*/\1/'
}

# apt reads the machine's configuration first, so options of a -c file win.
apt() {
    apt_command=$1
    shift
    "$apt_command" -c "$apt_dir/apt.conf" "$@"
}

unpack_packages() {
    apt_root=$1
    shift
    rm -rf "$apt_dir"/cache/archives/*.deb
    (cd "$apt_dir/cache/archives" && apt apt-get download -q "$@") || return
    rm -rf "$apt_root"
    mkdir "$apt_root"
    for apt_file in "$apt_dir"/cache/archives/*.deb; do
        dpkg -x "$apt_file" "$apt_root"
    done
}

# Leaves the version in $version, empty when there is none.  A mirror can lack
# the newest revision it lists, so goes on to older ones.
download_source() {
    mkdir -p "$2"
    # A later apt-cache fails on a package that it does not know.
    for version in $(apt apt-cache showsrc --only-source "$1" 2>/dev/null |
                     sed -n 's/^Version: //p' | sort -ruV); do
        echo "private-apt: downloading $1 $version"
        if (cd "$2" && apt apt-get source --download-only --only-source -qq \
                "$1=$version" >&2); then
            return 0
        fi
        echo "private-apt: could not get $version; trying an older one" >&2
    done
    version=
    return 1
}
