"""Attention of one or more heads, made by canonicalization from MatMul, Softmax and MatMul. Kernel-level: attention_s8,
attention_s16; in float32 it is a loop nest.

Probabilities are never stored. The rows of V are added with powers of two as weights, relative to the largest score of
the row, and one division per row follows. For one query and head, over the keys j that the query attends to:

    s[j] = clamp((sum(q * k[j]) * score_multiplier + 2^(score_shift-1)) >> score_shift, -8192, 8191)     in 2^-unit of log2
    s[j] = clamp(s[j] + mask[j], -32768, 32767)  mask = round(2^unit * log2(e) * m) in -8192..8191, or FORBIDDEN
    e[j] = table[min(max(m, -16384) - s[j], 1023)], m = max(s);   table[d] = round(top * 2^(-d / 2^unit)), top = 255 or 1023
    M    = (numerator / sum(e)) << fine, and the remainder's share of it, rounded: ((numerator % sum(e) << fine) + sum(e) / 2) / sum(e)
    y    = clamp(((sum(e * v) * M + 2^(shift-1)) >> shift) + zero_point, lo, hi)

Zero points are subtracted from q, k and v. `unit` is 6, or less, down to 4, if the largest likely score for the types
of q and k needs it; scores beyond 88 (177, 355) in the exponent of e are all the same. If m is below -16384, which
happens only if all keys are forbidden, or if the query attends to no key, y is the zero point, which stands for 0.0. A
forbidden key adds nothing if another key is allowed.

A computed mask has the type MASK, in steps of the finest unit, whatever made it: attention_mask_s16 forbids the keys
below -8192, and brings the others to the unit in use, min(m, 8191) / 2^(6-unit), rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import ELEMENTWISE, Elements, Geometry
from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import Builder, Cost, Kernel, KernelOp, LowerContext, Malformed, OnnxNode, Op, Refused
from glowembed.law import wide
from glowembed.law.fixedpoint import round_half_up
from glowembed.nest.expr import Expr, call, constant, where
from glowembed.nest.program import Program, Recorder, Tensor
from glowembed.ops import nest
from glowembed.ops.shared.linear import clamp_limits
from glowembed.records import dataclass

UNITS = (6, 5, 4)
"""Fractional bits of a score, the most precise first."""

INT16_HEADROOM = 2.0
"""int16 holds this many times the observed range, unless a setting says otherwise."""

LIMIT = 8192
FORBIDDEN = -32768
LEAST = FORBIDDEN / 4 / 64 / math.log2(math.e)
"""Masks below this, about -88.7, forbid a key."""

TABLE = 1024
MOST_KEYS = 2**14

MASK = QType("int16", (1 / (64 * math.log2(math.e)),), (0,))
"""The type of a computed mask: up to 355, where -1e9 and minus infinity end too."""


class Attention(Op):
    """y = softmax(scale * q k^T + mask) v for each head, over tokens: q [B, T, H * d], k [B, S, H * d], v [B, S, H * e], y [B, T, H * e].

    attrs: heads; scale; ahead: query t sees the keys up to t + ahead. A fourth input is a constant mask [1 or H, 1 or T, S], or a computed
    one [B, 1 or H, 1 or T, S]; numbers below -88.7 forbid a key. A query whose keys are all forbidden gives 0.
    """

    name = "Attention"
    onnx = ("Attention",)

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        """Import the form with three tensors of tokens and no mask. Every other form is imported by its function
        body, in which canonicalization recognizes attention.
        """
        heads, shapes = int(node.attrs.get("q_num_heads", 0)), [b.shape(name) for name in node.inputs[:3]]
        if any(node.inputs[3:]) or any(node.outputs[1:]) or node.attrs.get("softcap", 0.0):
            raise Refused("it has a mask, earlier keys, a limit of the scores or a second output")
        if (
            len(shapes) != 3
            or any(len(shape) != 3 for shape in shapes)
            or heads != node.attrs.get("kv_num_heads", 0)
            or heads < 1
        ):
            raise Refused("its heads are an axis of their own, or queries have more of them than keys")
        scale = float(node.attrs.get("scale", 0.0)) or (shapes[0][2] // heads) ** -0.5
        causal = node.attrs.get("is_causal", 0)
        if causal not in (0, 1):
            raise Malformed(f"its is_causal is {causal}; it is 0 or 1")
        ahead = 0 if causal else shapes[1][1]
        b.add("Attention", node.inputs[:3], {"heads": heads, "scale": scale, "ahead": ahead}, node.outputs[0])

    def input_type(self, index: int, dtype: str) -> QType | None:
        return MASK if index == 3 and dtype != "float32" else None

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        (b, t, width), k, v, heads = *shapes[:3], attrs["heads"]
        if width % heads or v[2] % heads or k != (b, v[1], width) or v[0] != b:
            raise Malformed(
                f"the shapes {list(map(list, shapes[:3]))} do not fit {heads} heads", "check the shapes of its inputs"
            )
        return ((b, t, v[2]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        q, k, v = (_by_head(x.astype(np.float64), attrs["heads"]) for x in inputs[:3])
        s = attrs["scale"] * (q @ k.swapaxes(-1, -2))
        mask = inputs[3].astype(np.float64) if len(inputs) > 3 else np.zeros((1, 1, s.shape[-1]))
        seen = (mask >= LEAST) & _seen(s.shape[-2], s.shape[-1], attrs["ahead"])
        s = np.where(seen, s + mask, -np.inf)
        most = s.max(axis=-1, keepdims=True)
        e = np.where(seen, np.exp(s - np.where(np.isfinite(most), most, 0.0)), 0.0)
        total = e.sum(axis=-1, keepdims=True)
        return (_by_token((e @ v) / np.where(total > 0, total, 1.0)).astype(np.float32),)

    def lower(self, node: Node, c: LowerContext) -> None:
        _lower_quantized(node, c)


def _by_head(x: Array, heads: int) -> Array:
    """[B, T, H * d] as [B, H, T, d]."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _by_token(x: Array) -> Array:
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _seen(queries: int, keys: int, ahead: int) -> Array:
    return np.arange(keys) <= np.arange(queries)[:, None] + ahead


