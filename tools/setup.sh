# setup.sh - read by tools/run and tools/test, which set $tools to its folder: finds or installs
# what the build needs, configures, builds. POSIX shell: runs wherever there is a /bin/sh.
#
# Whether something is there is asked of the compiler and of pkg-config, never of a package manager:
# where everything is found, nothing is installed and no right to install is needed.

root=$(CDPATH='' cd -- "$tools/.." && pwd -P) || exit 2
# LOCKSTEP_BUILD=DIR: what is made goes there, and the source may be read-only.
case ${LOCKSTEP_BUILD:-} in
'') build=$root/build report=$root/report shown=build ;;
/*) build=$LOCKSTEP_BUILD report=$build/report shown=$build ;;
*) build=$PWD/$LOCKSTEP_BUILD report=$build/report shown=$build ;;
esac

say() { printf '%s\n' "lockstep: $*"; }
stop() {
    printf '%s\n' "lockstep: $*" >&2
    exit 2
}

# Writes the first path in a folder that this user may not write; nothing: all may be written.
unwritable() { # folder
    [ ! -e "$1" ] || [ -w "$1" ] || { echo "$1"; return; }
    [ ! -d "$1" ] || find "$1" ! -user "$(id -u)" 2>/dev/null | while read -r path; do
        [ -w "$path" ] || [ -h "$path" ] || { echo "$path"; break; }
    done
}

# The source folder that meson has configured $build for; nothing: it has not.
configured_for() {
    sed -n 's/.*"source": "\([^"]*\)".*/\1/p' "$build/meson-info/meson-info.json" 2>/dev/null |
        head -n 1
}

# A folder that the user names is taken when it is empty or was made for this source. Nothing is
# mixed with somebody's files, and nothing of theirs is removed.
check_own_folder() {
    [ -n "${LOCKSTEP_BUILD:-}" ] || return 0
    given="LOCKSTEP_BUILD=$LOCKSTEP_BUILD" remedy="choose an empty or a new folder"
    [ -d "$build" ] || [ ! -e "$build" ] || stop "$given: is no folder; $remedy"
    if [ -f "$build/source-folder" ]; then
        owner=$(head -n 1 "$build/source-folder")
    else
        owner=$(configured_for)
        [ -n "$owner" ] || [ ! -e "$build/build.ninja" ] || owner="another project"
    fi
    [ -z "$owner" ] || [ "$owner" = "$root" ] ||
        stop "$given: is a build folder of $owner; $remedy"
    # Without an owner: what an installation or a configuration that failed has left.
    [ -n "$owner" ] || [ ! -d "$build" ] || for path in "$build"/* "$build"/.[!.]* "$build"/..?*; do
        case ${path##*/} in
        install.log | setup.log | \* | .\[!.\]\* | ..\?\*) ;;
        *) stop "$given: holds ${path##*/}, which was not made here; $remedy" ;;
        esac
    done
}

# Says what cannot be used, before anything else is done. The first folder is $build.
check_places() { # folder...
    check_own_folder
    elsewhere="LOCKSTEP_BUILD=DIR builds in another folder" named=
    [ -z "${LOCKSTEP_BUILD:-}" ] ||
        elsewhere="choose a folder that can be" named="LOCKSTEP_BUILD=$LOCKSTEP_BUILD: "
    for place in "$@"; do
        path=$(unwritable "$place")
        [ -z "$path" ] || stop "$named$path cannot be written: it belongs to another user, or" \
            "its disk is read-only; $elsewhere"
    done
    for place in "$@"; do
        mkdir -p "$(dirname -- "$place")" 2>/dev/null
        [ -d "$place" ] || [ -w "$(dirname -- "$place")" ] ||
            stop "$named$place cannot be made: the folder for it is read-only; $elsewhere"
        [ "$place" != "$build" ] || mkdir -p "$build" 2>/dev/null ||
            stop "$named$build cannot be made; $elsewhere"
    done
}

