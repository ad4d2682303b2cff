"""Random shapes of convolutions on a core: which are slow? Prints the worst cycles per MAC, stores all of them.

    python benchmarks/sweep.py --count 200 --seed 1 -o sweep.json

Kernels of 1..10 taps each way, strides 1 and 2, dilations 1..3, 1..256 channels, up to --macs multiply-accumulates; a
third of them depthwise, some of the others in groups. The same seed gives the same shapes. A convolution above 3 cycles
per MAC on a Cortex-M4, or a depthwise one above 4, is a defect, but where the requantization of an output or the beginning
of a call is most of the work: with at most FEW products for an output, or fewer than LITTLE in all, counted apart.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from glowembed.law import blas  # noqa: F401

# isort: split
import cores
import shapes

from glowembed.errors import GlowembedError

CHANNELS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 20, 24, 31, 32, 40, 48, 64, 65, 96, 128, 160, 192, 256)
GROUPS = (2, 3, 4, 8, 16)
SLOW = {"conv": 3.0, "dw": 4.0}
FEW, LITTLE = 6.0, 2000


def main() -> int:
    """Sweep until the count or the time is reached."""
    args = _arguments()
    chance = random.Random(args.seed)
    end = time.monotonic() + args.minutes * 60
    rows: list[dict[str, Any]] = []
    while len(rows) < args.count and time.monotonic() < end:
        name = _shape(chance, args.macs)
        try:
            rows.append(cores.kernel_row(name, args.core, {"kernels": {}}))
        except GlowembedError as error:
            print(f"{name}: {error}")
            rows.append({"kernel": name, "error": str(error)})
    _print(rows, args.worst)
    if args.output is not None:
        args.output.write_text(json.dumps({"schema": 1, "core": args.core, "seed": args.seed, "rows": rows}, indent=1))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", default="cortex-m4")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--macs", type=int, default=1_000_000, help="no larger layers")
    parser.add_argument("--minutes", type=float, default=30.0, help="stop after this time")
    parser.add_argument("--worst", type=int, default=20, help="how many to print")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    return parser.parse_args()


def _shape(chance: random.Random, limit: int) -> str:
    """The name of a layer of at most `limit` MACs (benchmarks/shapes.py says how names are read)."""
    while True:
        depthwise = chance.random() < 1 / 3
        kh = chance.choice((1, 2, 3, 3, 3, 4, 5, 7, 10))
        kw = chance.choice((kh, kh, 1, 3))
        stride, dilation = chance.choice((1, 1, 2)), chance.choice((1, 1, 1, 2, 3))
        h = chance.choice((1, 2, 3, 5, 6, 7, 8, 9, 12, 16, 24, 25, 32, 48))
        w = chance.choice((h, h, 1, 5, 10, 17))
        c, o = chance.choice(CHANNELS), chance.choice(CHANNELS)
        groups = 1 if depthwise else chance.choice((1, 1, 1, *(g for g in GROUPS if c % g == o % g == 0 and g < c)))
        macs = -(-h // stride) * -(-w // stride) * kh * kw * c * (1 if depthwise else o) // groups
        if 2000 <= macs <= limit:
            form = f"{kh}x{kw}" + (f"s{stride}" if stride > 1 else "") + (f"d{dilation}" if dilation > 1 else "")
            form += f"g{groups}" if groups > 1 else ""
            return f"dw{form}_{h}x{w}x{c}" if depthwise else f"conv{form}_{h}x{w}x{c}_{o}"


def _print(rows: list[dict[str, Any]], worst: int) -> None:
    done = [row for row in rows if "error" not in row]
    done.sort(key=lambda row: -_per_mac(row))
    print(f"{'cycles/MAC':>10} {'MACs':>10} {'for one':>8}  layer, kernel; for one: products for an output")
    for row in done[:worst]:
        products = f"{_products(row):.1f}"
        print(f"{_per_mac(row):10.2f} {row['macs']:10,} {products:>8}  {row['kernel']}  {row['symbols'][0]}")
    for kind, limit in SLOW.items():
        these = [row for row in done if row["kernel"].startswith(kind)]
        slow = [row for row in these if _per_mac(row) > limit]
        apart = sum(_products(row) <= FEW or row["macs"] < LITTLE for row in slow)
        print(
            f"{kind}: {len(slow)} of {len(these)} above {limit:g} cycles per MAC, {apart} of them with at most {FEW:g} "
            f"products for an output or fewer than {LITTLE:,} in all"
        )


def _per_mac(row: dict[str, Any]) -> float:
    return float(row["cycles_estimate"]) / row["macs"]


def _products(row: dict[str, Any]) -> float:
    """For an output, in the mean; the compiler leaves out taps that only lie in padding."""
    match = shapes.CONV.fullmatch(row["kernel"])
    assert match is not None, row["kernel"]
    stride, h, w, c, outputs = (int(match[i] or 0) for i in (4, 7, 8, 9, 10))
    stride = stride or 1
    return float(row["macs"]) / (-(-h // stride) * -(-w // stride) * (outputs or c))


if __name__ == "__main__":
    sys.exit(main())
