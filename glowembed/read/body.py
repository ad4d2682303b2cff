"""Writes the function body of one node.

In: a node, and the types of its inputs. Out: nodes of standard operators. contrib.py and attentions.py use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, helper, numpy_helper

from glowembed.graph.ir import Array
from glowembed.graph.op import Refused
from glowembed.nest.dtypes import numpy_type
from glowembed.read.operand import Operand
from glowembed.records import dataclass

OPSET = 23
"""The opset of the bodies, which must have Gelu and RMSNormalization."""


ACTIVATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), ()),
    **dict.fromkeys(("Elu", "LeakyRelu", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
}
"""The activations that onnxruntime fuses, and their attributes in the order of activation_params."""


@dataclass(eq=False)
class Body:
    """A function body under construction: `add` appends a node and names its output."""

    node: NodeProto
    operands: Sequence[Operand | None]
    nodes: list[NodeProto] = field(default_factory=list)

    def attr(self, name: str, default: Any) -> Any:
        """An attribute of the node."""
        found = next((a for a in self.node.attribute if a.name == name), None)
        value = default if found is None else helper.get_attribute_value(found)
        return value.decode() if isinstance(value, bytes) else value

    def kept(self, *names: str) -> dict[str, Any]:
        """Those of the named attributes that the node has."""
        return {a.name: helper.get_attribute_value(a) for a in self.node.attribute if a.name in names}

    def has(self, i: int) -> bool:
        """Whether input `i` is given."""
        return 0 <= i < len(self.operands) and self.operands[i] is not None

    def operand(self, i: int) -> Operand:
        """The type and content of input `i`. Raises Refused if it is absent."""
        found = self.operands[i] if i < len(self.operands) else None
        if found is None:
            raise Refused(f"its input {i} is missing", "check how the model was exported")
        return found

    def array(self, i: int, what: str) -> Array:
        """The content of input `i`. Raises Refused if it is not constant."""
        found = self.operand(i).array
        if found is None:
            raise Refused(f"its {what} are computed at run time", f"make the {what} constant")
        return found

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of a standard operator and return the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, value: Any, dtype: str) -> str:
        """A constant of this type. Raises Refused for a fraction or an infinity in an integer type, which happens if an
        operator for floats has integer inputs.
        """
        wanted, given = numpy_type(dtype), np.asarray(value)
        if (
            wanted.kind in "iub"
            and given.dtype.kind == "f"
            and not np.array_equal(given, np.trunc(np.clip(given, -(2**53), 2**53)))
        ):
            raise Refused(
                f"it computes with fractions, and its inputs are {dtype}", "check the model with onnx.checker"
            )
        return self.add("Constant", value=numpy_helper.from_array(given.astype(wanted)))

    def number(self, value: float) -> str:
        """A constant of the type of input 0."""
        return self.constant(value, self.operand(0).dtype)

    def plus(self, x: str, *inputs: int) -> str:
        """The sum of x and those of these inputs that are present."""
        for i in inputs:
            x = self.add("Add", x, f"x{i}") if self.has(i) else x
        return x

    def activated(self, x: str) -> str:
        """x after the activation in the node's attributes."""
        kind, parameters = self.attr("activation", ""), list(self.attr("activation_params", []))
        if kind == "":
            return x
        if kind in ACTIVATIONS:
            own = dict(zip(ACTIVATIONS[kind], parameters, strict=False))
            own |= {name: self.attr(f"activation_{name}", None) for name in ACTIVATIONS[kind] if name not in own}
            return self.add(kind, x, **{name: value for name, value in own.items() if value is not None})
        if kind == "Clip" and len(parameters) == 2:
            return self.add(kind, x, *map(self.number, parameters))
        raise Refused(f"its activation is {kind!r}", "export without the optimizations of onnxruntime")

    def turned(self, i: int, last: bool, batch: bool = False) -> str:
        """Input `i`. batch: its first axis is moved behind those of the batch. last: then its last two axes are
        swapped.
        """
        rank = len(self.operand(i).shape)
        perm = list(range(rank))
        if batch and rank > 2:
            perm = [*perm[1:-1], 0, rank - 1]
        if last and rank > 1:
            perm[-2:] = perm[:-3:-1]
        return f"x{i}" if perm == sorted(perm) else self.add("Transpose", f"x{i}", perm=perm)

    def finished(self, *outputs: str) -> FunctionProto:
        """The function with these outputs, except those that the node does not name."""
        names = [f"x{i}" for i in range(len(self.node.input))]
        named = [name for name, _ in zip(outputs, self.node.output, strict=False)]
        return helper.make_function(
            self.node.domain, self.node.op_type, names, named, self.nodes, [helper.make_opsetid("", OPSET)]
        )
