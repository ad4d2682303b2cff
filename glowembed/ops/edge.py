"""Conversions at the inputs and outputs of a bundle: float32 to int8 at the inputs, int8 to float32 at the outputs.
They exist only if float inputs and outputs were requested; no other part of an int8 bundle uses floats. Lowering makes
them; no ONNX node does. Kernel-level: quantize_f32_s8, dequantize_s8_f32. Every float operation is a single float32
division or multiplication, so all cores with IEEE 754 arithmetic, in hardware or not, give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from glowembed.graph.cstruct import f32, i32
from glowembed.graph.geometry import ELEMENTWISE
from glowembed.graph.ir import Array, Node, QType, Shape
from glowembed.graph.op import Cost, KernelOp, LowerContext, Op, of_element
from glowembed.ops.shared.broadcast import rows_of


class Quantize(Op):
    """y = x: a float tensor becomes a stored one."""

    name = "Quantize"
    elementwise = True
    converts = True

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (shapes[0],)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (inputs[0],)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        c.add(node, "quantize_f32_s8", [x], y, _params(c.shape(x), c.qtype(y)))


class Dequantize(Op):
    """y = x: a stored tensor becomes a float one."""

    name = "Dequantize"
    elementwise = True
    converts = True

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (shapes[0],)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (inputs[0],)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        c.add(node, "dequantize_s8_f32", [x], y, _params(c.shape(x), c.qtype(x)))


# ------------------------------------------------------------------------------------------ kernel level


@dataclass(frozen=True)
class EdgeParams:
    """The type of the stored side: real = scale * (stored - zero_point)."""

    rows: int = i32("rows of input and output")
    row: int = i32("elements of a row")
    zero_point: int = i32("-128..127")
    scale: float = f32("what one step is worth, > 0")


def _params(shape: Shape, qtype: QType) -> EdgeParams:
    rows = rows_of(shape)
    return EdgeParams(rows, prod(shape) // rows, qtype.zero_point[0], float(np.float32(qtype.scale[0])))


class QuantizeF32S8(KernelOp[EdgeParams]):
    """y = clamp(round(x / scale) + zero_point), ties to even; infinities are clamped, nan gives the zero point."""

    name = "quantize_f32_s8"
    params = EdgeParams
    kernels = (
        of_element(
            "ge_quantize_f32",
            "s8",
            "ge_quantize_f32_s8",
            cost=lambda n, t: Cost(40.0 * n.params.rows * n.params.row, 140),
            store="rows",
        ),
    )
    geometry = ELEMENTWISE
    element_bytes = (4, 1)

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        with np.errstate(over="ignore"):
            steps = np.rint(inputs[0].astype(np.float32) / np.float32(p.scale))
        steps = np.clip(np.nan_to_num(steps, nan=0.0), -128 - p.zero_point, 127 - p.zero_point)
        stored: Array = (steps + p.zero_point).astype(np.int8)
        return stored


class DequantizeS8F32(KernelOp[EdgeParams]):
    """y = (x - zero_point) * scale in float32."""

    name = "dequantize_s8_f32"
    params = EdgeParams
    kernels = (
        of_element(
            "ge_dequantize_f32",
            "s8",
            "ge_dequantize_s8_f32",
            cost=lambda n, t: Cost(12.0 * n.params.rows * n.params.row, 80),
            store="rows",
        ),
    )
    geometry = ELEMENTWISE
    element_bytes = (1, 4)

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return (inputs[0].astype(np.int32) - p.zero_point).astype(np.float32) * np.float32(p.scale)


OPS = (Quantize(), Dequantize())
KERNEL_OPS = (QuantizeF32S8(), DequantizeS8F32())
