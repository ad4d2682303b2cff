"""Convolution and products of int16, of float32, and of int8 with asymmetric weights on x86-64: when the kernels apply,
their constants and costs.

In: kernel-level nodes of ops/conv_wide.py, ops/float32.py, ops/conv.py and ops/gemm.py, params and constants. Out:
`Kernel`s. Each C file serves all types (runtime_c/kernels/x86/conv2d_wide_x86.c, depthwise_wide_x86.c, fc_wide_x86.c),
with one stream of constants for all levels, which ge_x86_products.h explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node
from glowembed.graph.op import Cost, Kernel, KernelsOf, only
from glowembed.graph.spatial import ConvParams, ConvTransposeParams
from glowembed.graph.target import Target
from glowembed.kernels.shared.wide import grouped, zeros_why_not
from glowembed.law.wide import LOWEST
from glowembed.ops.conv_wide import FcS16Params
from glowembed.ops.float32 import FcF32Params
from glowembed.ops.gemm import FcParams
from glowembed.records import dataclass

UNIT = 16
"""The number of outputs in a block of weights."""

WINDOWS = 8
"""The most windows that a level computes together."""

Rows = Callable[[Array], Array]

FcShapes = FcParams | FcS16Params | FcF32Params
Shapes = ConvParams | ConvTransposeParams | FcShapes


def pairs_of(matrix: Array) -> Array:
    """[outputs, inputs] of int16 as [outputs, pairs] of int32. The first number of a pair is in the lower half; 0
    follows a last odd one.
    """
    even = np.pad(matrix.astype(np.int16), ((0, 0), (0, matrix.shape[1] % 2))).view(np.uint16).astype(np.uint32)
    return np.asarray(even[:, ::2] | even[:, 1::2] << 16).view(np.int32)


def _singles(matrix: Array) -> Array:
    """Each int16 with 0 as the other half of its pair."""
    return np.asarray(matrix.astype(np.int16).view(np.uint16).astype(np.int32))


def _blocks(heads: list[Array], units: Array) -> Array:
    """Rows of outputs, and [outputs, units], as [outputs / 16][heads and units][16], with zeros for outputs that do not exist."""
    rows = np.concatenate([*(head[:, None] for head in heads), units], axis=1)
    padded = np.pad(rows, ((0, -len(rows) % UNIT), (0, 0)))
    return padded.reshape(-1, UNIT, rows.shape[1]).transpose(0, 2, 1).reshape(-1)


def stream(
    constants: Mapping[str, Array],
    p: Shapes,
    units: Rows,
    matrix: Rows = np.asarray,
    runs: Callable[[Any], int] = lambda p: 1,
) -> Mapping[str, Array]:
    """The blocks of each group. matrix: arranges the weights with outputs first; units: makes the units by which a run
    is multiplied.
    """
    weights = less_zero_point(matrix(constants["weights"]), constants)
    bias, multiplier = constants["bias"], constants.get("multiplier")
    parts = []
    all_of = {"weights": weights, "bias": bias, "multiplier": bias if multiplier is None else multiplier}
    groups = p.groups if weights.ndim > 2 and isinstance(p, ConvParams | ConvTransposeParams) else 1
    for w, b, m in grouped(all_of, groups):
        rows = units(w.reshape(len(w) * runs(p), -1)).reshape(len(w), -1)
        parts.append(_blocks([b] if multiplier is None else [b, m], rows))
    return {"stream": np.concatenate(parts).astype(np.float32 if multiplier is None else np.int32)}


def less_zero_point(weights: Array, constants: Mapping[str, Array]) -> Array:
    """Weights with outputs first, minus their zero points if they are asymmetric."""
    zero = constants.get("weight_zero_point")
    return weights if zero is None else weights - zero.reshape(-1, *[1] * (weights.ndim - 1))


def _runs(p: ConvParams) -> int:
    """The number of runs of a window: a row of the window, or a tap if columns are dilated or there are groups."""
    return int(p.kernel_h * (1 if p.dilation_w == 1 and p.groups == 1 else p.kernel_w))


def _outputs_first(weights: Array) -> Array:
    """Depthwise weights [kh, kw, O] as those of a convolution whose groups have one channel, [O, kh, kw, 1]."""
    return np.ascontiguousarray(np.moveaxis(weights, -1, 0))[..., None]


def _taps(weights: Array) -> Array:
    """Depthwise weights [kh, kw, O] as [O, taps]."""
    return weights.reshape(-1, weights.shape[-1]).T


def sums_why_not(node: Node, largest: int, matrix: Rows = np.asarray) -> str | None:
    """The reason why 32 bits cannot hold the sums, or the outputs before they are clamped; None if they can.

    largest: the largest magnitude of an input; matrix: arranges the weights with outputs first.
    """
    constants = {name: const.materialize().astype(np.int64) for name, const in node.constants.items()}
    weights = np.abs(less_zero_point(matrix(constants["weights"]), constants))
    bound = largest * weights.reshape(len(weights), -1).sum(axis=1) + np.abs(constants["bias"])
    if bound.max() >= 2**31:
        return f"the sum of channel {int(bound.argmax())} can reach {bound.max()}, 2^31 and more is too much"
    output = int((bound * np.abs(constants["multiplier"])).max()) >> node.params.shift
    return None if output < 2**30 else "an output leaves int32 before it is clamped"


def when_of(
    kind: str, matrix: Rows = np.asarray, same: bool | None = None, less_zero: bool = False
) -> Callable[[Node, Target], str | None]:
    """A function that returns the reason why a kernel does not apply. same: whether the numbers of output and input
    channels must be equal (True) or different (False). less_zero: whether sums are of inputs minus their zero point,
    which the bias then includes.
    """

    def when(node: Node, target: Target) -> str | None:
        p = node.params
        if same is not None and (p.in_c == p.out_c) != same:
            return "there are more channels out than in" if same else "each channel has one output"
        if kind == "f32":
            return zeros_why_not(node)
        zero = abs(p.in_zero_point) if less_zero else 0
        return sums_why_not(node, (128 if kind == "aw" else -LOWEST) + zero, matrix)

    return when


def _elements(p: ConvParams) -> int:
    return int(p.kernel_h * p.kernel_w * (p.in_c // p.groups))


def _conv_cost(node: Node, target: Target) -> Cost:
    p = node.params
    blocks = p.groups * -(-(p.out_c // p.groups) // UNIT)
    return Cost(
        p.out_h * p.out_w * (blocks * (12 + 1.2 * _elements(p)) + 0.3 * _elements(p) + 30),
        6000,
    )


def _depthwise_cost(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(p.out_h * p.out_w * (40 + p.out_c * (0.2 * p.kernel_h * p.kernel_w + 0.3)), 2000)


def _fc_cost(node: Node, target: Target) -> Cost:
    p = node.params
    return Cost(p.rows * (-(-p.out_c // UNIT) * (12 + 1.5 * p.in_c) + 20), 5000)


LINES, PIXELS = 4, 64
"""The number of output rows that are computed together, and CONV2D_WIDE_X86_PIXELS of the C file."""


def _columns(p: ConvParams) -> int:
    return int((p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1)


def _scratch(p: ConvParams, size: int) -> int:
    """The scratch: the beginnings of runs, and the input rows that some output rows depend on, followed by four
    bytes.
    """
    lines = min(PIXELS // p.out_w if p.out_w < PIXELS // LINES else LINES, p.out_h)
    rows = (lines - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1
    return int(4 * _runs(p) + rows * _columns(p) * p.in_c * size + 4)


@dataclass(frozen=True)
class Kind:
    """A type of elements. unit: the C type of the stream; size: the bytes of a stored element; held: the bytes of an
    element that is multiplied.
    """

    params: str
    unit: str
    size: int
    held: int


KINDS = {
    "s16": Kind("_s16", "int32_t", 2, 2),
    "w16": Kind("_s16", "int32_t", 2, 2),
    "aw": Kind("", "int32_t", 1, 2),
    "f32": Kind("_f32", "float", 4, 4),
}
"""The kinds of elements. w16: int16 with int16 weights; aw: int8 with asymmetric weights."""


def named(kind: str, name: str, op: str, text: str = "") -> dict[str, Any]:
    """The fields of `Kernel` that are names. op: the name in the C struct of params; text: the name of the file."""
    one = KINDS[kind]
    words = {
        "BYTES": str(one.size),
        "PARAMS": f"ge_{op}{one.params}_params",
        "UNIT": one.unit,
    }
    symbol = f"ge_{name}_{'aw_s8' if kind == 'aw' else kind}_x86"
    return {
        "symbol": symbol,
        "template": f"ge_{text or op}_wide_x86",
        "words": words,
        "constants": {"stream": one.unit},
    }


def units_of(kind: str, pairs: Rows = pairs_of) -> Rows:
    """The function that makes the units of a run."""
    return np.asarray if kind == "f32" else pairs


def _conv(kind: str, name: str = "conv2d", **more: Any) -> Kernel:
    fields: dict[str, Any] = {
        "when": when_of(kind),
        "arrange": partial(stream, units=units_of(kind), runs=_runs),
    } | more
    return Kernel(
        **named(kind, name, "conv2d"),
        isa="x86",
        scratch=partial(_scratch, size=KINDS[kind].held),
        cost=_conv_cost,
        store="rows",
        **fields,
    )


def _multiplied(kind: str) -> Kernel:
    """Depthwise convolution with several outputs for each channel, as a convolution whose groups have one channel. With
    asymmetric weights it is portable C.
    """
    arrange = partial(stream, units=units_of(kind), matrix=_outputs_first, runs=_runs)
    return _conv(kind, "depthwise_grouped", when=when_of(kind, _outputs_first, same=False), arrange=arrange)


def _depthwise(kind: str) -> Kernel:
    return Kernel(
        **named(kind, "depthwise", "conv2d", "depthwise"),
        isa="x86",
        when=when_of(kind, _taps, same=True),
        arrange=partial(stream, units=units_of(kind, _singles), matrix=_taps),
        scratch=lambda p: 8 * p.kernel_h * _columns(p) + KINDS[kind].size * p.in_c,
        cost=_depthwise_cost,
        store="rows",
    )


def _fc_scratch(p: FcShapes, kind: str) -> int:
    """The scratch: the rows that are not read in place, each followed by four bytes."""
    one = KINDS[kind]
    in_place = one.size == one.held and p.in_c * one.size % 4 == 0
    return 0 if in_place else WINDOWS * (-(-one.held * p.in_c // 4) * 4 + 4)


def _fc(kind: str) -> Kernel:
    return Kernel(
        **named(kind, "fc", "fc"),
        isa="x86",
        when=when_of(kind) if kind != "f32" else lambda node, target: None,
        arrange=partial(stream, units=units_of(kind)),
        scratch=partial(_fc_scratch, kind=kind),
        cost=_fc_cost,
        store=lambda p: "rows" if p.rows == 1 else "disjoint",  # several rows are read once for each block of outputs
    )


def _kernels(op: str, kind: str) -> tuple[Kernel, ...]:
    made = {"conv2d": (_conv,), "depthwise": (_depthwise, _multiplied), "fc": (_fc,)}[op]
    some = made[:1] if kind == "aw" else made
    return tuple(make(kind) for make in some)


KERNELS: Mapping[str, KernelsOf] = {
    f"{op}_{name}": only(*_kernels(op, kind))
    for kind, name in (("s16", "s16"), ("w16", "s16_w16"), ("aw", "aw_s8"), ("f32", "f32"))
    for op in ("conv2d", "depthwise", "fc")
}
