"""The argument of the functions that define operators as loop nests, and the table of all definitions.

A definition is a function that takes a Definition: it reads attributes and constants, names the shape of each output, and
records the statements that compute it. It is written once, for all types of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any

import numpy as np

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import OnnxNode, Refused
from glowembed.nest.dtypes import COMPUTED
from glowembed.nest.expr import Expr, to_index
from glowembed.nest.program import Program, Recorder, Tensor, loaded, only_for, without_stores
from glowembed.ops.shared import broadcast
from glowembed.records import dataclass

ELEMENT_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
    19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu",
    25: "uint2", 26: "int2",
}  # fmt: skip
"""The types of ONNX's TensorProto.DataType that tensors of a nest may have."""

OTHER_TYPES = {8: "string", 14: "complex64", 15: "complex128"}
TYPES = "real numbers and bool are supported"
"""What a refusal of another type says."""


def element_type(number: Any) -> str:
    """The type with this number in TensorProto.DataType, as in the attribute `to` of Cast. Raises Refused if nests do
    not have it.
    """
    if number not in ELEMENT_TYPES:
        raise Refused(f"its type is {OTHER_TYPES.get(number, number)}", TYPES)
    return ELEMENT_TYPES[number]


@dataclass(eq=False)
class Definition:
    """One node. x: its inputs, None for an absent one; k: records statements.

    arrays: the content of each input that is a constant. declared: the shapes that the model or onnx's shape inference
    gives the outputs, None if unknown. add_constant: makes a new constant tensor of the node.
    """

    node: OnnxNode
    x: list[Tensor | None]
    arrays: list[Array | None]
    declared: Sequence[Shape | None]
    k: Recorder = field(default_factory=Recorder)
    outputs: dict[int, Tensor] = field(default_factory=dict)
    build: Callable[[str, Sequence[Tensor]], list[Tensor]] | None = None
    """For an operator with inner graphs: records the graph in an attribute for these inputs, and returns its
    outputs.
    """

    exact: bool = True
    """Whether floats keep the types of the model; if not, all are float32."""

    captured: list[Tensor] = field(default_factory=list)
    """The values of the surrounding graph that inner graphs read."""

    leaves: Sequence[bool] = ()
    """For each output, whether it is an output of the network, whose size may be a bound."""

    counted: dict[int, int] = field(default_factory=dict)
    """For each output whose size is a bound, because it depends on data how many elements are found, the axis of that
    size.
    """

    between: dict[str, Tensor] = field(default_factory=dict)
    """Tensors from which several outputs are made, by name; each is computed once."""

    quantized: dict[int | str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """For each output, or tensor in `between`, that can be computed in integers in a quantized network: the op and its
    attrs.
    """

    copies: dict[int, str] = field(default_factory=dict)
    """For each output that equals a tensor in `between`, the name of that tensor."""

    extra: dict[str, Array] = field(default_factory=dict)
    """Constants that the definition adds, by the name of their tensor."""

    @property
    def opset(self) -> int:
        return self.node.opset

    @property
    def kind(self) -> str:
        """The operator."""
        return self.node.op_type

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return self.node.attrs.get(name, default)

    def has(self, i: int) -> bool:
        """Whether input `i` is given."""
        return i < len(self.x) and self.x[i] is not None

    def input(self, i: int) -> Tensor:
        """Input `i`. Raises Refused if it is absent."""
        found = self.x[i] if i < len(self.x) else None
        if found is None:
            raise Refused(f"its input {i} is missing", "check the model with onnx.checker")
        return found

    def given(self) -> list[Tensor]:
        """All inputs that are not absent."""
        return [t for t in self.x if t is not None]

    def constant(self, i: int) -> Array | None:
        """The content of input `i`, or None if it is not a constant."""
        return self.arrays[i] if i < len(self.arrays) else None

    def runs_on(self, i: int) -> bool:
        """Whether input `i` is known only at run time."""
        return self.has(i) and self.arrays[i] is None

    def integers(self, i: int, attribute: str = "") -> list[int] | None:
        """Integers from an attribute (older opsets) or from a constant input; None if they are absent or not
        constant.
        """
        if attribute and attribute in self.node.attrs:
            return [int(v) for v in np.ravel(self.node.attrs[attribute])]
        array = self.constant(i)
        return None if array is None else [int(v) for v in np.ravel(array)]

    def position(self, i: int, at: int | Expr = 0) -> Expr:
        """An element of input `i` as a position."""
        return to_index(self.input(i).flat(at))

    def axis(self, default: int = 0, rank: int | None = None) -> int:
        """The attribute `axis`, counted from the front."""
        rank = self.input(0).rank if rank is None else rank
        axis = int(self.attr("axis", default))
        if not -rank <= axis < rank:
            raise Refused(f"its axis {axis} is outside of {rank} axes", "check the model with onnx.checker")
        return axis % rank

    def wants(self, j: int) -> bool:
        """Whether the model names output `j`."""
        return j < len(self.node.outputs) and bool(self.node.outputs[j])

    def shape_of(self, j: int) -> Shape:
        """The shape that the model declares for output `j`, for outputs whose shape depends on values known only at run
        time.
        """
        found = self.declared[j] if j < len(self.declared) else None
        if found is None:
            raise Refused(
                "the shape of its output depends on data",
                "declare the shape of the output in the model, or make it constant",
            )
        return found

    def shape_within(self, bound: Sequence[int], axes: Mapping[int, int]) -> Shape:
        """The shape of output 0 if it depends on data how many elements are found: the declared shape, else the bound
        if these outputs leave the network. axes: for each output with such a size, the axis.

        The definition must fill the rest with zeros and call `tell_found`.
        """
        declared = self.declared[0] if self.declared else None
        if declared is not None:
            return declared
        if not self.leaves or not all(self.leaves[j] for j in axes if self.wants(j)):
            raise Refused(
                "the shape of its output depends on data",
                "declare the shape of the output in the model, or make it an output of the model that no node reads",
            )
        self.counted = {j: axis for j, axis in axes.items() if self.wants(j)}
        return tuple(bound)

    def tell_found(self, number: Expr) -> None:
        """Make the number of found elements an additional output, after those of the node."""
        if self.counted:
            j = len(self.node.outputs)
            self.outputs[j] = Tensor(f"y{j}", (1,), "int32")
            self.k.store(self.outputs[j], (0,), number.to("int32"))

    def element_type(self, number: Any) -> str:
        """The type with this number in TensorProto.DataType, as in the attribute `to` of Cast. Raises Refused if nests
        do not have it.
        """
        found = element_type(number)
        return "float32" if not self.exact and found in ("float64", "float16", "bfloat16") else found

    def output(self, j: int, shape: Sequence[int], dtype: str) -> Tensor:
        """Output `j`, or a temporary tensor if the model does not name it."""
        shape = tuple(int(size) for size in shape)
        if not self.wants(j):
            return self.k.temporary(shape, dtype)
        self.outputs[j] = Tensor(f"y{j}", shape, dtype)
        return self.outputs[j]

    def shared(self, shape: Sequence[int], dtype: str) -> Tensor:
        """A tensor from which outputs are made. If the model names several outputs, a separate node computes the tensor
        once.
        """
        if sum(map(bool, self.node.outputs)) < 2:
            return self.k.temporary(shape, dtype)
        made = Tensor(f"b{len(self.between)}", tuple(shape), dtype)
        self.between[made.name] = made
        return made

    def subgraph(self, attribute: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Record the statements of an inner graph. Its outputs are temporaries or constants."""
        if self.build is None:
            raise Refused("a graph inside a node", "check the model with onnx.checker")
        return self.build(attribute, inputs)

    def add_constant(self, array: Array) -> Tensor:
        """A constant that the definition makes, such as a table."""
        name = f"c{len(self.extra)}"
        self.extra[name] = array
        return Tensor.constant(name, array, array.dtype.name)

    def programs(self) -> dict[int | str, Program]:
        """A program for each tensor in `between`, by name, and then for each output, by number."""
        made: list[tuple[int | str, Tensor]] = [*self.between.items(), *self.outputs.items()]
        ends = frozenset(t.name for _, t in made)
        found = {}
        for key, output in made:
            before = frozenset(self.between) - {output.name}
            body = only_for(without_stores(self.k.body, before), ends - before, output.name)
            reads = loaded(body)
            inputs = [t for t in (*self.given(), *self.captured) if t.name in reads]
            inputs += [t for name, t in self.between.items() if name in reads and name in before]
            inputs += [Tensor.constant(n, a, a.dtype.name) for n, a in self.extra.items() if n in reads]
            others = [t for i, t in self.outputs.items() if i != key]
            temporaries = [t for t in (*self.k.temporaries, *others) if t.name in reads]
            found[key] = Program(tuple(inputs), output, tuple(temporaries), body)
        return found


Define = Callable[[Definition], None]
DEFINITIONS: dict[str, Define] = {}
"""The definition of each operator, by its name or `domain:name`. The modules of ops/definitions fill it."""

ON_INTEGERS: set[Define] = set()
"""The definitions whose real numbers are computed on stored integers in a quantized network, if nest/scaled.py can do
so.
"""


def operator(*names: str, on_integers: bool = False) -> Callable[[Define], Define]:
    """Register a definition under these names."""

    def register(define: Define) -> Define:
        if on_integers:
            ON_INTEGERS.add(define)
        for name in names:
            known = DEFINITIONS.get(name)
            if known is not None and known.__module__ != define.__module__:
                raise UsageError(f"the operator {name!r} has a definition already, in {known.__module__}")
            DEFINITIONS[name] = define
        return define

    return register


def require(holds: bool, problem: str) -> None:
    """Raise Refused if the shapes of a node do not fit together."""
    if not holds:
        raise Refused(problem, "check the shapes of its inputs")


def broadcast_shape(*shapes: Sequence[int]) -> Shape:
    """The shape to which all shapes are broadcast."""
    return broadcast.common_shape(*(tuple(s) for s in shapes))


def without(shape: Sequence[int], axes: Sequence[int], keep: bool) -> Shape:
    """The shape with size 1 along these axes if `keep`, else without them."""
    return tuple(1 if a in axes else size for a, size in enumerate(shape) if keep or a not in axes)


def ones_at(shape: Sequence[int], axes: Sequence[int]) -> Shape:
    """The shape with size 1 along these axes."""
    return without(shape, axes, True)


def with_index(at: Sequence[Expr], axis: int, value: Expr) -> tuple[Expr, ...]:
    """The indices, with the one along `axis` replaced."""
    return (*at[:axis], value, *at[axis + 1 :])


def with_size(shape: Sequence[int], axis: int, size: int) -> Shape:
    """The shape, with the size along `axis` replaced."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def copy_as(n: Definition, shape: Sequence[int]) -> None:
    """Define output 0 as the elements of input 0 in another shape."""
    x = n.input(0)
    if prod(shape) != x.size:
        raise Refused(f"{list(x.shape)} cannot be reshaped to {list(shape)}", "check the shapes of its inputs")
    y = n.output(0, shape, x.dtype)
    with n.k.each((x.size,)) as (i,):
        n.k.store(y, i, x.flat(i))


def elementwise(n: Definition, inputs: Sequence[Tensor], function: Callable[..., Expr], dtype: str = "") -> None:
    """Define output 0 as a function of the elements in the same place, after broadcasting."""
    y = n.output(0, broadcast_shape(*(t.shape for t in inputs)), dtype or inputs[0].dtype)
    if all(t.shape == y.shape for t in inputs):
        with n.k.each((y.size,)) as (i,):
            n.k.store(y, i, function(*(t.flat(i) for t in inputs)))
        return
    with n.k.each(y.shape) as at:
        n.k.store(y, at, function(*(t.broadcast(at) for t in inputs)))


def known(dtype: str) -> str:
    """The dtype, if a tensor of a nest can have it. Raises Refused otherwise."""
    if dtype not in COMPUTED:
        raise Refused(f"a tensor of {dtype}", TYPES)
    return dtype


Table = Mapping[str, Callable[..., Expr]]
