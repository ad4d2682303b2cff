"""Fully connected layers: ONNX Gemm, and MatMul where one operand is a constant matrix.

Input [..., K] (all leading axes are rows), weights [N, K], bias [N]. Kernel-level: fc_s8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import per_row, sliding
from glowembed.graph.ir import Array, Const, Node, Shape
from glowembed.graph.op import (
    Builder,
    Cost,
    Kernel,
    KernelOp,
    LowerContext,
    Malformed,
    OnnxNode,
    Op,
    Refused,
    in_all_modes,
    of_element,
)
from glowembed.graph.registry import ops
from glowembed.law import fixedpoint
from glowembed.ops.shared import broadcast, costs
from glowembed.ops.shared.linear import check_bias, clamp_limits, linear_constants, mode_of
from glowembed.records import dataclass

MAX_PRODUCT = 2**26
"""The most elements in the product of two constants; they take 256 MB."""


class Gemm(Op):
    """y[.., n] = sum over k (x[.., k] * w[n, k]) + b[n], then the fused clip."""

    name = "Gemm"
    onnx = ("Gemm", "MatMul")
    dependence = "sum"
    rounds_once = True
    has_weights = True
    weights_of_four_bits = True
    fuses_activation = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        (_import_gemm if node.op_type == "Gemm" else _import_matmul)(node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, w, bias = shapes
        if len(w) != 2 or x[-1] != w[1]:
            raise Malformed(
                f"{x[-1]} input features do not fit weights of shape {list(w)}", "check the shapes of its inputs"
            )
        check_bias(bias, w[0])
        return ((*x[:-1], w[0]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, w, bias = inputs
        y = x @ w.T + bias
        return (np.clip(y, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32),)

    def patches(self, attrs: Mapping[str, Any], x: Array) -> Array | None:
        return x.reshape(1, -1, x.shape[-1])

    def lower(self, node: Node, c: LowerContext) -> None:
        x, w, bias = node.inputs
        y = node.outputs[0]
        mode = mode_of(node.attrs)
        k = linear_constants(c.const(w), c.qtype(w), c.const(bias), c.qtype(x), c.qtype(y), node.name, mode)
        out_c, in_c = c.shape(w)
        rows = prod(c.shape(x)[:-1])
        limits = clamp_limits(c.qtype(y), node.attrs)
        params = FcParams(rows, in_c, out_c, k.requant.shift, c.qtype(y).zero_point[0], *limits)
        c.add(node, k.op("fc"), [x], y, params, k.as_dict(), macs=rows * in_c * out_c)


def _import_gemm(node: OnnxNode, b: Builder) -> None:
    """Import alpha * A' * B' + beta * C as one layer if C is its bias, else as a layer and a sum."""
    left, right = node.inputs[:2]
    known = [b.const(name) is not None for name in (left, right)]
    if not any(known):
        ops()["MatMul"].import_onnx(node, b)
    elif all(known):
        _add_rest(node, b, _constant_product(node, b))
    elif known[1]:
        x = b.transpose(left, (1, 0)) if node.attrs.get("transA", 0) else left
        _layer(node, b, x, right if node.attrs.get("transB", 0) else _swapped(b, right), flipped=False)
    else:
        x = right if node.attrs.get("transB", 0) else b.transpose(right, (1, 0))
        _layer(node, b, x, _swapped(b, left) if node.attrs.get("transA", 0) else left, flipped=True)


def _layer(node: OnnxNode, b: Builder, x: str, weights: str, flipped: bool) -> None:
    """Add x * weights' + beta * C. `flipped`: the weights are A, and (B' * A')' is the product."""
    y, weights = node.outputs[0], _scaled(b, weights, float(node.attrs.get("alpha", 1.0)))
    bias = _gemm_bias(node, b, b.shape(x)[0], b.shape(weights)[0], flipped)
    product = y if bias is not None else f"{y}/product"
    inputs = [x, weights, bias or _zeros(b, y, b.shape(weights)[0])]
    made = b.add("Gemm", inputs, {}, f"{product}/transposed" if flipped else product)
    if flipped:
        made = b.transpose(made, (1, 0), product)
    if bias is None:
        _add_rest(node, b, made)


def _constant_product(node: OnnxNode, b: Builder) -> str:
    """Add the constant alpha * A' * B' of two constants."""
    left, right = (b.delayed(name).materialize().astype(np.float64) for name in node.inputs[:2])
    left, right = (m.T if node.attrs.get(key, 0) else m for m, key in ((left, "transA"), (right, "transB")))
    if len(left) * right.shape[1] > MAX_PRODUCT:
        raise Refused(
            f"the product of its constants has {len(left) * right.shape[1]} elements, more than {MAX_PRODUCT}"
        )
    product = (left @ right * node.attrs.get("alpha", 1.0)).astype(np.float32)
    return b.constant(f"{node.outputs[0]}/product", Const(product))


def _gemm_bias(node: OnnxNode, b: Builder, rows: int, channels: int, flipped: bool) -> str | None:
    """The name of beta * C as [channels] if C has one value for each channel, one for all, or is absent; else None."""
    name, beta, y = node.input(2), float(node.attrs.get("beta", 1.0)), node.outputs[0]
    if name is None or beta == 0.0:
        return _zeros(b, y, channels)
    c = b.const(name)
    if c is None:
        return None
    row = _bias_row(rows, channels, beta, flipped)
    full = np.broadcast_to(c, (channels, rows) if flipped else (rows, channels))
    first = full[:, :1] if flipped else full[:1]
    if not np.array_equal(full, np.broadcast_to(first, full.shape)):
        return None
    if beta == 1.0 and c.shape == (channels,) and not flipped:
        return name
    return b.constant(f"{y}/bias", b.delayed(name).then(f"times({beta:g}), row({channels})", row))


def _bias_row(rows: int, channels: int, beta: float, flipped: bool) -> Any:
    def row(c: Array) -> Array:
        full = np.broadcast_to(c, (channels, rows)).T if flipped else np.broadcast_to(c, (rows, channels))
        scaled: Array = full[0] * np.float32(beta)
        return scaled.astype(np.float32)

    return row


def _add_rest(node: OnnxNode, b: Builder, product: str) -> None:
    """Add product + beta * C if C is computed or has values of its own for each row."""
    y, c, beta = node.outputs[0], node.inputs[2], float(node.attrs.get("beta", 1.0))
    if beta != 1.0:
        factor = b.constant(f"{y}/beta", Const(np.asarray([beta], np.float32)))
        times = replace(node, op_type="Mul", inputs=(c, factor), outputs=(f"{y}/times_beta",))
        c = broadcast.import_pair("Mul", times, b)
    broadcast.import_pair("Add", replace(node, op_type="Add", inputs=(product, c), outputs=(y,)), b)


def _import_matmul(node: OnnxNode, b: Builder) -> None:
    """Import X * W directly, and W * x as (x' * W')'. A 1-D operand becomes a matrix; its axis of size 1 is dropped
    from the result. Without a constant matrix the node is a MatMul.
    """
    left, right = node.inputs
    if b.const(right) is not None and _one_matrix(b.shape(right), b.shape(left)):
        _times_constant(node, b, left, right)
    elif b.const(left) is not None and _one_matrix(b.shape(left), b.shape(right)):
        _constant_times(node, b, left, right)
    else:
        ops()["MatMul"].import_onnx(node, b)


def _times_constant(node: OnnxNode, b: Builder, x: str, w: str) -> None:
    shape, y = b.shape(w), node.outputs[0]
    if len(shape) == 1:
        row = b.constant(f"{w}/nk", b.delayed(w).then("reshape(1,K)", lambda a: a.reshape(1, -1)))
        out = _gemm(b, x, row, f"{y}/column", y)
        b.add("Reshape", [out], {"shape": b.shape(x)[:-1] or (1,)}, y)
        return
    _gemm(b, x, _swapped(b, w), y, y)


def _constant_times(node: OnnxNode, b: Builder, w: str, x: str) -> None:
    """Add a product with a constant. Vectors become matrices of one row or column, an axis that the result does not
    have.
    """
    shape, x_shape, y = b.shape(w), b.shape(x), node.outputs[0]
    rank = max(2, len(x_shape))
    if len(x_shape) == 1:
        x = b.add("Reshape", [x], {"shape": (*x_shape, 1)}, f"{y}/column")
    swap = (*range(rank - 2), rank - 1, rank - 2)
    weights = w if len(shape) == 2 else b.constant(f"{w}/matrix", b.delayed(w).then("matrix", _matrix))
    out = _gemm(b, b.transpose(x, swap), weights, f"{y}/transposed", y)
    if len(shape) > 1 and len(x_shape) > 1:
        b.transpose(out, swap, y)
        return
    result = (*x_shape[:-2], *(shape[-2:-1] if len(shape) > 1 else ()), *x_shape[-1:][: len(x_shape) - 1])
    b.add("Reshape", [b.transpose(out, swap, f"{y}/matrix")], {"shape": result or (1,)}, y)


def _one_matrix(w: Shape, x: Shape) -> bool:
    """Whether a constant operand is one matrix or vector that serves all batches of the other operand."""
    return prod(w[:-2]) == 1 and len(w) <= max(2, len(x))


def _gemm(b: Builder, x: str, w: str, output: str, name: str) -> str:
    return b.add("Gemm", [x, w, _zeros(b, name, b.shape(w)[0])], {}, output)


def _matrix(w: Array) -> Array:
    return np.asarray(w.reshape(w.shape[-2:] if w.ndim > 1 else (1, -1)))


def _swapped(b: Builder, w: str) -> str:
    """Turn a constant [.., K, N] into [N, K]."""
    return b.constant(f"{w}/nk", b.delayed(w).then("transpose(1,0)", lambda a: np.ascontiguousarray(_matrix(a).T)))


def _scaled(b: Builder, w: str, alpha: float) -> str:
    if alpha == 1.0:
        return w
    step = b.delayed(w).then(f"times({alpha:g})", lambda a: (a * np.float32(alpha)).astype(np.float32))
    return b.constant(f"{w}/times_{alpha:g}", step)


def _zeros(b: Builder, output: str, channels: int) -> str:
    return b.constant(f"{output}/bias", Const(np.zeros(channels, np.float32)))


@dataclass(frozen=True)
class FcParams:
    """Sizes and the constants of the requantization."""

    rows: int = i32("input vectors, each giving one output vector")
    in_c: int = i32("input features")
    out_c: int = i32("output features")
    shift: int = i32("of the requantization, 1..32")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


FC = replace(
    sliding(per_row(lambda p: ((p.in_c,), p.out_c))), outputs=lambda p, elements: replace(p, out_c=len(elements))
)


class FcS8(KernelOp[FcParams]):
    """Weights [out_c, in_c]. The sums are below 2^31, so float64 matrix products are exact."""

    name = "fc_s8"
    params = FcParams
    constants = {"weights": "int8_t", "bias": "int32_t", "multiplier": "int32_t"}
    kernels: tuple[Kernel, ...] = (
        of_element("ge_fc", "s8", "ge_fc_s8", cost=costs.matrix("fc_s8", 6.0, 330), store="rows"),
    )
    geometry = FC

    def int_ref(self, p: FcParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.rows, p.in_c).astype(np.float64)
        weights = constants["weights"].astype(np.float64)
        if "weight_zero_point" in constants:
            weights = weights - constants["weight_zero_point"][:, None]
        acc = (x @ weights.T).astype(np.int64) + constants["bias"]
        q = fixedpoint.Requant(tuple(constants["multiplier"].tolist()), p.shift, self.requantization)
        return fixedpoint.requantize(acc, q, p.out_zero_point, p.lo, p.hi)


class FcS8W4(FcS8):
    """Fully connected with int4 weights, -8..7."""

    name = "fc_s8_w4"
    unpacks = "fc_s8"
    of_vectors = True

    def weights_shape(self, p: FcParams) -> Shape:
        return p.out_c, p.in_c


class FcS8Wt(FcS8W4):
    """Fully connected with int8 weights that are at most sixteen different numbers."""

    name = "fc_s8_wt"
    of_table = True


class FcAwS8(FcS8):
    """Fully connected with asymmetric weights, whose zero point per output is subtracted in the kernel."""

    name = "fc_aw_s8"
    constants = {**FcS8.constants, "weight_zero_point": "int32_t"}
    kernels = (of_element("ge_fc", "aw_s8", "ge_fc_aw_s8", cost=lambda n, t: Cost(8.0 * n.macs, 270), store="rows"),)


OPS = (Gemm(),)
KERNEL_OPS = (
    *in_all_modes(FcS8()),
    *in_all_modes(FcS8W4()),
    *in_all_modes(FcS8Wt()),
    *in_all_modes(FcAwS8()),
)
