"""ai.onnx.ml: scaling, encoding and linear operators, and ensembles of trees, as scikit-learn's and boosting exporters write them.

Computed in float32, as the operators say; trees compare in the type of their thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest import dtypes
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr, absolute, binary, call, clamp, constant, index, is_nan, maximum, sqrt, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.pointwise import greatest, least, sigmoid
from glowembed.ops.shared.definition import Definition, elementwise, operator

F32 = "float32"


def _floats(n: Definition, name: str, default: Sequence[float] = ()) -> Tensor:
    """A list attribute as a constant of float32."""
    return n.add_constant(np.asarray(n.attr(name) or default, np.float32))


def _rows(x: Tensor) -> Tensor:
    """The input as samples and features."""
    width = x.shape[-1] if x.rank else 1
    return x.view((x.size // max(width, 1), width))


def _one_or_each(t: Tensor, i: Expr) -> Expr:
    return t.flat(0 if t.size == 1 else i)


@operator("ai.onnx.ml:Binarizer")
def _binarizer(n: Definition) -> None:
    limit = n.attr("threshold", 0.0)

    def above(x: Expr) -> Expr:
        return where(x > (limit if dtypes.is_float(x.kind) else int(limit)), constant(1, x.kind), 0)

    elementwise(n, [n.input(0)], above)


@operator("ai.onnx.ml:Scaler")
def _scaler(n: Definition) -> None:
    x, offset, scale = n.input(0), _floats(n, "offset", [0.0]), _floats(n, "scale", [1.0])
    y = n.output(0, x.shape, F32)
    with n.k.each(x.shape) as at:
        n.k.store(y, at, (x[at].to(F32) - _one_or_each(offset, at[-1])) * _one_or_each(scale, at[-1]))


@operator("ai.onnx.ml:Normalizer")
def _normalizer(n: Definition) -> None:
    x, kind, k = _rows(n.input(0)), n.attr("norm", "MAX"), n.k
    y = n.output(0, n.input(0).shape, F32).view(x.shape)
    terms: dict[str, tuple[Callable[[Expr], Expr], Callable[[Expr, Expr], Expr]]] = {
        "MAX": (absolute, maximum),
        "L1": (absolute, lambda a, b: a + b),
        "L2": (lambda v: v * v, lambda a, b: a + b),
    }
    term, combine = terms[kind]
    with k.each((x.shape[0],)) as (row,):
        total = k.fold([x.shape[1]], constant(0, F32), lambda r: term(x[row, r].to(F32)), combine)
        norm = k.let(sqrt(total) if kind == "L2" else total)
        with k.loop(x.shape[1]) as r:
            value = x[row, r].to(F32)
            k.store(y, (row, r), where(norm.equals(0.0), value, value / norm))


@operator("ai.onnx.ml:Imputer")
def _imputer(n: Definition) -> None:
    x = n.input(0)
    floats = dtypes.is_float(x.kind)
    kind = "float" if floats else "int64"
    values = n.attr(f"imputed_value_{kind}s")
    if not values:
        raise Refused("it has no imputed values", "check the model with onnx.checker")
    new = n.add_constant(np.asarray(values, np.float32 if floats else np.int64))
    old = n.attr(f"replaced_value_{kind}", 0)
    y = n.output(0, x.shape, x.dtype)
    with n.k.each(x.shape) as at:
        value = x[at]
        missing = is_nan(value) if floats and math.isnan(old) else value.equals(constant(old, x.kind))
        n.k.store(y, at, where(missing, _one_or_each(new, at[-1]).to(x.kind), value))


@operator("ai.onnx.ml:FeatureVectorizer")
def _feature_vectorizer(n: Definition) -> None:
    parts = [_rows(t) for t in n.given()]
    y = n.output(0, (parts[0].shape[0], sum(p.shape[1] for p in parts)), F32)
    start = 0
    for part in parts:
        with n.k.each(part.shape) as (i, j):
            n.k.store(y, (i, j + start), part[i, j].to(F32))
        start += part.shape[1]


@operator("ai.onnx.ml:OneHotEncoder")
def _one_hot_encoder(n: Definition) -> None:
    x, categories = n.input(0), n.attr("cats_int64s")
    if not categories:
        raise Refused("its categories are strings", "encode numbers")
    table = n.add_constant(np.asarray(categories, np.int64))
    y = n.output(0, (*x.shape, table.size), F32)
    with n.k.each(y.shape) as at:
        hit = x[at[:-1]].to("int64").equals(table.flat(at[-1]))
        n.k.store(y, at, where(hit, constant(1, F32), 0))


@operator("ai.onnx.ml:LabelEncoder")
def _label_encoder(n: Definition) -> None:
    x, k = n.input(0), n.k
    keys, values = _table(n, "keys"), _table(n, "values")
    default = n.attr("default_tensor")
    number = np.ravel(default)[0].item() if default is not None else _default_label(n, values)
    known = n.add_constant(keys.astype(dtypes.numpy_type(x.dtype)))
    labels = n.add_constant(values)
    y = n.output(0, x.shape, values.dtype.name)
    with k.each(x.shape) as at:
        result, value = k.variable(number, y.kind), k.let(x[at])
        with k.loop(known.size) as r:
            same = known.flat(r).equals(value)
            if dtypes.is_float(x.kind):
                same = same | (is_nan(value) & is_nan(known.flat(r)))
            k.set(result, where(same, labels.flat(r), result))
        k.store(y, at, result)


def _table(n: Definition, name: str) -> Any:
    for suffix, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if n.attr(f"{name}_{suffix}"):
            return np.asarray(n.attr(f"{name}_{suffix}"), dtype)
    tensor = n.attr(f"{name}_tensor")
    if tensor is None or np.asarray(tensor).dtype.kind not in "if":
        raise Refused("its keys or values are strings", "encode numbers")
    return np.ravel(tensor)


def _default_label(n: Definition, values: Any) -> Any:
    return n.attr("default_float", -0.0) if values.dtype.kind == "f" else n.attr("default_int64", -1)


# ---------------------------------------------------------------------------------------------- linear


def transformed(n: Definition, kind: str, scores: Sequence[Expr]) -> list[Expr]:
    """The scores after the post transform."""
    k = n.k
    if kind == "NONE":
        return list(scores)
    if kind == "LOGISTIC":
        return [k.let(sigmoid(s)) for s in scores]
    if kind in ("SOFTMAX", "SOFTMAX_ZERO"):
        top = k.let(reduce(maximum, scores))
        exps = [k.let(call("exp", s - top)) for s in scores]
        if kind == "SOFTMAX_ZERO":
            exps = [k.let(where(s.equals(0.0), constant(0, F32), e)) for s, e in zip(scores, exps, strict=True)]
        total = k.let(reduce(lambda a, b: a + b, exps))
        return [k.let(e / total) for e in exps]
    raise Refused(f"its post_transform is {kind!r}", "NONE, LOGISTIC, SOFTMAX and SOFTMAX_ZERO are supported")


def _class_labels(n: Definition) -> list[int]:
    labels = n.attr("classlabels_ints") or n.attr("classlabels_int64s")
    if not labels:
        raise Refused("its class labels are strings", "use integer labels")
    return [int(v) for v in labels]


def store_class(n: Definition, labels_out: Tensor, row: Expr, labels: Sequence[int], scores: Sequence[Expr]) -> None:
    """The label of the largest score; the first one of several."""
    best, label = n.k.let(scores[0]), n.k.variable(labels[0], "int64")
    for score, number in zip(scores[1:], labels[1:], strict=True):
        wins = n.k.let(score > best)
        n.k.set(best, where(wins, score, best))
        n.k.set(label, where(wins, constant(number, "int64"), label))
    n.k.store(labels_out, (row,), label)


@operator("ai.onnx.ml:LinearRegressor", "ai.onnx.ml:LinearClassifier")
def _linear(n: Definition) -> None:
    x, k, is_classifier = _rows(n.input(0)), n.k, n.kind == "LinearClassifier"
    weights = np.asarray(n.attr("coefficients"), np.float32).reshape(-1, x.shape[1])
    targets = len(weights)
    table = n.add_constant(weights)
    intercepts = _floats(n, "intercepts", [0.0] * targets)
    labels = _class_labels(n) if is_classifier else []
    kind = n.attr("post_transform", "NONE")
    both = is_classifier and targets == 1 and len(labels) == 2
    y = n.output(1 if is_classifier else 0, (x.shape[0], 2 if both else targets), F32)
    chosen = n.output(0, (x.shape[0],), "int64") if is_classifier else None
    with k.each((x.shape[0],)) as (row,):
        scores = []
        for t in range(targets):
            total = k.sum([x.shape[1]], lambda r, t=t: x[row, r].to(F32) * table[t, r], F32)
            scores.append(k.let(total + intercepts.flat(t)))
        if both:
            positive = scores[0]
            scores = (
                [k.let(1.0 - sigmoid(positive)), k.let(sigmoid(positive))]
                if kind == "LOGISTIC"
                else [-positive, positive]
            )
            results = scores
        else:
            results = transformed(n, kind, scores)
        for t, value in enumerate(results):
            k.store(y, (row, index(t)), value)
        if chosen is not None:
            store_class(n, chosen, row, labels, scores)


# ---------------------------------------------------------------------------------------------- support vectors


@operator("ai.onnx.ml:SVMRegressor")
def _svm_regressor(n: Definition) -> None:
    x, k = _rows(n.input(0)), n.k
    kind = n.attr("kernel_type", "LINEAR")
    parameters = [float(v) for v in n.attr("kernel_params") or (0.0, 0.0, 3.0)]
    coefficients, offset = _floats(n, "coefficients"), float((n.attr("rho") or [0.0])[0])
    count = int(n.attr("n_supports", 0))
    vectors = (
        n.add_constant(np.asarray(n.attr("support_vectors") or [], np.float32).reshape(-1, x.shape[1]))
        if count
        else None
    )
    y = n.output(0, (x.shape[0], 1), F32)
    with k.each((x.shape[0],)) as (row,):
        if vectors is None:
            total = k.sum([x.shape[1]], lambda r: x[row, r].to(F32) * coefficients.flat(r), F32)
        else:
            total = k.variable(0, F32)
            with k.loop(count) as s:
                k.set(total, total + coefficients.flat(s) * svm_kernel(n, kind, parameters, x, row, vectors, s))
        result = total + offset
        k.store(y, (row, index(0)), where(result > 0.0, constant(1, F32), -1.0) if n.attr("one_class", 0) else result)


def svm_kernel(
    n: Definition, kind: str, parameters: Sequence[float], x: Tensor, row: Expr, vectors: Tensor, s: Expr
) -> Expr:
    """The kernel function of a sample and a support vector."""
    gamma, constant_term, degree = parameters
    width = [x.shape[1]]
    if kind == "RBF":
        distance = n.k.sum(width, lambda r: _square(x[row, r].to(F32) - vectors[s, r]), F32)
        return call("exp", distance * -gamma)
    product = n.k.sum(width, lambda r: x[row, r].to(F32) * vectors[s, r], F32)
    if kind == "LINEAR":
        return product
    shifted = product * gamma + constant_term
    if kind == "POLY":
        return call("power", shifted, constant(degree, F32))
    if kind == "SIGMOID":
        return call("tanh", shifted)
    raise Refused(f"its kernel_type is {kind!r}", "LINEAR, POLY, RBF and SIGMOID are supported")


def _square(x: Expr) -> Expr:
    return x * x


# ---------------------------------------------------------------------------------------------- trees

MODES = {
    "BRANCH_LEQ": "<=",
    "BRANCH_LT": "<",
    "BRANCH_GTE": ">=",
    "BRANCH_GT": ">",
    "BRANCH_EQ": "==",
    "BRANCH_NEQ": "!=",
}


@operator("ai.onnx.ml:TreeEnsembleRegressor", "ai.onnx.ml:TreeEnsembleClassifier")
def _tree_ensemble(n: Definition) -> None:
    """The trees as tables that a loop walks: a feature, a threshold and two children for each node; leaves add weights."""
    x, k, is_classifier = _rows(n.input(0)), n.k, n.kind == "TreeEnsembleClassifier"
    prefix = "class" if is_classifier else "target"
    labels = _class_labels(n) if is_classifier else []
    weights = [float(v) for v in n.attr(f"{prefix}_weights") or []]
    ids = [int(v) for v in n.attr(f"{prefix}_ids") or []]
    targets = len(labels) if is_classifier else int(n.attr("n_targets", 1))
    binary_case = is_classifier and len(labels) == 2 and len(set(ids)) == 1
    columns = 1 if binary_case else targets
    forest = _Forest(n, prefix, x, columns, [0] * len(ids) if binary_case else ids, weights)
    base = [float(v) for v in n.attr("base_values") or []]
    y = n.output(1 if is_classifier else 0, (x.shape[0], targets), F32)
    chosen = n.output(0, (x.shape[0],), "int64") if is_classifier else None
    totals = k.temporary((x.shape[0], columns), F32)
    combine, first = _aggregation(n)
    with k.each((x.shape[0],)) as (row,):
        with k.loop(columns) as t:
            k.store(totals, (row, t), first)
        forest.add(row, totals, combine)
        scores = []
        for column in range(columns):
            score = totals[row, column]
            if n.attr("aggregate_function", "SUM") == "AVERAGE":
                score = score / float(len(forest.roots))
            scores.append(k.let(score + base[column % len(base)] if base else score))
        kind = n.attr("post_transform", "NONE")
        if binary_case:
            positive = scores[0]
            scores = (
                [k.let(1.0 - positive), positive]
                if kind == "NONE" and min(weights, default=0.0) >= 0
                else [-positive, positive]
            )
            if kind == "LOGISTIC":
                scores = [k.let(1.0 - sigmoid(positive)), k.let(sigmoid(positive))]
            results: Sequence[Expr] = scores
        else:
            results = transformed(n, kind, scores)
        for column, value in enumerate(results):
            k.store(y, (row, index(column)), value)
        if chosen is not None:
            store_class(n, chosen, row, labels, scores)


def _aggregation(n: Definition) -> tuple[Callable[[Expr, Expr], Expr], Expr]:
    kinds: dict[str, tuple[Callable[[Expr, Expr], Expr], float]] = {
        "SUM": (lambda a, b: a + b, 0.0),
        "AVERAGE": (lambda a, b: a + b, 0.0),
        "MIN": (least, math.inf),
        "MAX": (greatest, -math.inf),
    }
    combine, first = kinds[n.attr("aggregate_function", "SUM")]
    return combine, constant(first, F32)


class _Forest:
    """The tables of all trees. Children and roots are numbers of nodes; a leaf has the range of its weights instead."""

    def __init__(
        self, n: Definition, prefix: str, x: Tensor, columns: int, ids: Sequence[int], weights: Sequence[float]
    ) -> None:
        trees, nodes = (list(n.attr(f"nodes_{name}")) for name in ("treeids", "nodeids"))
        number = {key: i for i, key in enumerate(zip(trees, nodes, strict=True))}
        modes = [str(m) for m in n.attr("nodes_modes")]
        unknown = set(modes) - {*MODES, "LEAF"}
        if unknown:
            raise Refused(f"nodes of the mode {sorted(unknown)[0]!r}", f"supported: {', '.join(MODES)}")
        self.n, self.x, self.columns = n, x, columns
        self.depth = len(nodes)
        self.modes = sorted(set(modes) - {"LEAF"})
        first, count = [0] * len(nodes), [0] * len(nodes)
        leaves = list(zip(n.attr(f"{prefix}_treeids") or [], n.attr(f"{prefix}_nodeids") or [], strict=True))
        order = sorted(range(len(leaves)), key=lambda i: number[leaves[i]])
        for place, i in enumerate(order):
            leaf = number[leaves[i]]
            first[leaf] = place if count[leaf] == 0 else first[leaf]
            count[leaf] += 1
        children = [list(n.attr(f"nodes_{side}nodeids")) for side in ("true", "false")]
        own = [[number.get((t, c), 0) for t, c in zip(trees, side, strict=True)] for side in children]
        targets = {number[t, c] for side in children for t, c, m in zip(trees, side, modes, strict=True) if m != "LEAF"}
        self.roots = [i for i, t in enumerate(trees) if i not in targets]
        missing = n.attr("nodes_missing_value_tracks_true") or [0] * len(nodes)
        self.feature = n.add_constant(np.asarray(n.attr("nodes_featureids"), np.int32))
        self.threshold = n.add_constant(np.asarray(n.attr("nodes_values"), np.float32))
        self.children = [n.add_constant(np.asarray(side, np.int32)) for side in own]
        self.mode = n.add_constant(
            np.asarray([len(self.modes) if m == "LEAF" else self.modes.index(m) for m in modes], np.uint8)
        )
        self.missing = n.add_constant(np.asarray(missing, np.uint8)) if any(missing) else None
        self.first, self.count = (n.add_constant(np.asarray(v, np.int32)) for v in (first, count))
        self.ids = n.add_constant(np.asarray([ids[i] for i in order] or [0], np.int32))
        self.weights = n.add_constant(np.asarray([weights[i] for i in order] or [0.0], np.float32))
        self.starts = n.add_constant(np.asarray(self.roots, np.int32))

    def add(self, row: Expr, totals: Tensor, combine: Callable[[Expr, Expr], Expr]) -> None:
        """Walk every tree for a sample, and add the weights of the leaves that it reaches."""
        k = self.n.k
        with k.loop(len(self.roots)) as tree:
            node = k.let(self.starts.flat(tree).to(INDEX))
            with k.loop(self.depth) as _, k.when(self.mode.flat(node) < len(self.modes)):
                feature = clamp(self.feature.flat(node).to(INDEX), 0, self.x.shape[1] - 1)
                value, limit = k.let(self.x[row, feature].to(F32)), k.let(self.threshold.flat(node))
                holds = k.variable(False, BOOL)
                for number, mode in enumerate(self.modes):
                    matches = self.mode.flat(node).equals(number) & binary(MODES[mode], value, limit)
                    k.set(holds, holds | matches)
                if self.missing is not None:
                    k.set(holds, holds | (is_nan(value) & self.missing.flat(node).differs(0)))
                k.set(node, where(holds, self.children[0].flat(node), self.children[1].flat(node)).to(INDEX))
            first = k.let(self.first.flat(node).to(INDEX))
            with k.loop(self.count.flat(node).to(INDEX)) as w:
                target = k.let(clamp(self.ids.flat(first + w).to(INDEX), 0, self.columns - 1))
                k.store(totals, (row, target), combine(totals[row, target], self.weights.flat(first + w)))


@operator("ai.onnx.ml:TreeEnsemble")
def _tree_ensemble_5(n: Definition) -> None:
    """Opset 5: leaves and nodes apart, thresholds as tensors, and membership in sets."""
    x, k = _rows(n.input(0)), n.k
    kind = x.dtype
    splits, weights = (
        np.ravel(n.attr(name)).astype(dtypes.numpy_type(kind)) for name in ("nodes_splits", "leaf_weights")
    )
    modes = [int(v) for v in np.ravel(n.attr("nodes_modes"))]
    sides = []
    for side in ("true", "false"):
        ids, leaf = np.asarray(n.attr(f"nodes_{side}nodeids")), np.asarray(n.attr(f"nodes_{side}leafs"))
        sides.append(n.add_constant(np.where(leaf != 0, -1 - ids, ids).astype(np.int32)))
    feature = n.add_constant(np.asarray(n.attr("nodes_featureids"), np.int32))
    split, mode, weight = (n.add_constant(a) for a in (splits, np.asarray(modes, np.uint8), weights))
    target = n.add_constant(np.asarray(n.attr("leaf_targetids"), np.int32))
    roots = n.add_constant(np.asarray(n.attr("tree_roots"), np.int32))
    members, begins = _members(n, modes, kind)
    count, aggregate = int(n.attr("n_targets", 1)), int(n.attr("aggregate_function", 1))
    y = n.output(0, (x.shape[0], count), x.dtype)
    combine = least if aggregate == 2 else greatest if aggregate == 3 else _plus
    operators = ("<=", "<", ">=", ">", "==", "!=")
    with k.each((x.shape[0],)) as (row,):
        with k.loop(count) as t:
            k.store(y, (row, t), constant({2: math.inf, 3: -math.inf}.get(aggregate, 0.0), x.kind))
        with k.loop(roots.size) as tree:
            node = k.let(roots.flat(tree).to(INDEX))
            with k.loop(len(modes)) as _, k.when(node >= 0):
                value = k.let(x[row, clamp(feature.flat(node).to(INDEX), 0, x.shape[1] - 1)])
                holds = k.variable(False, BOOL)
                for m in sorted(set(modes)):
                    mine = mode.flat(node).equals(m)
                    if m < len(operators):
                        k.set(holds, holds | (mine & binary(operators[m], value, split.flat(node))))
                        continue
                    first, last = begins.flat(node).to(INDEX), begins.flat(node + 1).to(INDEX)
                    with k.loop(members.size) as e:
                        k.set(holds, holds | (mine & (e >= first) & (e < last) & members.flat(e).equals(value)))
                k.set(node, where(holds, sides[0].flat(node), sides[1].flat(node)).to(INDEX))
            reached = k.let(maximum(index(-1) - node, 0))
            place = k.let(clamp(target.flat(reached).to(INDEX), 0, count - 1))
            k.store(y, (row, place), combine(y[row, place], weight.flat(reached)))
        if aggregate == 0:
            with k.loop(count) as t:
                k.store(y, (row, t), y[row, t] / float(roots.size))


def _plus(a: Expr, b: Expr) -> Expr:
    return a + b


def _members(n: Definition, modes: Sequence[int], dtype: str) -> tuple[Tensor, Tensor]:
    """The sets of the nodes that test membership, one after the other, and where that of each node begins."""
    given = n.attr("membership_values")
    values = np.ravel(given) if given is not None else np.zeros(0)
    sets: list[list[float]] = [[]]
    for v in values:
        if np.isnan(v):
            sets.append([])
        else:
            sets[-1].append(float(v))
    remaining = iter(sets)
    rows = [next(remaining, []) if m == 6 else [] for m in modes]
    begins = np.cumsum([0, *(len(r) for r in rows)]).astype(np.int32)
    flat = [v for r in rows for v in r] or [0.0]
    return n.add_constant(np.asarray(flat, dtypes.numpy_type(dtype))), n.add_constant(begins)