@dataclass(frozen=True)
class AttentionParams:
    """The sizes, and the numbers of the law."""

    batches: int = i32("sequences; a row is one query of one of them")
    queries: int = i32("of a sequence")
    keys: int = i32("of a sequence, at most 16384")
    heads: int = i32("in each of which a query looks at the keys")
    depth: int = i32("elements of a query and of a key in one head")
    width: int = i32("elements of a value in one head")
    ahead: int = i32("query t sees the keys up to t + ahead")
    mask_heads: int = i32("of the mask: 0 without a mask, 1 for all heads, or heads")
    mask_queries: int = i32(
        "of the mask: 1 for all queries, or queries; a computed mask has one of these for each batch"
    )
    zero_point_q: int = i32("that of the type of the queries")
    zero_point_k: int = i32("that of the type of the keys")
    zero_point_v: int = i32("that of the type of the values")
    score_multiplier: int = i32("from a sum of products to a score")
    score_shift: int = i32("1..62")
    numerator: int = i32("of the division, less than 2^31")
    fine: int = i32("bits of the quotient behind those of a division of integers")
    shift: int = i32("of an output, 1..62")
    out_zero_point: int = i32("that of the type of the output")
    lo: int = i32("smallest output")
    hi: int = i32("largest output")


def _needs(p: AttentionParams, y: int) -> tuple[range, ...]:
    first = y // p.queries * p.keys
    keys = range(first, first + min(max(y % p.queries + p.ahead + 1, 0), p.keys))
    return range(y, y + 1), keys, keys


