"""Checks whether samples are suitable for calibration and validation. In: samples, a profile, a graph with types. Out:
Notes.

Nothing is refused here. Data of the right shape may still be the wrong data, and the notes tell the user.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Graph, QType
from glowembed.graph.notes import Note
from glowembed.ops.attention import MASK
from glowembed.ranges.datasets import Dataset
from glowembed.ranges.profile import Profile
from glowembed.ranges.record import Histogram

FEW_SAMPLES = 8
CLIPPED = 0.01
"""The largest share of an input's numbers that may lie outside the range of its type without a note."""

FAR = 1.8
"""Standard deviations that differ by this factor do not come from many samples of one kind; those of 0..1 and -1..1
differ by 2.
"""


def calibration(dataset: Dataset) -> tuple[Note, ...]:
    """Notes about doubtful samples for calibration."""
    return tuple(note for name, array in dataset.inputs.items() if array.size for note in _constant(name, array))


def few(samples: int) -> tuple[Note, ...]:
    """A note if a calibration has few samples in total; the profiles of several runs may have been merged."""
    if samples >= FEW_SAMPLES:
        return ()
    count = f"{samples} {'sample' if samples == 1 else 'samples'}"
    return (Note("few-samples", f"ranges come from {count}: give {FEW_SAMPLES} or more, as varied as possible"),)


def _constant(name: str, array: Array) -> Iterator[Note]:
    flat = array.reshape(len(array), -1)
    constant = np.all(flat == flat[:, :1], axis=1) & (flat.shape[1] > 1)
    zeros = int(np.count_nonzero(constant & (flat[:, 0] == 0)))
    if constant.any():
        count = int(np.count_nonzero(constant))
        yield Note(
            "constant-samples", f"{name}: {count} of {len(flat)} samples hold one number only ({zeros} of them zeros)"
        )


def statistics(profile: Profile, graph: Graph) -> dict[str, dict[str, float]]:
    """Statistics of each input over the calibration samples, for comparison with other samples."""
    known = {name: profile.values[name] for name in graph.inputs if name in profile.values}
    return {name: {"low": v.low, "high": v.high, **_moments(v.histogram)} for name, v in known.items() if v.histogram}


def _moments(histogram: Histogram) -> dict[str, float]:
    centers, counts = _centers(histogram), histogram.counts
    total = int(counts.sum())
    mean = math.fsum(counts * centers) / total
    return {"mean": _rounded(mean), "std": _rounded(math.sqrt(math.fsum(counts * (centers - mean) ** 2) / total))}


def _centers(histogram: Histogram) -> Array:
    centers: Array = np.ldexp(np.arange(len(histogram.counts)) + (histogram.first + 0.5), histogram.exponent)
    return centers


def _rounded(x: float) -> float:
    """The number with six significant digits, so that the last bits of a sum do not show."""
    return float(f"{x:.6g}")


def calibration_clips(profile: Profile, graph: Graph) -> tuple[Note, ...]:
    """Notes about inputs whose type does not cover the calibration samples."""
    notes: list[Note] = []
    for name in graph.inputs:
        qtype, value = _type(graph, name), profile.values.get(name)
        if qtype is not None and value is not None and value.histogram is not None:
            outside = _outside(_centers(value.histogram), qtype)
            share = float((value.histogram.counts * outside).sum() / value.histogram.counts.sum())
            notes += _clips(name, share, qtype, "of the calibration samples", "; --calibration minmax keeps all")
    return tuple(notes)


def validation(dataset: Dataset, graph: Graph, calibrated: Mapping[str, Any] | None) -> tuple[Note, ...]:
    """Notes about doubtful samples for a bundle. calibrated: the manifest's entry about the calibration, if it has
    one.
    """
    notes: list[Note] = []
    for name, array in dataset.inputs.items():
        qtype = _type(graph, name)
        if qtype is not None and array.size:
            share = float(np.mean(_outside(array.astype(np.float64), qtype)))
            notes += _clips(name, share, qtype, f"of the samples ({array.min():.4g}..{array.max():.4g})", "")
        seen = (calibrated or {}).get("inputs", {}).get(name)
        if calibrated is not None and seen is not None:
            notes += _differs(name, array, seen, min(len(array), calibrated["samples"]))
    return tuple(notes)


def _type(graph: Graph, name: str) -> QType | None:
    """The type in which an input is stored, even if the bundle takes it as float and quantizes it."""
    made = (
        graph.values[n.outputs[0]].qtype
        for n in graph.nodes
        if n.inputs == (name,) and n.op.lower().startswith("quantize")
    )
    return graph.values[name].qtype or next(made, None)


def _outside(real: Array, qtype: QType) -> Array:
    (low, high), half = qtype.range(), qtype.scale[0] / 2
    return np.asarray((real < low - half) | (real > high + half))


def _clips(name: str, share: float, qtype: QType, whose: str, advice: str) -> Iterator[Note]:
    if share > CLIPPED and qtype != MASK:
        low, high = qtype.range()
        text = (
            f"{name}: {100 * share:.1f} % {whose} lie outside its range {low:.4g}..{high:.4g} and are clipped{advice}"
        )
        yield Note("input-clips", text)


def _differs(name: str, array: Array, seen: Mapping[str, float], count: int) -> Iterator[Note]:
    """A note if the samples differ from the calibration by more than chance allows for their number."""
    factor = max(FAR, 1 + 4 / math.sqrt(count))
    mean, std = float(array.mean(dtype=np.float64)), float(array.std(dtype=np.float64))
    small, large = sorted((std, seen["std"]))
    if large > factor * small or abs(mean - seen["mean"]) > factor / FAR * large:
        told = f"mean {mean:.4g}, deviation {std:.4g}; calibration saw mean {seen['mean']:.4g}, deviation {seen['std']:.4g}"
        yield Note("range-differs", f"{name}: {told}: are they preprocessed in the same way?")
