"""The windows, mel bands and cosines of an audio front end. In: the attrs of a Features node. Out: float64 arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.records import dataclass

Floats = NDArray[np.float64]
Attrs = Mapping[str, Any]

LN2 = float(np.log(2.0))
LINEAR_HZ, LINEAR_MEL, STEP = 1000.0, 15.0, np.log(6.4) / 27.0
"""Slaney's scale: 3 mel for each 200 Hz up to 1000 Hz, then 27 mel for each factor of 6.4."""


def window(a: Attrs) -> Floats:
    """The window of a frame. A symmetric window ends with the number that it begins with."""
    count, around = a["window"], a["window"] if a["periodic"] else a["window"] - 1
    turn = np.cos(2 * np.pi * np.arange(count) / around)
    kinds: dict[str, Floats] = {
        "hann": 0.5 - 0.5 * turn,
        "hamming": 0.54 - 0.46 * turn,
        "rectangular": np.ones(count),
    }
    return kinds[a["shape"]]


def _mel(hz: Floats, scale: str) -> Floats:
    if scale == "htk":
        return 1127.0 * np.log1p(hz / 700.0)
    above = LINEAR_MEL + np.log(np.maximum(hz, LINEAR_HZ) / LINEAR_HZ) / STEP
    return np.where(hz < LINEAR_HZ, hz * LINEAR_MEL / LINEAR_HZ, above)


def _hz(mel: Floats, scale: str) -> Floats:
    if scale == "htk":
        return 700.0 * np.expm1(mel / 1127.0)
    above = LINEAR_HZ * np.exp((np.maximum(mel, LINEAR_MEL) - LINEAR_MEL) * STEP)
    return np.where(mel < LINEAR_MEL, mel * LINEAR_HZ / LINEAR_MEL, above)


@dataclass(frozen=True)
class Bands:
    """Triangular bands that overlap by half. first: the first bin that a band needs. counts: the number of bins between
    two corners. ramps: for each bin, its share in the triangle whose middle is the corner above it. areas: the factor
    of each triangle.
    """

    first: int
    counts: NDArray[np.int64]
    ramps: Floats
    areas: Floats

    @property
    def weights(self) -> Floats:
        """The weights without the factors, [bins from `first` on, bands]."""
        segment = np.repeat(np.arange(len(self.counts)), self.counts)
        found = np.zeros((len(self.ramps), len(self.counts) + 1))
        places = np.arange(len(self.ramps))
        found[places, segment + 1] = self.ramps
        found[places, segment] += 1 - self.ramps
        return found[:, 1:-1]


def bands(a: Attrs) -> Bands:
    """The bands of a front end. Raises ValueError for a band without a bin."""
    hz = np.arange(a["fft"] // 2 + 1) * a["sample_rate"] / a["fft"]
    low, high = _mel(np.asarray([a["low_hz"], a["high_hz"]]), a["mel"])
    corners = np.linspace(low, high, a["bands"] + 2)
    at_hz = _hz(corners, a["mel"])
    places, edges = (_mel(hz, a["mel"]), corners) if a["triangles"] == "mel" else (hz, at_hz)
    segment = np.searchsorted(edges, places, side="right") - 1
    inside = np.flatnonzero((segment >= 0) & (segment <= a["bands"]))
    inside = inside[inside < a["fft"] // 2]  # the last bin belongs to no triangle that ends at it
    segment = segment[inside]
    ramps = (places[inside] - edges[segment]) / (edges[segment + 1] - edges[segment])
    counts = np.bincount(segment, minlength=a["bands"] + 1)
    areas = 2.0 / (at_hz[2:] - at_hz[:-2]) if a["area"] else np.ones(a["bands"])
    found = Bands(int(inside[0]) if len(inside) else 0, counts, ramps, areas)
    empty = np.flatnonzero(found.weights.sum(axis=0) * 2.0**15 < 1) if len(inside) else [0]
    if len(empty):
        raise ValueError(
            f"band {empty[0]} of {a['bands']} lies between two of the {a['fft'] // 2 + 1} bins: take fewer bands, or a larger fft"
        )
    return found


def cosines(a: Attrs) -> Floats:
    """The discrete cosine transform of type 2, scaled by sqrt(2 / bands), [coefficients, bands]."""
    count = a["bands"]
    k, n = np.arange(a["coefficients"])[:, None], np.arange(count)[None, :]
    found = (2.0 / count) ** 0.5 * np.cos(np.pi * k * (2 * n + 1) / (2 * count))
    if a["cosines"] == "orthonormal":
        found[0] /= 2**0.5
    return np.asarray(found)


def per_octave(a: Attrs) -> float:
    """How much the logarithm of a front end grows when its spectrum doubles."""
    decibel = 10.0 if a["spectrum"] == "power" else 20.0
    log10 = LN2 / float(np.log(10))
    kinds = {"ln": LN2, "log10": log10, "log2": 1.0, "decibel": decibel * log10}
    return kinds[a["log"]]
