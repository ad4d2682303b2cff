"""The parts that the classifiers and regressors of ai.onnx.ml share: samples, labels, and the transformation of scores.

Scores lie in a temporary tensor, one row for each sample. If ONNX's text leaves a choice, the definition follows
onnxruntime: a regressor with one target ignores its post_transform except PROBIT, and a classifier with one score for
two classes writes two columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest.dtypes import INDEX
from glowembed.nest.expr import Expr, call, constant, index, maximum, sqrt, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.pointwise import sigmoid
from glowembed.ops.shared.definition import Definition, require

F32 = "float32"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The post transforms in the order in which ONNX numbers them for TreeEnsemble. onnxruntime 1.31 reads 1 as
LOGISTIC.
"""


def samples_of(x: Tensor) -> Tensor:
    """The input as [samples, features]; a vector is one sample."""
    count = x.shape[0] if x.rank > 1 else 1
    return x.view((count, x.size // max(count, 1)))


def floats(n: Definition, name: str, size: int) -> Tensor:
    """A list attribute of `size` numbers as a float32 constant; zeros if it is absent."""
    values = n.attr(name) or [0.0] * size
    require(len(values) == size, f"it has {len(values)} {name}, and {size} are needed")
    return n.add_constant(np.asarray(values, np.float32))


def post_transform(n: Definition) -> str:
    """The name of the post transform. Raises Refused for an unknown one."""
    kind = n.attr("post_transform", "NONE")
    if isinstance(kind, int) and 0 <= kind < len(TRANSFORMS):
        return TRANSFORMS[kind]
    if kind not in TRANSFORMS:
        raise Refused(f"its post_transform is {kind!r}", f"supported: {', '.join(TRANSFORMS)}")
    return str(kind)


def class_labels(n: Definition) -> list[int]:
    """The labels of a classifier. Raises Refused for strings, and for fewer than two labels."""
    labels = n.attr("classlabels_ints") or n.attr("classlabels_int64s")
    if not labels:
        raise Refused("its class labels are strings", "use integer labels")
    if len(labels) < 2:
        raise Refused("it has one class", "a classifier has at least two")
    return [int(v) for v in labels]


def store_best_label(n: Definition, labels: Sequence[int], scores: Tensor) -> None:
    """Store output 0: the label of the largest score; the first one if several are equal."""
    table, k = n.add_constant(np.asarray(labels, np.int64)), n.k
    chosen = n.output(0, scores.shape[:1], "int64")
    with k.each(scores.shape[:1]) as (row,):
        best = k.variable(0, INDEX)
        with k.loop(scores.shape[1]) as c:
            k.set(best, where(scores[row, c] > scores[row, best], c, best))
        k.store(chosen, (row,), table.flat(best))


def store_label_of_two(n: Definition, labels: Sequence[int], scores: Tensor, column: int, threshold: float) -> None:
    """Store output 0: the second label if a score is above the threshold, else the first."""
    chosen = n.output(0, scores.shape[:1], "int64")
    with n.k.each(scores.shape[:1]) as (row,):
        n.k.store(
            chosen,
            (row,),
            where(scores[row, column] > threshold, constant(labels[1], "int64"), constant(labels[0], "int64")),
        )


def store_two_columns(n: Definition, kind: str, scores: Tensor, complement: bool) -> None:
    """Store output 1: the scores of both classes from that of the second one. The first class gets 1 - score or
    -score.
    """
    if kind == "PROBIT":
        raise Refused("its post_transform is PROBIT with one score for two classes", "write a score for each class")
    y = n.output(1, (scores.shape[0], 2), F32)
    with n.k.each(scores.shape[:1]) as (row,):
        score = n.k.let(scores[row, 0])
        other = 1.0 - score if complement else -score
        if kind == "LOGISTIC":
            other, score = sigmoid(-score), sigmoid(score)
        n.k.store(y, (row, index(0)), other.to(F32))
        n.k.store(y, (row, index(1)), score.to(F32))


def store_scores(n: Definition, kind: str, scores: Tensor, y: Tensor, one_is_raw: bool = False) -> None:
    """Store the scores after the post transform. one_is_raw: a single column is not transformed, as in regressors."""
    k = n.k
    if kind.startswith("SOFTMAX") and not (one_is_raw and scores.shape[1] == 1):
        scores = _own(n, scores)
        _softmax(n, scores, kind == "SOFTMAX_ZERO")
    elif kind == "PROBIT" or (kind == "LOGISTIC" and not (one_is_raw and scores.shape[1] == 1)):
        scores = _own(n, scores)
        with k.each(scores.shape) as at:
            k.store(scores, at, sigmoid(scores[at]) if kind == "LOGISTIC" else _probit(n, scores[at]))
    with k.each(scores.shape) as at:
        k.store(y, at, scores[at].to(y.kind))


def _own(n: Definition, scores: Tensor) -> Tensor:
    """A copy that may be changed; another output may still need the scores."""
    copy = n.k.temporary(scores.shape, scores.dtype)
    with n.k.each(scores.shape) as at:
        n.k.store(copy, at, scores[at])
    return copy


def _softmax(n: Definition, scores: Tensor, zeros_stay: bool) -> None:
    k, (rows, columns) = n.k, scores.shape
    with k.each((rows,)) as (row,):
        top = k.fold([columns], constant(-math.inf, scores.kind), lambda c: scores[row, c], maximum)
        with k.loop(columns) as c:
            score = k.let(scores[row, c])
            power = call("exp", score - top)
            if zeros_stay:
                power = where((score > 1e-7) | (score < -1e-7), power, score * call("exp", -top))
            k.store(scores, (row, c), power)
        total = k.sum([columns], lambda c: scores[row, c], scores.kind)
        with k.loop(columns) as c:
            k.store(scores, (row, c), scores[row, c] / total)


def _probit(n: Definition, p: Expr) -> Expr:
    """The inverse of the normal distribution by Winitzki's approximation, as in ONNX's reference implementation."""
    x = n.k.let(p * 2.0 - 1.0)
    log = n.k.let(call("log", (1.0 - x) * (x + 1.0)))
    half = n.k.let(log * 0.5 + 2.0 / (math.pi * 0.147))
    root = n.k.let(sqrt(sqrt(half * half - log * (1.0 / 0.147)) - half) * 1.41421356)
    return where(x < 0.0, -root, root)
