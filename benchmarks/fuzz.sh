#!/bin/sh
# Fuzz the C frame parser and server under ASan and UBSan. Needs clang with libFuzzer (Debian: clang libclang-rt-14-dev).
#
#   benchmarks/fuzz.sh [RUNS [FOLDER]]      by default 10,000,000; the corpus and what crashes go to FOLDER
set -eu
root=$(dirname "$(readlink -f "$0")")/..
runs=${1:-10000000}
folder=${2:-build/fuzz}
mkdir -p "$folder/corpus"
harness=$root/runtime_c/harness
clang -std=c99 -O2 -DGE_CHUNK=128 -Wall -Wextra -Wpedantic -Wconversion -Werror \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    -I"$harness" -I"$root/boards/common" -o "$folder/fuzz_server" \
    "$root/tests/fuzz/fuzz_server.c" "$harness/server.c" "$harness/protocol.c" "$harness/guard.c"
exec "$folder/fuzz_server" -runs="$runs" -max_len=200 -print_final_stats=1 -artifact_prefix="$folder/" "$folder/corpus"
