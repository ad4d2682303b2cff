"""Function bodies for operators of com.microsoft, in standard operators.

In: a node, and the types of its inputs. Out: a function body, like those that ONNX has for its own operators. The
optimizer of onnxruntime fuses nodes into these operators, and its quantizer writes the integer ones. Source:
ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper

from glowembed.graph.ir import Array
from glowembed.graph.op import Refused
from glowembed.read import attentions
from glowembed.read.body import Body
from glowembed.read.operand import Operand

DOMAIN = "com.microsoft"
DOMAINS = {"SimplifiedLayerNormalization": ("", "ai.onnx")}
"""Operators of onnxruntime's optimizer that are not in com.microsoft, and the domains in which it puts them."""


WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "ceil_mode", "storage_order")


def _fused_conv(b: Body) -> FunctionProto:
    product = b.add("Conv", "x0", "x1", *(["x2"] if b.has(2) else []), **b.kept(*WINDOW))
    return b.finished(b.activated(b.plus(product, 3)))


def _fused_gemm(b: Body) -> FunctionProto:
    bias = ["x2"] if b.has(2) else []
    return b.finished(b.activated(b.add("Gemm", "x0", "x1", *bias, **b.kept("alpha", "beta", "transA", "transB"))))


def _fused_matmul(b: Body) -> FunctionProto:
    batches = (b.attr("transBatchA", 0), b.attr("transBatchB", 0))
    y = b.add("MatMul", b.turned(0, b.attr("transA", 0), batches[0]), b.turned(1, b.attr("transB", 0), batches[1]))
    alpha = b.attr("alpha", 1.0)
    return b.finished(y if alpha == 1.0 else b.add("Mul", y, b.number(alpha)))


def _gelu(b: Body) -> FunctionProto:
    form = "tanh" if b.node.op_type == "FastGelu" else "none"
    return b.finished(b.add("Gelu", b.plus("x0", 1), approximate=form))


def _quick_gelu(b: Body) -> FunctionProto:
    return b.finished(b.add("Mul", "x0", b.add("Sigmoid", b.add("Mul", "x0", b.number(b.attr("alpha", 1.702))))))


def _skip_normalization(b: Body) -> FunctionProto:
    """The sum of input, skip and bias, normalized along the last axis. The fourth output is the sum itself."""
    simplified = b.node.op_type == "SkipSimplifiedLayerNormalization"
    total = b.plus("x0", 1, 3 if simplified else 4)
    if simplified:
        y = b.add("RMSNormalization", total, "x2", axis=-1, epsilon=b.attr("epsilon", 1e-5))
    else:
        beta = ["x3"] if b.has(3) else []
        y = b.add("LayerNormalization", total, "x2", *beta, axis=-1, epsilon=b.attr("epsilon", 1e-12))
    if any(b.node.output[1:3]):
        raise Refused("its outputs of means and deviations are used", "export without training")
    return b.finished(y, "", "", total if total != "x0" else b.add("Identity", "x0"))


def _simplified_normalization(b: Body) -> FunctionProto:
    if any(b.node.output[1:]):
        raise Refused("its output of deviations is used", "export without training")
    kept = {"axis": b.attr("axis", -1), "epsilon": b.attr("epsilon", 1e-5)}
    return b.finished(b.add("RMSNormalization", "x0", "x1", **kept))


def _real_product(b: Body, a: str, a_zero: str, zero: int, scales: Sequence[str]) -> str:
    """The integer product of a and input 1, times these scales."""
    zeros = [a_zero, *([f"x{zero}"] if b.has(zero) else [])] if a_zero or b.has(zero) else []
    y = b.add("Cast", b.add("MatMulInteger", a, "x1", *zeros), to=TensorProto.FLOAT)
    for scale in scales:
        y = b.add("Mul", y, scale)
    return y


def _matmul_integer_to_float(b: Body) -> FunctionProto:
    return b.finished(b.plus(_real_product(b, "x0", "x4" if b.has(4) else "", 5, ("x2", "x3")), 6))


def _dynamic_quantize_matmul(b: Body) -> FunctionProto:
    b.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x0"], ["a", "a_scale", "a_zero"]))
    return b.finished(b.plus(_real_product(b, "a", "a_zero", 3, ("a_scale", "x2")), 4))


