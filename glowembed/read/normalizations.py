"""Recognizes normalizations that exporters write out over any axes.

In: the nodes of a graph. Out: what a node completes, in one of these forms, where m = mean(x), v is the variance and i = 1 / sqrt(v + epsilon):

    (x - m) / sqrt(v + epsilon), (x - m) * i, (x - m) * (i * scale)            LayerNormalization
    x * (i * scale) + (shift - m * (i * scale))                                LayerNormalization, as Keras writes it
    the first two with x in place of x - m, and v = mean(x * x)                RMSNormalization
    x / max(norm(x), epsilon), x / sqrt(max(sum(x * x), epsilon)), ...         RMSNormalization times 1 / sqrt(elements)
    exp(x - max(x)) / sum(exp(x - max(x))), exp(x - logsumexp(x))              Softmax

v is mean((x - m)^2), or mean(x^2) - m^2, of which the maximum with 0 may be taken. A mean may be a sum times a constant, and what has one
number for each row may be reshaped and expanded to the shape of x.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial
from math import isclose, prod

import numpy as np
from onnx import NodeProto, helper

from glowembed.graph.ir import Array, Shape
from glowembed.read.patterns import Found, Nodes
from glowembed.records import dataclass

Axes = tuple[int, ...]
"""Axes counted from the end, ascending."""

TINY = 1e-10
"""Largest lower limit of a variance or a sum of squares that is added to it instead."""

MOVES = ("Reshape", "Squeeze", "Unsqueeze", "Identity")


@dataclass(frozen=True)
class Mean:
    """The mean of a value over some axes."""

    x: str
    axes: Axes
    keeps: bool
    """Whether the axes are kept, with size 1."""


@dataclass(frozen=True)
class Inverse:
    """1 / sqrt(v + epsilon) times a constant. centred: whether v is the variance, and not the mean of squares."""

    mean: Mean
    centred: bool
    epsilon: float
    scale: Array | None = None


@dataclass(eq=False)
class Rows:
    """Reads values that have one number for each row of x, through the nodes that only spread them."""

    nodes: Nodes
    spread: set[str] = field(default_factory=set)
    """The values that must have the shape of x with size 1 on the reduced axes."""

    def source(self, name: str) -> str:
        """The value before the nodes that give it another shape."""
        expand = self.nodes.maker(name, "Expand")
        if expand is not None:
            name = expand.input[0]
            self.spread.add(name)
        node = self.nodes.maker(name, *MOVES)
        if node is not None:
            self.spread.add(name)
        while node is not None:
            name = node.input[0]
            node = self.nodes.maker(name, *MOVES)
        return name

    def fit(self, mean: Mean) -> bool:
        """Whether everything that was spread belongs to the rows of the mean."""
        shape = self.nodes.known.get(mean.x) if self.spread or not mean.keeps else None
        if shape is None:
            return mean.keeps and not self.spread
        ones = tuple(1 if i - len(shape) in mean.axes else size for i, size in enumerate(shape))
        return bool(self.spread) and all(self.nodes.known.get(name) == ones for name in self.spread)

    def mean(self, name: str) -> Mean | None:
        """The mean that a value is, else None."""
        name = self.source(name)
        node = self.nodes.maker(name, "ReduceMean")
        if node is not None:
            return self._reduced(node)
        node = self.nodes.maker(name, "Mul", "Div")
        if node is None:
            return None
        for i in (0, 1) if node.op_type == "Mul" else (0,):
            total, factor = (
                self.nodes.maker(self.source(node.input[i]), "ReduceSum"),
                self.nodes.scalar(node.input[1 - i]),
            )
            found = self._reduced(total) if total is not None and factor else None
            if found is None or factor is None or found.x not in self.nodes.known:
                continue
            count = prod(self.nodes.known[found.x][axis] for axis in found.axes)
            return found if isclose(factor, count if node.op_type == "Div" else 1 / count, rel_tol=1e-5) else None
        return None

    def _reduced(self, node: NodeProto) -> Mean | None:
        """What a reduction reads, and its axes."""
        found = reduced_axes(self.nodes, node)
        return None if found is None else Mean(node.input[0], *found)

    def less_mean(self, name: str) -> Mean | None:
        """The mean that is subtracted from its own input to give the value, else None."""
        node = self.nodes.maker(name, "Sub")
        mean = self.mean(node.input[1]) if node is not None else None
        return mean if node is not None and mean is not None and mean.x == node.input[0] else None

    def variance(self, name: str) -> tuple[Mean, bool] | None:
        """The mean of x whose variance the value is, and True; or the mean of squares, of x, that it is, and False."""
        name, low = self._limited(self.source(name))
        if low:
            return None
        mean = self.mean(name)
        if mean is not None:
            squared = _squared(self.nodes, mean.x)
            if squared is None:
                return None
            less = self.less_mean(squared)
            same = less is not None and less.axes == mean.axes
            return (less, True) if same and less is not None else (Mean(squared, mean.axes, mean.keeps), False)
        node = self.nodes.maker(name, "Sub")
        if node is None:
            return None
        squares, square = self.mean(node.input[0]), _squared(self.nodes, self.source(node.input[1]))
        mean = self.mean(square) if square is not None else None
        if squares is None or mean is None or (_squared(self.nodes, squares.x), squares.axes) != (mean.x, mean.axes):
            return None
        return mean, True

    def _limited(self, name: str) -> tuple[str, float]:
        """The value before a lower limit that is a constant, and the limit; without one, the value itself and 0."""
        node = self.nodes.maker(name, "Max", "Relu", "Clip")
        if node is None or node.op_type == "Relu":
            return name if node is None else self.source(node.input[0]), 0.0
        upper = node.op_type == "Clip" and (bool(node.attribute) or not node.input[1] or any(node.input[2:]))
        numbers = {n: self.nodes.scalar(n) for n in node.input if n}
        low = [number for number in numbers.values() if number is not None]
        own = [n for n, number in numbers.items() if number is None]
        return (name, 0.0) if upper or len(low) != 1 or len(own) != 1 else (self.source(own[0]), low[0])

    def root(self, name: str) -> Inverse | None:
        """The inverse of sqrt(v + epsilon) or of a norm, if the value is that root."""
        name, low = self._limited(self.source(name))
        node = self.nodes.maker(name, "Sqrt", "Pow", "ReduceL2")
        if node is None or low * low > TINY or (node.op_type == "Pow" and self.nodes.scalar(node.input[1]) != 0.5):
            return None
        if node.op_type == "ReduceL2":
            return self._of_squares(self._reduced(node), low * low)
        return self._of_total(node.input[0], low * low)

    def _of_total(self, name: str, epsilon: float = 0.0) -> Inverse | None:
        """The inverse of the root of v + epsilon or of a sum of squares, if the value is that sum."""
        name, low = self._limited(self.source(name))
        total, found = self.nodes.maker(name, "Add"), None
        if low > TINY:
            return None
        for i in (0, 1) if total is not None else ():
            assert total is not None
            own = self.nodes.scalar(total.input[1 - i])
            if found is None and own is not None and own >= 0:
                found = self._of_variance(total.input[i], own + low + epsilon)
        return found if total is not None else self._of_variance(name, low + epsilon)

    def _of_variance(self, name: str, epsilon: float) -> Inverse | None:
        """The inverse of the root of v + epsilon, where the value is v or a sum of squares."""
        variance = self.variance(name)
        if variance is not None:
            return Inverse(*variance, epsilon)
        node = self.nodes.maker(self.source(name), "ReduceSum", "ReduceSumSquare")
        mean = self._reduced(node) if node is not None else None
        if node is not None and mean is not None and node.op_type == "ReduceSum":
            squared = _squared(self.nodes, mean.x)
            mean = None if squared is None else replace(mean, x=squared)
        return self._of_squares(mean, epsilon)

    def _of_squares(self, mean: Mean | None, epsilon: float) -> Inverse | None:
        """The inverse of the root of the sum of squares that are averaged here, plus epsilon."""
        shape = self.nodes.known.get(mean.x) if mean is not None else None
        if mean is None or shape is None:
            return None
        count = prod(shape[axis] for axis in mean.axes)
        return Inverse(mean, False, epsilon / count, np.asarray(count**-0.5, np.float32))

    def inverse(self, name: str) -> Inverse | None:
        """1 / sqrt(v + epsilon), perhaps times a constant, if the value is that."""
        name = self.source(name)
        found, node = self._bare_inverse(name), self.nodes.maker(name, "Mul")
        for i in (0, 1) if found is None and node is not None else ():
            assert node is not None
            scale = self.nodes.array(node.input[1 - i])
            bare = (
                self._bare_inverse(self.source(node.input[i]))
                if scale is not None and scale.dtype.kind == "f"
                else None
            )
            if bare is not None:
                return replace(bare, scale=scale if bare.scale is None else scale * bare.scale)
        return found

    def _bare_inverse(self, name: str) -> Inverse | None:
        """1 / sqrt(v + epsilon), if the value is that."""
        if (node := self.nodes.maker(name, "Reciprocal")) is not None:
            return self.root(node.input[0])
        if (node := self.nodes.maker(name, "Div")) is not None:
            return self.root(node.input[1]) if self.nodes.scalar(node.input[0]) == 1.0 else None
        node = self.nodes.maker(name, "Pow")
        return self._of_total(node.input[0]) if node is not None and self.nodes.scalar(node.input[1]) == -0.5 else None


def _orders(node: NodeProto) -> list[tuple[str, str]]:
    """The two inputs of a node in both orders; nothing for a damaged node, which the importer reports."""
    if len(node.input) != 2:
        return []
    a, b = node.input
    return [(a, b), (b, a)]


def quotient(nodes: Nodes, node: NodeProto) -> Found | None:
    """Recognize a Div that completes a normalization or a Softmax."""
    rows = Rows(nodes)
    inverse = rows.root(node.input[1])
    return (
        _softmax(nodes, node, node.input[0], node.input[1])
        if inverse is None
        else _layer(rows, node, node.input[0], inverse)
    )


def product(nodes: Nodes, node: NodeProto) -> Found | None:
    """Recognize a Mul that completes a normalization or a Softmax."""
    for x, other in _orders(node):
        rows = Rows(nodes)
        inverse = rows.inverse(other)
        found = _layer(rows, node, x, inverse) if inverse is not None else None
        if found is None and (one := nodes.maker(Rows(nodes).source(other), "Reciprocal")) is not None:
            found = _softmax(nodes, node, x, one.input[0])
        if found is not None:
            return found
    return None


def moved(nodes: Nodes, node: NodeProto) -> Found | None:
    """Recognize x * i + (shift - m * i), where i is the inverse root of the variance times the scale."""
    for scaled, rest in _orders(node):
        left, right = nodes.maker(scaled, "Mul"), nodes.maker(rest, "Sub")
        shift = nodes.array(right.input[0]) if right is not None else None
        taken = nodes.maker(right.input[1], "Mul") if right is not None else None
        if left is None or taken is None or shift is None or shift.dtype.kind != "f":
            continue
        for x, name in _orders(left):
            rows = Rows(nodes)
            inverse = rows.inverse(name)
            own = [other for other in taken.input if other != name]
            mean = rows.mean(own[0]) if inverse is not None and len(own) == 1 else None
            if inverse is None or mean is None or mean != inverse.mean or mean.x != x or not inverse.centred:
                continue
            found = _found(rows, node, x, inverse)
            shift = None if found is None else found.fits(shift.astype(np.float32))
            if found is None or shift is None:
                return None
            scale = found.constants[0] if found.constants else np.ones_like(shift)
            return Found(
                found.kind, x, found.attrs, found.output, found.fits, constants=(scale, shift), order=found.order
            )
    return None


def _layer(rows: Rows, node: NodeProto, dividend: str, inverse: Inverse) -> Found | None:
    """The normalization of x - m, or of x itself, by an inverse root."""
    if inverse.centred:
        less = rows.less_mean(dividend)
        return _found(rows, node, inverse.mean.x, inverse) if less == inverse.mean else None
    return _found(rows, node, dividend, inverse) if inverse.mean.x == dividend else None


def _found(rows: Rows, node: NodeProto, x: str, inverse: Inverse) -> Found | None:
    """What a normalization needs; None if its axes do not fit each other."""
    axes, shape = inverse.mean.axes, rows.nodes.known.get(x)
    last = axes == tuple(range(-len(axes), 0))
    if not rows.fit(inverse.mean) or (shape is None and not last):
        return None
    fits = partial(_suffix, rank=len(axes)) if shape is None else partial(_of_axes, shape=shape, axes=axes)
    scale = None if inverse.scale is None else fits(inverse.scale.astype(np.float32))
    if inverse.scale is not None and scale is None:
        return None
    kind, follow = ("LayerNormalization", ("Mul", "Add")) if inverse.centred else ("RMSNormalization", ("Mul",))
    rank = len(shape or ())
    order = () if last else (*(i for i in range(rank) if i - rank not in axes), *(axis + rank for axis in axes))
    attrs = {"axis": -len(axes), "epsilon": inverse.epsilon}
    constants = () if scale is None else (scale,)
    return Found(kind, x, attrs, node.output[0], fits, follow=follow, constants=constants, order=order)


def _softmax(nodes: Nodes, node: NodeProto, dividend: str, divisor: str) -> Found | None:
    """Recognize exp(x - max(x)) over its sum."""
    rows = Rows(nodes)
    power, total = nodes.maker(dividend, "Exp"), nodes.maker(rows.source(divisor), "ReduceSum")
    less = nodes.maker(power.input[0], "Sub") if power is not None else None
    if power is None or less is None or total is None or total.input[0] != dividend:
        return None
    name = rows.source(less.input[1])
    limited = nodes.maker(name, "Max")
    lowest = [nodes.scalar(n) for n in limited.input] if limited is not None else []
    if (
        limited is not None
        and len(lowest) == 2
        and min((low for low in lowest if low is not None), default=0.0) <= -3e38
    ):
        name = rows.source(limited.input[0 if lowest[0] is None else 1])
    most = nodes.maker(name, "ReduceMax")
    axes, own = (None if n is None else reduced_axes(nodes, n) for n in (most, total))
    if most is None or most.input[0] != less.input[0] or axes is None or axes != own or len(axes[0]) != 1:
        return None
    if not rows.fit(Mean(less.input[0], *axes)):
        return None
    return Found("Softmax", less.input[0], {"axis": axes[0][0]}, node.output[0], lambda _: None, follow=())


def power(nodes: Nodes, node: NodeProto) -> Found | None:
    """Recognize exp(x - logsumexp(x)), the Softmax of classifiers that compute with logarithms of probabilities."""
    rows, less = Rows(nodes), nodes.maker(node.input[0], "Sub")
    total = nodes.maker(rows.source(less.input[1]), "ReduceLogSumExp") if less is not None else None
    axes = None if total is None else reduced_axes(nodes, total)
    if less is None or total is None or axes is None or total.input[0] != less.input[0] or len(axes[0]) != 1:
        return None
    if not rows.fit(Mean(less.input[0], *axes)):
        return None
    return Found("Softmax", less.input[0], {"axis": axes[0][0]}, node.output[0], lambda _: None, follow=())


def reduced_axes(nodes: Nodes, node: NodeProto) -> tuple[Axes, bool] | None:
    """The axes of a reduction, and whether it keeps them; None if they are not known."""
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    given = nodes.array(node.input[1]) if len(node.input) > 1 and node.input[1] else attrs.get("axes")
    axes = [] if given is None else [int(a) for a in np.ravel(np.asarray(given))]
    if any(a >= 0 for a in axes):
        if node.input[0] not in nodes.known:
            return None
        axes = [a - len(nodes.known[node.input[0]]) if a >= 0 else a for a in axes]
    return (tuple(sorted(axes)), attrs.get("keepdims", 1) == 1) if axes else None


def _squared(nodes: Nodes, name: str) -> str | None:
    """d if the value is the square of d, else None."""
    node = nodes.maker(name, "Pow", "Mul")
    if node is None or len(node.input) != 2:
        return None
    square = nodes.scalar(node.input[1]) == 2.0 if node.op_type == "Pow" else node.input[0] == node.input[1]
    return str(node.input[0]) if square else None


def _suffix(array: Array, rank: int) -> Array | None:
    """The constant without leading axes of size 1, if the rest belongs to the last `rank` axes; else None."""
    while array.ndim > rank and array.shape[0] == 1:
        array = array[0]
    return array.reshape(array.shape or (1,)) if array.ndim <= rank else None


def _of_axes(array: Array, shape: Shape, axes: Axes) -> Array | None:
    """The constant in the shape of the normalized axes, if it has one number for each of their elements; else None."""
    if array.ndim > len(shape):
        return None
    full = (1,) * (len(shape) - array.ndim) + array.shape
    sizes = tuple(shape[axis] for axis in axes)
    fits = all(size in (1, shape[i]) if i - len(shape) in axes else size == 1 for i, size in enumerate(full))
    return np.broadcast_to(array.reshape([full[axis] for axis in axes]), sizes).copy() if fits else None
