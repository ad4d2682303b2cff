"""Composed: several elementwise operators that together are one function of one tensor, such as x * sigmoid(x) or a
GELU written out.

In int8 it is a table of 256 entries and in int16 straight lines, like the functions of activation.py. In float32 its
operators become separate nodes again, with the same bits as without this op.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glowembed.graph.ir import Array, Const, Node, Shape, Value
from glowembed.graph.op import LowerContext, free_name
from glowembed.graph.registry import lower_node, ops
from glowembed.ops.activation import Attrs, Formula, Real, Unary
from glowembed.ops.activation_wide import lower_function


def _values(x: Array, attrs: Attrs) -> Array:
    made = [x]
    for op, own, operands in attrs["steps"]:
        given = [made[i] if isinstance(i, int) else np.full((1,) * x.ndim, i, np.float32) for i in operands]
        made.append(ops()[op].float_ref(own, given)[0])
    return made[-1]


def _real(x: Real, attrs: Attrs) -> Real:
    return _values(x.astype(np.float32), attrs).astype(np.float64)


class Composed(Unary):
    """y = f(x). attrs: `steps`, each with an op, its attrs and its operands (0 is x, n the result of step n, and a
    float is a constant); `onnx`, the operator of the model that joins them.
    """

    name = "Composed"
    joins = True
    formula = Formula(_real)

    def float_ref(self, attrs: Attrs, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (_values(inputs[0], attrs),)


def _lower_float(node: Node, c: LowerContext) -> None:
    """Lower each step separately; intermediate values are named after the output."""
    y, shape, steps = node.outputs[0], c.shape(node.outputs[0]), node.attrs["steps"]
    made = [node.inputs[0]]
    for number, (op, own, operands) in enumerate(steps, start=1):
        made.append(y if number == len(steps) else _value(c, f"{y}/step{number}", shape))
        given = [made[i] if isinstance(i, int) else _number(c, f"{y}/constant", i, len(shape)) for i in operands]
        lower_node(Node(made[-1], op, tuple(given), (made[-1],), own, node.origins), c)


def _number(c: LowerContext, name: str, number: float, rank: int) -> str:
    shape = (1,) * rank
    return _value(c, name, shape, Const(np.full(shape, number, np.float32)))


def _value(c: LowerContext, name: str, shape: Shape, const: Const | None = None) -> str:
    name = free_name(name, c.graph.values, c.values)
    c.values[name] = Value(name, shape, const=const)
    return name


OPS = (Composed(),)
LOWERINGS = {("Composed", "int16"): lower_function, ("Composed", "float32"): _lower_float}
