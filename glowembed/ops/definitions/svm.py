"""ai.onnx.ml: support vector machines, computed in float32.

A classifier decides between each pair of classes, like libsvm, and the label with the most votes wins. With prob_a and
prob_b, libsvm's iteration turns the scores of the pairs into probabilities of the classes.
"""

from __future__ import annotations

import numpy as np

from glowembed.graph.ir import Array
from glowembed.graph.op import Refused
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr, absolute, call, clamp, constant, index, maximum, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions import scores as common
from glowembed.ops.definitions.pointwise import sigmoid
from glowembed.ops.definitions.scores import F32, samples_of
from glowembed.ops.shared.definition import Definition, operator, require
from glowembed.records import dataclass


@dataclass(frozen=True)
class KernelFunction:
    """The kernel function between a sample and a support vector."""

    name: str
    gamma: float
    offset: float
    degree: float

    def of(self, n: Definition, x: Tensor, row: Expr, vectors: Tensor, s: Expr) -> Expr:
        width = [x.shape[1]]
        if self.name == "RBF":
            distance = n.k.sum(width, lambda r: _square(x[row, r].to(F32) - vectors[s, r]), F32)
            return call("exp", distance * -self.gamma)
        product = n.k.sum(width, lambda r: x[row, r].to(F32) * vectors[s, r], F32)
        if self.name == "LINEAR":
            return product
        shifted = product * self.gamma + self.offset
        return call("tanh", shifted) if self.name == "SIGMOID" else call("power", shifted, constant(self.degree, F32))


def _kernel_function(n: Definition) -> KernelFunction:
    name, numbers = n.attr("kernel_type", "LINEAR"), n.attr("kernel_params") or [0.0, 0.0, 3.0]
    if name not in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        raise Refused(f"its kernel_type is {name!r}", "LINEAR, POLY, RBF and SIGMOID are supported")
    require(len(numbers) == 3, f"it has {len(numbers)} kernel_params, and 3 are needed")
    return KernelFunction(name, *(float(v) for v in numbers))


def _square(x: Expr) -> Expr:
    return x * x


def _matrix(n: Definition, name: str, rows: int, columns: int) -> Tensor:
    return common.floats(n, name, rows * columns).view((rows, columns))


@operator("ai.onnx.ml:SVMRegressor")
def _regressor(n: Definition) -> None:
    x, k, count = samples_of(n.input(0)), n.k, int(n.attr("n_supports", 0))
    width, kind = x.shape[1], common.post_transform(n)
    total = k.temporary((x.shape[0], 1), F32)
    rho = common.floats(n, "rho", 1)
    coefficients = common.floats(n, "coefficients", count or width)
    function = _kernel_function(n)
    vectors = _matrix(n, "support_vectors", count, width) if count else None
    y = n.output(0, total.shape, F32)
    with k.each((x.shape[0],)) as (row,):
        result = k.variable(0, F32)
        with k.loop(count or width) as s:
            term = function.of(n, x, row, vectors, s) if vectors else x[row, s].to(F32)
            k.set(result, result + coefficients.flat(s) * term)
        k.set(result, result + rho.scalar())
        one_class = where(result > 0.0, constant(1, F32), -1.0)
        k.store(total, (row, index(0)), one_class if n.attr("one_class", 0) else result)
    common.store_scores(n, kind if kind == "PROBIT" else "NONE", total, y)


@operator("ai.onnx.ml:SVMClassifier")
def _classifier(n: Definition) -> None:
    x, labels, kind = samples_of(n.input(0)), common.class_labels(n), common.post_transform(n)
    counts = [int(v) for v in n.attr("vectors_per_class") or []]
    if sum(counts) == 0:
        _linear_classifier(n, x, labels, kind)
        return
    classes, vectors = len(labels), sum(counts)
    require(len(counts) == classes and min(counts) >= 0, f"its vectors_per_class does not fit {classes} classes")
    pairs = _pairs(counts)
    rho = common.floats(n, "rho", len(pairs))
    coefficients = _matrix(n, "coefficients", classes - 1, vectors)
    own = _matrix(n, "support_vectors", vectors, x.shape[1])
    function = _kernel_function(n)
    kernels = n.k.temporary((x.shape[0], vectors), F32)
    with n.k.each(kernels.shape) as (row, s):
        n.k.store(kernels, (row, s), function.of(n, x, row, own, s))
    votes, scores = _decisions(n, pairs, classes, coefficients, kernels, rho)
    probable = bool(n.attr("prob_a"))
    common.store_best_label(n, labels, votes)
    if probable:
        scores = _probabilities(n, classes, scores)
    if classes == 2 and not probable:
        common.store_two_columns(n, kind, scores, complement=kind != "NONE")
    else:
        common.store_scores(n, kind, scores, n.output(1, scores.shape, F32))


