#!/bin/sh
# Renew requirements.lock and requirements-dev.lock from the ranges in pyproject.toml.
# Run it with the oldest Python that we support, so that every version in them exists for all.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3.11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

requirements() { # EXTRA...: what pyproject.toml asks for, with these extras
    "$python" -c '
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
wanted = project["project"]["dependencies"] + project["build-system"]["requires"] + ["editables"]
for extra in sys.argv[1:]:
    wanted += project["project"]["optional-dependencies"][extra]
print(*wanted, sep="\n")' "$@"
}

"$python" -m venv "$work/venv"
pip="$work/venv/bin/python -m pip --disable-pip-version-check"
for extras in planner "planner dev"; do
    name=${extras##* }
    requirements $extras >"$work/$name.in"
    $pip install -q -r "$work/$name.in"
    $pip freeze | sort -f >"$work/$name.txt"
done

{
    echo "# The environment that runs glowembed, exact versions; Python 3.11 and newer. Made by scripts/lock.sh."
    cat "$work/planner.txt"
} >requirements.lock
{
    echo "# What tests and lint need besides. Made by scripts/lock.sh."
    echo "-r requirements.lock"
    grep -vxFf "$work/planner.txt" "$work/dev.txt"
} >requirements-dev.lock
