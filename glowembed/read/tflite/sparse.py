"""Expands a sparse constant of a TensorFlow Lite file.

In: its stored numbers, and how the levels of the format enumerate them. Out: the dense array. A level is an axis of the
tensor or of a block; the levels come in the order in which the numbers were traversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from glowembed.graph.ir import Array, Shape
from glowembed.records import dataclass


@dataclass(frozen=True, eq=False)
class Level:
    """An axis that is traversed. axis: its number, those of a block after the axes of the tensor. size: of a dense
    level. segments and indices: of a sparse one: its positions below parent p are indices[segments[p] : segments[p + 1]].
    """

    axis: int
    size: int
    segments: Array | None = None
    indices: Array | None = None


def dense(data: Array, shape: Shape, levels: Sequence[Level], blocks: Sequence[int]) -> Array:
    """The dense array of a shape, with 0 where the file has no number. blocks: the axis of the tensor that each axis of
    a block divides. Raises ValueError or LookupError if the levels do not fit the data or the shape.
    """
    places = {level.axis: np.zeros(1, np.int64) for level in levels}
    sizes, at = dict.fromkeys(range(len(shape) + len(blocks)), 1), np.zeros(1, np.int64)
    if sorted(places) != list(sizes) or len(levels) != len(sizes):
        raise ValueError(f"a sparse tensor of {len(shape)} axes has the levels {[level.axis for level in levels]}")
    for level in levels:
        below, at, index = _positions(level, at, max(data.size, prod(shape)))
        places = {axis: found[below] for axis, found in places.items()} | {level.axis: index}
        sizes[level.axis] = level.size
    for axis, block in zip(blocks, range(len(shape), len(sizes)), strict=True):
        places[axis] = places[axis] * sizes[block] + places[block]
    result = np.zeros(shape, data.dtype)
    if at.size != data.size or any(places[axis].min(initial=0) < 0 for axis in range(len(shape))):
        raise ValueError(f"a sparse tensor has {data.size} numbers at {at.size} places")
    result[tuple(places[axis] for axis in range(len(shape)))] = data[at]
    return result


def _positions(level: Level, at: Array, most: int) -> tuple[Array, Array, Array]:
    """For each position of a level: which of the positions `at` of the level above it lies below, its own number, and
    its index along the axis.
    """
    if level.segments is None or level.indices is None:
        counts, starts = np.full(at.size, level.size), at * level.size
    else:
        counts, starts = level.segments[at + 1] - level.segments[at], level.segments[at]
    if counts.min(initial=0) < 0 or counts.sum() > most:
        raise ValueError("the segments of a sparse tensor do not fit its shape")
    below = np.repeat(np.arange(at.size), counts)
    step = np.arange(below.size) - np.repeat(np.cumsum(counts) - counts, counts)
    own = starts[below] + step
    return below, own, step if level.indices is None else level.indices[own]
