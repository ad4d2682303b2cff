"""Attention of ONNX and of com.microsoft as MatMul, Softmax and MatMul; the bodies contain only the parts that a node
uses.

In: a node, and the types of its inputs. Out: a function body, or None for a form of ONNX's operator that only ONNX's
own body supports: earlier keys, fewer heads of keys than of queries, a limit of the scores, or the scores as an output.
Source: Operators.md of ONNX, ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import numpy as np
from onnx import FunctionProto

from glowembed.graph.op import Refused
from glowembed.read.body import Body


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
    s = _scores(b, q, k, b.attr("scale", 0.0) or size**-0.5)
    if b.has(3) and b.operand(3).dtype == "bool":
        s = b.add("Where", "x3", s, b.number(-np.inf))
    elif b.has(3):
        s = b.add("Add", s, "x3")
    s = _causal(b, s, shapes[0][-2], shapes[1][-2]) if b.attr("is_causal", 0) else s
    y = b.add("MatMul", b.add("Softmax", s, axis=-1), v)
    return b.finished(_by_token(b, y, (*shapes[0][:2], shapes[2][-1])) if flat else y)


def packed_attention(b: Body) -> FunctionProto:
    """Attention of com.microsoft, with one matrix and one bias for q, k and v."""
    if any(b.has(i) for i in (3, 4, 6)) or any(b.node.output[1:]) or b.attr("do_rotary", 0):
        raise Refused(
            "it has a mask, earlier keys or rotary positions", "export without the optimizations of transformers"
        )
    w, bias, x = b.array(1, "weights"), b.array(2, "biases") if b.has(2) else None, b.operand(0)
    sizes = [int(n) for n in b.attr("qkv_hidden_sizes", [])] or [w.shape[1] // 3] * 3
    ends = np.cumsum(sizes)[:-1]
    parts = []
    for i, part in enumerate(np.split(w, ends, axis=1)):
        y = b.add("MatMul", "x0", b.constant(part, x.dtype))
        parts.append(y if bias is None else b.add("Add", y, b.constant(np.split(bias, ends)[i], x.dtype)))
    shapes = [(*x.shape[:2], size) for size in sizes]
    return _of_three(b, parts, shapes, "x5" if b.has(5) else "")


def multi_head_attention(b: Body) -> FunctionProto:
    """MultiHeadAttention of com.microsoft. q, k and v have heads side by side, and one bias serves all three."""
    forms = [len(b.operand(i).shape) if b.has(i) else 0 for i in range(3)]
    if forms != [3, 3, 3] or any(b.has(i) for i in (4, 6, 7, 8)) or any(b.node.output[1:]):
        raise Refused(
            "its inputs are packed, or it has a mask or earlier keys",
            "export without the optimizations of transformers",
        )
    shapes = [b.operand(i).shape for i in range(3)]
    parts = ["x0", "x1", "x2"]
    if b.has(3):
        ends = np.cumsum([shape[2] for shape in shapes])[:-1]
        biases = np.split(b.array(3, "biases"), ends)
        parts = [b.add("Add", x, b.constant(a, b.operand(0).dtype)) for x, a in zip(parts, biases, strict=True)]
    return _of_three(b, parts, shapes, "x5" if b.has(5) else "")


def _of_three(b: Body, parts: list[str], shapes: list[tuple[int, ...]], bias: str) -> FunctionProto:
    heads = int(b.attr("num_heads", 0))
    if heads < 1 or any(shape[2] % heads for shape in shapes):
        raise Refused(
            f"{heads} heads do not divide {[shape[2] for shape in shapes]}", "check how the model was exported"
        )
    q, k, v = (_by_head(b, x, shape, heads) for x, shape in zip(parts, shapes, strict=True))
    s = _scores(b, q, k, b.attr("scale", 0.0) or (shapes[0][2] // heads) ** -0.5)
    s = b.add("Add", s, bias) if bias else s
    s = _causal(b, s, shapes[0][1], shapes[1][1]) if b.attr("unidirectional", 0) else s
    y = b.add("MatMul", b.add("Softmax", s, axis=-1), v)
    return b.finished(_by_token(b, y, (*shapes[0][:2], shapes[2][2])))


def _scores(b: Body, q: str, k: str, scale: float) -> str:
    return b.add("Mul", b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2])), b.number(scale))


def _causal(b: Body, scores: str, queries: int, keys: int) -> str:
    mask = np.where(np.tril(np.ones((queries, keys), bool)), 0, -np.inf)
    return b.add("Add", scores, b.constant(mask, b.operand(0).dtype))


def _by_head(b: Body, x: str, shape: tuple[int, ...], heads: int) -> str:
    split = b.add("Reshape", x, b.constant([*shape[:2], heads, shape[2] // heads], "int64"))
    return b.add("Transpose", split, perm=[0, 2, 1, 3])


def _by_token(b: Body, y: str, shape: tuple[int, ...]) -> str:
    return b.add("Reshape", b.add("Transpose", y, perm=[0, 2, 1, 3]), b.constant(shape, "int64"))
