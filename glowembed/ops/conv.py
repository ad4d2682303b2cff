"""Convolution, 1-D and 2-D, any group, stride, dilation and padding; depthwise is recognised.

ONNX operator Conv. Input [1, H, W, C] or [1, L, C], weights as in ONNX [O, C/group, kh(, kw)], bias [O].
Kernel-level: conv2d_s8 (weights OHWI) and depthwise_s8 (one input channel per group, weights HWO).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glowembed import (
    dsp,
    dsp_block,
    dsp_depthwise,
    dsp_direct,
    fixedpoint,
    mve,
    plain,
    polynomial,
    portable,
    threes,
    winograd,
    x86,
)
from glowembed.cstruct import i32
from glowembed.ir import Array, Const, Node, QType, Shape
from glowembed.linear import LinearConstants, clamp_limits, linear_constants, mode_of
from glowembed.op import (
    Builder,
    Cost,
    Kernel,
    KernelOp,
    LowerContext,
    OnnxNode,
    Op,
    Store,
    in_all_modes,
    law_number,
)
from glowembed.spatial import ConvParams, Window, as_hwc, channels_first, channels_last, from_hwc, onnx_window
from glowembed.target import Target


class Conv(Op):
    """y[o] = sum over taps and input channels of the group (x * w[o]) + b[o], then the fused clip."""

    name = "Conv"
    onnx = ("Conv",)
    has_weights = True
    fuses_activation = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        x, w = node.inputs[0], node.inputs[1]
        if b.const(w) is None:
            raise_not_constant(w)
        rank, weights = len(b.shape(x)), b.shape(w)
        window = onnx_window(node, weights[2:], b.shape(x)[2:])
        bias = node.input(2) or b.constant(f"{node.outputs[0]}/bias", Const(np.zeros(weights[0], np.float32)))
        y = b.add(
            "Conv",
            [b.transpose(x, channels_last(rank)), w, bias],
            {**window.attrs(), "group": node.attrs.get("group", 1)},
            f"{node.outputs[0]}/channels_last",
        )
        b.transpose(y, channels_first(rank), node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, w = shapes[0], shapes[1]
        h, wd, c = as_hwc(x)
        if c != w[1] * attrs["group"] or w[0] % attrs["group"]:
            raise ValueError(f"{c} input channels do not fit weights {list(w)} with group {attrs['group']}")
        return (from_hwc(Window.of(attrs).out_size((h, wd)), w[0], len(x)),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        x, w, bias = inputs
        y = _accumulate(Window.of(attrs), x.reshape(as_hwc(x.shape)), ohwi(w), attrs["group"], 0.0, x.dtype)
        y = np.clip(y + bias, attrs.get("act_min", -np.inf), attrs.get("act_max", np.inf)).astype(np.float32)
        return (y.reshape(from_hwc((y.shape[0], y.shape[1]), y.shape[2], x.ndim)),)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, w, bias = node.inputs
        y = node.outputs[0]
        window, group, mode = Window.of(node.attrs), node.attrs["group"], mode_of(node.attrs)
        k = linear_constants(c.const(w), c.qtype(w), c.const(bias), c.qtype(x), c.qtype(y), node.name, mode)
        depthwise = group > 1 and c.shape(w)[1] == 1
        params = _params(window, group, c.shape(x), c.shape(y), c.qtype(x), c.qtype(y), k, node.attrs)
        order = "hwo" if depthwise else "ohwi"
        weights = k.weights.then(order, hwo if depthwise else ohwi)
        macs = int(np.prod(c.shape(y))) * int(np.prod(c.shape(w)[1:]))
        c.add(
            node,
            k.op("depthwise" if depthwise else "conv2d"),
            [x],
            y,
            params,
            {**k.as_dict(), "weights": weights},
            macs=macs,
        )


def raise_not_constant(name: str) -> None:
    """Refuse a node whose weights are computed at run time."""
    from glowembed.op import Refused

    raise Refused(f"the weights {name!r} are not a constant", "weights must be initializers or fold to constants")


def ohwi(w: Array) -> Array:
    """[O, I, kh(, kw)] -> [O, kh, kw, I]"""
    return np.ascontiguousarray(w.reshape(*w.shape[:3], -1).transpose(0, 2, 3, 1))


def hwo(w: Array) -> Array:
    """[O, 1, kh(, kw)] -> [kh, kw, O]"""
    return np.ascontiguousarray(w.reshape(*w.shape[:3], -1)[:, 0].transpose(1, 2, 0))


def _accumulate(window: Window, x: Array, w: Array, group: int, fill: Any, dtype: Any) -> Array:
    """Sums of products [out_h, out_w, O] of x [H, W, C] and w [O, kh, kw, C/group], computed in `dtype`."""
    views = window.views(x.astype(dtype), fill)
    w = w.astype(dtype)
    out_h, out_w, kh, kw, channels = views.shape
    if group == 1:
        flat = views.reshape(out_h * out_w, kh * kw * channels) @ w.reshape(w.shape[0], -1).T
        return np.asarray(flat.reshape(out_h, out_w, -1))
    grouped = views.reshape(out_h, out_w, kh, kw, group, channels // group)
    weights = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    return np.asarray(np.einsum("yxhwgi,gohwi->yxgo", grouped, weights, optimize=True).reshape(out_h, out_w, -1))


# ------------------------------------------------------------------------------------------ kernel level


@dataclass(frozen=True)
class Conv2dParams(ConvParams):
    """Shapes and the constants of the requantization; shared by conv2d_s8 and depthwise_s8."""

    in_zero_point: int = i32("what padding holds, -128..127")
    shift: int = i32("of the requantization, 1..32")
    out_zero_point: int = i32("-128..127")
    lo: int = i32("smallest output, the fused activation included")
    hi: int = i32("largest output")


def _params(
    window: Window, group: int, x: Shape, y: Shape, xq: QType, yq: QType, k: LinearConstants, attrs: Mapping[str, Any]
) -> Conv2dParams:
    lo, hi = clamp_limits(yq, attrs)
    return Conv2dParams(
        *as_hwc(x), *as_hwc(y), *window.kernel, *window.strides, *window.dilations, *window.pads[:2],
        group, xq.zero_point[0], k.requant.shift, yq.zero_point[0], lo, hi,
    )  # fmt: skip


def window_of(p: Any) -> Window:
    """The window back from params; the padding at the end is what the output size implies."""
    bottom = max(0, (p.out_h - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1 - p.in_h - p.pad_top)
    right = max(0, (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1 - p.in_w - p.pad_left)
    return Window(
        (p.kernel_h, p.kernel_w),
        (p.stride_h, p.stride_w),
        (p.dilation_h, p.dilation_w),
        (p.pad_top, p.pad_left, bottom, right),
    )


class _Conv2dBase(KernelOp):
    params = Conv2dParams
    constants = {"weights": "int8_t", "bias": "int32_t", "multiplier": "int32_t"}

    def rows(self, p: Conv2dParams) -> int:
        return p.out_h

    def row_bytes(self, p: Conv2dParams) -> tuple[tuple[int, ...], int]:
        return (p.in_w * p.in_c,), p.out_w * p.out_c

    def needs(self, p: Conv2dParams, y: int) -> tuple[range, ...]:
        return (window_of(p).rows(y, p.in_h),)

    def int_ref(self, p: Conv2dParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.in_c)
        weights = constants["weights"].astype(np.int64)
        if "weight_zero_point" in constants:
            weights = self.less_zero_point(weights, constants["weight_zero_point"])
        acc = self.accumulate(p, x, weights) + constants["bias"]
        q = fixedpoint.Requant(tuple(constants["multiplier"].tolist()), p.shift, self.requantization)
        return fixedpoint.requantize(acc, q, p.out_zero_point, p.lo, p.hi)

    def accumulate(self, p: Conv2dParams, x: Array, weights: Array) -> Array:
        raise NotImplementedError

    def less_zero_point(self, weights: Array, zero_point: Array) -> Array:
        raise NotImplementedError


# Convolution by dsp kernels: windows become int16 columns (runtime_c/kernels/conv2d_s8_dsp.c).

DSP_TILE_BYTES, DSP_TILE_MAX = 2048, 16


@dataclass(frozen=True)
class _Columns:
    """conv2d_s8_dsp_shape_of: the window of one group as `runs` runs of `run` bytes, `steps` words in all."""

    runs: int
    run: int
    steps: int
    tile: int

    @classmethod
    def of(cls, p: Conv2dParams, most: int = DSP_TILE_MAX) -> _Columns:
        depth = p.in_c // p.groups
        together = p.groups == 1 and (p.dilation_w == 1 or p.kernel_w == 1)
        runs, run = (p.kernel_h, p.kernel_w * depth) if together else (p.kernel_h * p.kernel_w, depth)
        steps = runs * dsp.words(run)
        tile = DSP_TILE_BYTES // (4 * steps) & ~1
        return cls(runs, run, steps, min(max(tile, 2), most))

    def order(self) -> list[int]:
        """Which element of the window each half-word of a column holds; -1: none."""
        one = dsp.run_order(self.run)
        return [-1 if i < 0 else r * self.run + i for r in range(self.runs) for i in one]


def _dsp_scratch(p: Conv2dParams, most: int = DSP_TILE_MAX) -> int:
    c = _Columns.of(p, most)
    return 4 * most + (c.run + 3 & ~3) + c.tile * c.steps * 4


def _dsp_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: fixedpoint.Mode) -> Mapping[str, Array]:
    order = _Columns.of(p).order()
    groups = [(w.reshape(len(w), -1), b, m) for w, b, m in dsp.grouped(constants, p.groups)]
    return {"stream": np.concatenate([dsp.gemm_stream(*group, order, p, mode=mode) for group in groups])}


def _wide_arrange(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    order = _Columns.of(p).order()
    groups = [(w.reshape(len(w), -1), b, m) for w, b, m in dsp.grouped(constants, p.groups)]
    return {"stream": np.concatenate([dsp.gemm_stream(*group, order, p, dsp.wide_block) for group in groups])}


_GEMM_LAW_CYCLES: Mapping[fixedpoint.Mode, int] = {"default": 0, "onnx": 115, "glow": 60, "tflite": 60}
"""More for each eight outputs."""


def _dsp_cost(
    node: Node, target: Target, step: int = 15, most: int = DSP_TILE_MAX, mode: fixedpoint.Mode = "default"
) -> Cost:
    p, c = node.params, _Columns.of(node.params, most)
    pixels, blocks = p.out_h * p.out_w, -(-(p.out_c // p.groups) // 4)
    unaligned = 85 if c.run % 4 else 0  # copied first
    column = 3.2 * c.steps + (30 + unaligned) * c.runs + 45
    block = 68 + _GEMM_LAW_CYCLES[mode] + step * c.steps + 4 * -(-c.steps // 8)
    if p.groups > 1:  # tiles end with a row
        tiles, pairs = p.out_h * -(-p.out_w // c.tile), p.out_h * -(-p.out_w // 2)
        return Cost(p.groups * (pixels * column + blocks * (pairs * block + 20 * tiles) + 180 * tiles), 2300)
    return Cost(pixels * column + blocks * (-(-pixels // 2) * block + 20 * pixels / c.tile), 2300)


def _columns(most: int = DSP_TILE_MAX, mode: fixedpoint.Mode = "default") -> Kernel:
    """With columns of at most so many pixels at a time, in one law."""
    fewer = most < DSP_TILE_MAX
    numbers = {**({"TILE": most} if fewer else {}), **law_number(mode)}
    return Kernel(
        f"ge_conv2d{most if fewer else ''}_s8_dsp",
        isa="dsp",
        when=lambda n, t: (
            dsp.why_not(n, mode)
            or ("it needs no less scratch" if fewer and _Columns.of(n.params).tile <= most else None)
        ),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _dsp_arrange(constants, p, mode),
        instance=(lambda p: numbers) if numbers else None,
        scratch=lambda p: _dsp_scratch(p, most),
        cost=lambda n, t: _dsp_cost(n, t, most=most, mode=mode),
        store="rows",
        template="ge_conv2d_s8_dsp" if fewer else "",
    )


# Convolution by dsp kernels from a strip of rows (runtime_c/ge_isa_dsp_strip.h), `wide` pixels at a time.

DSP_STRIP_ROWS = 8

WHOLE = 0
"""Whole rows of windows, and as many pixels of 1x1 as DSP_TILE_BYTES hold."""


def _strip_instance(p: Conv2dParams, wide: int = WHOLE, mode: fixedpoint.Mode = "default") -> Mapping[str, int]:
    taps = p.kernel_h * p.kernel_w
    step = 1 if taps == 1 else p.stride_w
    rows = 1 if taps == 1 else p.stride_h
    channels = p.in_c + (p.in_c % 2 if step * rows % 2 or step * p.kernel_h % 2 else 0)
    channels += 2 if channels % 4 == 2 and p.in_c % 2 else 0
    steps = (taps * channels + 1) // 2
    points = min(max(DSP_TILE_BYTES // (2 * channels) & ~1, 2), DSP_TILE_MAX)
    return {
        "PIXEL": 2 * channels * p.kernel_h * step,
        "STEPS": steps,
        "CHANNELS": channels,
        "UNROLL": dsp.unroll(steps - 1),
        "DOWN": 8 - dsp.up_of(p, mode),
        "TILE": wide if wide or taps > 1 else points,
        **law_number(mode),
    }


def _strip_scratch(p: Conv2dParams, wide: int = WHOLE) -> int:
    c = _strip_instance(p, wide)
    if p.kernel_h * p.kernel_w == 1:
        return min(c["TILE"], p.out_h * p.out_w + 1 & ~1) * c["PIXEL"]
    pixels = min(wide or p.out_w, p.out_w)
    kept = pixels == p.out_w and p.stride_h < p.kernel_h
    creep = (min(DSP_STRIP_ROWS, p.out_h) - 1) * p.stride_h * 2 * c["CHANNELS"] if kept else 0
    columns = ((pixels - 1) * p.stride_w + p.kernel_w) * p.kernel_h * 2 * c["CHANNELS"]
    return creep + max(columns, ((pixels + 1 & ~1) - 1) * c["PIXEL"] + 4 * c["STEPS"])


def _strip_why_not(node: Node, wide: int = WHOLE, mode: fixedpoint.Mode = "default") -> str | None:
    p: Conv2dParams = node.params
    if p.groups > 1 or p.out_c < 4:
        return "it takes 4 output channels and more, in one group"
    if (p.dilation_h > 1 and p.kernel_h > 1) or (p.dilation_w > 1 and p.kernel_w > 1):
        return "the taps do not touch"
    if p.kernel_h * p.kernel_w == 1 and (p.pad_top or p.pad_left or (p.out_w - 1) * p.stride_w >= p.in_w):
        return "a window of one tap lies in padding"
    if p.kernel_h * p.kernel_w == 1 and (p.out_h - 1) * p.stride_h >= p.in_h:
        return "a window of one tap lies in padding"
    c = _strip_instance(p)
    if c["PIXEL"] > 4092 or c["STEPS"] > 8000 or abs(2 * c["PIXEL"] - 4 * c["STEPS"]) > 4095:
        return "a window is too large"
    if wide and _strip_scratch(p, wide) >= _strip_scratch(p):
        return "it needs no less scratch"
    return dsp.why_not(node, mode)


def _strip_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: fixedpoint.Mode) -> Mapping[str, Array]:
    c = _strip_instance(p)
    order: list[int] = []
    for tap in range(p.kernel_h * p.kernel_w):
        kx, ky = divmod(tap, p.kernel_h)
        first = (ky * p.kernel_w + kx) * p.in_c
        channels = dsp.run_order(c["CHANNELS"]) if c["CHANNELS"] % 4 == 0 else range(c["CHANNELS"])
        order += [first + k if k < p.in_c else -1 for k in channels]
    order += [-1] * (2 * c["STEPS"] - len(order))
    weights = constants["weights"].reshape(p.out_c, -1)
    return {"stream": dsp.gemm_stream(weights, constants["bias"], constants["multiplier"], order, p, mode=mode)}


def _strip_expand(p: Conv2dParams) -> float:
    """Cycles for one pixel to become int16."""
    if p.in_c % 4:
        return 12 + 6 * p.in_c
    return (
        1.6 * p.in_c if p.kernel_h * p.kernel_w == 1 and p.stride_w == 1 else 6 + (2.3 if p.in_c % 16 else 1.5) * p.in_c
    )


def _strip_code(instance: Mapping[str, int]) -> tuple[int, int]:
    """Bytes of an instance, and of what all share."""
    return 420 + 56 * (instance["UNROLL"] if instance["STEPS"] > 1 else 0), 1450


_STRIP_LAW_CYCLES: Mapping[fixedpoint.Mode, int] = {"default": 0, "onnx": 87, "glow": 33, "tflite": 33}
"""More for each eight outputs."""


def _strip_rows_cost(
    node: Node, target: Target, rows: int, wide: int = WHOLE, mode: fixedpoint.Mode = "default"
) -> float:
    """Of 1x1, some of the rows are taken one by one. Windows: each call expands the rows under its first windows again,
    and parts of a row expand all of their rows and the columns where they meet.
    """
    p: Conv2dParams = node.params
    c, groups = _strip_instance(p, wide), -(-p.out_c // 4)
    end = 55 + (4 if dsp.up_of(p, mode) else 0) + _STRIP_LAW_CYCLES[mode]
    block = end + 15 * c["STEPS"] + dsp.turns(c["STEPS"] - 1, c["UNROLL"])
    if p.kernel_h * p.kernel_w == 1:
        runs, pixels = (1, p.out_h * p.out_w) if rows == p.out_h else (rows, p.out_w)
        lists = -(-pixels // c["TILE"]) * (60 + 16 * groups)
        return float(runs * (-(-pixels // 2) * groups * block + lists + pixels * _strip_expand(p)))
    width = min(wide or p.out_w, p.out_w)
    parts = -(-p.out_w // width)
    again = parts > 1 or p.stride_h >= p.kernel_h
    columns = (width - 1) * p.stride_w + p.kernel_w
    expanded = rows * p.kernel_h if again else rows * p.stride_h * 1.1 + p.kernel_h - p.stride_h
    pairs = (parts - 1) * -(-width // 2) + -(-(p.out_w - (parts - 1) * width) // 2)
    return float(
        rows * pairs * groups * block
        + rows * parts * (100 + 16 * groups)
        + parts * columns * expanded * _strip_expand(p)
    )


def _strip_store(p: Conv2dParams) -> Store:
    """Of 1x1, pixels are in scratch before those of the output are written."""
    same = p.kernel_h * p.kernel_w == 1 and p.stride_h == p.stride_w == 1 and p.in_c == p.out_c
    return "elements" if same else "rows"


def _strip(wide: int = WHOLE, mode: fixedpoint.Mode = "default") -> Kernel:
    return Kernel(
        f"ge_conv2d_strip{wide or ''}_s8_dsp",
        isa="dsp",
        when=lambda n, t: _strip_why_not(n, wide, mode),
        constants={"stream": "uint32_t"},
        arrange=lambda constants, p: _strip_arrange(constants, p, mode),
        instance=lambda p: _strip_instance(p, wide, mode),
        scratch=lambda p: _strip_scratch(p, wide),
        cost=lambda n, t: Cost(
            _strip_rows_cost(n, t, n.params.out_h, wide, mode), *_strip_code(_strip_instance(n.params))
        ),
        store=_strip_store,
        rows_cost=lambda n, t, rows: _strip_rows_cost(n, t, rows, wide, mode),
        template="ge_conv2d_strip_s8_dsp" if wide else "",
    )


def _laws_why_not(node: Node, target: Target) -> str | None:
    p = node.params
    if p.groups > 1:
        return f"{p.groups} groups"
    return "the taps of a row do not touch" if p.dilation_w > 1 and p.kernel_w > 1 else None


def _laws_cost(node: Node, target: Target) -> Cost:
    """Two channels at a time, row of taps by row; the law costs most in each output."""
    p = node.params
    pairs = p.out_h * p.out_w * -(-p.out_c // 2)
    return Cost(2.0 * node.macs + pairs * (110.0 + 55.0 * p.kernel_h), 900)


CONV2D_LAWS = Kernel(
    "ge_conv2d_laws_s8_dsp",
    isa="dsp",
    when=_laws_why_not,
    scratch=lambda p: p.kernel_w * p.in_c,
    cost=_laws_cost,
    store="rows",
)
"""For the laws of others, where the strip refuses: scales of 1/2 and more, large sums, taps that do not touch down."""


class Conv2dS8(_Conv2dBase):
    """Weights [O, kh, kw, C/groups]. The sums are below 2^31, so float64 matrix products are exact."""

    name = "conv2d_s8"
    kernels: tuple[Kernel, ...] = (
        Kernel("ge_conv2d_s8", cost=portable.windowed("conv2d_s8", 8.0, 770), store="rows"),
        mve.conv3x3("default"),
        *threes.CONV2D,
        *plain.CONV2D,
        mve.conv2d("default"),
        x86.CONV2D,
        *(_columns(most) for most in (DSP_TILE_MAX, 2)),
        Kernel(
            "ge_conv2d_wide_s8_dsp",
            isa="dsp",
            when=lambda n, t: dsp.why_not_wide(n),
            constants={"stream": "uint32_t"},
            arrange=_wide_arrange,
            scratch=_dsp_scratch,
            cost=lambda n, t: _dsp_cost(n, t, 18),
            store="rows",
        ),
        *(_strip(wide) for wide in (WHOLE, 8, 2)),
        dsp_direct.KERNEL,
        winograd.KERNEL,
        polynomial.ONE_TAP,
        polynomial.few(),
        polynomial.few(least=True),
        *dsp_block.CONV2D,
    )

    def accumulate(self, p: Conv2dParams, x: Array, weights: Array) -> Array:
        return _accumulate(window_of(p), x, weights, p.groups, p.in_zero_point, np.float64).astype(np.int64)

    def less_zero_point(self, weights: Array, zero_point: Array) -> Array:
        return weights - zero_point[:, None, None, None]


# Depthwise 3x3 by dsp kernels: four channels at a time along lines of pixel pairs (runtime_c/ge_dsp_depthwise.h).


def _depthwise_down(p: Conv2dParams) -> int:
    """1 where lines should be columns: the axis that wastes less at the ends of its lines, each about three outputs."""
    along, down = p.out_h * (p.out_w + 3), p.out_w * (p.out_h + 3)
    return int(down < along and p.out_h <= 64 and p.out_w * p.out_c < 1024)


def _depthwise_instance(p: Conv2dParams, mode: fixedpoint.Mode) -> Mapping[str, int]:
    down = _depthwise_down(p)
    step = p.out_w * p.out_c if down else p.out_c
    return {"STEP": step, "DOWN": down, "STRIDE": p.stride_h, **law_number(mode)}


def _depthwise_pairs(p: Conv2dParams) -> int:
    length, stride = (p.out_h, p.stride_h) if _depthwise_down(p) else (p.out_w, p.stride_w)
    return ((length - 1) * stride + 4) // 2


def _depthwise_why_not(node: Node, mode: fixedpoint.Mode) -> str | None:
    p: Conv2dParams = node.params
    if (p.kernel_h, p.kernel_w, p.dilation_h, p.dilation_w) != (3, 3, 1, 1):
        return "the window is not 3x3"
    if p.stride_h != p.stride_w or p.stride_h > 2:
        return "the stride is not 1 or 2"
    return _depthwise_any_why_not(node, mode)


def _depthwise_any_why_not(node: Node, mode: fixedpoint.Mode = "default") -> str | None:
    p: Conv2dParams = node.params
    if p.in_c != p.out_c or not 4 <= p.out_c <= 1023:
        return "it takes 4..1023 channels in and as many out"
    return _depthwise_sums_why_not(node, mode)


def _depthwise_sums_why_not(node: Node, mode: fixedpoint.Mode = "default") -> str | None:
    p: Conv2dParams = node.params
    bound = dsp.bounds_of(node, axis=(0, 1))
    if (reason := dsp.law_why_not(node, mode, bound)) is not None:
        return reason
    if bound.max() << dsp.up_of(p, mode) >= 2**31:
        return f"the sum of channel {int(bound.argmax())} is too large for the shift of the requantization"
    return None


def _depthwise_arrange(constants: Mapping[str, Array], p: Conv2dParams, mode: fixedpoint.Mode) -> Mapping[str, Array]:
    """For each channel: bias, multiplier, three words of weights, then what else the law has."""
    taps = constants["weights"].transpose((1, 0, 2) if _depthwise_down(p) else (0, 1, 2))
    law = dsp.law_words(constants["multiplier"], p, mode)
    packed = np.zeros((p.out_c, 4 + law.shape[1]), np.int32)
    packed[:, 0], packed[:, 1], packed[:, 5:] = constants["bias"], law[:, 0], law[:, 1:]
    bytes_ = packed[:, 2:5].copy().view(np.int8).reshape(p.out_c, 3, 4)
    bytes_[:, :, :3] = taps.transpose(2, 0, 1)
    packed[:, 2:5] = bytes_.reshape(p.out_c, 12).view(np.int32)
    order = [c for start in dsp.block_starts(p.out_c) for c in range(start, start + 4)]
    return {"stream": packed[order].reshape(-1)}


def _depthwise_any_arrange(constants: Mapping[str, Array], p: Conv2dParams) -> Mapping[str, Array]:
    """For each four channels: bias 0 2 1 3, multipliers, for each tap (w0, w2) and (w1, w3) as int16."""
    up = 32 - p.shift
    index = np.asarray([range(s, s + 4) for s in dsp.block_starts(p.out_c)])
    weights = constants["weights"].reshape(-1, p.out_c)[:, index].astype(np.int64) << up
    taps = (weights[..., :2] & 0xFFFF) | ((weights[..., 2:] & 0xFFFF) << 16)
    bias = (constants["bias"].astype(np.int64) << up)[index][:, [0, 2, 1, 3]]
    blocks = [bias, constants["multiplier"].astype(np.int64)[index], taps.transpose(1, 0, 2).reshape(len(index), -1)]
    return {"stream": (np.concatenate(blocks, axis=1) & 0xFFFFFFFF).astype(np.uint32).reshape(-1)}


def _depthwise_any_cost(node: Node, target: Target) -> Cost:
    p: Conv2dParams = node.params
    outputs = p.out_h * p.out_w * -(-p.out_c // 4)
    return Cost(outputs * (110 + p.kernel_h * (25 + 13 * p.kernel_w)) + 80 * p.out_h * p.out_w, 1420)


_DEPTHWISE_LAW_CYCLES: Mapping[fixedpoint.Mode, float] = {"default": 0.0, "glow": 3.8, "tflite": 3.3}
"""More for each output."""


def _depthwise_lines_cost(p: Conv2dParams, lines: int, length: int, mode: fixedpoint.Mode) -> float:
    """Of four channels: `lines` lines of outputs, each of them `length` long; inputs are packed once."""
    channel, output = (41, 14.25) if p.stride_h == 1 else (50, 15.5)
    packed = 35 + 15 * ((length - 1) * p.stride_h + 4) // 2
    return lines * (4 * (channel + (output + _DEPTHWISE_LAW_CYCLES[mode]) * length) + 60 + p.stride_h * packed) + 400


def _depthwise_cost(node: Node, target: Target, mode: fixedpoint.Mode = "default") -> Cost:
    p: Conv2dParams = node.params
    down = _depthwise_down(p)
    lines, length = (p.out_w, p.out_h) if down else (p.out_h, p.out_w)
    code = 1250 + 800 * down - (300 if p.stride_h == 2 else 0)
    return Cost(-(-p.out_c // 4) * _depthwise_lines_cost(p, lines, length, mode), code, 400)


def _depthwise_rows_cost(node: Node, target: Target, rows: int, mode: fixedpoint.Mode) -> float:
    """Lines that go down are one row long when rows lie in slots: the kernel begins anew with each."""
    p: Conv2dParams = node.params
    if rows == p.out_h:
        return _depthwise_cost(node, target, mode).cycles
    lines, length, times = (p.out_w, 1, rows) if _depthwise_down(p) else (rows, p.out_w, 1)
    return times * -(-p.out_c // 4) * _depthwise_lines_cost(p, lines, length, mode)


def _depthwise_same_place(p: Conv2dParams) -> bool:
    """Three lines of four channels are in scratch before the first of them is written."""
    return p.stride_h == p.stride_w == 1 and (p.in_h, p.in_w) == (p.out_h, p.out_w) and p.out_c % 4 == 0


def _depthwise3x3(mode: fixedpoint.Mode = "default") -> Kernel:
    taps = 192 if mode == "default" else 224
    return Kernel(
        "ge_depthwise3x3_s8_dsp",
        isa="dsp",
        when=lambda n, t: _depthwise_why_not(n, mode),
        constants={"stream": "int32_t"},
        arrange=lambda constants, p: _depthwise_arrange(constants, p, mode),
        instance=lambda p: _depthwise_instance(p, mode),
        scratch=lambda p: taps + 48 * _depthwise_pairs(p),
        cost=lambda n, t: _depthwise_cost(n, t, mode),
        rows_cost=lambda n, t, rows: _depthwise_rows_cost(n, t, rows, mode),
        same_place=_depthwise_same_place,
    )


class DepthwiseS8(_Conv2dBase):
    """Weights [kh, kw, O]: output channel o reads input channel o / (out_c / in_c)."""

    name = "depthwise_s8"
    kernels: tuple[Kernel, ...] = (
        Kernel("ge_depthwise_s8", cost=portable.windowed("depthwise_s8", 12.0, 570), store="rows"),
        *threes.DEPTHWISE,
        *plain.DEPTHWISE,
        Kernel(
            "ge_depthwise_s8_dsp",
            isa="dsp",
            when=lambda n, t: _depthwise_any_why_not(n),
            constants={"stream": "uint32_t"},
            arrange=_depthwise_any_arrange,
            cost=_depthwise_any_cost,
            store="rows",
        ),
        _depthwise3x3(),
        dsp_depthwise.rows_kernel(_depthwise_sums_why_not),
        dsp_depthwise.window_kernel(_depthwise_sums_why_not),
        *dsp_block.depthwise(_depthwise_sums_why_not),
        mve.depthwise("default"),
        mve.depthwise3x3("default"),
        x86.DEPTHWISE,
    )

    def accumulate(self, p: Conv2dParams, x: Array, weights: Array) -> Array:
        views = np.repeat(window_of(p).views(x.astype(np.int64), p.in_zero_point), p.out_c // p.in_c, axis=4)
        return np.asarray(np.einsum("yxhwo,hwo->yxo", views, weights.astype(np.int64)))

    def less_zero_point(self, weights: Array, zero_point: Array) -> Array:
        return weights - zero_point


ASYMMETRIC = {**_Conv2dBase.constants, "weight_zero_point": "int32_t"}


class Conv2dAwS8(Conv2dS8):
    """Asymmetric weights: their zero point per output channel is subtracted on the way."""

    name = "conv2d_aw_s8"
    constants = ASYMMETRIC
    kernels = (Kernel("ge_conv2d_aw_s8", cost=lambda n, t: Cost(10.0 * n.macs, 760), store="rows"),)


class DepthwiseAwS8(DepthwiseS8):
    """Asymmetric weights."""

    name = "depthwise_aw_s8"
    constants = ASYMMETRIC
    kernels = (Kernel("ge_depthwise_aw_s8", cost=lambda n, t: Cost(14.0 * n.macs, 640), store="rows"),)


OPS = (Conv(),)


def _conv2d_of_law(mode: fixedpoint.Mode) -> list[Kernel]:
    strips = [_strip(wide, mode) for wide in (WHOLE, 8, 2)]
    columns = [_columns(most, mode) for most in (DSP_TILE_MAX, 2)]
    return [
        *columns,
        *strips,
        *(polynomial.few(mode, least) for least in (False, True)),
        mve.conv2d(mode),
        mve.conv3x3(mode),
    ]


def _depthwise_of_law(mode: fixedpoint.Mode) -> list[Kernel]:
    kept = [] if mode == "onnx" else [_depthwise3x3(mode), dsp_depthwise.rows_kernel(_depthwise_sums_why_not, mode)]
    return [
        *kept,
        dsp_depthwise.window_kernel(_depthwise_sums_why_not, mode),
        mve.depthwise(mode),
        mve.depthwise3x3(mode),
    ]


KERNEL_OPS = (
    *in_all_modes(Conv2dS8(), CONV2D_LAWS, of_law=_conv2d_of_law),
    *in_all_modes(DepthwiseS8(), of_law=_depthwise_of_law),
    *(twin for op in (Conv2dAwS8(), DepthwiseAwS8()) for twin in in_all_modes(op)),
)
