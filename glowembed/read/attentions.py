"""Attention of ONNX and of com.microsoft as MatMul, Softmax and MatMul; the bodies contain only the parts that a node
uses.

In: a node, and the types of its inputs. Out: a function body, or None for a form of ONNX's operator that only ONNX's
own body supports: earlier keys, fewer heads of keys than of queries, a limit of the scores, or the scores as an output.
Source: Operators.md of ONNX, ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import numpy as np
from onnx import FunctionProto

from glowembed.graph.ir import Array
from glowembed.graph.op import Refused
from glowembed.read.body import Body
from glowembed.records import dataclass


def onnx_attention(b: Body) -> FunctionProto | None:
    """Attention of opset 23. q, k and v have heads as a separate axis or side by side; the mask is numbers or
    booleans.
    """
    heads = (int(b.attr("q_num_heads", 0)), int(b.attr("kv_num_heads", 0)))
    shapes = [b.operand(i).shape for i in range(3)]
    if any(b.has(i) for i in range(4, 7)) or any(b.node.output[1:]) or b.attr("softcap", 0.0):
        return None
    if len({len(shape) for shape in shapes}) != 1 or len(shapes[0]) not in (3, 4):
        return None
    flat = len(shapes[0]) == 3
    count = heads if flat else (shapes[0][1], shapes[1][1])
    if count[0] != count[1] or count[0] < 1 or (b.has(3) and b.operand(3).shape[-1] != shapes[1][-2]):
        return None
    q, k, v = (_by_head(b, f"x{i}", shapes[i], count[0]) if flat else f"x{i}" for i in range(3))
    size = shapes[0][-1] // (count[0] if flat else 1)
    s = _scores(b, q, k, b.attr("scale", 0.0) or size**-0.5, b.operand(0).dtype)
    if b.has(3) and b.operand(3).dtype == "bool":
        s = b.add("Where", "x3", s, b.number(-np.inf))
    elif b.has(3):
        s = b.add("Add", s, "x3")
    s = _causal(b, s, shapes[0][-2], shapes[1][-2], b.operand(0).dtype) if b.attr("is_causal", 0) else s
    y = b.add("MatMul", b.add("Softmax", s, axis=-1), v)
    return b.finished(_by_token(b, y, (*shapes[0][:2], shapes[2][-1])) if flat else y)


def packed_attention(b: Body) -> FunctionProto:
    """Attention of com.microsoft, with one matrix and one bias for q, k and v."""
    w, bias = b.array(1, "weights"), b.array(2, "biases") if b.has(2) else None
    return _packed(b, "x0", w, bias, Extras(mask=3, past=(4,), bias=5, other=(6,)))


def quantized_attention(b: Body) -> FunctionProto:
    """QAttention of com.microsoft: the same on stored integers. The results are real numbers."""
    scale, zero = np.asarray(b.array(4, "scale of weights"), np.float32), b.array(7, "zero point") if b.has(7) else 0
    w = (b.array(1, "weights").astype(np.float32) - np.asarray(zero, np.float32)) * scale
    x = b.add("DequantizeLinear", "x0", "x3", *(["x6"] if b.has(6) else []))
    return _packed(b, x, w, b.array(2, "biases"), Extras(mask=5, past=(8,)))


def _packed(b: Body, x: str, w: Array, bias: Array | None, extras: Extras) -> FunctionProto:
    shape = b.operand(0).shape
    sizes = [int(n) for n in b.attr("qkv_hidden_sizes", [])] or [w.shape[1] // 3] * 3
    ends = np.cumsum(sizes)[:-1]
    parts = []
    for i, part in enumerate(np.split(w, ends, axis=1)):
        y = b.add("MatMul", x, b.constant(part, w.dtype.name))
        parts.append(y if bias is None else b.add("Add", y, b.constant(np.split(bias, ends)[i], w.dtype.name)))
    heads = [Heads(y, (*shape[:2], size)) for y, size in zip(parts, sizes, strict=True)]
    return _of_three(b, heads, w.dtype.name, extras)


def multi_head_attention(b: Body) -> FunctionProto:
    """MultiHeadAttention of com.microsoft. q, k and v have heads side by side, and one bias serves all three; k and v
    may have heads as a separate axis, and then get no bias. All three, or k and v, may be packed.
    """
    parts = [part for i in range(3) if b.has(i) for part in _unpacked(b, f"x{i}", b.operand(i).shape)]
    if [len(x.shape) for x in parts] not in ([3, 3, 3], [3, 4, 4]):
        raise Refused(
            f"its inputs are {[list(b.operand(i).shape) for i in range(3) if b.has(i)]}",
            "[B, T, H * d] each, [B, T, H, 3, d], or [B, T, H * d] and [B, T, H, 2, d] are taken",
        )
    if b.has(3):
        ends = np.cumsum([_width(x) for x in parts])[:-1]
        biases = np.split(b.array(3, "biases"), ends)
        parts = [
            Heads(b.add("Add", x.name, b.constant(a, b.operand(0).dtype)), x.shape) if len(x.shape) == 3 else x
            for x, a in zip(parts, biases, strict=True)
        ]
    return _of_three(b, parts, b.operand(0).dtype, Extras(mask=4, past=(6, 7), bias=5, other=(8, 9)))


@dataclass(frozen=True)
class Heads:
    """A computed q, k or v: [B, T, H * d], or [B, H, T, d] if it has four axes."""

    name: str
    shape: tuple[int, ...]


def _unpacked(b: Body, x: str, shape: tuple[int, ...]) -> list[Heads]:
    """The parts of an input: of [B, T, H, n, d], which are n tensors whose elements lie side by side for each head, each
    as [B, T, H * d]; else the input itself.
    """
    if len(shape) != 5:
        return [Heads(x, shape)]
    flat = (*shape[:2], shape[2] * shape[4])
    chosen = [b.add("Gather", x, b.constant(i, "int64"), axis=3) for i in range(shape[3])]
    return [Heads(b.add("Reshape", part, b.constant(flat, "int64")), flat) for part in chosen]


@dataclass(frozen=True)
class Extras:
    """The numbers of the inputs that an attention need not have: a mask of keys, earlier keys and values in one tensor
    or in two, what is added to the scores, and those that must be absent.
    """

    mask: int
    past: tuple[int, ...]
    bias: int = -1
    other: tuple[int, ...] = ()


def _width(x: Heads) -> int:
    return x.shape[2] if len(x.shape) == 3 else x.shape[1] * x.shape[3]


def _of_three(b: Body, parts: list[Heads], dtype: str, extras: Extras) -> FunctionProto:
    heads, widths = int(b.attr("num_heads", 0)), [_width(x) for x in parts]
    if any(b.has(i) for i in extras.other) or b.attr("do_rotary", 0) or any(b.node.output[3:]):
        raise Refused(
            "it has rotary positions, a buffer of earlier keys or scores as an output",
            "export without the optimizations of transformers",
        )
    if heads < 1 or any(width % heads for width in widths):
        raise Refused(f"{heads} heads do not divide {widths}", "check how the model was exported")
    q, k, v = (x.name if len(x.shape) == 4 else _by_head(b, x.name, x.shape, heads) for x in parts)
    k, v, earlier = _after_earlier(b, k, v, extras.past)
    batches, queries = parts[0].shape[:2]
    keys = parts[1].shape[-2] + earlier
    s = _scores(b, q, k, b.attr("scale", 0.0) or (widths[0] // heads) ** -0.5, dtype)
    s = b.add("Add", s, f"x{extras.bias}") if b.has(extras.bias) else s
    s = b.add("Add", s, _of_keys(b, extras.mask, (batches, queries, keys), dtype)) if b.has(extras.mask) else s
    s = _causal(b, s, queries, keys, dtype, earlier) if b.attr("unidirectional", 0) else s
    y = _by_token(b, b.add("MatMul", b.add("Softmax", s, axis=-1), v), (batches, queries, widths[2]))
    if len(extras.past) == 2:
        return b.finished(y, *(b.add("Identity", x) if x in ("x1", "x2") else x for x in (k, v)))
    both = [b.add("Unsqueeze", x, b.constant([0], "int64")) for x in (k, v)] if any(b.node.output[1:2]) else []
    return b.finished(y, *([b.add("Concat", *both, axis=0)] if both else []))


def _after_earlier(b: Body, k: str, v: str, past: tuple[int, ...]) -> tuple[str, str, int]:
    """Keys and values behind those of earlier calls, and the number of the earlier ones."""
    if not b.has(past[0]):
        return k, v, 0
    names = [f"x{i}" for i in past]
    if len(past) == 1:
        names = [b.add("Gather", names[0], b.constant(i, "int64"), axis=0) for i in range(2)]
    k, v = (b.add("Concat", old, new, axis=2) for old, new in zip(names, (k, v), strict=True))
    return k, v, b.operand(past[0]).shape[-2]


def _of_keys(b: Body, i: int, shape: tuple[int, int, int], dtype: str) -> str:
    """What input `i`, a mask of keys, adds to the scores: ones and zeros for each key, or for each query and key, or
    the number of the first keys that count, and then the number of those before them that do not.
    """
    batches, queries, keys = shape
    form, name = b.operand(i).shape, f"x{i}"
    if form in ((batches, keys), (batches, queries, keys)):
        axes = b.constant([1, 2] if len(form) == 2 else [1], "int64")
        kept = b.add("Unsqueeze", b.add("Greater", name, b.constant(0, b.operand(i).dtype)), axes)
    elif form in ((batches,), (2 * batches,), (3 * batches + 2,)):
        places = b.constant(np.arange(keys), b.operand(i).dtype)
        kept = b.add("Less", places, _one_each(b, name, 0, batches))
        if form == (2 * batches,):
            kept = b.add("And", kept, b.add("GreaterOrEqual", places, _one_each(b, name, batches, batches)))
    else:
        raise Refused(f"its mask is {list(form)}", f"[{batches}, {keys}] and [{batches}] are taken")
    low = b.constant(b.attr("mask_filter_value", -10000.0), dtype)
    return b.add("Where", kept, b.constant(0.0, dtype), low)


def _one_each(b: Body, name: str, first: int, count: int) -> str:
    """A number for each batch, from place `first` of a list on, as [B, 1, 1, 1]."""
    part = b.add("Slice", name, b.constant([first], "int64"), b.constant([first + count], "int64"))
    return b.add("Reshape", part, b.constant([count, 1, 1, 1], "int64"))


def _scores(b: Body, q: str, k: str, scale: float, dtype: str) -> str:
    return b.add("Mul", b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2])), b.constant(scale, dtype))


def _causal(b: Body, scores: str, queries: int, keys: int, dtype: str, earlier: int = 0) -> str:
    mask = np.where(np.tril(np.ones((queries, keys), bool), earlier), 0, -np.inf)
    return b.add("Add", scores, b.constant(mask, dtype))


def _by_head(b: Body, x: str, shape: tuple[int, ...], heads: int) -> str:
    split = b.add("Reshape", x, b.constant([*shape[:2], heads, shape[2] // heads], "int64"))
    return b.add("Transpose", split, perm=[0, 2, 1, 3])


def _by_token(b: Body, y: str, shape: tuple[int, ...]) -> str:
    return b.add("Reshape", b.add("Transpose", y, perm=[0, 2, 1, 3]), b.constant(shape, "int64"))
