#!/bin/sh
# Run a compiler on one C file, unless the same command was clean before for the same text after the preprocessor, by the
# same version of the compiler. Called by scripts/lint.sh: once.sh COMMAND... FILE.
set -u
compiler=$1
clean=${HOME:-/nonexistent}/.cache/glowembed/lint/$({ "$compiler" --version && echo "$@" && "$@" -E -Wno-unused-command-line-argument; } 2>&1 | sha256sum | cut -c1-32)
[ ! -e "$clean" ] || exit 0
"$@" -o /dev/null || exit
mkdir -p "${clean%/*}" 2>/dev/null && : >"$clean" || exit 0 # without a home, each run looks at each file
