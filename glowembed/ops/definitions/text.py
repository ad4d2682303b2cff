"""TfIdfVectorizer, which counts how often each n-gram of a pool of integers occurs in each row, and weights the counts.

Source: the operator's section of ONNX 1.23. An n-gram with one element has no skips, so it is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import constant, index, where
from glowembed.nest.program import Tensor
from glowembed.ops.shared.definition import Definition, operator, require

MODES = ("TF", "IDF", "TFIDF")


@operator("TfIdfVectorizer")
def _tf_idf_vectorizer(n: Definition) -> None:
    x, k, mode = n.input(0), n.k, n.attr("mode")
    if n.attr("pool_strings"):
        raise Refused("its pool is of strings", "map words to integers before the network")
    if mode not in MODES:
        raise Refused(f"its mode is {mode!r}", f"supported: {', '.join(MODES)}")
    require(x.rank in (1, 2), f"its input has {x.rank} axes, not one or two")
    columns = [int(v) for v in n.attr("ngram_indexes") or []]
    require(bool(columns) and min(columns) >= 0, "its ngram_indexes are empty or negative")
    rows = x.view((1, *x.shape)) if x.rank == 1 else x
    count, width = rows.shape[0], max(columns) + 1
    found = k.temporary((count, width), "int32")
    with k.each(found.shape) as at:
        k.store(found, at, 0)
    first = 0
    for grams in _pools(n):
        own, first = columns[first : first + len(grams)], first + len(grams)
        if len(grams) and int(n.attr("min_gram_length")) <= grams.shape[1] <= int(n.attr("max_gram_length")):
            _count(n, rows, found, grams, own)
    require(first == len(columns), f"it has {len(columns)} ngram_indexes for {first} n-grams")
    weights = _weights(n, columns)
    y = n.output(0, (*x.shape[:-1], width), "float32").view(found.shape)
    with k.each(y.shape) as at:
        times = found[at] if mode != "IDF" else where(found[at] > 0, constant(1, "int32"), 0)
        k.store(y, at, times.to("float32") if weights is None else times.to("float32") * weights.flat(at[1]))


def _pools(n: Definition) -> Iterator[Any]:
    """The n-grams of the pool, as one matrix for each n = 1, 2, ..."""
    pool = np.asarray(n.attr("pool_int64s") or [], np.int64)
    starts = [int(v) for v in n.attr("ngram_counts") or []]
    least, most = int(n.attr("min_gram_length")), int(n.attr("max_gram_length"))
    require(1 <= least <= most <= len(starts), f"it has n-grams of {least} to {most} elements in {len(starts)} pools")
    for size, (start, end) in enumerate(pairwise([*starts, len(pool)]), 1):
        fits = 0 <= start <= end <= len(pool) and (end - start) % size == 0
        require(fits, f"its pool of n-grams of {size} elements is {start} to {end} of {len(pool)} integers")
        yield pool[start:end].reshape(-1, size)


def _count(n: Definition, rows: Tensor, found: Tensor, grams: Any, columns: list[int]) -> None:
    """Count the n-grams of one length, from every start and with every number of skipped elements."""
    k, size = n.k, grams.shape[1]
    skips = 1 if size == 1 else min(int(n.attr("max_skip_count", 0)), rows.shape[1]) + 1
    require(skips > 0, "its max_skip_count is negative")
    pool, places = n.add_constant(grams), n.add_constant(np.asarray(columns, np.int32))
    here = k.temporary((rows.shape[0], len(grams)), "int32")
    with k.each(here.shape) as (row, g):
        total = k.variable(0, INDEX)
        with (
            k.loop(skips) as skip,
            k.loop(rows.shape[1]) as start,
            k.when(start + (skip + 1) * (size - 1) < rows.shape[1]),
        ):
            same = k.variable(True, BOOL)
            for j in range(size):
                k.set(same, same & rows[row, start + (skip + 1) * j].to("int64").equals(pool[g, index(j)]))
            k.set(total, where(same, total + 1, total))
        k.store(here, (row, g), total.to("int32"))
    with k.loop(len(grams)) as g, k.each((rows.shape[0],)) as (row,):
        column = k.let(places.flat(g).to(INDEX))
        k.store(found, (row, column), found[row, column] + here[row, g])


def _weights(n: Definition, columns: list[int]) -> Any:
    """The weight of each column, which is that of its n-gram; None if there are no weights or the mode does not use
    them.
    """
    given = n.attr("weights")
    if not given or n.attr("mode") == "TF":
        return None
    require(len(given) == len(columns), f"it has {len(given)} weights for {len(columns)} n-grams")
    require(
        len({*columns}) == len({*zip(columns, given, strict=True)}), "n-grams of one column differ in their weights"
    )
    weights = np.zeros(max(columns) + 1, np.float32)
    weights[columns] = given
    return n.add_constant(weights)
