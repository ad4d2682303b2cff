"""Applies the types that a quantized model defines: Rescale nodes and integer constants become Value.qtype.

In: the graph of the other passes, in which a Rescale with the attr `scale` marks a place where the model rounds to
integers, and constants know their grid. Out: a graph in which the values that the model stores have types; an op writes
the type of the Rescale after it directly, with one rounding. Only Rescales between two types of one value remain. All
other values get their types from quantize.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from glowembed.canonicalize.rewrite import bypassed, fresh
from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Array, Const, Graph, Node, QType, Value
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.ops.copy import Rescale

SAME_GRID = 1e-6
"""Largest relative difference of two float32 products of the same scales."""


def stored_types(graph: Graph) -> Graph:
    """The graph with a QType on all values that the model stores as integers, constants included."""
    if not any(_rounds(node) for node in graph.nodes) and not _has_grid(graph):
        return graph
    graph, in_float = _one_type_each(graph)
    for node in graph.nodes:
        if _rounds(node):
            graph = _settle(graph, node, in_float)
    return _typed_constants(graph)


def _rounds(node: Node) -> bool:
    """Whether the node marks a place where the model rounds to integers."""
    return is_a(node, Rescale) and "scale" in node.attrs


def _has_grid(graph: Graph) -> bool:
    return any(value.const is not None and value.const.grid is not None for value in graph.values.values())


def _type(node: Node) -> QType:
    dtype = node.attrs["dtype"].removeprefix("u")
    return QType(dtype, (node.attrs["scale"],), (node.attrs["zero_point"],))


def _one_type_each(graph: Graph) -> tuple[Graph, frozenset[str]]:
    """Duplicate the ops and the inputs of the network whose values are rounded in two ways."""
    wanted: dict[str, dict[QType, list[Node]]] = {}
    for node in graph.nodes:
        if _rounds(node):
            wanted.setdefault(_made_in(graph, node.inputs[0]), {}).setdefault(_type(node), []).append(node)
    in_float = frozenset(name for name in graph.inputs if len(wanted.get(name, ())) > 1)
    for root, by_type in wanted.items():
        maker = graph.producer().get(root)
        for rescales in [*by_type.values()][1:] if maker is not None and not is_a(maker, Rescale) else []:
            graph = _with_twin(graph, root, rescales)
    return graph, in_float


def _made_in(graph: Graph, name: str) -> str:
    """The value from which this one gets its numbers, through all ops that only move them."""
    maker = graph.producer().get(name)
    moved = maker is not None and ops()[maker.op].output_type == "input"
    return _made_in(graph, maker.inputs[0]) if maker is not None and moved else name


def _with_twin(graph: Graph, root: str, rescales: list[Node]) -> Graph:
    """The graph with copies of all nodes from the one that makes `root` to these Rescales, which then read the
    copies.
    """
    makers, twins = graph.producer(), dict[str, str]()
    nodes, values = list(graph.nodes), dict(graph.values)
    for rescale in rescales:
        path, name = [root], rescale.inputs[0]
        while name != root:
            path.insert(1, name)
            name = makers[name].inputs[0]
        for name in path:
            if name not in twins:
                maker = makers[name]
                twins[name] = fresh(replace(graph, values=values), f"{name}/twin")
                values[twins[name]] = replace(values[name], name=twins[name])
                twin = replace(maker, name=twins[name], outputs=(twins[name],)).reading(twins)
                nodes.insert(nodes.index(maker) + 1, twin)
        nodes[nodes.index(rescale)] = rescale.reading(twins)
    return replace(graph, nodes=tuple(nodes), values=values)


def _settle(graph: Graph, node: Node, in_float: Collection[str]) -> Graph:
    """Give the value before the Rescale its type, and remove the Rescale; if that is impossible, the Rescale stays as a
    conversion.
    """
    qtype = _type(node)
    node = next(n for n in graph.nodes if n.name == node.name)
    values = dict(graph.values)
    accepted = _made_in(graph, node.inputs[0]) not in in_float and _take(graph, values, node.inputs[0], qtype)
    values[node.outputs[0]] = replace(values[node.outputs[0]], qtype=qtype)
    plain = replace(node, attrs={})
    graph = replace(graph, values=values, nodes=tuple(plain if n is node else n for n in graph.nodes))
    if not accepted:
        return graph
    result = bypassed(graph, plain)
    return result if result is not None else graph


def _take(graph: Graph, values: dict[str, Value], name: str, qtype: QType) -> bool:
    """Give this type to the value, and to all values before it that must share its type. Returns False if one of them
    has another type.
    """
    value, maker = values[name], graph.producer().get(name)
    if value.qtype is not None or value.const is not None:
        return value.qtype == qtype
    if maker is not None and ops()[maker.op].output_type == "input":
        known = type_of(graph, values, maker.inputs[0])
        if known is not None and known != qtype:
            return False
        if not _take(graph, values, maker.inputs[0], qtype):
            return False
    values[name] = replace(value, qtype=qtype)
    return True


def type_of(graph: Graph, values: dict[str, Value], name: str) -> QType | None:
    """The type of a value, or None if the model does not define it."""
    maker = graph.producer().get(name)
    if values[name].qtype is not None or maker is None or ops()[maker.op].output_type != "input":
        return values[name].qtype
    return type_of(graph, values, maker.inputs[0])


def _typed_constants(graph: Graph) -> Graph:
    values = dict(graph.values)
    for node in graph.nodes:
        if ops()[node.op].has_weights:
            _type_weights(graph, values, node)
            continue
        for name in node.inputs:
            const = values[name].const
            if const is not None and values[name].qtype is None:
                values[name] = replace(values[name], qtype=grid_type(const, None))
    return replace(graph, values=values)


def _type_weights(graph: Graph, values: dict[str, Value], node: Node) -> None:
    """Give the weights the type of their integers, and move the bias exactly to multiples of its scale.

    A bias that is not a multiple (a shift in float between two roundings of the model) is rounded more finely if the
    weights have bits to spare: their integers are multiplied by k and their scale is divided by k, which leaves the
    weights exactly the same.
    """
    x, w, b = node.inputs
    const, bias, x_type = values[w].const, values[b].const, type_of(graph, values, x)
    if const is None or values[w].qtype is not None or (qtype := _weights_type(const, x_type)) is None:
        _refuse_wide(node, w, const)
        return
    if x_type is not None and bias is not None:
        exact = _snapped(bias, x_type.scale[0] * np.asarray(qtype.scale))
        values[b] = replace(values[b], const=exact or bias)
        qtype = qtype if exact is not None else _finer(qtype, const)
    values[w] = replace(values[w], qtype=qtype)


def _weights_type(const: Const, x_type: QType | None) -> QType | None:
    """The type of the integers of weights. Beside activations of int16 it has zero point 0, so weights of uint8 with
    another one are int16, like those with more than 8 bits.
    """
    narrow = grid_type(const, 0)
    if x_type is None or x_type.dtype != "int16":
        return narrow
    narrow = _centered(narrow, const) if narrow is not None else None
    return narrow if narrow is not None and not any(narrow.zero_point) else grid_type(const, 0, "int16")


def _refuse_wide(node: Node, name: str, const: Const | None) -> None:
    """Refuse weights that the model stores with more than 8 bits, because they would be rounded a second time without
    the user's consent. If each channel has a single weight, it is exact with a scale of its own.
    """
    if const is None or const.grid is None or const.grid.shape != const.array.shape:
        return
    if np.size(const.array) == len(np.atleast_1d(const.array)):
        return
    stored = np.rint(const.array / const.grid)
    if stored.size and np.abs(stored).max() > 255:
        raise UnsupportedModelError(
            f"{node.op} {node.name!r}: its weights {name!r} hold integers from {stored.min():.0f} to {stored.max():.0f};"
            " 8 bits are supported: quantize them to int8 or uint8"
        )


def _centered(qtype: QType, const: Const) -> QType:
    """The type with zero point 0, which int16 activations need, for weights with one number in each channel, stored as
    127 or -127.
    """
    reals = const.materialize().reshape(-1)
    if not any(qtype.zero_point) or len(qtype.scale) != reals.size:
        return qtype
    scales = np.where(reals == 0, 1.0, np.abs(reals.astype(np.float64)) / 127)
    return replace(qtype, scale=tuple(scales.tolist()), zero_point=(0,) * reals.size)


def _finer(qtype: QType, const: Const) -> QType:
    """The type in which the integers are multiplied by the largest factor that fits."""
    array = const.materialize()
    peaks = np.abs(qtype.quantize(array).reshape(len(array), -1).astype(np.int64)).max(axis=1)
    if any(qtype.zero_point):
        return qtype
    factors = 127 // np.maximum(peaks, 1)
    scales = np.asarray(qtype.scale) / np.maximum(np.where(peaks > 0, factors, 1), 1)
    return replace(qtype, scale=tuple(scales.tolist()))


def grid_type(const: Const, axis: int | None, dtype: str = "int8") -> QType | None:
    """The type of the integers that a constant stands for; None if it is no longer integers times a scale, or if they
    do not fit.

    Integers that do not fit int8 with zero point 0, such as asymmetric uint8 weights, get another zero point.
    """
    grid = const.materialized_grid()
    if grid is None:
        return None
    array = const.materialize().astype(np.float64)
    rows = array.shape[0] if axis is not None else 1
    if grid.shape != array.shape or array.size == 0:
        return None
    scales, reals = grid.reshape(rows, -1), array.reshape(rows, -1)
    if not (np.isfinite(scales).all() and (scales > 0).all() and (scales == scales[:, :1]).all()):
        return None
    stored = np.rint(reals / scales)
    off_grid = np.abs(reals / scales - stored).max() > 1e-6
    wide = dtype != "int8"
    if off_grid or (np.abs(stored) > 32767 if wide else np.ptp(stored, axis=1) > 255).any():
        return None
    zero = np.zeros(rows, np.int64) if wide else _zero_points(stored)
    qtype = QType(dtype, tuple(scales[:, 0].tolist()), tuple(zero.tolist()), axis)
    assert (qtype.quantize(array).reshape(rows, -1) == stored + zero[:, None]).all()
    return qtype


def _zero_points(stored: Array) -> Array:
    """The zero point of each row: 0 if the row fits in int8, else the shift with which it fits."""
    low, high = stored.min(axis=1), stored.max(axis=1)
    fits = (low >= -128) & (high <= 127)
    return np.asarray(np.where(fits, 0, -128 - low), dtype=np.int64)


def _snapped(bias: Const, steps: Array) -> Const | None:
    """Move a bias from the grid of the scales s_x * s_w, each rounded to float32, to the grid of the unrounded
    products.

    Returns None if it is not on such a grid. A bias of zeros is on every grid.
    """
    grid = bias.materialized_grid()
    array = bias.materialize().astype(np.float64)
    if not array.any():
        return bias
    if grid is None or grid.shape != array.shape or np.abs(grid / steps - 1).max() > SAME_GRID:
        return None
    stored = np.rint(array / grid)
    if np.abs(array / grid - stored).max() > 1e-6:
        return None
    exact = stored * steps
    return bias.then("exact_steps", lambda _: exact)