def _linear_classifier(n: Definition, x: Tensor, labels: list[int], kind: str) -> None:
    """Define a classifier without support vectors: a weighted sum for each class."""
    classes, width = len(labels), x.shape[1]
    weights, rho = _matrix(n, "coefficients", classes, width), float((n.attr("rho") or [0.0])[0])
    scores = n.k.temporary((x.shape[0], classes), F32)
    with n.k.each(scores.shape) as (row, c):
        n.k.store(scores, (row, c), n.k.sum([width], lambda r: x[row, r].to(F32) * weights[c, r], F32) + rho)
    common.store_best_label(n, labels, scores)
    common.store_scores(n, kind, scores, n.output(1, scores.shape, F32))


def _pairs(counts: list[int]) -> Array:
    """For each pair of classes, and for both of its classes: the first of the class's vectors, their number, the row of
    coefficients, and the class.
    """
    starts = np.cumsum([0, *counts])
    classes = range(len(counts))
    found = [
        [[starts[i], counts[i], j - 1, i], [starts[j], counts[j], i, j]] for i in classes for j in classes if i < j
    ]
    return np.asarray(found, np.int32)


def _decisions(
    n: Definition, pairs: Array, classes: int, coefficients: Tensor, kernels: Tensor, rho: Tensor
) -> tuple[Tensor, Tensor]:
    """The votes for each class, and the score of each pair."""
    k, table, rows = n.k, n.add_constant(pairs), kernels.shape[0]
    votes, scores = k.temporary((rows, classes), F32), k.temporary((rows, len(pairs)), F32)
    with k.each((rows,)) as (row,):
        with k.loop(classes) as c:
            k.store(votes, (row, c), 0.0)
        with k.loop(len(pairs)) as p:
            score = k.variable(0, F32)
            for side in range(2):
                first, count, own = (k.let(table[p, side, column].to(INDEX)) for column in range(3))
                with k.loop(count) as s:
                    k.set(score, score + coefficients[own, first + s] * kernels[row, first + s])
            k.set(score, score + rho.flat(p))
            k.store(scores, (row, p), score)
            chosen = k.let(where(score > 0.0, table[p, 0, 3], table[p, 1, 3]).to(INDEX))
            k.store(votes, (row, chosen), votes[row, chosen] + 1.0)
    return votes, scores


def _probabilities(n: Definition, classes: int, scores: Tensor) -> Tensor:
    """Probabilities of the classes from the scores of pairs: Wu, Lin, Weng, "Probability estimates for multi-class
    classification by pairwise coupling", second method, as libsvm iterates it.
    """
    k, rows = n.k, scores.shape[0]
    a, b = (common.floats(n, name, scores.shape[1]) for name in ("prob_a", "prob_b"))
    each_class = (rows, classes)
    pairwise, q = (k.temporary((*each_class, classes), F32) for _ in range(2))
    p, product = (k.temporary(each_class, F32) for _ in range(2))
    first = n.add_constant(np.asarray([i for i in range(classes) for _ in range(i + 1, classes)], np.int32))
    second = n.add_constant(np.asarray([j for i in range(classes) for j in range(i + 1, classes)], np.int32))
    with k.each((rows,)) as (row,):
        with k.loop(scores.shape[1]) as pair:
            one = k.let(clamp(1.0 - sigmoid(scores[row, pair] * a.flat(pair) + b.flat(pair)), 1e-7, 1.0 - 1e-7))
            i, j = k.let(first.flat(pair).to(INDEX)), k.let(second.flat(pair).to(INDEX))
            k.store(pairwise, (row, i, j), one)
            k.store(pairwise, (row, j, i), 1.0 - one)
        with k.loop(classes) as t:
            k.store(p, (row, t), 1.0 / classes)
            total = k.variable(0, F32)
            with k.loop(classes) as j, k.when(j.differs(t)):
                k.set(total, total + _square(pairwise[row, j, t]))
                k.store(q, (row, t, j), -pairwise[row, j, t] * pairwise[row, t, j])
            k.store(q, (row, t, t), total)
        going = k.variable(True, BOOL)
        with k.loop(max(100, classes)) as _, k.when(going):
            _iterate(n, row, q, p, product, going)
    return p


def _iterate(n: Definition, row: Expr, q: Tensor, p: Tensor, product: Tensor, going: Expr) -> None:
    """Make one step of the iteration. If the products of q and p are equal enough, nothing changes and `going` becomes
    false.
    """
    k, classes = n.k, p.shape[1]
    with k.loop(classes) as t:
        k.store(product, (row, t), k.sum([classes], lambda j: q[row, t, j] * p[row, j], F32))
    mean = k.let(k.sum([classes], lambda t: p[row, t] * product[row, t], F32))
    error = k.fold([classes], constant(0, F32), lambda t: absolute(product[row, t] - mean), maximum)
    k.set(going, error >= 0.005 / classes)
    with k.when(going), k.loop(classes) as t:
        difference = k.let((mean - product[row, t]) / q[row, t, t])
        scale = k.let(difference + 1.0)
        k.store(p, (row, t), p[row, t] + difference)
        grown = mean + difference * (difference * q[row, t, t] + product[row, t] * 2.0)
        k.set(mean, grown / (scale * scale))
        with k.loop(classes) as j:
            k.store(p, (row, j), p[row, j] / scale)
            k.store(product, (row, j), (product[row, j] + difference * q[row, t, j]) / scale)
