"""ai.onnx.ml: scaling, encoding and linear operators, as scikit-learn's exporters write them, computed in float32.

Source: the operators' sections of ONNX 1.23. If the text is ambiguous, the definition follows onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest import dtypes
from glowembed.nest.expr import Expr, absolute, constant, is_nan, maximum, sqrt, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions import scores as common
from glowembed.ops.definitions.scores import F32, samples_of
from glowembed.ops.shared.definition import Definition, elementwise, operator, require


@operator("ai.onnx.ml:Binarizer")
def _binarizer(n: Definition) -> None:
    limit = float(n.attr("threshold", 0.0))

    def above(x: Expr) -> Expr:
        if dtypes.is_float(x.kind):
            return where(x > limit, constant(1, x.kind), 0)
        low, high = dtypes.limits(x.kind)
        if not low <= limit < high:
            return constant(int(limit < low), x.kind)
        return where(x > math.floor(limit), constant(1, x.kind), 0)

    elementwise(n, [n.input(0)], above)


def _wide(x: Expr) -> Expr:
    """The element as it is if it is float64, else as float32."""
    return x if x.kind == "float64" else x.to(F32)


def _for_each_feature(n: Definition, values: Any, name: str) -> Callable[[Expr], Expr]:
    """A function of the feature number, for an attribute that has one number for all features or one for each."""
    width = samples_of(n.input(0)).shape[1]
    require(len(values) in (1, width), f"its {name} has {len(values)} numbers for {width} features")
    table = n.add_constant(values)
    return lambda feature: table.flat(0 if table.size == 1 else feature)


@operator("ai.onnx.ml:Scaler")
def _scaler(n: Definition) -> None:
    offset, scale = (
        _for_each_feature(n, np.asarray(n.attr(name) or [default], np.float32), name)
        for name, default in (("offset", 0.0), ("scale", 1.0))
    )
    x = samples_of(n.input(0))
    y = n.output(0, n.input(0).shape, F32).view(x.shape)
    with n.k.each(x.shape) as (row, i):
        value = _wide(x[row, i])
        n.k.store(y, (row, i), ((value - offset(i).to(value.kind)) * scale(i).to(value.kind)).to(F32))


@operator("ai.onnx.ml:Normalizer")
def _normalizer(n: Definition) -> None:
    """Define Normalizer. A sample with norm 0 is not changed. MAX is the largest value, not the largest magnitude."""
    x, kind, k = samples_of(n.input(0)), n.attr("norm", "MAX"), n.k
    y = n.output(0, n.input(0).shape, F32).view(x.shape)
    norms: dict[str, tuple[float, Callable[[Expr], Expr], Callable[[Expr, Expr], Expr]]] = {
        "MAX": (-math.inf, lambda v: v, lambda total, v: maximum(v, total)),
        "L1": (0.0, absolute, lambda total, v: total + v),
        "L2": (0.0, lambda v: v * v, lambda total, v: total + v),
    }
    if kind not in norms:
        raise Refused(f"its norm is {kind!r}", f"supported: {', '.join(norms)}")
    first, term, combine = norms[kind]
    with k.each((x.shape[0],)) as (row,):
        total = k.fold([x.shape[1]], constant(first, F32), lambda r: term(x[row, r].to(F32)), combine)
        norm = k.let(sqrt(total) if kind == "L2" else total)
        with k.loop(x.shape[1]) as r:
            value = x[row, r].to(F32)
            k.store(y, (row, r), where(norm.equals(0.0), value, value / norm))


@operator("ai.onnx.ml:Imputer")
def _imputer(n: Definition) -> None:
    x = samples_of(n.input(0))
    real = dtypes.is_float(x.kind)
    kind = "float" if real else "int64"
    values = n.attr(f"imputed_value_{kind}s")
    if not values:
        raise Refused(f"it has no imputed_value_{kind}s", "check the model with onnx.checker")
    new = _for_each_feature(n, np.asarray(values, np.float32 if real else np.int64), "imputed values")
    old = n.attr(f"replaced_value_{kind}", 0)
    y = n.output(0, n.input(0).shape, n.input(0).dtype).view(x.shape)
    with n.k.each(x.shape) as (row, i):
        value = x[row, i]
        same = is_nan(value) if real and math.isnan(old) else value.equals(constant(old, x.kind))
        n.k.store(y, (row, i), where(same, new(i).to(x.kind), value))


@operator("ai.onnx.ml:FeatureVectorizer")
def _feature_vectorizer(n: Definition) -> None:
    """Define FeatureVectorizer: the features of all inputs, each cut or filled with zeros to its declared dimension."""
    parts = [samples_of(t) for t in n.given()]
    widths = [int(v) for v in n.attr("inputdimensions") or [p.shape[1] for p in parts]]
    require(len(widths) == len(parts) > 0, f"its inputdimensions are {len(widths)} for {len(parts)} inputs")
    require(len({p.shape[0] for p in parts}) == 1 and min(widths) >= 0, "its inputs differ in their number of samples")
    y, start = n.output(0, (parts[0].shape[0], sum(widths)), F32), 0
    for part, width in zip(parts, widths, strict=True):
        with n.k.each((part.shape[0], width)) as (i, j):
            n.k.store(y, (i, j + start), constant(0, F32))
        with n.k.each((part.shape[0], min(width, part.shape[1]))) as (i, j):
            n.k.store(y, (i, j + start), part[i, j].to(F32))
        start += width


@operator("ai.onnx.ml:OneHotEncoder")
def _one_hot_encoder(n: Definition) -> None:
    """Define OneHotEncoder. A number that is no category gives zeros, for every value of the attribute `zeros`."""
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
    """Define LabelEncoder: the value of the first equal key; NaN equals NaN."""
    x, k = n.input(0), n.k
    keys, values = _labels(n, "keys"), _labels(n, "values")
    require(len(keys) == len(values), f"it has {len(keys)} keys and {len(values)} values")
    default = n.attr("default_tensor")
    if default is None:
        default = n.attr("default_float", -0.0) if values.dtype.kind == "f" else n.attr("default_int64", -1)
    known, labels = n.add_constant(keys.astype(dtypes.numpy_type(x.dtype))), n.add_constant(values)
    y = n.output(0, x.shape, values.dtype.name)
    with k.each(x.shape) as at:
        result, value = k.variable(np.ravel(default)[0].item(), y.kind), k.let(x[at])
        with k.loop(known.size, down=True) as r:
            same = known.flat(r).equals(value)
            if dtypes.is_float(x.kind):
                same = same | (is_nan(value) & is_nan(known.flat(r)))
            k.set(result, where(same, labels.flat(r), result))
        k.store(y, at, result)


def _labels(n: Definition, name: str) -> Any:
    for suffix, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if n.attr(f"{name}_{suffix}"):
            return np.asarray(n.attr(f"{name}_{suffix}"), dtype)
    tensor = n.attr(f"{name}_tensor")
    if tensor is None or np.asarray(tensor).dtype.kind not in "if":
        raise Refused(f"its {name} are strings", "encode numbers")
    return np.ravel(tensor)


def _products(n: Definition, targets: int) -> Tensor:
    """A weighted sum of the features for each target."""
    x = samples_of(n.input(0))
    width = x.shape[1]
    weights = common.floats(n, "coefficients", targets * width).view((targets, width))
    intercepts = common.floats(n, "intercepts", targets)
    scores = n.k.temporary((x.shape[0], targets), F32)
    with n.k.each(scores.shape) as (row, t):
        total = n.k.sum([width], lambda r: x[row, r].to(F32) * weights[t, r], F32)
        n.k.store(scores, (row, t), total + intercepts.flat(t))
    return scores


@operator("ai.onnx.ml:LinearRegressor")
def _linear_regressor(n: Definition) -> None:
    kind, scores = common.post_transform(n), _products(n, int(n.attr("targets", 1)))
    common.store_scores(n, kind, scores, n.output(0, scores.shape, F32), one_is_raw=True)


@operator("ai.onnx.ml:LinearClassifier")
def _linear_classifier(n: Definition) -> None:
    """Define LinearClassifier. A single row of coefficients for two classes is that of the second class, which is
    chosen if its score is above 0.
    """
    labels, kind = common.class_labels(n), common.post_transform(n)
    width = samples_of(n.input(0)).shape[1]
    if len(labels) == 2 and len(n.attr("coefficients") or []) == width:
        scores = _products(n, 1)
        common.store_label_of_two(n, labels, scores, 0, 0.0)
        common.store_two_columns(n, kind, scores, complement=True)
        return
    scores = _products(n, len(labels))
    common.store_best_label(n, labels, scores)
    common.store_scores(n, kind, scores, n.output(1, scores.shape, F32))
