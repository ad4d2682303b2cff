#!/bin/sh
# Format, lint, type-check and analyse. Called by ./glow lint; --check changes no file and fails where one would.
# All steps run even when one fails, so that one look shows everything.
# shellcheck disable=SC2086 # variables with several words, on purpose
set -u
cd "$(dirname "$0")/.." || exit

case ${1:-} in
--check) ruff_format=--check ruff_check="" clang_format="--dry-run -Werror" ;;
"") ruff_format="" ruff_check=--fix clang_format=-i ;;
*)
    echo "lint: --check or nothing, not $1" >&2
    exit 2
    ;;
esac
failed=""

step() { # NAME COMMAND...
    name=$1
    shift
    echo "lint: $name"
    "$@" || failed="$failed, $name"
}

c_files() {
    find runtime_c boards \( -name '*.c' -o -name '*.h' \) -print0 | sort -z
}

format_c() {
    c_files | xargs -0 -r clang-format $clang_format
}

# Each portable kernel by itself, as the host's compilers see it. Kernels are static: a bundle includes them.
portable_kernels() {
    find runtime_c/kernels/portable runtime_c/kernels/x86 -name '*.c' -print0 | sort -z
}

analyse() { # COMMAND...: with warnings as errors, on every portable kernel
    portable_kernels | xargs -0 -r -P2 -I FILE scripts/once.sh "$@" -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror \
        -Wno-unused-function -Iruntime_c -Iruntime_c/kernels/portable -Iruntime_c/kernels/x86 -Ibuild/editor FILE
}

python scripts/editor_files.py || exit
mkdir -p build/cppcheck # what cppcheck found before, by the hash of each file

# mypy uses one core and the rest of the steps the others; what it says comes last.
types=$(mktemp)
trap 'rm -f "$types"' EXIT
mypy --no-error-summary >"$types" 2>&1 &
checking=$!

step "ruff format" ruff format -q $ruff_format .
step "ruff check" ruff check -q $ruff_check .
step "clang-format" format_c
step "cppcheck" cppcheck --quiet -j2 --cppcheck-build-dir=build/cppcheck --std=c99 --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem --error-exitcode=1 -Iruntime_c $(printf " -I%s" runtime_c/kernels/*) runtime_c boards
step "gcc -fanalyzer" analyse gcc -c -fanalyzer -fkeep-static-functions
step "clang --analyze" analyse clang --analyze --analyzer-output text -Xclang -analyzer-werror

types_are_right() {
    status=0
    wait "$checking" || status=$?
    cat "$types"
    return $status
}
step "mypy" types_are_right

if [ -n "$failed" ]; then
    echo "lint: failed: ${failed#, }" >&2
    exit 1
fi
echo "lint: clean"