have() { command -v "$1" >/dev/null 2>&1; }
have_library() { have_pkg_config && "$pkg_config" --exists "$1" 2>/dev/null; }
have_pkg_config() {
    for pkg_config in ${PKG_CONFIG:-} pkg-config pkgconf; do have "$pkg_config" && return 0; done
    return 1
}

# A compiler counts only with the C library's headers.
compiles() { # language compiler...
    language=$1
    shift
    for compiler in "$@"; do
        have "$compiler" && printf '#include <stdio.h>\n' |
            "$compiler" -x "$language" -E - >/dev/null 2>&1 && return 0
    done
    return 1
}

# Writes the names of what is missing. $1: "tests" when the tests are wanted too.
missing() {
    compiles c ${CC:-} cc gcc clang || echo cc
    have meson || echo meson
    have ninja || have ninja-build || have samu || echo ninja
    have_pkg_config || echo pkg-config
    have_library jansson || echo jansson
    have_library libcrypto || echo openssl
    have_library openblas || echo openblas
    have_library libpng || echo libpng
    if [ "$1" = tests ]; then
        have_library check || echo check
        have_library mpfr || echo mpfr
        compiles c++ ${CXX:-} c++ g++ clang++ || echo c++
        have nm || echo nm
    fi
}

# The package of a need, by package manager. Nothing: comes with another one.
package() { # manager need
    case $1:$2 in
    apt:cc) echo gcc libc6-dev ;;
    apt:c++) echo g++ ;;
    apt:nm) echo binutils ;;
    apt:ninja) echo ninja-build ;;
    apt:pkg-config) echo pkg-config ;;
    apt:jansson) echo libjansson-dev ;;
    apt:openssl) echo libssl-dev ;;
    apt:openblas) echo libopenblas-dev ;;
    apt:libpng) echo libpng-dev ;;
    apt:mpfr) echo libmpfr-dev ;;
    dnf:cc) echo gcc glibc-devel ;;
    dnf:c++) echo gcc-c++ ;;
    dnf:nm) echo binutils ;;
    dnf:ninja) echo ninja-build ;;
    dnf:pkg-config) echo pkgconf-pkg-config ;;
    dnf:jansson | dnf:openssl | dnf:openblas | dnf:libpng | dnf:check | dnf:mpfr) echo "$2-devel" ;;
    apk:cc) echo gcc musl-dev ;;
    apk:c++) echo g++ ;;
    apk:nm) echo binutils ;;
    apk:pkg-config) echo pkgconf ;;
    apk:jansson | apk:openssl | apk:openblas | apk:libpng | apk:check | apk:mpfr) echo "$2-dev" ;;
    brew:cc | brew:c++ | brew:nm) ;; # the command line tools of Xcode, see below
    brew:pkg-config) echo pkgconf ;;
    brew:openssl) echo openssl@3 ;;
    *) echo "$2" ;;
    esac
}

# Homebrew keeps some libraries out of the way of the system's own.
find_brew_libraries() {
    have brew || return 0
    for name in openblas openssl@3; do
        prefix=$(brew --prefix "$name" 2>/dev/null) || continue
        PKG_CONFIG_PATH=$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    done
    export PKG_CONFIG_PATH
}

find_manager() {
    for manager in apt-get dnf apk brew none; do have "$manager" && break; done
    manager=${manager%-get}
    [ $manager != none ]
}

# The command that installs packages, in $command.
command_for() { # manager package...
    manager=$1
    shift
    case $manager in
    apt)
        command="apt-get update && DEBIAN_FRONTEND=noninteractive"
        command="$command apt-get install -y --no-install-recommends $*"
        ;;
    dnf) command="dnf install -y $*" ;;
    apk) command="apk add --no-cache $*" ;;
    brew) command="brew install $*" ;;
    esac
}

# The command for somebody who is not root, as one to be typed.
as_root() {
    if have sudo; then echo "sudo sh -c '$command'"; else echo "$command"; fi
}

kilobytes_of() { # folder
    du -sk "$1" 2>/dev/null | sed 's/[^0-9].*//'
}

