"""The fixed-point law of spectra: window, Fourier transform, magnitude or power, bands, logarithm. features.c gives the
same numbers.

In: frames of int16 samples, [frames, samples]. Out: int64 arrays with the same numbers as in C, where they have 32 bits
unless stated otherwise. Every right shift rounds down. A frame has N samples, a power of two; zeros follow the window.
The steps are:

    h     = the redundant sign bits of all samples of the frame together, at most 14
    z[n]  = (w[2n] x[2n] >> 16) + j (w[2n+1] x[2n+1] >> 16)    N/2 complex numbers; w has `window_bits` + 16 fractional bits
    stage 1: transforms of 4 (or of 2, if N/2 is no power of 4) over z[n], z[n + N/8] ..., exact, then << h
    stages of 4: (a >> 2) and three rotated numbers; a rotation by w is ((re * w) >> 32) with w of 30 bits, so it divides by 4
    X[k]  = (E >> 1) + rotated(O),  X[N/2 - k] = (E >> 1) - rotated(O)    with E, O from z[k], z[N/2 - k], halved before the addition

Where a product is subtracted, its negative is rounded down. X is the spectrum of the samples times 2^(window_bits + h) * radix / N. Every number fits in int32 (`window_bits`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HEADROOM_MAX = 14
"""The most bits by which a quiet frame is shifted up."""

POWER_SHIFT = 16
"""A power has 62 bits, of which the upper 46 are kept."""

LOG_BITS = 16
"""Fractional bits of a logarithm to base 2."""

RAMP_BITS = 15
"""Fractional bits of the share of a bin in the band above it."""


def radix(points: int) -> int:
    """The size of the first transforms: 4, or 2 if half of the points is not a power of 4."""
    return 4 if (points // 2).bit_length() % 2 else 2


def window_bits(window: Floats, points: int) -> int:
    """The fractional bits of windowed samples, 14 or 13, chosen so that the sums of the first stage have a modulus below 0.98 *
    2^31.
    """
    padded = np.zeros(points)
    padded[: len(window)] = window
    pairs = np.maximum(padded[0::2], padded[1::2]).reshape(radix(points), -1)
    return 14 if float(pairs.sum(axis=0).max()) * 2**0.5 * 2**29 < 0.98 * 2**31 else 13


def stored_window(window: Floats, points: int) -> NDArray[np.int32]:
    """The window as integers, with zeros up to the number of points."""
    stored = np.zeros(points, np.int32)
    stored[: len(window)] = np.rint(window * 2.0 ** (window_bits(window, points) + 16))
    return stored


def order(points: int) -> NDArray[np.uint16]:
    """For each transform of the first stage, the number of its first input, by reversed base-4 digits."""
    groups = points // 2 // radix(points)
    digits = (groups.bit_length() - 1) // 2
    found, rest = np.zeros(groups, np.int64), np.arange(groups)
    for _ in range(digits):
        found, rest = found * 4 + rest % 4, rest // 4
    return found.astype(np.uint16)


def turns(points: int) -> NDArray[np.int32]:
    """Cosines and sines of the rotations in the last stage, three for each k, and then of those that split the
    spectrum.

    The former have 30 fractional bits, and the sine of a clockwise rotation is positive; the latter have 31, and it is
    negative.
    """
    half = points // 2
    angles = 2 * np.pi * np.outer(np.arange(half // 4), (1, 2, 3)) / half
    stage = np.rint(2.0**30 * np.stack([np.cos(angles), np.sin(angles)], axis=-1))
    angles = 2 * np.pi * np.arange(1, half // 2 + 1) / points
    split = np.rint(2.0**31 * np.stack([np.cos(angles), -np.sin(angles)], axis=-1))
    both: Floats = np.concatenate([stage.reshape(-1), split.reshape(-1)])
    return np.minimum(both, 2**31 - 1).astype(np.int32)


def logs() -> NDArray[np.uint16]:
    """log2(1 + i/64) with 16 fractional bits; the last is one unit short of 1."""
    return np.minimum(np.rint(2.0**16 * np.log2(1 + np.arange(65) / 64)), 2**16 - 1).astype(np.uint16)


def roots() -> NDArray[np.uint16]:
    """sqrt(i/256) for i = 64..256 with 16 fractional bits; the last is one unit short of 1."""
    return np.minimum(np.rint(2.0**16 * np.sqrt(np.arange(64, 257) / 256)), 2**16 - 1).astype(np.uint16)


def headroom(frames: NDArray[np.int16]) -> Ints:
    """h of each frame: the number of redundant sign bits, at most HEADROOM_MAX."""
    signs = np.bitwise_or.reduce((frames ^ (frames >> 15)).astype(np.int64), axis=1)
    return np.minimum(15 - _bit_length(signs), HEADROOM_MAX)


def spectrum(frames: NDArray[np.int16], window: NDArray[np.int32], table: NDArray[np.int32]) -> tuple[Ints, Ints, Ints]:
    """Real and imaginary parts of bins 0..N/2, and h. table: the result of `turns`."""
    points, h = len(window), headroom(frames)
    raw = np.zeros((len(frames), points), np.int64)
    raw[:, : frames.shape[1]] = frames
    raw = (raw * window) >> 16
    re, im = _first_stage(raw[:, 0::2], raw[:, 1::2], h[:, None])
    stage, split = np.split(table.astype(np.int64), [points // 8 * 6])
    size, half = radix(points), points // 2
    while size < half:
        re, im = _stage_of_4(re, im, size, stage.reshape(-1, 3, 2)[:: half // 4 // size])
        size *= 4
    return (*_split(re, im, split.reshape(-1, 2)), h)


def _first_stage(re: Ints, im: Ints, h: Ints) -> tuple[Ints, Ints]:
    """The first transforms, of 4 or 2 numbers each; the numbers come in reversed order."""
    points = 2 * re.shape[1]
    size, places = radix(points), order(points).astype(np.int64)
    parts = [(re[:, places + j * len(places)], im[:, places + j * len(places)]) for j in range(size)]
    if size == 2:
        (ar, ai), (br, bi) = parts
        return _laid([ar + br, ar - br]) << h, _laid([ai + bi, ai - bi]) << h
    real, imaginary = _butterfly(parts)
    return _laid(real) << h, _laid(imaginary) << h


def _laid(parts: list[Ints]) -> Ints:
    """The outputs of each transform next to each other."""
    stacked = np.stack(parts, axis=-1)
    return stacked.reshape(len(stacked), -1)


def _butterfly(parts: list[tuple[Ints, Ints]]) -> tuple[list[Ints], list[Ints]]:
    """The transform of four complex numbers."""
    (ar, ai), (br, bi), (cr, ci), (dr, di) = parts
    real = [ar + br + cr + dr, ar - cr + bi - di, ar - br + cr - dr, ar - cr - bi + di]
    imaginary = [ai + bi + ci + di, ai - ci - br + dr, ai - bi + ci - di, ai - ci + br - dr]
    return real, imaginary


def _stage_of_4(re: Ints, im: Ints, size: int, table: Ints) -> tuple[Ints, Ints]:
    """Combine transforms of `size` numbers into transforms of 4 * size. table: [size, 3, 2]."""
    re, im = re.reshape(len(re), -1, 4, size), im.reshape(len(im), -1, 4, size)
    parts = [(re[:, :, 0] >> 2, im[:, :, 0] >> 2)]
    for i in range(1, 4):
        r, j, cosine, sine = re[:, :, i], im[:, :, i], table[:, i - 1, 0], table[:, i - 1, 1]
        parts.append(_rotated(r, j, cosine, sine))
    real, imaginary = _butterfly(parts)
    return tuple(np.stack(part, axis=2).reshape(len(re), -1) for part in (real, imaginary))  # type: ignore[return-value]


def _rotated(re: Ints, im: Ints, cosine: Ints, sine: Ints) -> tuple[Ints, Ints]:
    """The product of a complex number and (cosine - j sine), divided by 2^32."""
    return ((re * cosine) >> 32) + ((im * sine) >> 32), ((im * cosine) >> 32) + (-(re * sine) >> 32)


def _split(re: Ints, im: Ints, table: Ints) -> tuple[Ints, Ints]:
    """The spectrum of the real samples, from the transform of pairs of them."""
    half = re.shape[1]
    low = np.arange(1, half // 2 + 1)
    zr, zi, yr, yi = re[:, low] >> 1, im[:, low] >> 1, re[:, half - low] >> 1, im[:, half - low] >> 1
    er, ei, our, oi = zr + yr, zi - yi, zi + yi, yr - zr
    ti, tr = _rotated(oi, our, table[:, 0], table[:, 1])
    found = np.zeros((2, len(re), half + 1), np.int64)
    found[0, :, 0] = (re[:, 0] >> 1) + (im[:, 0] >> 1)
    found[0, :, half] = (re[:, 0] >> 1) - (im[:, 0] >> 1)
    found[:, :, half - low] = (er >> 1) - tr, (ei >> 1) - ti
    found[:, :, low] = (er >> 1) + tr, (ei >> 1) + ti
    return found[0], found[1]


def power(re: Ints, im: Ints) -> Ints:
    """The upper 46 bits of re^2 + im^2, which has 62."""
    return (re * re + im * im) >> POWER_SHIFT


def magnitude(re: Ints, im: Ints, table: NDArray[np.uint16]) -> Ints:
    """sqrt(re^2 + im^2), interpolated between the 193 entries of `table`, the result of `roots`; the relative error is
    below 1.5e-5. P = re^2 + im^2 is shifted left by an even number of bits, until its upper 32 bits are 2^30 or more.
    """
    p = (re * re + im * im).astype(np.uint64)
    e = (64 - _bit_length(p.astype(np.int64))) // 2 * 2
    t = ((p << np.minimum(e, 62).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
    i, rest, known = np.maximum((t >> 24) - 64, 0), (t >> 8) & 0xFFFF, table.astype(np.int64)
    root = (known[i] << 15) + (((known[i + 1] - known[i]) * rest) >> 1)
    return np.where(p == 0, 0, root >> np.maximum(e // 2 - 1, 0))


def bands(bins: Ints, counts: NDArray[np.uint16], ramps: NDArray[np.uint16]) -> Ints:
    """Triangular sums of bins, [frames, bins] to [frames, bands], with 15 fractional bits in int64. counts: the number
    of bins between one corner and the next.

    ramps: the share of each bin in the band whose middle is the next corner; the rest belongs to the band before.
    """
    ends = np.concatenate([[0], np.cumsum(counts.astype(np.int64))])
    shares, found = ramps.astype(np.int64), np.zeros((len(bins), len(counts) - 1), np.int64)
    for s, (begin, end) in enumerate(pairwise(ends)):
        part = bins[:, begin:end]
        rising = (part * shares[begin:end]).sum(axis=1)
        if s < len(counts) - 1:
            found[:, s] += rising
        if s:
            found[:, s - 1] += (part.sum(axis=1) << RAMP_BITS) - rising
    return found


def log2(x: Ints, table: NDArray[np.uint16]) -> Ints:
    """log2 of integers 1..2^63 - 1 with 16 fractional bits, interpolated between the 65 entries of `table`, the result
    of `logs`; the error is below 6e-5.
    """
    known = table.astype(np.int64)
    bits = _bit_length(x)
    t = np.where(bits > 32, x >> np.maximum(bits - 32, 0), x << np.maximum(32 - bits, 0))
    i, rest = (t >> 25) & 63, (t >> 9) & 0xFFFF
    found: Ints = ((bits - 1) << LOG_BITS) + known[i] + (((known[i + 1] - known[i]) * rest + 2**15) >> 16)
    return found


def _bit_length(x: NDArray[Any]) -> Ints:
    """The bit lengths of integers below 2^63."""
    found, rest = np.zeros(x.shape, np.int64), x.astype(np.int64)
    for bits in (32, 16, 8, 4, 2, 1):
        large = rest >> bits > 0
        found += np.where(large, bits, 0)
        rest = np.where(large, rest >> bits, rest)
    return found + (rest > 0)
