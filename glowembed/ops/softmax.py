"""Softmax over the last axis; the import moves any other axis there.

ONNX operator Softmax. Kernel-level: softmax_s8. The output type has scale 1/256 and zero point -128, so a probability
of 1.0 is stored as 127; a quantized model may have another type. Inside a network, where no sample has a probability above
1/8, as in a Softmax over the places of an image, the steps are finer by a power of two.

    e[i] = table[max(x) - x[i]],  whole = (sum(e) * sum_scale + 2^29) >> 30
    y[i] = min((steps * e[i] + whole / 2) / whole, 127 - zero_point) + zero_point

in uint32, with table[d] = round(2^k * exp(-scale * d)); k is the largest for which steps * e and sum(e) are at most
2^31. If 1.0 is a whole number of output steps, `steps` is that number and the sum is not scaled. Otherwise `steps` is
the next lower number, and the sum is scaled down in proportion. There is one rounding, for any scale of the output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import divided, per_row, sliding
from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import Builder, Cost, Kernel, KernelOp, LowerContext, Malformed, OnnxNode, Op
from glowembed.law import fixedpoint, tflite
from glowembed.ops.copy import insert_params
from glowembed.ops.shared.broadcast import rows_of
from glowembed.ops.shared.linear import mode_of
from glowembed.records import dataclass

MAX_BITS = 23
"""The most bits, because 256 * 2^k is at most 2^31."""

MIN_BITS = 12
"""The fewest bits: with fewer, the error of the table would exceed the rounding of the output."""

SAME = 1e-6
"""Scales with a relative difference below this have the same number of steps, because models store them as float32."""


class Softmax(Op):
    """y = exp(x) / sum(exp(x)) along the last axis."""

    name = "Softmax"
    onnx = ("Softmax",)
    dependence = "axis"
    output_type = QType("int8", (1 / 256,), (-128,))
    finer_output = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        x, y = node.inputs[0], node.outputs[0]
        shape = b.shape(x)
        rank = len(shape)
        axis = node.attrs.get("axis", min(1, rank - 1) if node.opset < 13 else -1)
        if rank and not -rank <= axis < rank:
            raise Malformed(f"its axis {axis} is outside of {rank} axes", "check the model with onnx.checker")
        axis %= max(rank, 1)
        if node.opset < 13 and prod(shape[axis:]) != shape[-1]:
            _import_flattened(shape, axis, x, y, b)
            return
        if node.opset < 13 or axis == rank - 1:
            b.add("Softmax", [x], {}, y)
            return
        swap = [*range(rank)]
        swap[axis], swap[-1] = swap[-1], swap[axis]
        b.transpose(b.add("Softmax", [b.transpose(x, swap)], {}, f"{y}/axis_last"), swap, y)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (shapes[0],)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x = inputs[0].astype(np.float64)
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return ((e / e.sum(axis=-1, keepdims=True)).astype(np.float32),)

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        return attrs if perm[-1] == len(perm) - 1 else None

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        shape, n = c.shape(x), c.shape(x)[-1]
        rows = rows_of(shape)
        size = rows, prod(shape) // rows // n, n
        wanted, own = c.qtype(y), self.output_type
        if mode_of(node.attrs) != "tflite":
            steps, sum_scale = shares(wanted.scale[0])
            params = SoftmaxParams(*size, steps, sum_scale, wanted.zero_point[0])
            c.add(node, "softmax_s8", [x], y, params, {"table": _table(node, n, c.qtype(x), steps)})
            return
        params = SoftmaxParams(*size, *shares(own.scale[0]), own.zero_point[0])
        if wanted == own:
            c.add(node, "softmax_tflite_s8", [x], y, params, {"table": _tflite_table(node, n, c.qtype(x))})
            return
        made = c.derive(y, "probabilities", shape, own)
        c.add(node, "softmax_tflite_s8", [x], made, params, {"table": _tflite_table(node, n, c.qtype(x))})
        rescale = insert_params(shape, shape, (0,) * len(shape), own, wanted)
        c.add(node, "copy_s8", [made], y, rescale, role="rescale")


def shares(scale: float) -> tuple[int, int]:
    """`steps` and `sum_scale` of an output with this scale: steps * 2^30 / sum_scale = 1 / scale.

    With a scale of 2 or more no output reaches one step, and `steps` is 0.
    """
    whole = 1 / scale
    if whole <= 0.5:
        return 0, 2**30
    nearest, lower = round(whole), max(1, math.floor(whole))
    if abs(nearest / whole - 1) < SAME:
        return nearest, 2**30
    return lower, min(round(lower / whole * 2**30), 2**31 - 1)


def _import_flattened(shape: Shape, axis: int, x: str, y: str, b: Builder) -> None:
    """Import a Softmax before opset 13, which treats the axes from `axis` on as one."""
    flat = (prod(shape[:axis]), prod(shape[axis:]))
    made = b.add("Softmax", [b.add("Reshape", [x], {"shape": flat}, f"{y}/input_2d")], {}, f"{y}/2d")
    b.add("Reshape", [made], {"shape": shape}, y)


def _table(node: Node, n: int, xq: QType, steps: int) -> Const:
    bits = min(MAX_BITS, 31 - (n - 1).bit_length(), 31 - max(0, steps - 1).bit_length())
    if bits < MIN_BITS:
        raise UnsupportedModelError(
            f"{node.name}: Softmax over {n} elements, in {steps} steps; at most {2 ** (31 - MIN_BITS)} of each are possible"
        )
    return exp_table(xq.scale[0], bits)


def _tflite_table(node: Node, n: int, xq: QType) -> Const:
    if n >= 2**tflite.SUM_BITS:
        raise UnsupportedModelError(
            f"{node.name}: Softmax over {n} elements; requantization tflite sums at most {2**tflite.SUM_BITS - 1}"
        )
    return Const(tflite.softmax_table(xq.scale[0]))


def exp_table(scale: float, bits: int) -> Const:
    """The table round(2^bits * exp(-scale * d)) for d = 0..255."""

    def evaluate(distance: Array) -> Array:
        return fixedpoint.round_half_up(np.exp(-scale * distance.astype(np.float64)) * 2.0**bits).astype(np.uint32)

    return Const(np.arange(256, dtype=np.int32)).then(f"exp(-{scale:g} d) * 2^{bits}", evaluate)


@dataclass(frozen=True)
class SoftmaxParams:
    """The sizes: each vector of the output sums to one."""

    rows: int = i32("rows of input and output")
    vectors: int = i32("vectors of a row")
    n: int = i32("elements of a vector")
    steps: int = i32("of the output that make 1.0, rounded down, 0..2^19")
    sum_scale: int = i32("of the sum, in 2^-30: 2^30 where the steps are no rounded number")
    zero_point: int = i32("of the output, -128..127")


VECTORS = replace(sliding(per_row(lambda p: ((p.vectors * p.n,), p.vectors * p.n))), turned=divided("vectors"))
"""A row contains several vectors of `p.n` elements."""


class SoftmaxS8(KernelOp[SoftmaxParams]):
    """Softmax with one division per output."""

    name = "softmax_s8"
    params = SoftmaxParams
    constants = {"table": "uint32_t"}
    kernels: tuple[Kernel, ...] = (
        Kernel(
            "ge_softmax_s8",
            cost=lambda n, t: Cost(40.0 * n.params.rows * n.params.vectors * n.params.n, 320),
            store="elements",
        ),
    )
    geometry = VECTORS

    def int_ref(self, p: SoftmaxParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(-1, p.n).astype(np.int32)
        e = constants["table"][x.max(axis=1, keepdims=True) - x].astype(np.int64)
        total = (e.sum(axis=1, keepdims=True) * p.sum_scale + 2**29) >> 30
        steps = np.minimum((p.steps * e + total // 2) // total, 127 - p.zero_point)
        y: Array = (steps + p.zero_point).astype(np.int8)
        return y


class SoftmaxTfliteS8(SoftmaxS8):
    """y = e * (1 / sum of e) - 128, in the fixed point of glowembed/law/tflite.py; a step is 1/256."""

    name = "softmax_tflite_s8"
    requantization = "tflite"
    constants = {"table": "int32_t"}
    kernels = (
        Kernel(
            "ge_softmax_tflite_s8",
            cost=lambda n, t: Cost(60.0 * n.params.rows * n.params.vectors * n.params.n, 360),
            store="elements",
        ),
    )

    def int_ref(self, p: SoftmaxParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(-1, p.n).astype(np.int64)
        e = constants["table"][x.max(axis=1, keepdims=True) - x].astype(np.int64)
        total = fixedpoint.rounding_divide(e, tflite.SUM_BITS).sum(axis=1, keepdims=True)
        scale, bits = tflite.reciprocal(total)
        y = fixedpoint.rounding_divide(fixedpoint.doubling_high_mul(scale, e), bits + 31 - 8)
        return np.clip(y - 128, -128, 127).astype(np.int8)


OPS = (Softmax(),)
KERNEL_OPS = (SoftmaxS8(), SoftmaxTfliteS8())
