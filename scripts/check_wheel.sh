#!/bin/sh
# Proof that the wheel is complete: built, installed into an empty environment, used outside the checkout.
#   scripts/check_wheel.sh [PYTHON [locked|oldest]]   (in the environment of ./glow: ./glow run scripts/check_wheel.sh python3.13)
# locked: the packages of requirements.lock. oldest: the oldest that pyproject.toml allows (Python 3.11 and 3.12 have wheels of all).
set -eu
python=${1:-python}
versions=${2:-locked}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

step() { echo "wheel: $*"; }

step "building"
python -m pip wheel -q --no-deps --no-build-isolation -w "$work" "$root"

oldest() {
    python -c '
import sys, tomllib
for requirement in tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"]:
    print(requirement.split(",")[0].replace(">=", "=="))' "$root/pyproject.toml"
}

step "installing into an empty environment of $("$python" --version), $versions versions"
"$python" -m venv --without-pip "$work/venv"
: >"$work/constraints.txt"
case $versions in
locked) python -m pip --python "$work/venv/bin/python" install -q --no-deps -r "$root/requirements.lock" ;;
oldest) oldest >"$work/constraints.txt" ;;
*) echo "wheel: locked or oldest, not $versions" >&2 && exit 2 ;;
esac
python -m pip --python "$work/venv/bin/python" install -q --only-binary :all: -c "$work/constraints.txt" "$work"/glowembed-*.whl
python -m pip --python "$work/venv/bin/python" check -q

# A stranger's folder, a stranger's PATH: nothing of the checkout or of its environment may help.
mkdir "$work/elsewhere"
cd "$work/elsewhere"
cp "$root/examples/digits/model.onnx" "$root/examples/digits/data.npz" .
PATH=$work/venv/bin:/usr/local/bin:/usr/bin:/bin
unset PYTHONPATH VIRTUAL_ENV

prove() { # TARGET BOARD
    step "digits for $1 on $2"
    glowembed compile model.onnx --data data.npz --target "$1" -o "$2"
    glowembed validate "$2" --board "$2" --data data.npz --json "$2.json"
    python -c 'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["bit_exact"])' "$2.json"
}
step "the help of a command"
glowembed compile --help >/dev/null
prove cortex-m4 mps2-an386
prove x86-64 host
step "documents"
page=$(glowembed docs || true)
case $page in
*/site/index.html) [ -e "${page%/*}/guides/from-pytorch.html" ] ;;
*) [ -z "${GLOWEMBED_SITE:-}" ] ;; # mkdocs was not there
esac
step "complete"
