"""com.microsoft: what the optimizer and the quantizer of onnxruntime make of standard operators.

Source: ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from glowembed.graph.op import Refused
from glowembed.nest.expr import Expr, call, constant, sqrt, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.linear import matrix_product
from glowembed.ops.definitions.normalization import moments
from glowembed.ops.definitions.pointwise import sigmoid
from glowembed.ops.shared.definition import Definition, elementwise, operator


def _gelu(x: Expr) -> Expr:
    return x * 0.5 * (call("erf", x * math.sqrt(0.5)) + 1.0)


def _gelu_by_tanh(x: Expr) -> Expr:
    return x * 0.5 * (call("tanh", (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)


@operator("com.microsoft:Gelu")
def _plain_gelu(n: Definition) -> None:
    elementwise(n, [n.input(0)], _gelu)


@operator("com.microsoft:BiasGelu")
def _bias_gelu(n: Definition) -> None:
    elementwise(n, [n.input(0), n.input(1)], lambda x, bias: _gelu(x + bias))


@operator("com.microsoft:FastGelu")
def _fast_gelu(n: Definition) -> None:
    elementwise(n, n.given(), lambda x, *bias: _gelu_by_tanh(x + bias[0] if bias else x))


@operator("com.microsoft:QuickGelu")
def _quick_gelu(n: Definition) -> None:
    elementwise(n, [n.input(0)], lambda x: x * sigmoid(x * n.attr("alpha", 1.702)))


@operator("com.microsoft:FusedMatMul", "com.microsoft:TransposeMatMul")
def _fused_matmul(n: Definition) -> None:
    a, b = n.input(0), n.input(1)
    if n.attr("transBatchA", 0) or n.attr("transBatchB", 0):
        raise Refused("its batch axes are transposed", "export without the optimizations of transformers")
    alpha = n.attr("alpha", 1.0)
    left = _turned(n, a) if n.attr("transA", 0) and a.rank > 1 else a
    right = _turned(n, b) if n.attr("transB", 0) and b.rank > 1 else b

    def finish(total: Expr, at: Sequence[Expr]) -> Expr:
        return total if alpha == 1.0 else total * alpha

    matrix_product(n, left, right, lambda p, q, at: p * q, a.kind, a.dtype, finish)


def _turned(n: Definition, t: Tensor) -> Tensor:
    """A temporary with the last two axes swapped."""
    made = n.k.temporary((*t.shape[:-2], t.shape[-1], t.shape[-2]), t.dtype)
    with n.k.each(made.shape) as at:
        n.k.store(made, at, t[(*at[:-2], at[-1], at[-2])])
    return made


@operator("com.microsoft:SkipLayerNormalization", "com.microsoft:SkipSimplifiedLayerNormalization")
def _skip_layer_normalization(n: Definition) -> None:
    """The sum of input and skip, normalized along the last axis; the fourth output is the sum itself."""
    x, skip, k = n.input(0), n.input(1), n.k
    simplified = n.kind == "SkipSimplifiedLayerNormalization"
    gamma, beta, bias = n.input(2), 3, 3 if simplified else 4
    width, epsilon = x.shape[-1], n.attr("epsilon", 1e-5 if simplified else 1e-12)
    y, total = n.output(0, x.shape, x.dtype), n.output(3, x.shape, x.dtype)
    with k.each((*x.shape[:-1], 1)) as at:
        with k.loop(width) as r:
            place = (*at[:-1], r)
            value = x[place] + skip.broadcast(place)
            k.store(total, place, value + n.input(bias).flat(r) if n.has(bias) else value)

        def element(r: Expr) -> Expr:
            return total[(*at[:-1], r)]

        if simplified:
            squares = k.sum([width], lambda r: element(r) * element(r), x.kind)
            mean, variance = constant(0, x.kind), k.let(squares / constant(width, x.kind))
        else:
            mean, variance = moments(n, [width], element, x.kind)
        factor = k.let(1.0 / sqrt(variance + epsilon))
        with k.loop(width) as r:
            normal = (element(r) - mean) * factor * gamma.flat(r)
            k.store(y, (*at[:-1], r), normal + n.input(beta).flat(r) if n.has(beta) and not simplified else normal)


@operator("com.microsoft:MatMulIntegerToFloat")
def _matmul_integer_to_float(n: Definition) -> None:
    """The product of integers less their zero points, times both scales, plus a bias."""

    def operand(i: int, zero: int, e: Expr, at: Expr) -> Expr:
        if not n.has(zero):
            return e.to("int32")
        t = n.input(zero)
        return e.to("int32") - t.flat(0 if t.size == 1 else at).to("int32")

    def product(p: Expr, q: Expr, at: Sequence[Expr]) -> Expr:
        return operand(0, 4, p, at[-2]) * operand(1, 5, q, at[-1])

    def finish(total: Expr, at: Sequence[Expr]) -> Expr:
        scales = [n.input(i).flat(0 if n.input(i).size == 1 else at[place]) for i, place in ((2, -2), (3, -1))]
        real = total.to("float32") * (scales[0] * scales[1])
        return real + n.input(6).flat(at[-1]) if n.has(6) else real

    matrix_product(n, n.input(0), n.input(1), product, "int32", n.input(2).dtype, finish)


def _activated(n: Definition, x: Expr) -> Expr:
    """The activation of a fused operator, by its attribute."""
    kind, parameters = n.attr("activation", ""), [float(v) for v in n.attr("activation_params") or ()]
    if kind == "":
        return x
    if kind == "Relu":
        return where(x < 0.0, constant(0, x.kind), x)
    if kind == "LeakyRelu":
        return where(x < 0.0, x * (parameters[0] if parameters else n.attr("leaky_relu_alpha", 0.01)), x)
    if kind == "Tanh":
        return call("tanh", x)
    if kind == "Sigmoid":
        return sigmoid(x)
    if kind == "Clip" and len(parameters) == 2:
        low, high = parameters
        return where(x < low, constant(low, x.kind), where(x > high, constant(high, x.kind), x))
    raise Refused(f"its activation is {kind!r}", "export without the optimizations of onnxruntime")


@operator("com.microsoft:FusedGemm")
def _fused_gemm(n: Definition) -> None:
    a, b = n.input(0), n.input(1)
    across_a, across_b = n.attr("transA", 0), n.attr("transB", 0)
    rows, inner = reversed(a.shape) if across_a else a.shape
    y = n.output(0, (rows, b.shape[0] if across_b else b.shape[1]), a.dtype)
    with n.k.each(y.shape) as (i, j):

        def product(r: Expr) -> Expr:
            return a[(r, i) if across_a else (i, r)] * b[(j, r) if across_b else (r, j)]

        total = n.k.sum([inner], product, a.kind) * n.attr("alpha", 1.0)
        if n.has(2):
            total = total + n.input(2).broadcast((i, j)) * n.attr("beta", 1.0)
        n.k.store(y, (i, j), _activated(n, n.k.let(total)))
