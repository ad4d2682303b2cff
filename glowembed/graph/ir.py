"""The graph: Value, Node, Graph, QType, Const, and verify().

All classes are frozen; a pass returns a new graph. A Value keeps the name that it has in the ONNX file for as long as
it exists; a value that a pass derives is named `<source name>/<role>`. A Node keeps the ONNX nodes it came from
(`origins`). This module knows no op, no target and no file format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.notes import Note
from glowembed.graph.plan import Place
from glowembed.graph.states import State, Stream
from glowembed.law.modes import Mode
from glowembed.nest.dtypes import COMPUTED, NIBBLES, numpy_type
from glowembed.records import dataclass

Shape = tuple[int, ...]
Array = NDArray[Any]


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer type in which tensors are stored."""
    computed, bits = NIBBLES.get(dtype, (dtype, 0))
    info = np.iinfo(computed)
    unused = info.bits - bits if bits else 0
    return int(info.min) >> unused, int(info.max) >> unused


UNSIGNED = {"uint8": 128, "uint16": 32768}
"""What is subtracted from the integers of a model's unsigned types, which are stored as the signed ones of the same width."""


@dataclass(frozen=True)
class QType:
    """How numbers are stored: real = scale * (stored - zero_point).

    dtype is a numpy name ("int8", "int32"), or "int4" for weights, whose arrays are int8. With axis None, scale and
    zero_point hold one element; otherwise one per index along that axis of the stored tensor. table: the only integers
    that are stored, in ascending order; none means all of the dtype.
    """

    dtype: str
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None
    table: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.scale) != len(self.zero_point) or (self.axis is None and len(self.scale) != 1):
            raise ValueError(f"{len(self.scale)} scales, {len(self.zero_point)} zero points, axis {self.axis}")
        if not all(np.isfinite(s) and s > 0 for s in self.scale):
            raise ValueError(f"scales must be finite and positive: {self.scale}")

    @property
    def limits(self) -> tuple[int, int]:
        return limits(self.dtype)

    def _along(self, values: Sequence[float] | Sequence[int], rank: int) -> NDArray[np.float64]:
        shape = [1] * rank
        if self.axis is not None:
            shape[self.axis] = len(values)
            return np.asarray(values, dtype=np.float64).reshape(shape)
        return np.asarray(values[0], dtype=np.float64)

    @np.errstate(over="ignore")
    def quantize(self, real: Array) -> Array:
        """Return clip(round(real / scale) + zero_point), computed in float64 with halves to even, as in ONNX
        QuantizeLinear; with a table, the nearest of its numbers, the lower one in the middle.
        """
        scale, zero = self._along(self.scale, real.ndim), self._along(self.zero_point, real.ndim)
        if self.table:
            numbers = np.asarray(self.table, np.int64)
            between = np.searchsorted((numbers[1:] + numbers[:-1]) / 2, real.astype(np.float64) / scale + zero)
            return numbers[between].astype(COMPUTED[self.dtype])
        stored = np.rint(real.astype(np.float64) / scale) + zero
        return np.clip(stored, *self.limits).astype(COMPUTED[self.dtype])

    def dequantize(self, stored: Array) -> NDArray[np.float32]:
        scale, zero = self._along(self.scale, stored.ndim), self._along(self.zero_point, stored.ndim)
        return ((stored.astype(np.float64) - zero) * scale).astype(np.float32)

    def range(self) -> tuple[float, float]:
        """The smallest and largest real number that a per-tensor type can hold."""
        low, high = self.limits
        return (low - self.zero_point[0]) * self.scale[0], (high - self.zero_point[0]) * self.scale[0]


