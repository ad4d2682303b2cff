#!/bin/sh
# Make sure that all that glowembed needs is here; install what is missing, say what cannot be installed.
#
#   scripts/setup.sh run    to compile, build and run: compilers, QEMU, .venv with requirements.lock
#   scripts/setup.sh dev    also for tests and lint: clang, cppcheck, CMake, RISC-V tools, requirements-dev.lock
#
# Where nothing is missing it costs some milliseconds. .venv is made anew when a lock file, this script
# or the place of the checkout has changed; nothing outside .venv and Debian's packages is touched.
set -eu
cd "$(dirname "$0")/.."

profile=${1:?run or dev}
case $profile in
run) lock=requirements.lock ;;
dev) lock=requirements-dev.lock ;;
*)
    echo "setup: run or dev, not $profile" >&2
    exit 2
    ;;
esac
python_packages=""
missing=""

say() { echo "setup: $*" >&2; }

fail() {
    say "$@"
    exit 4 # a tool is missing or failed, as in glowembed itself
}

# --- Debian packages -----------------------------------------------------------------------------

# need COMMAND PACKAGE: the package is missing where the command is.
need() {
    command -v "$1" >/dev/null || missing="$missing $2"
}

missing_tools() {
    missing=""
    need gcc gcc
    [ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
    need arm-none-eabi-gcc gcc-arm-none-eabi
    newlib || missing="$missing libnewlib-arm-none-eabi"
    need qemu-system-arm qemu-system-arm
    [ "$profile" = dev ] || return 0
    need g++ g++
    need clang clang
    need cmake cmake
    need make make
    need pkg-config pkg-config
    need cargo cargo
    need cppcheck cppcheck
    need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf
    [ -e /usr/lib/picolibc/riscv64-unknown-elf ] || missing="$missing picolibc-riscv64-unknown-elf"
    need qemu-system-riscv32 qemu-system-misc
}

newlib() {
    [ -e /usr/lib/arm-none-eabi/newlib/libc.a ] && return 0
    case $(arm-none-eabi-gcc -print-file-name=libc.a 2>/dev/null) in
    /*) return 0 ;; # gcc answers with a path only where the file is
    *) return 1 ;;
    esac
}

install_packages() { # PACKAGE...
    by_hand="apt-get update && apt-get install --no-install-recommends $*"
    command -v apt-get >/dev/null || fail "this is not Debian or Ubuntu. Please install what Debian calls: $*"
    if [ "$(id -u)" = 0 ]; then
        as_root="env"
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root="sudo env"
    else
        fail "neither root nor sudo. Please have this run as root: $by_hand"
    fi
    say "installing Debian packages: $*"
    apt="$as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0"
    $apt update >/dev/null || say "apt-get update failed; trying with the package lists that are here"
    $apt install --no-install-recommends "$@" >/dev/null || fail "apt-get failed. Please run as root: $by_hand"
}

# --- Python --------------------------------------------------------------------------------------

# Sets python to the first Python of 3.11 or newer, one that can make a venv if there is any.
find_python() {
    python=""
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        [ -n "$python" ] || python=$candidate
        "$candidate" -c 'import ensurepip, venv' 2>/dev/null || continue
        python=$candidate
        python_packages=""
        return 0
    done
    if [ -z "$python" ]; then
        python_packages="python3 python3-venv"
    else
        python_packages=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    fi
}

fingerprint() {
    { pwd && cat requirements.lock requirements-dev.lock scripts/setup.sh; } | sha256sum
}

# stamped PROFILE: .venv has the packages of this profile, of these lock files, at this place.
stamped() {
    [ -x .venv/bin/python ] && [ "$(cat ".venv/$1.stamp" 2>/dev/null)" = "$(fingerprint)" ]
}

make_venv() {
    say "filling .venv with the packages of $lock (once, about a minute)"
    if ! stamped run; then
        rm -rf .venv
        "$python" -m venv .venv || fail "$python could not make a virtual environment"
    fi
    pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore .venv/bin/python -m pip -q"
    $pip install --no-deps -r "$lock" >&2 || fail "pip could not install $lock"
    $pip install --no-deps --no-build-isolation -e . >&2 || fail "pip could not install glowembed itself"
    $pip check >&2 || fail "the packages in $lock do not go together"
    fingerprint | tee .venv/run.stamp >".venv/$profile.stamp"
}

# --- the steps -----------------------------------------------------------------------------------

missing_tools
stamped "$profile" || find_python
if [ -n "$missing$python_packages" ]; then
    # shellcheck disable=SC2086 # words on purpose
    install_packages $missing $python_packages
    [ -z "$python_packages" ] || find_python
    [ -z "$python_packages" ] || fail "no Python of 3.11 or newer that can make a venv; please install one"
fi
stamped "$profile" || make_venv
