"""Conversions at the inputs and outputs of a bundle, and at the edges of float32 nodes: float32 to int8 or int16, and
back. Lowering makes them; no ONNX node does. Kernel-level: quantize_f32_s8, quantize_f32_s16, dequantize_s8_f32 and
dequantize_s16_f32. Each of them does a single float32 division or multiplication, so all cores with IEEE 754
arithmetic, in hardware or in software, give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from glowembed.graph.cstruct import f32, i32
from glowembed.graph.geometry import ELEMENTWISE
from glowembed.graph.ir import Array, Node, QType, Shape
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, Op, of_element
from glowembed.ops.shared.broadcast import rows_of
from glowembed.records import dataclass


class _Conversion(Op):
    """y = x in another type."""

    elementwise = True
    converts = True

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (shapes[0],)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (inputs[0],)


class Quantize(_Conversion):
    """y = x; turns a float tensor into a stored one."""

    name = "Quantize"

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        c.add(node, f"quantize_f32_{_stored(c, y)}", [x], y, _params(c.shape(x), c.qtype(y)))


class Dequantize(_Conversion):
    """y = x; turns a stored tensor into a float one."""

    name = "Dequantize"

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        c.add(node, f"dequantize_{_stored(c, x)}_f32", [x], y, _params(c.shape(x), c.qtype(x)))


def _stored(c: LowerContext, value: str) -> str:
    """The word that stands for the type of a stored value in the names of kernel-level ops."""
    return "s16" if c.dtype(value) == "int16" else "s8"


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


def _kernel(text: str, element: str, symbol: str, cycles: float, code: int) -> Kernel:
    return of_element(
        text, element, symbol, cost=lambda n, t: Cost(cycles * n.params.rows * n.params.row, code), store="rows"
    )


class QuantizeF32S8(KernelOp[EdgeParams]):
    """y = clamp(round(x / scale) + zero_point), halves to even. Infinities are clamped; NaN gives the zero point."""

    name = "quantize_f32_s8"
    params = EdgeParams
    kernels: tuple[Kernel, ...] = (_kernel("ge_quantize_f32", "s8", "ge_quantize_f32_s8", 40.0, 140),)
    geometry = ELEMENTWISE
    element_bytes = (4, 1)
    stored: ClassVar[str] = "int8"

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        limits = np.iinfo(self.stored)
        with np.errstate(over="ignore"):
            steps = np.rint(inputs[0].astype(np.float32) / np.float32(p.scale))
        steps = np.clip(np.nan_to_num(steps, nan=0.0), limits.min - p.zero_point, limits.max - p.zero_point)
        stored: Array = (steps.astype(np.int32) + p.zero_point).astype(self.stored)
        return stored


class QuantizeF32S16(QuantizeF32S8):
    """y = clamp(round(x / scale) + zero_point) in int16."""

    name = "quantize_f32_s16"
    kernels = (_kernel("ge_quantize_f32", "s16", "ge_quantize_f32_s16", 40.0, 140),)
    element_bytes = (4, 2)
    stored = "int16"


class DequantizeS8F32(KernelOp[EdgeParams]):
    """y = (x - zero_point) * scale in float32."""

    name = "dequantize_s8_f32"
    params = EdgeParams
    kernels: tuple[Kernel, ...] = (_kernel("ge_dequantize_f32", "s8", "ge_dequantize_s8_f32", 12.0, 80),)
    geometry = ELEMENTWISE
    element_bytes = (1, 4)

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return (inputs[0].astype(np.int32) - p.zero_point).astype(np.float32) * np.float32(p.scale)


class DequantizeS16F32(DequantizeS8F32):
    """y = (x - zero_point) * scale in float32, for an int16 x."""

    name = "dequantize_s16_f32"
    kernels = (_kernel("ge_dequantize_f32", "s16", "ge_dequantize_s16_f32", 12.0, 80),)
    element_bytes = (2, 4)


OPS = (Quantize(), Dequantize())
KERNEL_OPS = (QuantizeF32S8(), DequantizeS8F32(), QuantizeF32S16(), DequantizeS16F32())
LOWERINGS = {("Quantize", "int16"): Quantize().lower, ("Dequantize", "float32"): Dequantize().lower}