def _matmul_nbits(b: Body) -> FunctionProto:
    """Unpack the weights [N, blocks of K, bytes] to float; the low bits come first."""
    bits, size, columns, rows = (int(b.attr(name, 4)) for name in ("bits", "block_size", "N", "K"))
    if bits not in (2, 4, 8) or size < 1 or (b.has(4) and not _is_even(b.array(4, "group indices"), size)):
        raise Refused(f"weights of {bits} bits in blocks of {size}, or in another order", "4 bits in order are taken")
    blocks = -(-rows // size)
    packed, scales = b.array(1, "weights"), np.asarray(b.array(2, "scales"), np.float32).reshape(columns, blocks, 1)
    numbers = _unpacked(packed.reshape(columns, blocks, -1), bits)[:, :, :size].astype(np.float32)
    zero: Any = np.float32(2 ** (bits - 1))
    if b.has(3):
        given = b.array(3, "zero points")
        whole = given if given.dtype != np.uint8 else _unpacked(given.reshape(columns, -1), bits)[:, :blocks]
        zero = whole.astype(np.float32).reshape(columns, blocks, 1)
    weights = ((numbers - zero) * scales).reshape(columns, -1)[:, :rows].T
    return b.finished(b.plus(b.add("MatMul", "x0", b.constant(weights, b.operand(0).dtype)), 5))


def _unpacked(array: Array, bits: int) -> Array:
    """The numbers of `bits` bits that are packed into bytes along the last axis."""
    parts = [(array.astype(np.uint8) >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*array.shape[:-1], -1)


def _is_even(groups: Array, size: int) -> bool:
    return bool(np.array_equal(groups, np.arange(groups.size) // size))


def _nhwc_max_pool(b: Body) -> FunctionProto:
    rank = len(b.operand(0).shape)
    x = b.add("Transpose", "x0", perm=[0, rank - 1, *range(1, rank - 1)])
    y = b.add("MaxPool", x, **b.kept(*WINDOW))
    return b.finished(b.add("Transpose", y, perm=[0, *range(2, rank), 1]))


def _qlinear_reduce_mean(b: Body) -> FunctionProto:
    real = b.add("DequantizeLinear", *(f"x{i}" for i in range(3 if b.has(2) else 2)))
    axes = b.attr("axes", None)
    named = [] if axes is None else [b.constant(axes, "int64")]
    mean = b.add("ReduceMean", real, *named, keepdims=b.attr("keepdims", 1))
    return b.finished(b.add("QuantizeLinear", mean, "x3", *(["x4"] if b.has(4) else [])))


def _dynamic_quantize_lstm(b: Body) -> FunctionProto:
    """Convert the quantized weights to real numbers. onnxruntime also rounds the input of each step to 8 bits, which is
    not done here.
    """

    def weights(i: int, scale: int, zero: int) -> str:
        """[directions, inputs, 4 * hidden] as [directions, 4 * hidden, inputs]."""
        real = b.add("Cast", f"x{i}", to=TensorProto.FLOAT)
        axes = b.constant([1] if len(b.operand(scale).shape) == 2 else [1, 2], "int64")
        if b.has(zero):
            whole = b.add("Cast", f"x{zero}", to=TensorProto.FLOAT)
            real = b.add("Sub", real, b.add("Unsqueeze", whole, axes))
        return b.add("Transpose", b.add("Mul", real, b.add("Unsqueeze", f"x{scale}", axes)), perm=[0, 2, 1])

    names = ["x0", weights(1, 8, 9), weights(2, 10, 11), *(f"x{i}" if b.has(i) else "" for i in range(3, 8))]
    own = {a.name: helper.get_attribute_value(a) for a in b.node.attribute}
    outputs = ["y", "y_h", "y_c"][: len(b.node.output)]
    b.nodes.append(helper.make_node("LSTM", names, outputs, **own))
    return b.finished(*outputs)


def _embeddings(b: Body) -> FunctionProto:
    """EmbedLayerNormalization: the sum of the embeddings of words, places and segments, normalized. The second output
    counts the ones in the mask; the third is the sum.
    """
    batches, tokens = b.operand(0).shape
    places = b.constant(np.arange(tokens), "int64")
    total = b.add("Gather", "x2", "x0")
    total = b.add("Add", total, b.add("Gather", "x3", "x8" if b.has(8) else places))
    if b.has(1) and b.has(4):
        total = b.add("Add", total, b.add("Gather", "x4", "x1"))
    y = b.add("LayerNormalization", total, "x5", "x6", axis=-1, epsilon=b.attr("epsilon", 1e-12))
    ones = b.constant(np.zeros(batches), "int32")
    if b.has(7):
        ones = b.add("ReduceSum", b.add("Cast", "x7", to=TensorProto.INT32), b.constant([1], "int64"), keepdims=0)
    return b.finished(y, ones, total)


def _rotary_embedding(b: Body) -> FunctionProto:
    """RotaryEmbedding, whose positions are those of all tokens, or that of the first."""
    shape, size = b.operand(0).shape, int(b.attr("rotary_embedding_dim", 0))
    if b.attr("scale", 1.0) != 1.0 or b.attr("is_packed_batching", 0):
        raise Refused("it scales, or its batch is packed", "export without the optimizations of transformers")
    places, tokens = "x1", shape[-2]
    if len(b.operand(1).shape) < 2:
        first = b.add("Reshape", "x1", b.constant([1, 1], "int64"))
        every = b.constant(np.tile(np.arange(tokens), (shape[0], 1)), "int64")
        places = b.add("Add", b.add("Cast", first, to=TensorProto.INT64), every)
    heads = int(b.attr("num_heads", 0)) or shape[-1] // (2 * b.operand(2).shape[-1])
    own = {"interleaved": b.attr("interleaved", 0), "rotary_embedding_dim": size}
    own |= {"num_heads": heads} if len(shape) == 3 else {}
    return b.finished(b.add("RotaryEmbedding", "x0", "x2", "x3", places, **own))


def _group_norm(b: Body) -> FunctionProto:
    """GroupNorm and SkipGroupNorm: channels last unless an attribute says otherwise; x * Sigmoid(x) after them on
    request.
    """
    rank, last = len(b.operand(0).shape), b.attr("channels_last", 1)
    x = b.plus("x0")
    if b.node.op_type == "SkipGroupNorm":
        skip, channels = b.operand(3).shape, b.operand(0).shape[-1 if last else 1]
        wide = [skip[0], 1, 1, channels] if last else [skip[0], channels, 1, 1]
        x = b.add("Add", x, "x3" if len(skip) == rank else b.add("Reshape", "x3", b.constant(wide, "int64")))
        if b.has(4):
            x = b.add("Add", x, b.add("Reshape", "x4", b.constant([1, *wide[1:]], "int64")))
    y = b.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]) if last else x
    y = b.add("GroupNormalization", y, "x1", "x2", num_groups=b.attr("groups", 1), epsilon=b.attr("epsilon", 1e-5))
    y = b.add("Transpose", y, perm=[0, *range(2, rank), 1]) if last else y
    y = b.add("Mul", y, b.add("Sigmoid", y)) if b.attr("activation", 0) else y
    return b.finished(y, x if x != "x0" else b.add("Identity", x))


def _cdist(b: Body) -> FunctionProto:
    """CDist: the distances of each row of A from each row of B."""
    metric = b.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise Refused(f"its metric is {metric!r}", "euclidean and sqeuclidean are taken")
    rows, columns = (b.add("Unsqueeze", f"x{i}", b.constant([1 - i], "int64")) for i in range(2))
    y = b.add("ReduceSumSquare", b.add("Sub", rows, columns), b.constant([-1], "int64"), keepdims=0)
    return b.finished(y if metric == "sqeuclidean" else b.add("Sqrt", y))


def _qlinear_where(b: Body) -> FunctionProto:
    x, y = (b.add("DequantizeLinear", *(f"x{i + j}" for j in range(3))) for i in (1, 4))
    return b.finished(b.add("QuantizeLinear", b.add("Where", "x0", x, y), "x7", "x8"))


def _same_as_standard(b: Body) -> FunctionProto:
    """An operator that has become one of ONNX."""
    inputs = [f"x{i}" if b.has(i) else "" for i in range(len(b.node.input))]
    own = {a.name: helper.get_attribute_value(a) for a in b.node.attribute}
    outputs = [f"y{i}" for i in range(len(b.node.output))]
    b.nodes.append(helper.make_node(b.node.op_type, inputs, outputs, **own))
    return b.finished(*outputs)


BODIES: dict[str, Callable[[Body], FunctionProto]] = {
    "Attention": attentions.packed_attention,
    "CDist": _cdist,
    "EmbedLayerNormalization": _embeddings,
    "GatherND": _same_as_standard,
    "GroupNorm": _group_norm,
    "MultiHeadAttention": attentions.multi_head_attention,
    "QAttention": attentions.quantized_attention,
    "QLinearWhere": _qlinear_where,
    "RotaryEmbedding": _rotary_embedding,
    "SkipGroupNorm": _group_norm,
    "Trilu": _same_as_standard,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _gelu,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_normalization,
    "SimplifiedLayerNormalization": _simplified_normalization,
    "SkipSimplifiedLayerNormalization": _skip_normalization,
    "MatMulIntegerToFloat": _matmul_integer_to_float,
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "MatMulNBits": _matmul_nbits,
    "NhwcMaxPool": _nhwc_max_pool,
    "QLinearReduceMean": _qlinear_reduce_mean,
}


def has_body(node: NodeProto) -> bool:
    """Whether a node has an operator of onnxruntime for which there is a function body."""
    return node.domain in DOMAINS.get(node.op_type, (DOMAIN,)) and node.op_type in BODIES


def body(node: NodeProto, operands: Sequence[Operand | None]) -> FunctionProto | None:
    """The function body of a node of com.microsoft, or None if its operator has none. Raises Refused."""
    return BODIES[node.op_type](Body(node, operands)) if has_body(node) else None
