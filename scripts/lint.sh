#!/bin/sh
# Format, lint, type-check and analyse. Called by ./glow lint; --check changes no file and fails where one would.
# All steps run even when one fails, so that one look shows everything.
# shellcheck disable=SC2086 # variables with several words, on purpose
set -u
cd "$(dirname "$0")/.."

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

# What the host's compilers can see: all C but that of boards and of instruction sets the host does not have.
host_c_files() {
    find runtime_c -name '*.c' ! -name '*_dsp.c' ! -name '*_mve.c' ! -name '*_vnni.c' ! -name '*_avx2.c' \
        ! -name '*_sse41.c' ! -path '*/harness/*' -print0 | sort -z
}

warnings="-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Werror -Iruntime_c"

gcc_analyzer() {
    host_c_files | xargs -0 -r -P2 -n8 sh -c 'for f; do gcc '"$warnings"' -O1 -fanalyzer -c -o /dev/null "$f" || exit 1; done' sh
}

clang_analyzer() {
    host_c_files | xargs -0 -r -P2 -n8 clang $warnings --analyze --analyzer-output text -Xclang -analyzer-werror
}

step "ruff format" ruff format -q $ruff_format .
step "ruff check" ruff check -q $ruff_check .
step "mypy" mypy --no-error-summary
step "clang-format" format_c
step "cppcheck" cppcheck --quiet --std=c99 --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem --error-exitcode=1 -Iruntime_c runtime_c boards
step "gcc -fanalyzer" gcc_analyzer
step "clang --analyze" clang_analyzer

if [ -n "$failed" ]; then
    echo "lint: failed: ${failed#, }" >&2
    exit 1
fi
echo "lint: clean"