# While packages are installed: every few seconds a line, on a terminal always the same one, with
# what the manager says last and, where it keeps what it loads in a folder, how much that is.
watch_installation() { # log
    archives=/var/cache/apt/archives
    [ "$manager" = apt ] || archives=
    before=$(kilobytes_of "$archives")
    seconds=0
    # The script that is waited for may end and leave this one: its output is then nobody's.
    while sleep 5 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        seconds=$((seconds + 5))
        line="$(tail -n 1 "$1" | cut -c 1-60)"
        all=$(sed -n 's/^Need to get \([0-9.,]* [kMG]*B\).*/\1/p' "$1")
        now=$(kilobytes_of "$archives")
        if [ -n "$all" ] && [ -n "$now" ] &&
            ! sed -n '/^Need to get/,$p' "$1" | grep -q '^Fetched'; then
            line="$(((now - ${before:-0}) / 1000)) MB of $all loaded"
        fi
        if [ -t 1 ]; then
            printf '\r\033[Klockstep: installing, %s s: %s' "$seconds" "$line"
        else
            [ $((seconds % 15)) -ne 0 ] || say "installing, $seconds s: $line"
        fi
    done
}

# Runs $command, its words in a log. 1: it failed.
run_installation() { # log, "quiet" or nothing
    started=$(date +%s)
    : >"$1"
    # While something else draws on a terminal, this does not.
    if [ "${2:-}" = quiet ] && [ -t 1 ]; then sleep 0; else watch_installation "$1"; fi &
    watcher=$!
    (eval "$command") >"$1" 2>&1 </dev/null
    installed=$?
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    [ ! -t 1 ] || printf '\r\033[K'
    [ $installed = 0 ] || return 1
    say "installed in $(($(date +%s) - started)) s"
}

# Whether a package manager's log says that it did not reach its servers.
no_network() { # log
    words='failure resolving|could not resolve|could not connect|unable to connect|failed to fetch'
    words="$words|network is unreachable|timed out|cannot download|failed to download"
    grep -Eiq "$words|temporary error|no address associated" "$1"
}

install_missing() { # "tests" or ""
    find_brew_libraries
    needs=$(missing "$1")
    [ -n "$needs" ] || return 0
    find_manager ||
        stop "missing: $(echo $needs); none of apt-get, dnf, apk and brew is here to install it"
    if [ "$manager" = brew ] && ! compiles c cc clang gcc; then
        stop "a C compiler is missing; install it with: xcode-select --install"
    fi
    packages=$(for need in $needs; do package "$manager" "$need"; done)
    packages=$(echo $packages)
    command_for "$manager" $packages
    if [ "$manager" != brew ] && [ "$(id -u)" -ne 0 ]; then
        say "missing: $(echo $needs). Run this command as root, then start again:" >&2
        as_root >&2
        exit 2
    fi
    say "missing: $(echo $needs)"
    say "installing with $manager: $packages"
    run_installation "$build/install.log" || {
        no_network "$build/install.log" &&
            stop "$manager did not reach its servers: is there a network? ($shown/install.log)"
        tail -n 20 "$build/install.log" >&2
        stop "$manager could not install them ($shown/install.log): $command"
    }
    find_brew_libraries
    needs=$(missing "$1")
    [ -z "$needs" ] || stop "still missing after the installation: $(echo $needs)"
}

# ---- what some tests can do without ----

have_module() { # module
    for python in ${LOCKSTEP_PYTHON:-} python3 /usr/bin/python3; do
        have "$python" && "$python" -c "import importlib.util as u, sys
sys.exit(u.find_spec('$1') is None)" >/dev/null 2>&1 && return 0
    done
    return 1
}

module_package() { # manager module
    case $1:$2 in
    apt:* | dnf:*) echo "python3-$2" ;;
    apk:numpy) echo py3-numpy ;;
    esac
}