class Step(Protocol):
    """One pure, named step of a delayed constant."""

    @property
    def name(self) -> str: ...

    def __call__(self, array: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class NamedStep:
    """A Step made from a function; `name` is shown in dumps, such as `transpose(1,0)` or `pack(ge_conv2d_s8)`."""

    name: str
    function: Any

    def __call__(self, array: Array) -> Array:
        result: Array = self.function(array)
        return result


@dataclass(frozen=True, eq=False)
class Const:
    """A delayed constant: the float array as it was in the model, and the steps still to be applied.

    Nothing is rounded before `materialize`, so a target can re-quantize from the original floats. `grid`: the scale of
    each integer, in the shape of `array`, if the model stores integers. Steps that move or scale elements do the same
    to the grid, so that exactly the same integers can be recovered afterwards.
    """

    array: Array
    steps: tuple[Step, ...] = ()
    grid: Array | None = None

    def then(self, name: str, function: Any) -> Const:
        """This constant with one more step."""
        return replace(self, steps=(*self.steps, NamedStep(name, function)))

    def materialize(self) -> Array:
        return self._after_steps(self.array)

    def plain(self) -> Const:
        """This constant with its steps done. The grid is not kept."""
        return Const(self.materialize())

    def materialized_grid(self) -> Array | None:
        """The grid after all steps. It has no meaning if a step does more than move and scale, which callers must
        check.
        """
        return None if self.grid is None else self._after_steps(self.grid)

    def _after_steps(self, array: Array) -> Array:
        for step in self.steps:
            array = step(array)
        return array


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor. `shape` is that of the stored tensor.

    `dtype` is the name of the logical type (float32 if the value may be quantized); `qtype` says how it is stored once
    it is quantized. `layout` gives the axis of the ONNX tensor for each stored axis: (0, 2, 3, 1) for NCHW stored as
    NHWC; None means stored as in the model. `model_dtype` is the integer type that an input or output has in the model
    file; None means float. `place` says where an input or output is stored, if not in the arena. `found`, for an output
    whose size depends on data: the name of the output with the number of found elements, and the axis along which the
    remaining elements are 0. `labels`: the strings, if an output holds indices of them.
    """

    name: str
    shape: Shape
    dtype: str = "float32"
    qtype: QType | None = None
    const: Const | None = None
    layout: tuple[int, ...] | None = None
    model_dtype: str | None = None
    place: Place = "arena"
    found: tuple[str, int] | None = None
    labels: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * numpy_type(self.qtype.dtype if self.qtype else self.dtype).itemsize

    @property
    def plain(self) -> bool:
        """Whether the value is never quantized, because its type in the model is not float32."""
        return self.dtype != "float32"

    def zeros(self) -> Array:
        """A stored tensor in which every number is 0."""
        dtype = numpy_type(self.qtype.dtype if self.qtype else self.dtype)
        return np.full(self.shape, self.qtype.zero_point[0] if self.qtype else 0, dtype)

    def logical(self, stored: Array) -> Array:
        """The tensor with its axes in the order of the ONNX file."""
        if self.layout is None:
            return stored
        return np.transpose(stored, np.argsort(self.layout))


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `op` names a semantic op before lowering, a kernel-level op after it.

    Lowering sets `params` (a dataclass, and a C struct on the device) and `constants` (weights, biases and tables as
    delayed constants, by name). `kernel` is the symbol chosen for the target. `shares` is the index of the input in
    whose memory the output lies, if the op requires it (views and the parts of a concat).
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    params: Any = None
    constants: Mapping[str, Const] = field(default_factory=dict)
    kernel: str | None = None
    shares: int | None = None
    macs: int = 0

    @property
    def operator(self) -> str:
        """The name by which users know the node: the ONNX operator of a generated node, else the op."""
        return str(self.attrs.get("onnx", self.op))

    @property
    def origin(self) -> str:
        """The node of the model by which users know this one: its own name, unless the compiler made that up."""
        return self.name if not self.origins or self.name in self.origins else self.origins[0]

    def reading(self, names: Mapping[str, str]) -> Node:
        """The node with other input values. names: maps old names to new ones."""
        if not any(name in names for name in self.inputs):
            return self
        return replace(self, inputs=tuple(names.get(name, name) for name in self.inputs))

    def renamed(self, names: Mapping[str, str]) -> Node:
        """The node with other names for its inputs and outputs. names: maps old names to new ones."""
        made = self.reading(names)
        if not any(name in names for name in self.outputs):
            return made
        return replace(made, outputs=tuple(names.get(name, name) for name in self.outputs))


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in order of execution, the values by name, and the names of inputs and outputs."""

    name: str
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model_sha256: str = ""
    law: Mode | None = None
    """the law of the engine that a quantized model was made for, if its file names it"""
    notes: tuple[str, ...] = ()
    """sentences for the user about how the model was read"""
    assumed: tuple[Note, ...] = ()
    """what the import assumed about shapes"""
    generated: Mapping[str, str] = field(default_factory=dict)
    """for each node of the model, by name, that is computed by generated loops and not by a kernel of its own: the
    reason
    """
    states: tuple[State, ...] = ()
    """outputs whose values are inputs of the next run"""
    stream: Stream | None = None
    """for a network on hops, the window from which it was made"""

    @property
    def free_inputs(self) -> tuple[str, ...]:
        """The inputs that are not states; the caller provides them for each run."""
        kept = {state.input for state in self.states}
        return tuple(name for name in self.inputs if name not in kept)

    def consumers(self) -> Mapping[str, Sequence[Node]]:
        """For each value name, the nodes that read the value, in order."""
        return self._consumers

    @cached_property
    def _consumers(self) -> Mapping[str, Sequence[Node]]:
        readers: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers[name].append(node)
        return readers

    def producer(self) -> Mapping[str, Node]:
        """For each value name, the node that makes the value; inputs and constants are not included."""
        return self._producer

    @cached_property
    def _producer(self) -> Mapping[str, Node]:
        return {name: node for node in self.nodes for name in node.outputs}

    def const(self, name: str) -> Const | None:
        return self.values[name].const

    def with_nodes(self, nodes: Iterable[Node], values: Mapping[str, Value] | None = None) -> Graph:
        """A graph with these nodes. Values that no node uses any more are dropped."""
        nodes, known = tuple(nodes), {**self.values, **(values or {})}
        used = dict.fromkeys(
            [*self.inputs, *(n for node in nodes for n in (*node.inputs, *node.outputs)), *self.outputs]
        )
        return replace(self, nodes=nodes, values={name: known[name] for name in used})

    def with_plain_constants(self) -> Graph:
        """The graph with the steps of its constants done, so that they are done only once, and so that it can be pickled."""
        values = {n: v if v.const is None else replace(v, const=v.const.plain()) for n, v in self.values.items()}
        nodes = (replace(n, constants={k: c.plain() for k, c in n.constants.items()}) for n in self.nodes)
        return replace(self, nodes=tuple(nodes), values=values)


class GraphError(AssertionError):
    """A pass broke an invariant of the graph. This is always a bug of glowembed, never a fault of the model."""


def _verify_inputs(graph: Graph) -> None:
    if unknown := [name for name in graph.inputs if name not in graph.values]:
        raise GraphError(f"the input {unknown[0]!r} has no entry in values")


def verify(graph: Graph) -> Graph:
    """Check the invariants between stages and return the graph. Raises GraphError.

    Every name is defined once and before it is used; constants are not produced by nodes; inputs and outputs exist;
    node names are unique.
    """
    defined = set(graph.inputs) | {name for name, value in graph.values.items() if value.const is not None}
    _verify_inputs(graph)
    names: set[str] = set()
    for node in graph.nodes:
        if node.name in names:
            raise GraphError(f"two nodes are named {node.name!r}")
        names.add(node.name)
        for value in node.inputs:
            if value not in defined:
                raise GraphError(f"{node.op} {node.name!r} reads {value!r} before it is made")
        for value in node.outputs:
            if value in defined:
                raise GraphError(f"{value!r} is made twice, the second time by {node.op} {node.name!r}")
            if value not in graph.values:
                raise GraphError(f"{value!r} has no entry in values")
            defined.add(value)
    for value in graph.outputs:
        if value not in defined:
            raise GraphError(f"the output {value!r} is never made")
    for name, entry in graph.values.items():
        if entry.const is None and any(d < 0 for d in entry.shape):
            raise GraphError(f"{name!r} has the impossible shape {entry.shape}")
    return graph
