#!/bin/sh
# Format, lint, type-check and analyse. Called by ./glow lint; --check changes no file and fails where one would.
# All steps run even when one fails, so that one look shows everything.
set -u
cd "$(dirname "$0")/.."

case ${1:-} in
--check) check=yes ;;
"") check="" ;;
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
    c_files | xargs -0 -r clang-format ${check:+--dry-run} ${check:+-Werror} ${check:--i}
}

# What the host's compilers can see: all C but that of boards and of instruction sets the host does not have.
host_c_files() {
    find runtime_c -name '*.c' ! -name '*_dsp.c' ! -name '*_mve.c' ! -name '*_vnni.c' ! -name '*_avx2.c' \
        ! -name '*_sse41.c' ! -path '*/harness/*' -print0 | sort -z
}

warnings="-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Werror -Iruntime_c"

gcc_analyzer() {
    # shellcheck disable=SC2086 # words on purpose
    host_c_files | xargs -0 -r -P2 -n8 sh -c 'for f; do gcc '"$warnings"' -O1 -fanalyzer -c -o /dev/null "$f" || exit 1; done' sh
}

clang_analyzer() {
    host_c_files | xargs -0 -r -P2 -n8 clang $warnings --analyze --analyzer-output text -Xclang -analyzer-werror
}

step "ruff format" ruff format -q ${check:+--check} .
step "ruff check" ruff check -q ${check:---fix} .
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