# NumPy and PyTorch: the other side of the tests that hold this program against them. They are
# installed where that is easy; where not, one line says so and those tests are skipped.
# LOCKSTEP_MODULES=no: not even tried.
install_modules() {
    [ "${LOCKSTEP_MODULES:-}" != no ] || return 0
    for module in numpy torch; do
        have_module $module && continue
        find_manager
        packages=$(module_package $manager $module)
        command_for $manager $packages
        without="Python's $module is not here: tests that need it are skipped"
        if [ -z "$packages" ]; then
            say "$without"
        elif [ "$(id -u)" -ne 0 ]; then
            say "$without; as root: $(as_root)"
        else
            [ $module != torch ] || say "PyTorch is large: with all that it needs 230 MB to load," \
                "1 GB on the disk"
            say "installing with $manager, for some of the tests: $packages"
            if ! run_installation "$build/install-$module.log" quiet; then
                why="$manager could not install it"
                ! no_network "$build/install-$module.log" || why="is there a network?"
                say "$without; $why ($shown/install-$module.log)"
            elif ! have_module $module; then
                say "$without, after its installation too ($shown/install-$module.log)"
            fi
        fi
    done
}

# meson 0.63 or later.
check_meson() {
    version=$(meson --version) || stop "meson does not start"
    major=${version%%.*}
    rest=${version#*.}
    minor=${rest%%.*}
    if [ "$major" -eq 0 ] && [ "$minor" -lt 63 ]; then
        stop "meson $version found, 0.63 or later is needed:" \
            "python3 -m pip install --user --upgrade meson"
    fi
}

cores() {
    n=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null)
    echo "${n:-2}"
}

# Removes what meson has written into the build folder, and nothing else.
forget_configuration() {
    for name in meson-info meson-logs meson-private meson-uninstalled build.ninja \
        compile_commands.json .ninja_deps .ninja_log .ninja_lock; do
        rm -rf "${build:?}/$name"
    done
}

configure() { # "tests" or ""
    check_meson
    tests=false
    [ "$1" != tests ] || tests=true
    # A source that was copied or moved with its build folder is configured anew. What meson wrote
    # into it names the old place; other files stay, and ninja makes anew all that is its own.
    if [ -f "$build/source-folder" ] && [ "$(cat "$build/source-folder")" != "$root" ]; then
        forget_configuration
    fi
    # What was configured by hand keeps its options.
    if [ ! -f "$build/build.ninja" ]; then
        forget_configuration
        printf '%s\n' "$root" >"$build/source-folder"
        say "configuring in $shown"
        log=$build/setup.log
        meson setup --buildtype=release -Dtests=$tests "$build" "$root" >"$log" 2>&1 || {
            tail -n 20 "$log" >&2
            stop "meson could not configure ($shown/setup.log)"
        }
    elif [ $tests = true ]; then
        meson configure "$build" -Dtests=true >/dev/null ||
            stop "meson could not configure $shown"
    fi
    printf '%s\n' "$root" >"$build/source-folder"
}

# On a terminal: how far the build is, from its log, until it is stopped or the script has ended.
show_progress() { # log
    [ -t 2 ] || return 0
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        at=$(sed -n 's,^\[\([0-9]*\)/\([0-9]*\)\].*,\1 of \2 steps,p' "$1" | tail -n 1)
        [ -z "$at" ] || printf '\r\033[Klockstep: %s' "$at" >&2
    done
}

compile() { # ninja targets; none: everything
    say "building with $(cores) jobs"
    started=$(date +%s)
    : >"$build/compile.log"
    show_progress "$build/compile.log" >/dev/null &
    watcher=$!
    # meson finds the ninja that is there, whatever its name.
    meson compile -C "$build" -j "$(cores)" "$@" >"$build/compile.log" 2>&1
    built=$?
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
    [ ! -t 2 ] || printf '\r\033[K' >&2
    [ $built = 0 ] || {
        grep -v '^\[[0-9]*/[0-9]*\] [A-Z]' "$build/compile.log" | tail -n 60 >&2
        printf '%s\n' "lockstep: the build failed ($shown/compile.log)" >&2
        return 1
    }
    warnings=$(grep -c 'warning:' "$build/compile.log")
    say "built in $(($(date +%s) - started)) s, $warnings warnings"
}
