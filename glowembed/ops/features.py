"""The front end of an audio network, which turns frames of sound into spectra, mel bands or cosine coefficients.

`--frontend` puts the node before the network; no ONNX operator is imported as one. The input is sound as int16, which
stands for -1..1. The number of samples in a row divides both the length of a frame and the hop from frame to frame.
Kernel-level: features_s16_s8, features_s16_s16, features_s16_f32. law/spectrum.py defines the spectrum. For each frame,
with its headroom h:

    q = |X|, or |X|^2 >> 16                              of each bin, below 2^31 or 2^46
    b = q << 15, or the sum of q in a triangle           with 15 fractional bits, in 64 bits
    b + ((floor << g) >> floor_shift), at least 1        g = h for a magnitude, 2h for a power
    v = log2(b) - g                                      with 16 fractional bits; without a logarithm min(b >> (linear_shift + g), 2^31 - 1)
    v = (sum(cosine * v) + 2^14) >> 15                   of an mfcc, for each coefficient
    y = clamp((v * scale + offset) >> shift)             in 64 bits; offset has the zero point and half of 2^shift

In float32 the last line is float(v) * scale + offset, rounded after each operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Geometry, sliding
from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, Op
from glowembed.law import spectrum
from glowembed.ops.shared import bands as table
from glowembed.records import dataclass

SOUND = QType("int16", (1 / 32768,), (0,))
"""The type of sound."""

Floats = NDArray[np.float64]
FLOOR_BITS = 16
"""The most fractional bits of a floor value."""

LARGEST = {"magnitude": 48, "power": 34}
"""The most bits of a floor value that leave room for the headroom."""


class Features(Op):
    """y[frame] = the spectrum, mel bands or cosine coefficients of the samples from frame * hop on. attrs: those of a Frontend."""

    name = "Features"

    def input_type(self, index: int, dtype: str) -> QType | None:
        return SOUND

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        rows, step = shapes[0][1:]
        return ((1, (rows * step - attrs["window"]) // attrs["hop"] + 1, width(attrs)),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        sound = inputs[0].astype(np.float64).reshape(-1)
        frames = np.lib.stride_tricks.sliding_window_view(sound, attrs["window"])[:: attrs["hop"]]
        bins = np.abs(np.fft.rfft(frames * table.window(attrs), attrs["fft"], axis=1))
        bins = attrs["gain"] * (bins**2 if attrs["spectrum"] == "power" else bins)
        if attrs["kind"] != "spectrogram":
            found = table.bands(attrs)
            bins = bins[:, found.first : found.first + len(found.ramps)] @ found.weights * found.areas
        if attrs["log"] != "none":
            bins = np.log2(bins + _floor(attrs)) * table.per_octave(attrs)
        if attrs["kind"] == "mfcc":
            bins = bins @ table.cosines(attrs).T
        return ((bins * attrs["scale"] + attrs["offset"])[None].astype(np.float32),)

    def lower(self, node: Node, c: LowerContext) -> None:
        _lower(node, c)


def width(attrs: Mapping[str, Any]) -> int:
    """The number of features in a frame."""
    kinds = {"mfcc": attrs["coefficients"], "logmel": attrs["bands"]}
    return int(kinds.get(attrs["kind"], attrs["fft"] // 2 + 1))


def _unit(attrs: Mapping[str, Any]) -> float:
    """The integer that stands for 1 in a magnitude or power of a frame without headroom."""
    points = attrs["fft"]
    bits = spectrum.window_bits(table.window(attrs), points)
    unit: float = 32768.0 * 2.0**bits * spectrum.radix(points) / points
    return unit if attrs["spectrum"] == "magnitude" else unit * unit * 2.0**-spectrum.POWER_SHIFT


def _floor(attrs: Mapping[str, Any]) -> float:
    """The floor value, and at least the smallest number that the integers can distinguish from 0 in a quiet frame."""
    raised = spectrum.HEADROOM_MAX * (1 if attrs["spectrum"] == "magnitude" else 2)
    least = attrs["gain"] * 2.0 ** -(raised + spectrum.RAMP_BITS) / _unit(attrs)
    return float(max(attrs["floor"], least))


@dataclass(frozen=True)
class FeaturesParams:
    """The sizes of frames, transform and bands, and the numbers of the law."""

    rows: int = i32("frames")
    step: int = i32("samples of a row of the input")
    hop: int = i32("rows of the input from frame to frame")
    window: int = i32("samples of a frame")
    points: int = i32("of the transform, a power of two, 32..4096")
    first: int = i32("bin that is needed")
    bins: int = i32("that are needed")
    bands: int = i32("0: each bin is a band")
    coefficients: int = i32("of cosines; 0: none")
    power: int = i32("1: power, 0: magnitude")
    log: int = i32("1: logarithm, 0: none")
    linear_shift: int = i32("bits that a band loses without a logarithm")
    floor_shift: int = i32("fractional bits of the floor, 0..16")
    floor_step: int = i32("1: each band has a floor of its own, 0: all have the first")
    scale_step: int = i32("1: each feature has a scale and an offset of its own, 0: all have the first")
    shift: int = i32("of an output, 1..40")
    lo: int = i32("smallest output")
    hi: int = i32("largest output")

    @property
    def width(self) -> int:
        """The number of features in a frame."""
        return self.coefficients or self.bands or self.bins


def _lower(node: Node, c: LowerContext) -> None:
    a, x, y = node.attrs, node.inputs[0], node.outputs[0]
    step, yq, frames = c.shape(x)[2], c.value(y).qtype, c.shape(y)[1]
    params, constants = law(a, frames, step, yq, node.name)
    kind = "f32" if yq is None else {"int8": "s8", "int16": "s16"}[yq.dtype]
    macs = frames * (a["fft"] * a["fft"].bit_length() + params.bins)
    c.add(node, f"features_s16_{kind}", [x], y, params, constants, macs=macs)


def law(
    a: Mapping[str, Any], frames: int, step: int, yq: QType | None, name: str
) -> tuple[FeaturesParams, dict[str, Const]]:
    """The params and constants of a front end with this output type; None: float32. Raises UnsupportedModelError, which
    names the node, if its numbers are too large.
    """
    points, mel = a["fft"], a["kind"] != "spectrogram"
    found = table.bands(a) if mel else None
    first, bins = (found.first, len(found.ramps)) if found is not None else (0, points // 2 + 1)
    areas = found.areas if found is not None else np.ones(1)
    floors, floor_shift = _floors(a, areas, name)
    largest = _largest(a) * (float(found.weights.sum(axis=0).max()) if found is not None else 1.0)
    linear_shift = max(0, int(np.ceil(np.log2(largest))) + spectrum.RAMP_BITS - 31)
    factor, offset = _straight(a, areas, linear_shift)
    shift, steps = _steps(factor, offset, yq, name)
    one = [len(array) == 1 for array in (floors, steps["scale"])]
    params = FeaturesParams(
        frames, step, a["hop"] // step, a["window"], points, first, bins, a["bands"] if mel else 0,
        a["coefficients"] if a["kind"] == "mfcc" else 0, int(a["spectrum"] == "power"), int(a["log"] != "none"), linear_shift,
        floor_shift, int(not one[0]), int(not one[1]), shift, *(yq.limits if yq is not None else (0, 0)),
    )  # fmt: skip
    tables: dict[str, Array] = {
        "window": spectrum.stored_window(table.window(a), points),
        "turns": spectrum.turns(points),
        "order": spectrum.order(points),
        "bands": _stored_bands(found),
        "chords": np.concatenate([spectrum.logs(), spectrum.roots()]) if params.power == 0 else spectrum.logs(),
        "cosines": np.rint(2.0**15 * table.cosines(a)).astype(np.int16) if params.coefficients else np.zeros(1, np.int16),
        "floors": floors,
        **steps,
    }  # fmt: skip
    return params, {key: Const(array) for key, array in tables.items()}


def _stored_bands(found: table.Bands | None) -> Array:
    """The number of bins between the corners, then the ramps."""
    if found is None:
        return np.zeros(1, np.uint16)
    ramps = np.rint(2.0**spectrum.RAMP_BITS * found.ramps)
    return np.concatenate([found.counts, ramps]).astype(np.uint16)


def _largest(a: Mapping[str, Any]) -> float:
    """The largest value of a bin in a frame without headroom."""
    limit = float(np.abs(table.window(a)).sum())
    return _unit(a) * (limit**2 if a["spectrum"] == "power" else limit)


def _floors(a: Mapping[str, Any], areas: Floats, name: str) -> tuple[Array, int]:
    """The floor of each band, or the one of all bands, in the unit of the sums, and its fractional bits."""
    unit = 2.0**spectrum.RAMP_BITS * _unit(a) / a["gain"]
    floors = (_floor(a) if a["log"] != "none" else 0.0) * unit / areas
    room = 2.0 ** LARGEST[a["spectrum"]]
    if floors.max() >= room:
        raise UnsupportedModelError(
            f"{name}: a floor of {a['floor']:g} is too large for a spectrum with a gain of {a['gain']:g}: the most is"
            f" {a['floor'] * room / floors.max():.3g}"
        )
    shift = next(bits for bits in range(FLOOR_BITS, -1, -1) if floors.max() * 2.0**bits < room)
    stored = np.rint(floors * 2.0**shift).astype(np.int64)
    return (stored[:1] if (stored == stored[0]).all() else stored), shift


def _straight(a: Mapping[str, Any], areas: Floats, linear_shift: int) -> tuple[Floats, Floats]:
    """The features as factor * v + offset."""
    unit = 2.0**spectrum.RAMP_BITS * _unit(a)
    if a["log"] == "none":
        factor = a["gain"] * areas * 2.0**linear_shift / unit
        return factor * a["scale"], np.full(len(areas), a["offset"])
    steep = table.per_octave(a) * a["scale"]
    shifts = np.log2(a["gain"] * areas / unit)
    if a["kind"] == "mfcc":
        shifts = table.cosines(a) @ np.broadcast_to(shifts, a["bands"])
    return np.full(len(shifts), steep * 2.0**-spectrum.LOG_BITS), shifts * steep + a["offset"]


def _steps(factor: Floats, offset: Floats, yq: QType | None, name: str) -> tuple[int, dict[str, Array]]:
    """Scale and offset of each feature, or those of all features, and the shift."""
    if yq is not None:
        factor, offset = factor / yq.scale[0], offset / yq.scale[0] + yq.zero_point[0]
    if (factor == factor[0]).all() and (offset == offset[0]).all():
        factor, offset = factor[:1], offset[:1]
    if yq is None:
        return 0, {"scale": factor.astype(np.float32), "offset": offset.astype(np.float32)}
    steepest, highest = float(np.abs(factor).max()), float(np.abs(offset).max())
    fits = (bits for bits in range(40, 0, -1) if steepest * 2.0**bits < 2**30 and highest * 2.0**bits < 2**60)
    shift = next(fits, 0)
    if shift == 0:
        raise UnsupportedModelError(
            f"{name}: its features reach {highest:.3g} steps of {yq.scale[0]:g}, too many for integers: widen the range of its output in"
            " a precision.yaml, or calibrate with real sound"
        )
    stored = np.rint(offset * 2.0**shift).astype(np.int64) + (1 << (shift - 1))
    return shift, {"scale": np.rint(factor * 2.0**shift).astype(np.int32), "offset": stored}


def _needs(p: FeaturesParams, y: int) -> tuple[range, ...]:
    return (range(y * p.hop, y * p.hop + p.window // p.step),)


FRAMES = sliding(Geometry(lambda p: int(p.rows), lambda p: ((p.step,), p.width), _needs))
"""Each row of the output is a frame."""


def scratch(p: FeaturesParams) -> int:
    """Bytes for the transform, for the bands if cosine coefficients follow, and for the samples of a frame."""
    return 4 * (p.points + 2) + (4 * p.bands if p.coefficients else 0) + 2 * p.points


def _cost(node: Node, target: Any) -> Cost:
    p: FeaturesParams = node.params
    stages = p.points.bit_length() // 2
    cycles = p.points * (24.0 + 26.0 * stages) + p.bins * (60.0 if p.power == 0 else 20.0) + 90.0 * p.width
    return Cost(p.rows * (cycles + 12.0 * p.coefficients * p.bands), 2600)


CONSTANTS: Mapping[str, str] = {
    "window": "int32_t", "turns": "int32_t", "order": "uint16_t", "bands": "uint16_t", "chords": "uint16_t",
    "cosines": "int16_t", "floors": "int64_t", "scale": "int32_t", "offset": "int64_t",
}  # fmt: skip


class FeaturesS16S8(KernelOp[FeaturesParams]):
    """Sound to int8. Frames are independent of each other."""

    name, dtype = "features_s16_s8", "int8"
    params = FeaturesParams
    geometry = FRAMES
    element_bytes = (2, 1)
    constants = CONSTANTS
    kernels: tuple[Kernel, ...] = (
        Kernel("ge_features_s16_s8", template="ge_features", scratch=scratch, cost=_cost, store="rows"),
    )

    def int_ref(self, p: FeaturesParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        sound = inputs[0].reshape(-1)
        frames = np.lib.stride_tricks.sliding_window_view(sound, p.window)[:: p.hop * p.step][: p.rows]
        v = frame_numbers(p, frames, constants)
        return self.finished(p, v, constants["scale"], constants["offset"])

    def finished(self, p: FeaturesParams, v: NDArray[np.int64], scale: Array, offset: Array) -> Array:
        """Compute the last line of the law."""
        y = (v * scale.astype(np.int64) + offset) >> p.shift
        return np.asarray(np.clip(y, p.lo, p.hi).astype(self.dtype))


def frame_numbers(p: FeaturesParams, frames: NDArray[np.int16], constants: Mapping[str, Array]) -> NDArray[np.int64]:
    """The v of the law, for each frame and feature."""
    re, im, h = spectrum.spectrum(frames, constants["window"], constants["turns"])
    part, chords = slice(p.first, p.first + p.bins), constants["chords"]
    raised = (2 * h if p.power else h)[:, None]
    re, im = re[:, part], im[:, part]
    q = spectrum.power(re, im) if p.power else spectrum.magnitude(re, im, chords[65:])
    if p.bands:
        counts, ramps = np.split(constants["bands"], [p.bands + 1])
        b = spectrum.bands(q, counts, ramps)
    else:
        b = q << spectrum.RAMP_BITS
    b = np.maximum(b + ((constants["floors"] << raised) >> p.floor_shift), 1)
    if not p.log:
        return np.asarray(np.minimum(b >> (p.linear_shift + raised), 2**31 - 1))
    v = spectrum.log2(b, chords[:65]) - (raised << spectrum.LOG_BITS)
    if p.coefficients:
        cosines = constants["cosines"].reshape(p.coefficients, p.bands).astype(np.int64)
        return np.asarray((v @ cosines.T + 2**14) >> 15)
    return v


class FeaturesS16S16(FeaturesS16S8):
    """Sound to int16."""

    name, dtype = "features_s16_s16", "int16"
    element_bytes = (2, 2)
    kernels = (
        Kernel(
            "ge_features_s16_s16",
            template="ge_features",
            headers={"features_s8.h": "features_s16.h"},
            scratch=scratch,
            cost=_cost,
            store="rows",
        ),
    )


class FeaturesS16F32(FeaturesS16S8):
    """Sound to float32."""

    name = "features_s16_f32"
    element_bytes = (2, 4)
    constants = {**CONSTANTS, "scale": "float", "offset": "float"}
    kernels = (
        Kernel(
            "ge_features_s16_f32",
            template="ge_features",
            headers={"features_s8.h": "features_f32.h"},
            scratch=scratch,
            cost=_cost,
            store="rows",
        ),
    )

    def finished(self, p: FeaturesParams, v: NDArray[np.int64], scale: Array, offset: Array) -> Array:
        return v.astype(np.float32) * scale + offset


OPS = (Features(),)
LOWERINGS = {("Features", dtype): _lower for dtype in ("int16", "float32")}
KERNEL_OPS = (FeaturesS16S8(), FeaturesS16S16(), FeaturesS16F32())
