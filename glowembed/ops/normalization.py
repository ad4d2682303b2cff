"""Normalizations with constant scale and shift: ONNX LayerNormalization, RMSNormalization, InstanceNormalization,
GroupNormalization and LpNormalization with p = 2. Kernel-level: normalize_s8, normalize_s16; in float32 it is a loop
nest.

All tensors are channels-last. A group is a set of elements with one mean and one variance: the channels of one vector,
or some channels of a whole image. The law, for the n elements x of a group (less their zero point if no mean is
subtracted):

    S1 = sum(x), or 0 without a mean;  S2 = sum(x^2)
    W  = max(((n * S2 - S1^2) << variance_bits) + epsilon, 1)                        in uint64
    m  = W << s, s even, 2^30 <= m < 2^32;  R = table[(m >> 24) - 64] << 15          R / 2^30 approaches sqrt(2^32 / m)
    twice: R = (R * (3 * 2^30 - ((m * ((R * R) >> 30)) >> 32))) >> 31                in uint64
    r  = R * 2^(root_shift + s / 2), rounded half up
    h  = ((n * x - S1) * r + half) >> extra                                          in int64, |h| < 2^31
    y  = clamp(((h * scale[c] + shift[c] * 2^32 + 2^31) >> 32) >> bits, lo, hi)

`epsilon` is the operator's, in the unit of the sum, and `shift` contains the zero point of the output and half of
2^bits. The first rounding of y is 2^bits times finer than the output. If a group has no variance, its outputs are
`shift` alone.
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
from glowembed.graph.geometry import Elements, per_row
from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import Builder, Cost, Kernel, KernelOp, LowerContext, Malformed, OnnxNode, Op, Refused, Store
from glowembed.graph.spatial import channels_first, channels_last
from glowembed.law.fixedpoint import round_half_up
from glowembed.nest.expr import Expr, constant, sqrt, where
from glowembed.nest.program import Program, Recorder, Tensor
from glowembed.ops import nest
from glowembed.ops.shared.broadcast import rows_of
from glowembed.records import dataclass

EPSILON = 1e-5
SUM_BITS = 62
"""The most bits of a variance."""

FINE_BITS = 8
"""The fractional bits of the first rounding of an output, if the numbers leave room for them."""

MOST_EXACT = 256
"""The most elements in an int8 group for which r needs no `extra` bits and h has at most 32 bits."""


MOST_EXTRA = 28
"""A limit that keeps the first product below 2^60."""


class Normalization(Op):
    """y = (x - mean) / sqrt(variance + epsilon) * scale + shift, over the channels of each vector or of the whole image."""

    name = "Normalization"
    onnx = (
        "LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization", "LpNormalization",
    )  # fmt: skip
    has_weights = True
    rounds_weights = False

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        epsilon = float(node.attrs.get("epsilon", EPSILON))
        if not 0.0 <= epsilon < math.inf:
            raise Malformed(f"its epsilon is {epsilon:g}", "it must be 0 or a positive number; 1e-05 is usual")
        if any(node.outputs[1:]):
            raise Refused("its mean or its deviation is an output")
        _IMPORTS[node.op_type](node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, scale, shift = shapes
        if not scale == shift == x[-1:] or x[-1] % attrs["groups"]:
            raise Malformed(
                f"scale {list(scale)}, shift {list(shift)} and {attrs['groups']} groups do not fit {x[-1]} channels",
                "check the shapes of its inputs",
            )
        return (x,)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, axes = inputs[0].astype(np.float64).reshape(_groups(attrs, inputs[0].shape)), (1, 3)
        if attrs["centred"]:
            x = x - x.mean(axis=axes, keepdims=True)
        square = (x * x).mean(axis=axes, keepdims=True) + attrs["epsilon"]
        y = (x / np.sqrt(np.where(square > 0, square, 1.0))).reshape(inputs[0].shape)
        return ((y * inputs[1] + inputs[2]).astype(np.float32),)

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        return attrs if not attrs["image"] and perm[-1] == len(perm) - 1 else None

    def lower(self, node: Node, c: LowerContext) -> None:
        _lower_quantized(node, c)


def _groups(attrs: Mapping[str, Any], shape: Shape) -> Shape:
    """The shape as [parts, positions, groups, channels of a group]. A group is one index of the first and the third
    axis.
    """
    count = shape[0] if attrs["image"] else prod(shape[:-1])
    return count, prod(shape[:-1]) // count, attrs["groups"], shape[-1] // attrs["groups"]


def _import_suffix(node: OnnxNode, b: Builder) -> None:
    """Import LayerNormalization and RMSNormalization, which normalize over all axes from `axis` on; these become one
    axis.
    """
    x, y, shape = node.inputs[0], node.outputs[0], b.shape(node.inputs[0])
    axis = node.attrs.get("axis", -1)
    if not -len(shape) <= axis < len(shape):
        raise Malformed(f"its axis {axis} is outside of {len(shape)} axes", "check the model with onnx.checker")
    suffix = shape[axis % len(shape) :]
    scale, shift = (_constant(node, b, i, suffix, fill) for i, fill in ((1, 1.0), (2, 0.0)))
    centred = int(node.op_type == "LayerNormalization")
    flat = (*shape[: axis % len(shape)], prod(suffix))
    if flat == shape:
        _add(node, b, x, scale, shift, y, centred=centred)
        return
    x = b.add("Reshape", [x], {"shape": flat}, f"{y}/input_flat")
    b.add("Reshape", [_add(node, b, x, scale, shift, f"{y}/flat", centred=centred)], {"shape": shape}, y)


def _import_image(node: OnnxNode, b: Builder) -> None:
    """Import InstanceNormalization and GroupNormalization, which normalize some channels of a whole image."""
    x, y, shape = node.inputs[0], node.outputs[0], b.shape(node.inputs[0])
    if len(shape) < 2:
        raise Malformed(f"its input has the shape {list(shape)}", "it needs a batch and channels")
    groups = int(node.attrs.get("num_groups", shape[1]))
    if groups < 1 or shape[1] % groups:
        raise Malformed(f"{shape[1]} channels in {groups} groups", "check the model with onnx.checker")
    if b.shape(node.inputs[1]) == (groups,) != shape[1:2]:
        scale, shift = (_repeated(node, b, i, shape[1] // groups) for i in (1, 2))
    else:
        scale, shift = (_constant(node, b, i, shape[1:2], 0.0) for i in (1, 2))
    turned = b.transpose(x, channels_last(len(shape)))
    made = _add(node, b, turned, scale, shift, f"{y}/channels_last", groups=groups, image=1)
    b.transpose(made, channels_first(len(shape)), y)


def _import_norm(node: OnnxNode, b: Builder) -> None:
    """Import LpNormalization, which divides by the root of the sum of squares along an axis; if that is 0, the result
    is 0.
    """
    x, y, shape = node.inputs[0], node.outputs[0], b.shape(node.inputs[0])
    if node.attrs.get("p", 2) != 2:
        raise Refused(f"p is {node.attrs['p']}")
    axis, last = int(node.attrs.get("axis", -1)), len(shape) - 1
    if not -len(shape) <= axis <= last:
        raise Malformed(f"its axis {axis} is outside of {len(shape)} axes", "check the model with onnx.checker")
    swap = [*range(len(shape))]
    swap[axis], swap[last] = swap[last], swap[axis]
    n = shape[axis]
    fills = (np.full(n, n**-0.5, np.float32), np.zeros(n, np.float32))
    scale, shift = (b.constant(f"{y}/{name}", Const(a)) for name, a in zip(("scale", "shift"), fills, strict=True))
    moved = swap != sorted(swap)
    made = f"{y}/axis_last" if moved else y
    made = _add(node, b, b.transpose(x, swap), scale, shift, made, centred=0, epsilon=0.0)
    if moved:
        b.transpose(made, swap, y)


_IMPORTS = {
    "LayerNormalization": _import_suffix, "RMSNormalization": _import_suffix, "InstanceNormalization": _import_image,
    "GroupNormalization": _import_image, "LpNormalization": _import_norm,
}  # fmt: skip


def _add(
    node: OnnxNode, b: Builder, x: str, scale: str, shift: str, output: str, groups: int = 1, image: int = 0,
    centred: int = 1, epsilon: float | None = None,
) -> str:  # fmt: skip
    epsilon = float(node.attrs.get("epsilon", EPSILON)) if epsilon is None else epsilon
    attrs = {"groups": groups, "image": image, "centred": centred, "epsilon": epsilon}
    return b.add("Normalization", [x, scale, shift], attrs, output)


def _constant(node: OnnxNode, b: Builder, i: int, shape: Shape, fill: float) -> str:
    """A constant input with one number for each channel; `fill` if the input is absent."""
    name, count = node.input(i), prod(shape)
    if name is None:
        return b.constant(
            f"{node.outputs[0]}/{'shift' if i == 2 else 'scale'}", Const(np.full(count, fill, np.float32))
        )
    array = b.const(name)
    if array is None:
        raise Refused(f"its input {name!r} is computed")
    if len(array.shape) > len(shape) or any(
        have not in (1, want) for have, want in zip(array.shape[::-1], shape[::-1], strict=False)
    ):
        raise Malformed(f"{name!r} has the shape {list(array.shape)}", f"it must fit {list(shape)}")
    if array.shape == (count,):
        return name

    def spread(a: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1)

    return b.constant(f"{name}/of_{count}", b.delayed(name).then(f"of({count})", spread))


def _repeated(node: OnnxNode, b: Builder, i: int, times: int) -> str:
    """A constant with one number for each group, repeated for each channel."""
    name = node.inputs[i]
    if b.const(name) is None:
        raise Refused(f"its input {name!r} is computed")
    return b.constant(f"{name}/each_{times}", b.delayed(name).then(f"each({times})", lambda a: np.repeat(a, times)))


@dataclass(frozen=True)
class NormalizeParams:
    """The groups of a row, and the numbers of the law that do not depend on the channel."""

    rows: int = i32("rows of input and output")
    parts: int = i32("of a row: vectors, or images")
    positions: int = i32("vectors of channels in a part")
    groups: int = i32("groups of channels, each with a mean and a variance of its own in each part")
    channels: int = i32("channels of a group")
    centred: int = i32("1: the mean is subtracted, 0: it is not")
    zero_point: int = i32("of the input; 0 if the mean is subtracted")
    variance_bits: int = i32("bits behind the point of the variance, even, 0..32")
    epsilon_high: int = i32("of the epsilon in the unit of the variance, 2^31")
    epsilon_low: int = i32("the same, the lower 31 bits")
    root_shift: int = i32("exponent of the reciprocal root, without that of the variance")
    extra: int = i32("bits of the reciprocal root that the first product loses, 0 or 28")
    bits: int = i32("of the second rounding of an output, 0..8")
    lo: int = i32("smallest output")
    hi: int = i32("largest output")


def _lower_quantized(node: Node, c: LowerContext) -> None:
    x, y, shape = node.inputs[0], node.outputs[0], c.shape(node.inputs[0])
    xq, yq, groups = c.qtype(x), c.qtype(y), _groups(node.attrs, shape)
    scale, shift = (c.const(name).materialize().astype(np.float64) for name in node.inputs[1:])
    rows = 1 if node.attrs["image"] else rows_of(shape)
    params, constants = law(xq, yq, groups, node.attrs["centred"], node.attrs["epsilon"], scale, shift, node.name)
    params = replace(params, rows=rows, parts=groups[0] // rows)
    kind = "normalize_s8" if xq.dtype == "int8" else "normalize_s16"
    c.add(node, kind, [x], y, params, constants, macs=prod(shape))


def law(
    xq: QType, yq: QType, shape: Shape, centred: int, epsilon: float, scale: Array, shift: Array, name: str
) -> tuple[NormalizeParams, dict[str, Const]]:
    """The params and constants for these types, a row of shape [parts, positions, groups, channels], and the float64
    scale and shift of each channel. Raises UnsupportedModelError, which names the node, if the numbers are too large.
    """
    parts, positions, groups, channels = shape
    n = positions * channels
    reach = max(xq.zero_point[0] - xq.limits[0], xq.limits[1] - xq.zero_point[0])
    largest = n * n * (((xq.limits[1] - xq.limits[0] + 1) // 2) if centred else reach) ** 2
    unit = epsilon * (n / xq.scale[0]) ** 2
    room = SUM_BITS - math.ceil(math.log2(largest + unit + 1))
    if room < 0:
        raise UnsupportedModelError(
            f"{name}: a normalization over {n} elements of {xq.dtype} with epsilon {epsilon:g} needs more than {SUM_BITS} bits;"
            " normalize fewer elements, or give the node {dtype: float32} in a precision.yaml"
        )
    variance_bits = min(room, 32) // 2 * 2
    extra = 0 if xq.dtype == "int8" and n <= MOST_EXACT else MOST_EXTRA
    fine = (27 if n < MOST_EXACT else 26) if extra == 0 else 29 - (n.bit_length() - 1) // 2
    bits, constants = _constants(name, scale, shift, yq, fine, n)
    stored = int(round_half_up(unit * 2.0**variance_bits))
    params = NormalizeParams(
        1, parts, positions, groups, channels, centred, 0 if centred else xq.zero_point[0], variance_bits,
        stored >> 31, stored & (2**31 - 1), fine + extra + variance_bits // 2 - 46, extra, bits, *yq.limits,
    )  # fmt: skip
    return params, {**constants, "roots": Const(_roots())}


def _constants(
    name: str, scale: Array, shift: Array, yq: QType, fine: int, n: int
) -> tuple[int, dict[str, Const]]:  # fmt: skip
    """The shift of the second rounding, as large as int32 allows, and the scales and shifts of the channels in that
    unit.
    """
    steepest = float(np.abs(scale).max()) / yq.scale[0]
    highest = float(np.abs(shift / yq.scale[0] + yq.zero_point[0]).max()) + steepest * n**0.5 + 1
    bits = FINE_BITS
    while bits > 0 and (highest * 2**bits >= 2**30 or steepest * 2.0 ** (32 + bits - fine) >= 2**30):
        bits -= 1
    if highest >= 2**30 or steepest * 2.0 ** (32 - fine) >= 2**31 - 1:
        raise UnsupportedModelError(
            f"{name}: its scale of {np.abs(scale).max():g} and shift of {np.abs(shift).max():g} are too large for an output in steps of"
            f" {yq.scale[0]:g}; widen the range of the output, or give the node {{dtype: float32}} in a precision.yaml"
        )
    steps = round_half_up(scale / yq.scale[0] * 2.0 ** (32 + bits - fine))
    base = round_half_up((shift / yq.scale[0] + yq.zero_point[0]) * 2.0**bits) + (2 ** (bits - 1) if bits else 0)
    return bits, {"scale": Const(steps.astype(np.int32)), "shift": Const(base.astype(np.int32))}


def _roots() -> Array:
    """2^15 / sqrt((i + 1/2) / 256) for i = 64..255: the value in the middle of each interval i..i + 1."""
    i = np.arange(64, 256) / 256
    return round_half_up(2.0**16 / (np.sqrt(i) + np.sqrt(i + 1 / 256))).astype(np.uint16)


def reciprocal_roots(w: Sequence[int], roots: Array) -> list[tuple[int, int]]:
    """R and s of the law, for each w."""
    table = roots.tolist()
    found = []
    for one in w:
        s = (32 - one.bit_length()) // 2 * 2
        m = one << s if s >= 0 else one >> -s
        root = table[(m >> 24) - 64] << 15
        for _ in range(2):
            root = (root * (3 * 2**30 - ((m * ((root * root) >> 30)) >> 32))) >> 31
        found.append((root, s))
    return found


def _store(p: NormalizeParams) -> Store:
    """The elements of interleaved groups are not read in order."""
    return "elements" if p.positions == 1 or p.groups == 1 else "rows"


def _elements(p: NormalizeParams) -> Elements:
    count = p.parts * p.positions * p.groups * p.channels
    return (count,), count


GROUPS = per_row(_elements)


class NormalizeS8(KernelOp[NormalizeParams]):
    """Python's integers hold the sums of a group; the numbers of each element are below 2^63."""

    name, dtype = "normalize_s8", "int8"
    params = NormalizeParams
    geometry = GROUPS
    constants = {"scale": "int32_t", "shift": "int32_t", "roots": "uint16_t"}
    kernels: tuple[Kernel, ...] = (
        Kernel("ge_normalize_s8", cost=lambda n, t: Cost(24.0 * n.macs, 700), store=_store, same_place=lambda p: True),
    )

    def int_ref(self, p: NormalizeParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(-1, p.positions, p.groups, p.channels).astype(np.int64) - p.zero_point
        n = p.positions * p.channels
        s1 = x.sum(axis=(1, 3), keepdims=True) * p.centred
        s2 = (x * x).sum(axis=(1, 3), keepdims=True)
        epsilon = (p.epsilon_high << 31) + p.epsilon_low
        w = [
            max(((n * b - a * a) << p.variance_bits) + epsilon, 1)
            for a, b in zip(s1.ravel().tolist(), s2.ravel().tolist(), strict=True)
        ]
        factors = [_shifted(root, p.root_shift + s // 2) for root, s in reciprocal_roots(w, constants["roots"])]
        factor = np.asarray(factors, np.int64).reshape(s1.shape)
        h = ((n * x - s1) * factor + ((1 << p.extra) >> 1)) >> p.extra
        scale, shift = (constants[k].astype(np.int64).reshape(p.groups, p.channels) for k in ("scale", "shift"))
        fine = (h * scale + (shift << 32) + 2**31) >> 32
        return np.asarray(np.clip(fine >> p.bits, p.lo, p.hi).astype(self.dtype))


def _shifted(root: int, left: int) -> int:
    """root * 2^left, rounded half up. If it has more than 63 bits, all elements of the group are equal, and it is
    multiplied by 0.
    """
    return (root << left) % 2**63 if left >= 0 else (root + (1 << (-left - 1))) >> -left


class NormalizeS16(NormalizeS8):
    """The op with int16 input and output."""

    name, dtype = "normalize_s16", "int16"
    element_bytes = (2, 2)
    kernels = (
        Kernel(
            "ge_normalize_s16",
            template="ge_normalize_s8",
            words={"ELEMENT": "int16_t"},
            cost=lambda n, t: Cost(26.0 * n.macs, 700),
            store=_store,
            same_place=lambda p: True,
        ),
    )


def _lower_f32(node: Node, c: LowerContext) -> None:
    program = _program(_groups(node.attrs, c.shape(node.inputs[0])), node.attrs["centred"], node.attrs["epsilon"])
    nest.add(node, c, nest.params_of(program))


def _program(shape: Shape, centred: int, epsilon: float) -> Program:
    """The sums are taken in the order of the elements, as in ops/definitions/normalization.py."""
    k = Recorder()
    parts, positions, groups, channels = shape
    x, y = Tensor("x0", shape, "float32"), Tensor("y0", shape, "float32")
    scale, shift = (Tensor(name, (groups, channels), "float32") for name in ("x1", "x2"))
    sizes, count = (positions, channels), constant(positions * channels, "float32")
    with k.each((parts, groups)) as (part, group):

        def element(p: Expr, c: Expr) -> Expr:
            return x[(part, p, group, c)]

        mean = k.let(k.sum(sizes, element, "float32") / count) if centred else constant(0, "float32")

        def squared(p: Expr, c: Expr) -> Expr:
            return (element(p, c) - mean) * (element(p, c) - mean) if centred else element(p, c) * element(p, c)

        variance = k.let(k.sum(sizes, squared, "float32") / count)
        factor = k.let(_factor(variance, epsilon))
        with k.loops(sizes) as (p, c):
            value = (element(p, c) - mean) * factor if centred else element(p, c) * factor
            k.store(y, (part, p, group, c), value * scale[(group, c)] + shift[(group, c)])
    return Program((x, scale, shift), y, (), tuple(k.body))


def _factor(variance: Expr, epsilon: float) -> Expr:
    """1 / sqrt(variance + epsilon). Without an epsilon it is 0 if the variance is 0."""
    if epsilon:
        return 1.0 / sqrt(variance + epsilon)
    return where(variance.equals(0.0), constant(0, "float32"), 1.0 / sqrt(variance))


OPS = (Normalization(),)
LOWERINGS = {("Normalization", "int16"): _lower_quantized, ("Normalization", "float32"): _lower_f32}
KERNEL_OPS = (NormalizeS8(), NormalizeS16())
