"""Function: a generated operator that computes one function of one number, such as Sin or a power.

In int8 it is a table of 256 entries and in int16 straight lines, like the functions of activation.py. The function
itself is a loop nest (glowembed/nest) that computes in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import LowerContext
from glowembed.nest import interpret
from glowembed.nest.pointwise import resized
from glowembed.ops import nest
from glowembed.ops.activation import Attrs, Formula, Real, Unary
from glowembed.ops.activation_wide import lower_function


def _values(x: Array, attrs: Attrs) -> Array:
    return np.asarray(interpret.run(resized(nest.program_of(attrs["params"]), x.size), [x.reshape(-1)])).reshape(
        x.shape
    )


def _real(x: Real, attrs: Attrs) -> Real:
    return _values(x.astype(np.float32), attrs).astype(np.float64)


class Function(Unary):
    """y = f(x). attrs: `params`, the program over one element, and `onnx`, the operator that the model names."""

    name = "Function"
    formula = Formula(_real)

    def float_ref(self, attrs: Attrs, inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (_values(inputs[0], attrs),)


def _lower_float(node: Node, c: LowerContext) -> None:
    program = resized(nest.program_of(node.attrs["params"]), c.value(node.inputs[0]).elements)
    nest.add(node, c, nest.params_of(program))


OPS = (Function(),)
LOWERINGS = {("Function", "int16"): lower_function, ("Function", "float32"): _lower_float}
