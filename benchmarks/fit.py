"""Cost figures for targets/*.toml from measured layers: cycles = a MACs + b taps + c tap rows + d outputs.

    python benchmarks/fit.py result.json sweep.json ...

Per kernel and core; reads results of run.py and sweep.py. A tap is one position of the kernel over one output, a tap row
one row of positions, padding included. Prints lines for [costs], and how far the fit is from what was measured: the median and the largest error, and the layer that
has it. A figure that would be negative is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapes
from numpy.typing import NDArray

FIGURES = ("cycles_per_mac", "cycles_per_tap", "cycles_per_tap_row", "cycles_per_output")
FEWEST = 8


@dataclass(frozen=True)
class Layer:
    """The measured cycles of a layer, and the counts of which its cost is made."""

    name: str
    cycles: float
    features: tuple[float, ...]


def main() -> int:
    """Fit every kernel of every core."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    groups: dict[tuple[str, str], dict[str, Layer]] = {}
    for path in parser.parse_args().results:
        for core, symbol, layer in _layers(json.loads(path.read_text("utf-8"))):
            groups.setdefault((core, symbol), {})[layer.name] = layer
    for (core, symbol), layers in sorted(groups.items()):
        if len(layers) >= FEWEST:
            _print(core, symbol, list(layers.values()))
    return 0


def _layers(result: dict[str, Any]) -> Iterator[tuple[str, str, Layer]]:
    for row in result.get("kernels") or result.get("rows") or []:
        features = None if row.get("cycles_estimate") is None else _features(row["kernel"])
        if features is not None and len(row["symbols"]) == 1:
            yield row["target"], row["symbols"][0], Layer(row["kernel"], row["cycles_estimate"], features)


def _features(name: str) -> tuple[float, ...] | None:
    """MACs, taps, tap rows, outputs from the name of a layer; None for layers without MACs."""
    fc, conv = shapes.FC.fullmatch(name), shapes.CONV.fullmatch(name)
    if fc is not None:
        return float(int(fc[1]) * int(fc[2])), float(fc[2]), float(fc[2]), float(fc[2])
    if conv is None:
        return None
    kh, kw, stride, _, h, w, c = (int(n or 1) for n in conv.groups()[1:8])
    channels = int(conv[9] or c)
    outputs = -(-h // stride) * -(-w // stride) * channels
    taps = outputs * kh * kw
    return float(taps * (1 if conv[1] == "dw" else c)), float(taps), float(outputs * kh), float(outputs)


def _print(core: str, symbol: str, layers: Sequence[Layer]) -> None:
    used, figures = fit(layers)
    errors = {layer.name: _error(layer, used, figures) for layer in layers}
    worst = max(errors, key=lambda name: abs(errors[name]))
    median = float(np.median([abs(e) for e in errors.values()]))
    print(
        f"# {core}, {symbol}: {len(layers)} layers; error {median:.1%} in the median, {errors[worst]:+.1%} for {worst}"
    )
    for index, figure in zip(used, figures, strict=True):
        print(f"{symbol.removeprefix('ge_')}_{FIGURES[index]} = {figure:.2f}")


def fit(layers: Sequence[Layer]) -> tuple[list[int], NDArray[np.float64]]:
    """Indices of the features that are used, and their figures: least squares of relative errors, none negative."""
    matrix = np.array([layer.features for layer in layers]) / np.array([[layer.cycles] for layer in layers])
    used = [i for i in range(matrix.shape[1]) if not any(np.allclose(matrix[:, i], matrix[:, j]) for j in range(i))]
    while True:
        figures = np.linalg.lstsq(matrix[:, used], np.ones(len(layers)), rcond=None)[0]
        if np.all(figures > 0):
            return used, figures
        used.pop(int(np.argmin(figures)))


def _error(layer: Layer, used: Sequence[int], figures: NDArray[np.float64]) -> float:
    return float(np.dot([layer.features[i] for i in used], figures) / layer.cycles - 1)


if __name__ == "__main__":
    sys.exit(main())
