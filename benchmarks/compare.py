"""Compares two results of run.py, A.json and B.json. Exit code 1 where something got worse by --fail percent.

python benchmarks/compare.py before.json after.json --fail 1
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIGURES = ("instructions", "cycles_estimate", "arena", "code", "rodata", "weights", "stack", "min_us")


def main() -> int:
    """Print the differences, the largest first."""
    args = _arguments()
    before, after = (dict(_figures(json.loads(path.read_text("utf-8")))) for path in (args.before, args.after))
    moved = sorted(_moved(before, after, args.show), key=lambda row: (-abs(row[1]), row[0]))
    for key, percent in moved:
        print(f"{percent:+8.2f} %  {key:64} {before[key]:>14,.6g} {after[key]:>14,.6g}")
    for word, keys in (("gone", before.keys() - after.keys()), ("new", after.keys() - before.keys())):
        for key in sorted(keys):
            print(f"{word:>10}  {key}")
    worse = [key for key, percent in moved if args.fail is not None and percent >= args.fail]
    print(f"{len(moved)} of {len(before.keys() & after.keys())} figures moved; {len(worse)} got worse by too much")
    return 1 if worse else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--show", type=float, default=0.1, metavar="PERCENT", help="smaller moves are left out")
    parser.add_argument("--fail", type=float, metavar="PERCENT", help="growth that is an error")
    return parser.parse_args()


def _figures(result: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """`kernel pw_25x5x64_64 cortex-m4 instructions` -> number; all of them are better small."""
    for part in ("models", "kernels", "x86"):
        for row in result.get(part, []):
            subject = row.get("kernel") or row["model"]
            place = row.get("engine") or row["target"]
            place += "" if row.get("optimize", "balanced") == "balanced" else f" {row['optimize']}"
            for figure in FIGURES:
                if row.get(figure) is not None:
                    yield f"{subject} {place} {figure}", float(row[figure])


def _moved(before: dict[str, float], after: dict[str, float], show: float) -> Iterator[tuple[str, float]]:
    for key in before.keys() & after.keys():
        percent = 100.0 * (after[key] - before[key]) / before[key] if before[key] else 100.0 * (after[key] != 0)
        if abs(percent) >= show:
            yield key, percent


if __name__ == "__main__":
    sys.exit(main())
