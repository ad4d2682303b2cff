"""Gives every value of the canonical graph a type from ranges and settings; coverage.py reports node by node how.

In: the canonical float graph, the range of every activation, the settings of every node. Out: the same graph with
`Value.qtype` set (None: it stays float32), and conversion nodes where producer and consumer differ; constants stay
float and delayed. The type of an output is the one that the model defines, else what a rule fixes, else a fixed type of
the op (Softmax), else the type of the first input (MaxPool, Reshape), else the range. The type of weights follows from
the constant.

A node that only moves values, and whose dtype no rule gives, takes the dtype of the side on which the conversion is
cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Const, Graph, Node, QType, Value, limits
from glowembed.graph.op import FOLLOWS, Product
from glowembed.graph.registry import ops
from glowembed.ops.copy import Rescale
from glowembed.options.table import DTYPES, EXACT, Settings
from glowembed.options.words import COMPRESSED
from glowembed.quantize import schema
from glowembed.quantize.compress import compressed
from glowembed.quantize.precision import LEFT_IN_FLOAT, Precision, ValueSettings, named, resolve
from glowembed.records import dataclass

Range = tuple[float, float]
RangeOf = Callable[[str, Settings], Range]
"""A function from the name of an activation and settings to the lowest and highest real number to represent."""

WeightsRangeOf = Callable[[Array, Settings], Range]
"""A function from the weights of one channel (or of all channels) and settings to the lowest and highest real number to
represent.
"""

INT16_HEADROOM = 2.0
"""int16 holds this many times the observed range, because the lost bit does not matter, while clipping the first sample
beyond the range would.
"""


def minmax(weights: Array, settings: Settings) -> Range:
    """The range of weights, unclipped."""
    return schema.minmax(weights)


def quantize(
    graph: Graph,
    range_of: RangeOf,
    precision: Precision | None = None,
    weights_range: WeightsRangeOf = minmax,
    floating: Collection[str] = (),
) -> Graph:
    """The graph with types and conversion nodes. floating: inputs that stay in float32, whoever reads them. Raises UsageError if a range is missing or a
    type is impossible.
    """
    precision = precision or resolve(graph)
    typing = _Typing(graph, precision, range_of, weights_range, dict(graph.values))
    for name in graph.inputs:
        if name not in floating:
            typing.input(name)
    for node in graph.nodes:
        typing.node(node)
    for name in graph.outputs:
        typing.output(name)
    return graph.with_nodes(typing.nodes, typing.values)


def refuse_unused(graph: Graph, precision: Precision) -> None:
    """Raise UsageError for a rule of a file whose values are all float32 in the typed graph: it changes nothing.

    Rules that a program makes, such as those that `tune` tries, may overrule each other.
    """
    if not precision.file:
        return
    used = {name for name, value in graph.values.items() if value.qtype is not None}
    used |= {node.inputs[0] for node in graph.nodes if ops()[node.op].converts and node.outputs[0] in used}
    effective = {fixed.rule for name, fixed in precision.values.items() if name in used}
    for name, fixed in precision.values.items():
        if fixed.rule not in effective:
            setting = "range" if fixed.range is not None else "scale"
            raise UsageError(f"{precision.file}: {fixed.rule}: {name!r} is float32, which has no {setting}")


def node_dtypes(graph: Graph, precision: Precision) -> dict[str, str]:
    """For each node, the dtype that it computes in: that of its settings or, for a node that only moves values, that of
    a neighbour.
    """
    free = {node.name for node in graph.nodes if _moves_only(graph, node, precision.nodes[node.name])}
    readers, wanted = graph.consumers(), dict[str, str | None]()
    for node in reversed(graph.nodes):
        behind = [wanted[reader.name] for reader in readers[node.outputs[0]]]
        asked = [dtype for dtype in behind if dtype is not None]
        demand = max(asked, key=DTYPES.index, default=None)
        wanted[node.name] = demand if node.name in free else precision.nodes[node.name].dtype
    made, chosen = graph.producer(), dict[str, str]()
    for node in graph.nodes:
        chosen[node.name] = precision.nodes[node.name].dtype
        if node.name in free:
            name = source_of(graph, node)
            producer = made.get(name)
            source = _stored_dtype(graph.values[name]) if producer is None else chosen[producer.name]
            chosen[node.name] = _cheaper(graph, node, source, wanted[node.name]) or chosen[node.name]
    return chosen


def _moves_only(graph: Graph, node: Node, settings: Settings) -> bool:
    given = graph.values[node.outputs[0]].qtype is not None
    return ops()[node.op].output_type in FOLLOWS and not settings.explicit_dtype and not given


def source_of(graph: Graph, node: Node) -> str:
    """The input whose numbers a node moves: the first one that is computed from real numbers, or else the first."""
    if ops()[node.op].output_type != "shared":
        return node.inputs[0]
    real = [name for name in node.inputs if not graph.values[name].plain]
    return min(real or node.inputs, key=lambda name: graph.values[name].const is not None)


def _stored_dtype(value: Value) -> str | None:
    return value.qtype.dtype if value.qtype else None


def _cheaper(graph: Graph, node: Node, source: str | None, demand: str | None) -> str | None:
    """The dtype of the side of the node on which the conversion converts fewer elements; if these are equal, that with
    fewer bytes.
    """
    if source is None or demand is None or source == demand:
        return source or demand
    before, after = graph.values[source_of(graph, node)].elements, graph.values[node.outputs[0]].elements
    if before != after:
        return source if after < before else demand
    return min(source, demand, key=DTYPES.index)


def dtype_of(value: Value) -> str:
    return value.qtype.dtype if value.qtype else "float32"


MOST_HALVED = 8
"""How often a fixed scale is halved at most: kernels then still count the steps of 1.0 in 16 bits."""


@dataclass
class _Typing:
    """The state of the walk over the graph."""

    graph: Graph
    precision: Precision
    range_of: RangeOf
    weights_range: WeightsRangeOf
    values: dict[str, Value]
    nodes: list[Node] = field(default_factory=list)
    converted: dict[tuple[str, QType | None], str] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dtypes = node_dtypes(self.graph, self.precision)

    def settings(self, node: Node) -> Settings:
        """The settings of the node, with the dtype that it actually computes in."""
        return replace(self.precision.nodes[node.name], dtype=self.dtypes[node.name])

    def input(self, name: str) -> None:
        """Give an input the widest dtype of the nodes that read it, so that none of them loses precision.

        An input that a quantized model rounds in two ways stays float.
        """
        consumers = self.graph.consumers()[name]
        if (
            self.values[name].plain
            or self.values[name].qtype is not None
            or any(ops()[node.op].converts for node in consumers)
        ):
            return
        readers = [self.settings(node) for node in consumers]
        if not readers:
            return
        fixed = {self.fixed_operand(node, i) for node in consumers for i, x in enumerate(node.inputs) if x == name}
        widest = max(readers, key=lambda s: DTYPES.index(s.dtype), default=Settings())
        qtype = fixed.pop() if len(fixed) == 1 else None
        self.values[name] = replace(self.values[name], qtype=qtype or self.own_type(name, widest))

    def output(self, name: str) -> None:
        """Round an output to the integers that the model has there, if the model leaves the node before it in float."""
        value, makers = self.values[name], self.graph.producer()
        maker = root = makers.get(name)
        if value.model_dtype is None or value.qtype is not None or maker is None or root is None:
            return
        while ops()[root.op].output_type == "input" and root.inputs[0] in makers:
            root = makers[root.inputs[0]]
        given = self.graph.values[name].qtype or self.graph.values[root.outputs[0]].qtype
        op, settings = ops()[root.op], self.settings(root)
        follows = op.output_type in FOLLOWS and not settings.explicit_dtype
        if given is None or not (op.plain or follows or settings.rules.get("dtype") == LEFT_IN_FLOAT):
            return
        real = self.free_name(f"{name}/float32", maker)
        self.values[real] = replace(value, name=real, model_dtype=None)
        self.values[name] = replace(value, qtype=given)
        self.nodes = [n.renamed({name: real}) for n in self.nodes]
        self.nodes.append(
            Node(self.free_name(f"{name}/stored", maker), "Quantize", (real,), (name,), {}, maker.origins)
        )

    def node(self, node: Node) -> None:
        settings, op, y = self.settings(node), ops()[node.op], node.outputs[0]
        if op.converts:
            self.set_output(y, settings, None)
            kind = _conversion(self.values[node.inputs[0]], self.values[y])
            self.nodes.append(replace(node, op=kind, attrs=_law(settings) if kind == Rescale.name else {}))
            return
        if op.output_type == "shared":
            self.sharing(node, settings)
            return
        given = self.given_type(y, settings)
        through = given if op.output_type == "input" else None
        inputs = [self.operand(node, i, settings, through) for i in range(len(node.inputs))]
        attrs = {**node.attrs, **_kept_limits(node, self.graph.values[y].qtype, settings), **_law(settings)}
        fixed = self.values[inputs[0]].qtype if op.output_type == "input" else op.output_type
        if isinstance(fixed, QType) and op.finer_output and not self.is_output(y) and "requantization" not in attrs:
            fixed = self.finer(y, fixed, settings)
        self.set_output(y, settings, fixed if isinstance(fixed, QType) else None)
        self.nodes.append(replace(node, inputs=tuple(inputs), attrs=attrs))

    def is_output(self, name: str) -> bool:
        """Whether the value is an output of the network, or is only moved on its way to one."""
        moved = {name}
        for node in self.graph.nodes:
            if node.inputs and node.inputs[0] in moved and ops()[node.op].output_type == "input":
                moved.update(node.outputs)
        return not moved.isdisjoint(self.graph.outputs)

    def finer(self, name: str, fixed: QType, settings: Settings) -> QType:
        """The type with its scale halved at least twice, if twice the range of the samples fits; else the type itself."""
        if settings.dtype != "int8":
            return fixed
        most = self.range_of(name, replace(settings, calibration="minmax"))[1]
        halved = math.floor(math.log2(fixed.range()[1] / (2 * most))) if most > 0 else 0
        return fixed if halved < 2 else replace(fixed, scale=(fixed.scale[0] / 2 ** min(halved, MOST_HALVED),))

    def sharing(self, node: Node, settings: Settings) -> None:
        """Give all real numbers of the node one type."""
        qtype = self.shared_type(node, settings) if settings.dtype != "float32" else None
        inputs = []
        for name in node.inputs:
            value = self.values[name]
            if not value.plain and value.const is not None:
                name = self.typed(node, name, qtype)
            elif not value.plain and value.qtype != qtype:
                name = self.convert(node, name, qtype)
            inputs.append(name)
        y = self.values[node.outputs[0]]
        self.values[y.name] = y if y.plain else replace(y, qtype=qtype)
        self.nodes.append(replace(node, inputs=tuple(inputs)))

    def shared_type(self, node: Node, settings: Settings) -> QType | None:
        """The type of the only computed input, if it can hold the constants, too; else that of the output, or of all
        inputs.
        """
        y = self.values[node.outputs[0]]
        real = [self.values[name] for name in node.inputs if not self.values[name].plain]
        computed = [value for value in real if value.const is None]
        given = self.given_type(y.name, settings)
        arrays = [value.const.materialize() for value in real if value.const is not None]
        known = [x for array in arrays if array.size for x in (float(array.min()), float(array.max()))]
        known += ops()[node.op].limits(node.attrs)
        if given is None and len(computed) == 1:
            own = (
                computed[0].qtype
                if dtype_of(computed[0]) == settings.dtype
                else self.own_type(computed[0].name, settings)
            )
            if own is not None and all(own.range()[0] <= x <= own.range()[1] for x in known):
                return own
        if not y.plain and (computed or not known or given is not None):
            return self.own_type(y.name, settings)
        ranges = [value.qtype.range() if value.qtype else self.range_of(value.name, settings) for value in computed]
        ends = [*known, *(x for ends in ranges for x in ends)]
        return _chosen(min(ends), max(ends), settings)

    def set_output(self, name: str, settings: Settings, fixed: QType | None) -> None:
        qtype = self.given_type(name, settings)
        if qtype is None and settings.dtype != "float32":
            qtype = _of_dtype(fixed, settings.dtype) if fixed is not None else self.own_type(name, settings)
        self.values[name] = replace(self.values[name], qtype=qtype)

    def given_type(self, name: str, settings: Settings) -> QType | None:
        """The type that the model defines or a rule fixes; a rule for the node may override its dtype."""
        if settings.dtype == "float32" or self.values[name].plain:
            return None
        if (fixed := self.precision.values.get(name)) is not None:
            return self.fixed_type(name, fixed, settings)
        given = self.graph.values[name].qtype
        return given if given is not None and given.dtype == settings.dtype else None

    def own_type(self, name: str, settings: Settings) -> QType | None:
        """The type of an activation for these settings, from a rule or else from its range."""
        if settings.dtype == "float32":
            return None
        if (fixed := self.precision.values.get(name)) is not None:
            return self.fixed_type(name, fixed, settings)
        given = self.graph.values[name].qtype
        if given is not None and given.dtype == settings.dtype:
            return given
        low, high = self.range_of(name, settings)
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            raise UsageError(f"the profile has no usable range for {name!r}: {low}..{high}")
        if settings.dtype == "int16" and settings.activation_calibration == "minmax":
            low, high = INT16_HEADROOM * low, INT16_HEADROOM * high
        return _chosen(low, high, settings)

    def fixed_type(self, name: str, fixed: ValueSettings, settings: Settings) -> QType:
        if fixed.range is not None:
            return _chosen(*fixed.range, settings)
        assert fixed.scale is not None and fixed.zero_point is not None, fixed
        return self.explicit(name, settings.dtype, fixed, None)

    def explicit(self, name: str, dtype: str, fixed: ValueSettings, channels: int | None) -> QType:
        with named(self.precision.file):
            return _explicit(name, dtype, fixed, channels)

    def operand(self, node: Node, index: int, settings: Settings, through: QType | None) -> str:
        name = node.inputs[index]
        if self.values[name].plain and ops()[node.op].plain:
            return name
        own = self.fixed_operand(node, index)
        if own is not None and self.values[name].const is not None:
            return self.typed(node, name, own)
        if own is not None:
            return name if self.values[name].qtype == own else self.convert(node, name, own)
        if self.values[name].const is not None:
            if ops()[node.op].plain_constants:
                return name
            if ops()[node.op].has_weights:
                return self.weights(node, settings) if index == 1 else name
            if products := ops()[node.op].products:
                product = next((p for p in products if p.weights == index), None)
                return name if product is None else self.product_weights(node, product, settings)
            return self.constant(node, name, settings)
        if through is not None and self.values[name].qtype != through:
            return self.convert(node, name, through)
        if dtype_of(self.values[name]) == settings.dtype:
            return name
        return self.convert(node, name, self.own_type(name, settings))

    def fixed_operand(self, node: Node, index: int) -> QType | None:
        return ops()[node.op].input_type(index, self.dtypes[node.name])

    def convert(self, node: Node, name: str, qtype: QType | None) -> str:
        """The value in another type; all readers share one conversion."""
        if (name, qtype) not in self.converted:
            value = replace(self.values[name], qtype=qtype, dtype="float32", model_dtype=None)
            value = replace(value, name=self.free_name(f"{name}/{dtype_of(value)}", node))
            self.values[value.name] = value
            producer = self.graph.producer().get(name)
            origins = producer.origins if producer else ()
            op = _conversion(self.values[name], value)
            self.nodes.append(Node(value.name, op, (name,), (value.name,), {}, origins))
            self.converted[name, qtype] = value.name
        return self.converted[name, qtype]

    def free_name(self, wanted: str, node: Node) -> str:
        taken = {*self.values, *(n.name for n in self.graph.nodes)}
        if wanted in taken:
            wanted = f"{wanted}_for_{node.name}"
        while wanted in taken:
            wanted += "'"
        return wanted

    def constant(self, node: Node, name: str, settings: Settings) -> str:
        const = self.values[name].const
        assert const is not None
        if settings.dtype == "float32":
            return self.typed(node, name, None)
        given = self.graph.values[name].qtype
        if given is not None and given.dtype == settings.dtype:
            return name
        if (fixed := self.precision.values.get(name)) is not None:
            return self.typed(node, name, self.fixed_type(name, fixed, settings))
        array = const.materialize()
        return self.typed(node, name, _chosen(float(array.min()), float(array.max()), settings))

    def weights(self, node: Node, settings: Settings) -> str:
        x, w, b = (self.values[name] for name in node.inputs)
        if settings.dtype == "float32":
            return self.typed(node, w.name, None)
        given = self.graph.values[w.name].qtype
        kept = given is not None and given.dtype == settings.dtype and "weights_dtype" not in settings.rules
        dtype = given.dtype if given is not None and kept else settings.stored_weights
        if given is not None and given.dtype == dtype:
            short = _is_compressed(settings) and w.const is not None and not any(given.zero_point)
            return self.typed(node, w.name, compressed(w.const, given)) if short and w.const else w.name
        if given is not None and dtype == "int4" and (narrow := _in_four_bits(w, given)) is not None:
            return self.typed(node, w.name, narrow)
        assert w.const is not None and b.const is not None
        x_type = x.qtype if dtype_of(x) == settings.dtype else self.own_type(x.name, settings)
        assert x_type is not None, x.name
        array, least = w.const.materialize(), None
        if dtype == "int16" and settings.weights_dtype != EXACT:
            y_type = self.own_type(node.outputs[0], settings)
            assert y_type is not None, node.outputs[0]
            least = schema.least_for_words(array, b.const.materialize(), x_type, y_type.scale[0])
        chosen = self.weights_type(w.name, x_type, array, b.const, dtype, settings, least)
        return self.typed(node, w.name, compressed(w.const, chosen) if _is_compressed(settings) else chosen)

    def product_weights(self, node: Node, product: Product, settings: Settings) -> str:
        """The weights of one of several products. Weights that the model stores as integers keep their type."""
        w, bias = (self.values[node.inputs[i]] for i in (product.weights, product.bias))
        if settings.dtype == "float32":
            return self.typed(node, w.name, None)
        dtype = settings.stored_weights
        assert w.const is not None and bias.const is not None
        if dtype == "int8" and (stored := _stored_rows(w.const)) is not None:
            return self.typed(node, w.name, stored)
        if product.x is not None:
            value = self.values[node.inputs[product.x]]
            x_type = value.qtype if dtype_of(value) == settings.dtype else self.own_type(value.name, settings)
        else:
            given = self.given_type(node.outputs[0], settings) if product.qtype == ops()[node.op].output_type else None
            x_type = given or (product.qtype and _of_dtype(product.qtype, settings.dtype))
        assert x_type is not None, node.name
        if settings.weights_schema == "asymmetric":
            settings = replace(settings, weights_schema="symmetric")
        array = w.const.materialize()
        return self.typed(node, w.name, self.weights_type(w.name, x_type, array, bias.const, dtype, settings))

    def weights_type(
        self,
        name: str,
        x_type: QType,
        w: Array,
        bias: Const,
        dtype: str,
        settings: Settings,
        least: NDArray[np.float64] | None = None,
    ) -> QType:
        """The type of weights for inputs of type `x_type`. least: the least scale of each channel."""
        fixed = self.precision.values.get(name)
        if fixed is not None and fixed.scale is not None:
            return self.explicit(name, dtype, fixed, w.shape[0])
        limit = schema.WIDE_BIAS_LIMITS[dtype] if settings.dtype == "int16" else schema.BIAS_LIMIT

        def range_of(part: Array) -> Range:
            return (fixed and fixed.range) or self.weights_range(part, settings)

        law: Any = settings.weights_schema
        known = bias.materialize()
        return schema.weights_type(w, known, x_type.scale[0], law, settings.per_channel, dtype, range_of, limit, least)

    def typed(self, node: Node, name: str, qtype: QType | None) -> str:
        """The constant in this type: the value itself, or a copy if another node needs it in another type."""
        if (name, qtype) not in self.converted:
            first = not any(known == name for known, _ in self.converted)
            twin = name if first else self.free_name(f"{name}/{qtype.dtype if qtype else 'float32'}", node)
            self.values[twin] = replace(self.values[name], name=twin, qtype=qtype)
            self.converted[name, qtype] = twin
        return self.converted[name, qtype]


def _stored_rows(const: Const) -> QType | None:
    """The type of weights that a model stores as symmetric int8 with one scale for each row, or for all rows; else
    None.
    """
    grid = const.materialized_grid()
    if grid is None:
        return None
    scales = np.broadcast_to(grid, const.array.shape if not const.steps else const.materialize().shape)
    rows = scales.reshape(len(scales), -1)
    stored = np.rint(const.materialize().reshape(rows.shape) / rows)
    if (rows != rows[:, :1]).any() or np.abs(stored).max(initial=0) > schema.WEIGHT_LIMIT:
        return None
    return QType("int8", tuple(float(s) for s in rows[:, 0]), (0,) * len(rows), axis=0)


def _is_compressed(settings: Settings) -> bool:
    return settings.dtype == "int8" and settings.weights_dtype == COMPRESSED


def _in_four_bits(weights: Value, given: QType) -> QType | None:
    """The type of weights whose integers, in the type that the model gives, fit in four bits; else None."""
    if given.dtype != "int8" or any(given.zero_point) or weights.const is None:
        return None
    stored, narrow = given.quantize(weights.const.materialize()), replace(given, dtype="int4")
    low, high = narrow.limits
    return narrow if low <= stored.min(initial=0) and stored.max(initial=0) <= high else None


def _law(settings: Settings) -> dict[str, Any]:
    """The attr of the node that names its law of requantization, if it is not the default."""
    other = settings.dtype == "int8" and settings.requantization != "default"
    return {"requantization": settings.requantization} if other else {}


def _kept_limits(node: Node, given: QType | None, settings: Settings) -> dict[str, float]:
    """A clip with the limits of the type that the model defines, for a node with another dtype, because that type also
    clamps, often in place of a ReLU.
    """
    if given is None or given.dtype == settings.dtype or not ops()[node.op].fuses_activation:
        return {}
    low, high = given.range()
    return {
        "act_min": max(low, node.attrs.get("act_min", low)),
        "act_max": min(high, node.attrs.get("act_max", high)),
    }


def _conversion(x: Value, y: Value) -> str:
    if x.qtype is None:
        return "Quantize" if y.qtype is not None else "Rescale"
    return "Rescale" if y.qtype is not None else "Dequantize"


def _chosen(low: float, high: float, settings: Settings) -> QType:
    law: Any = settings.activation_schema
    return schema.choose(low, high, law, settings.dtype)


def _of_dtype(fixed: QType, dtype: str) -> QType:
    """A fixed int8 type of an op, or the type of an input, in this dtype. For int16 it has the same range and is
    symmetric.
    """
    if fixed.dtype == dtype:
        return fixed
    low, high = fixed.range()
    power = max(-low, high + fixed.scale[0]) if low < 0 else high + fixed.scale[0]
    return QType(dtype, (float(power) / 32768,), (0,))


def _explicit(name: str, dtype: str, fixed: ValueSettings, channels: int | None) -> QType:
    """The type with the scale and zero point of a rule, for all channels of weights."""
    assert fixed.scale is not None and fixed.zero_point is not None, fixed
    low, high = limits(dtype)
    for zero in fixed.zero_point:
        if not low <= zero <= high:
            raise UsageError(f"{fixed.rule}: zero_point {zero} of {name!r} does not fit {dtype}: {low}..{high}")
    scales = tuple(float(np.float32(s)) for s in fixed.scale)
    if not all(s >= np.finfo(np.float32).tiny and np.isfinite(s) for s in scales):
        raise UsageError(f"{fixed.rule}: a scale of {name!r} is none that float32 can hold: {fixed.scale}")
    if channels is None:
        return QType(dtype, scales, fixed.zero_point)
    count = channels // len(scales)
    return QType(dtype, scales * count, fixed.zero_point * count, axis=0)


def typed_names(graph: Graph) -> frozenset[str]:
    """The activations that have a type before this stage, as in a model that is already quantized."""
    return frozenset(name for name, value in graph.values.items() if value.qtype and value.const is None)
