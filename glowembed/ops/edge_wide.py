"""Conversions between float32 and int16. Kernel-level: quantize_f32_s16, dequantize_s16_f32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from glowembed.graph.geometry import ELEMENTWISE
from glowembed.graph.ir import Array, Node, QType, Shape
from glowembed.graph.op import Cost, KernelOp, LowerContext, of_element
from glowembed.law.wide import HIGHEST, LOWEST
from glowembed.ops.edge import EdgeParams
from glowembed.ops.shared import broadcast


def _edge_params(shape: Shape, qtype: QType) -> EdgeParams:
    rows = broadcast.rows_of(shape)
    return EdgeParams(rows, prod(shape) // rows, qtype.zero_point[0], float(np.float32(qtype.scale[0])))


def _quantize(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    c.add(node, "quantize_f32_s16", [x], y, _edge_params(c.shape(x), c.qtype(y)))


def _dequantize(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    name = "dequantize_s16_f32" if c.dtype(x) == "int16" else "dequantize_s8_f32"
    c.add(node, name, [x], y, _edge_params(c.shape(x), c.qtype(x)))


class QuantizeF32S16(KernelOp[EdgeParams]):
    """y = clamp(round(x / scale) + zero_point), ties to even; infinities are clamped, nan gives the zero point."""

    name = "quantize_f32_s16"
    params = EdgeParams
    kernels = (
        of_element(
            "ge_quantize_f32",
            "s16",
            "ge_quantize_f32_s16",
            cost=lambda n, t: Cost(40.0 * n.params.rows * n.params.row, 140),
            store="rows",
        ),
    )
    geometry = ELEMENTWISE
    element_bytes = (4, 2)

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        with np.errstate(over="ignore"):
            steps = np.rint(inputs[0].astype(np.float32) / np.float32(p.scale))
        steps = np.clip(np.nan_to_num(steps, nan=0.0), LOWEST - p.zero_point, HIGHEST - p.zero_point)
        stored: Array = (steps.astype(np.int32) + p.zero_point).astype(np.int16)
        return stored


class DequantizeS16F32(KernelOp[EdgeParams]):
    """y = (x - zero_point) * scale in float32."""

    name = "dequantize_s16_f32"
    params = EdgeParams
    kernels = (
        of_element(
            "ge_dequantize_f32",
            "s16",
            "ge_dequantize_s16_f32",
            cost=lambda n, t: Cost(12.0 * n.params.rows * n.params.row, 80),
            store="rows",
        ),
    )
    geometry = ELEMENTWISE
    element_bytes = (2, 4)

    def int_ref(self, p: EdgeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return (inputs[0].astype(np.int32) - p.zero_point).astype(np.float32) * np.float32(p.scale)


LOWERINGS = {("Quantize", "int16"): _quantize, ("Dequantize", "float32"): _dequantize}
KERNEL_OPS = (QuantizeF32S16(), DequantizeS16F32())