def _sequence(p: AttentionParams, y: int) -> range:
    return range(y // p.queries, y // p.queries + 1)


def _masked_elements(p: AttentionParams) -> Elements:
    inputs, output = QUERIES.elements(p)
    return (*inputs, p.mask_heads * p.mask_queries * p.keys), output


def masked(kernel: Kernel) -> Kernel:
    """The kernel for a computed mask, from the file of the one for a constant mask."""
    constants = None if kernel.constants is None else {n: t for n, t in kernel.constants.items() if n != "mask"}
    return replace(
        kernel,
        symbol=kernel.symbol.replace("attention", "attention_masked"),
        template=kernel.template or kernel.symbol,
        headers={"ge_attention_mask.h": "ge_attention_mask_computed.h"},
        constants=constants,
    )


QUERIES = Geometry(
    lambda p: int(p.batches * p.queries),
    lambda p: ((p.heads * p.depth, p.heads * p.depth, p.heads * p.width), p.heads * p.width),
    _needs,
)


class AttentionS8(KernelOp[AttentionParams]):
    """A row is one query with all its heads; it reads its own row of q, and the rows of k and v that it sees."""

    name, dtype, top, masked = "attention_s8", "int8", 255, False
    params = AttentionParams
    geometry = QUERIES
    inputs: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    constants = {"mask": "int16_t", "table": "uint16_t"}
    kernels: tuple[Kernel, ...] = (
        Kernel("ge_attention_s8", scratch=lambda p: 4 * ((p.keys + 1) // 2), cost=lambda n, t: Cost(9.0 * n.macs, 900), store="rows"),
    )  # fmt: skip

    def int_ref(self, p: AttentionParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        sizes = ((p.queries, p.zero_point_q), (p.keys, p.zero_point_k), (p.keys, p.zero_point_v))
        q, k, v = (
            _by_head(x.reshape(p.batches, n, -1).astype(np.float64) - z, p.heads)
            for x, (n, z) in zip(inputs[:3], sizes, strict=True)
        )
        acc = (q @ k.swapaxes(-1, -2)).astype(np.int64)
        s = (acc * p.score_multiplier + (1 << (p.score_shift - 1))) >> p.score_shift
        s = np.clip(s, -LIMIT, LIMIT - 1)
        if p.mask_heads:
            mask = inputs[3] if self.masked else constants["mask"]
            s = np.clip(s + mask.reshape(-1, p.mask_heads, p.mask_queries, p.keys), FORBIDDEN, 32767)
        seen = _seen(p.queries, p.keys, p.ahead)
        s = np.where(seen, s, FORBIDDEN)
        most = s.max(axis=-1, keepdims=True)
        distance = np.minimum(np.maximum(most, -2 * LIMIT) - s, TABLE - 1)
        e = np.where(seen, constants["table"].astype(np.int64)[distance], 0)
        total = np.where(most < -2 * LIMIT, 1, e.sum(axis=-1, keepdims=True))
        quotient = (p.numerator // total << p.fine) + ((p.numerator % total << p.fine) + total // 2) // total
        quotient = np.where(most < -2 * LIMIT, 0, quotient)
        y = ((e.astype(np.float64) @ v).astype(np.int64) * quotient + (1 << (p.shift - 1))) >> p.shift
        return np.asarray(_by_token(np.clip(y + p.out_zero_point, p.lo, p.hi)).astype(self.dtype))


class AttentionS16(AttentionS8):
    """The op on int16, with powers of two of 10 bits."""

    name, dtype, top = "attention_s16", "int16", 1023
    element_bytes = (2, 2)
    kernels = (
        Kernel(
            "ge_attention_s16", template="ge_attention_s8",
            words={"ELEMENT": "int16_t"}, scratch=lambda p: 4 * ((p.keys + 1) // 2),
            cost=lambda n, t: Cost(10.0 * n.macs, 900), store="rows",
        ),
    )  # fmt: skip


class AttentionMaskedS8(AttentionS8):
    """The op with a computed mask; a row of the mask is that of one sequence."""

    name, masked = "attention_masked_s8", True
    geometry = Geometry(QUERIES.count, _masked_elements, lambda p, y: (*_needs(p, y), _sequence(p, y)))
    inputs = ("q", "k", "v", "mask")
    constants = {"table": "uint16_t"}
    kernels = tuple(masked(kernel) for kernel in AttentionS8.kernels)

    def row_bytes(self, p: AttentionParams) -> tuple[tuple[int, ...], int]:
        (*tensors, mask), output = super().row_bytes(p)
        return (*tensors, 2 * mask // self.element_bytes[0]), output


class AttentionMaskedS16(AttentionMaskedS8):
    """The same on int16."""

    name, dtype, top = "attention_masked_s16", "int16", 1023
    element_bytes = (2, 2)
    kernels = tuple(masked(kernel) for kernel in AttentionS16.kernels)


@dataclass(frozen=True)
class AttentionMaskParams:
    """The sizes and the unit."""

    rows: int = i32("of the mask")
    row: int = i32("elements of a row")
    shift: int = i32("0..2: from steps of 1/64 of a power of two to those of the scores")


class AttentionMaskS16(KernelOp[AttentionMaskParams]):
    """A computed mask in the unit of the scores."""

    name, element_bytes = "attention_mask_s16", (2, 2)
    params = AttentionMaskParams
    geometry = ELEMENTWISE
    kernels = (
        Kernel("ge_attention_mask_s16", cost=lambda n, t: Cost(9.0 * n.params.rows * n.params.row, 90), store="elements"),
    )  # fmt: skip

    def int_ref(self, p: AttentionMaskParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        mask = inputs[0].astype(np.int32)
        near = (np.minimum(mask, LIMIT - 1) + (1 << p.shift >> 1)) >> p.shift
        return np.where(mask < -LIMIT, FORBIDDEN, near).astype(np.int16)


def _lower_quantized(node: Node, c: LowerContext) -> None:
    q, k, v = (c.qtype(name) for name in node.inputs[:3])
    y, shapes, heads = c.qtype(node.outputs[0]), [c.shape(name) for name in node.inputs[:3]], node.attrs["heads"]
    op = AttentionS8() if q.dtype == "int8" else AttentionS16()
    (batches, queries, _), (_, keys, _) = shapes[:2]
    depth, width = (shape[2] // heads for shape in shapes[1:])
    if keys > MOST_KEYS:
        raise UnsupportedModelError(
            f"{node.name}: attention over {keys} keys; at most {MOST_KEYS} are possible in {q.dtype}"
        )
    exponent, bound = node.attrs["scale"] * math.log2(math.e) * q.scale[0] * k.scale[0], depth * _reach(q) * _reach(k)
    likely = abs(exponent) * bound / max(1.0, depth**0.5 / 2) / (1 if op.dtype == "int8" else INT16_HEADROOM**2)
    unit = next((bits for bits in UNITS if likely * 2**bits < LIMIT), UNITS[-1])
    score = _score(exponent * 2**unit, bound, op.dtype)
    numerator, fine, shift = _division(v.scale[0] / y.scale[0], op.top * keys)
    mask = c.value(node.inputs[3]) if len(node.inputs) > 3 else None
    mask_heads, mask_queries = (0, 1) if mask is None else mask.shape[-3:-1]
    params = AttentionParams(
        batches, queries, keys, heads, depth, width, min(node.attrs["ahead"], keys),
        mask_heads, mask_queries, q.zero_point[0], k.zero_point[0], v.zero_point[0], *score, numerator, fine, shift,
        y.zero_point[0], *clamp_limits(y, node.attrs),
    )  # fmt: skip
    constants = {"table": Const(powers(op.top, unit))}
    macs = batches * queries * keys * heads * (depth + width)
    inputs, computed = node.inputs[:3], mask is not None and mask.const is None
    if computed:
        inputs = (*inputs, _in_unit(node, c, unit))
    else:
        array = np.zeros(1, np.int16) if mask is None else _mask(c.const(mask.name).materialize(), unit)
        constants["mask"] = Const(array)
    name = op.name.replace("attention", "attention_masked") if computed else op.name
    c.add(node, name, inputs, node.outputs[0], params, constants, macs=macs)


def _in_unit(node: Node, c: LowerContext, unit: int) -> str:
    """The computed mask in the unit of the scores."""
    name = node.inputs[3]
    shape = c.shape(name)
    params = AttentionMaskParams(shape[0], math.prod(shape[1:]), UNITS[0] - unit)
    made = c.derive(name, "in_scores", shape, MASK)
    c.add(node, "attention_mask_s16", (name,), made, params, role="mask")
    return made


def _reach(q: QType) -> int:
    return max(q.limits[1] - q.zero_point[0], q.zero_point[0] - q.limits[0])


def _score(scale: float, bound: int, dtype: str) -> tuple[int, int]:
    """The multiplier and the shift of a score. In int8 the shift is 32 if possible, because it then takes one
    instruction.
    """
    if dtype == "int8":
        shift = 32
        while shift > 1 and abs(scale) * 2.0**shift >= 2**31 - 1:
            shift -= 1
        return int(round_half_up(min(max(scale * 2.0**shift, 1 - 2.0**31), 2.0**31 - 1))), shift
    sign = -1 if scale < 0 else 1
    q = wide.requant([abs(scale)], bound)
    return sign * q.multiplier[0], q.shift


def _division(ratio: float, most: int) -> tuple[int, int, int]:
    """numerator, fine and shift, from steps of v to steps of y. most: the largest divisor. The shift is 32 for short
    rows.
    """
    bits = 29
    while bits > 0 and ratio * 2.0**bits >= 2**31 - 1:
        bits -= 1
    fine = 3 if most < 2**17 else min(8, 32 - most.bit_length())
    if fine > 3:
        bits = min(bits, 28)
    return int(round_half_up(ratio * 2.0**bits)), fine, bits + fine


def powers(top: int, unit: int) -> Array:
    """top * 2^(-d / 2^unit) for d = 0..1023; the last ones are 0."""
    return round_half_up(top * 2.0 ** (-np.arange(TABLE) / 2**unit)).astype(np.uint16)


def _mask(mask: Array, unit: int) -> Array:
    """The mask as int16, in the unit of a score."""
    steps = np.clip(round_half_up(mask.astype(np.float64) * 2**unit * math.log2(math.e)), -LIMIT, LIMIT - 1)
    return np.where(mask < LEAST, FORBIDDEN, steps).astype(np.int16)


def _lower_f32(node: Node, c: LowerContext) -> None:
    shapes = [c.shape(name) for name in node.inputs]
    nest.add(node, c, nest.params_of(_program(shapes, node.attrs["heads"], node.attrs["scale"], node.attrs["ahead"])))


def _program(shapes: Sequence[Shape], heads: int, scale: float, ahead: int) -> Program:
    """The scores of all queries, and for each query its largest score, the exponentials of the differences, and the
    weighted sums of values.
    """
    k, (b, t, _), s = Recorder(), shapes[0], shapes[1][1]
    x = [Tensor(f"x{i}", (*shape[:2], heads, shape[2] // heads), "float32") for i, shape in enumerate(shapes[:3])]
    mask = Tensor("x3", shapes[3], "float32") if len(shapes) > 3 else None
    y, e = Tensor("y0", (b, t, *x[2].shape[2:]), "float32"), k.temporary((b, t, heads, s), "float32")
    none = constant(-3.0e38, "float32")
    with k.each((b, t, heads)) as (batch, row, head):
        with k.loop(s) as j:
            total = k.sum([x[0].shape[3]], lambda i: x[0][(batch, row, head, i)] * x[1][(batch, j, head, i)], "float32")
            score: Expr = total * scale
            if mask is not None:
                added = mask.broadcast((batch, head, row, j)[-len(mask.shape) :])
                score = where(added < LEAST, none, score + added)
            score = where(j > row + ahead, none, score) if ahead < s - 1 else score
            k.store(e, (batch, row, head, j), score)
        most = k.fold([s], none, lambda j: e[(batch, row, head, j)], lambda a, b: where(b > a, b, a))
        with k.loop(s) as j:
            own = e[(batch, row, head, j)]
            k.store(e, (batch, row, head, j), where(own > -1.0e38, call("exp", own - most), constant(0, "float32")))
        total = k.sum([s], lambda j: e[(batch, row, head, j)], "float32")
        with k.loop(x[2].shape[3]) as i:
            found = k.sum([s], lambda j: e[(batch, row, head, j)] * x[2][(batch, j, head, i)], "float32")
            k.store(y, (batch, row, head, i), where(total > 0.0, found / total, constant(0, "float32")))
    return Program(tuple(x if mask is None else [*x, mask]), y, tuple(k.temporaries), tuple(k.body))


OPS = (Attention(),)
LOWERINGS = {("Attention", "int16"): _lower_quantized, ("Attention", "float32"): _lower_f32}
KERNEL_OPS = (AttentionS8(), AttentionS16(), AttentionMaskedS8(), AttentionMaskedS16(), AttentionMaskS16())
