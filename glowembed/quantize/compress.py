"""Chooses the sixteen numbers that the weights of a layer may have with `weights: compressed`.

In: the float weights and their int8 type. Out: the type with the table. For given scales, the table has the least sum of
squared errors of all tables with 0 (k-means in one dimension has an exact solution), so it does not depend on a start
or on random numbers. Without 0, many kernels could not pad their weights. Scales and table are fitted to each other a
few times. An error counts relative to the power of its channel. A layer whose weights are at most sixteen different
numbers loses nothing; these are then the table, with 0 or without.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Const, QType

NUMBERS = 16
"""The most numbers of a table."""

HIGHEST = 127
"""The numbers of a table lie in -HIGHEST..HIGHEST."""

FACTORS = tuple(1 + k / 8 for k in range(9))
"""The scales that are tried for each channel, relative to the least one, with which its weights reach HIGHEST."""

ROUNDS = 3
"""How often scales and table are fitted to each other."""

PARTS = 2
"""The bins for each integer: the limits between two integers of a table are multiples of 1/2."""


def compressed(const: Const, qtype: QType) -> QType:
    """The int8 type of weights, the output channel first, with a table. The scales are those of `qtype`, unless the
    model has at most sixteen different numbers, which other scales keep.
    """
    for candidate in (qtype, _of_few(const, qtype)):
        if candidate is not None:
            own = np.unique(candidate.quantize(const.materialize()))
            if len(own) <= NUMBERS:
                return replace(candidate, table=tuple(map(int, own)))
    return _fitted(const.materialize(), qtype)


def _fitted(weights: Array, qtype: QType) -> QType:
    """The type with the best table for its scales, then with the best scales for this table, and so on."""
    rows = weights.reshape(len(weights), -1).astype(np.float64)
    given = np.broadcast_to(np.asarray(qtype.scale, np.float64), (len(rows),))
    power = np.square(rows).sum(axis=1)
    importance = rows.shape[1] / np.where(power > 0, power, np.inf)
    made = replace(qtype, table=best_table(rows, given, importance))
    for _ in range(ROUNDS if qtype.axis is not None else 0):
        tried = [replace(made, scale=tuple((given * factor).astype(np.float32).tolist())) for factor in FACTORS]
        errors = [np.square(rows - t.dequantize(t.quantize(rows))).sum(axis=1) for t in tried]
        scales = (given * np.asarray(FACTORS)[np.argmin(errors, axis=0)]).astype(np.float32)
        made = replace(
            made, scale=tuple(scales.tolist()), table=best_table(rows, scales.astype(np.float64), importance)
        )
    return made


def _of_few(const: Const, qtype: QType) -> QType | None:
    """The type in which at most sixteen numbers of the model stay that many, although a step gave each channel a factor
    of its own, as a folded BatchNormalization does; None if the model has more, or if a scale would have to be smaller
    than in `qtype`, which leaves room for the bias.
    """
    if len(np.unique(const.array)) > NUMBERS:
        return None
    factors = replace(const, array=np.ones_like(const.array)).materialize().reshape(len(qtype.scale), -1)
    if (factors != factors[:, :1]).any():
        return None
    peak = float(np.abs(const.array).max(initial=0.0)) / qtype.limits[1]
    given = np.asarray(qtype.scale)
    scales = np.where(factors[:, 0] == 0, given, np.abs(factors[:, 0].astype(np.float64)) * peak).astype(np.float32)
    rows = const.materialize().reshape(len(given), -1)
    scales = np.where(rows.any(axis=1), scales, given.astype(np.float32))
    return replace(qtype, scale=tuple(map(float, scales))) if (scales >= given * (1 - 2.0**-20)).all() else None


def best_table(
    rows: NDArray[np.float64], scales: NDArray[np.float64], importance: NDArray[np.float64]
) -> tuple[int, ...]:
    """The table with 0 and the least sum of squared errors, each times the importance of its channel."""
    low, high = -HIGHEST, HIGHEST
    x = np.clip(rows / scales[:, None], low, high)
    bins = np.minimum(np.floor((x - low) * PARTS), (high - low) * PARTS - 1).astype(np.int64).reshape(-1)
    count = (high - low) * PARTS
    weight = np.broadcast_to((scales**2 * importance)[:, None], x.shape)
    sums = [np.bincount(bins, (weight * x**power).reshape(-1), count) for power in range(3)]
    before: list[NDArray[np.float64]] = [np.concatenate([[0.0], np.cumsum(s)]) for s in sums]
    return _centres(before[0], before[1], before[2], -low * PARTS)


def _centres(
    weight: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64], zero: int
) -> tuple[int, ...]:
    """The centres, integers and one of them 0, of the best division of the bins into at most NUMBERS intervals. The
    arrays are the sums of weights, weights * x and weights * x^2 in the bins before each limit; `zero` is the limit 0.
    """
    w, s, q = (a[None, :] - a[:, None] for a in (weight, first, second))  # of the interval from one limit to another
    centre = np.rint(s / np.where(w > 0, w, 1.0))
    centre[:zero, zero + 1 :] = 0.0
    cost = np.where(np.tri(len(weight), k=-1, dtype=bool).T, q - 2 * centre * s + centre**2 * w, np.inf)
    cost[:zero, zero] = cost[zero, zero + 1 :] = np.inf  # 0 lies inside of an interval
    np.fill_diagonal(cost, 0.0)
    best, cuts = cost[0], []
    for _ in range(NUMBERS - 1):
        options = best[:, None] + cost
        cuts.append(options.argmin(axis=0))
        best = options.min(axis=0)
    limits = [len(weight) - 1]
    for cut in reversed(cuts):
        limits.append(int(cut[limits[-1]]))
    limits.append(0)
    return tuple(sorted({0, *(int(centre[a, b]) for b, a in pairwise(limits) if w[a, b] > 0)}))
