"""Fourier transforms and the Mel filter bank.

Cosines and sines come from a table of one turn, indexed by (index * frequency) modulo the length. DFT sums in float64,
STFT in the type of its input.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest import interpret
from glowembed.nest.dtypes import INDEX
from glowembed.nest.expr import Expr, call, clamp, constant, floor, index, where, within
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.moves import axes_from
from glowembed.ops.shared.definition import Definition, operator, require

WIDE = "float64"


def _number(n: Definition, i: int) -> int | None:
    """The value of a constant input of one integer; None if it is absent or computed."""
    array = n.constant(i)
    return None if array is None else int(np.ravel(array)[0])


Turn = Callable[[Expr], tuple[Expr, Expr]]


def _turn(n: Definition, length: int, inverse: bool, kind: str) -> Turn:
    """A function that maps a step around the circle of `length` steps to its cosine and sine."""
    angles = np.arange(length) * ((2 if inverse else -2) * math.pi / length)
    parts = [interpret.called(name, WIDE, [angles]) for name in ("cos", "sin")]
    table = n.add_constant(np.stack(parts, axis=-1).astype(kind))

    def of(step: Expr) -> tuple[Expr, Expr]:
        at = n.k.let(step % length)
        return table[at, 0], table[at, 1]

    return of


@operator("DFT")
def _dft(n: Definition) -> None:
    x = n.input(0)
    require(
        x.rank > 1 and x.shape[-1] in (1, 2), f"its input has the shape {list(x.shape)}, whose last axis is not 1 or 2"
    )
    if n.runs_on(2):
        _dft_along_computed_axis(n)
        return
    axis = n.attr("axis")
    if axis is None:
        axis = _number(n, 2) if n.has(2) else (-2 if n.opset >= 20 else 1)
    along = axes_from(n, [int(axis)], x.rank)[0]
    require(along < x.rank - 1, f"its axis {axis} is that of the real and imaginary parts")
    _transform(n, along, None)


def _dft_along_computed_axis(n: Definition) -> None:
    """Define DFT along an axis that an input names. It covers those axes for which the output has the declared
    shape.
    """
    x, shape = n.input(0), n.shape_of(0)
    y = n.output(0, shape, x.dtype)
    chosen = n.k.let(within(n.input(2).scalar(), x.rank))
    for axis in range(x.rank - 1):
        rest = [a for a in range(x.rank - 1) if a != axis]
        if all(shape[a] == x.shape[a] for a in rest):
            with n.k.when(chosen.equals(axis)):
                _transform(n, axis, y)


def _transform(n: Definition, axis: int, output: Tensor | None) -> None:
    x, k = n.input(0), n.k
    inverse, onesided = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    real = inverse and onesided
    if n.runs_on(1) and onesided and not inverse:
        raise Refused("its length is computed, and half of its output is left out", "make the length a constant")
    length = _number(n, 1) if n.constant(1) is not None else n.shape_of(0)[axis] if n.runs_on(1) else None
    if length is None:
        length = 2 * (x.shape[axis] - 1) if real else x.shape[axis]
    require(length > 0, f"its length is {length}")
    require(inverse or not onesided or x.shape[-1] == 1, "a transform of complex numbers is not onesided")
    shape = [*x.shape[:-1], 1 if real else 2]
    shape[axis] = length // 2 + 1 if onesided and not inverse else length
    y = output or n.output(0, shape, x.dtype)
    zero, turn = constant(0, WIDE), _turn(n, length, inverse, WIDE)
    with k.each([*shape[:-1], 1]) as at:
        total_real, total_imaginary = k.variable(0, WIDE), k.variable(0, WIDE)
        with k.loop(length) as r:
            there = r < x.shape[axis]
            source, given = clamp(r, 0, x.shape[axis] - 1), there
            if real:
                source, given = where(there, r, clamp(length - r, 0, x.shape[axis] - 1)), r < length
            place = (*at[:axis], source, *at[axis + 1 : -1])
            a = k.let(where(given, x[(*place, index(0))].to(WIDE), zero))
            b = where(given, x[(*place, index(1))].to(WIDE), zero) if x.shape[-1] == 2 else zero
            b = k.let(where(there, b, -b) if real else b)
            cosine, sine = turn(at[axis] * r)
            k.set(total_real, total_real + (a * cosine - b * sine))
            k.set(total_imaginary, total_imaginary + (a * sine + b * cosine))
        share = 1.0 / length if inverse else 1.0
        k.store(y, (*at[:-1], index(0)), (total_real * share).to(x.kind))
        if not real:
            k.store(y, (*at[:-1], index(1)), (total_imaginary * share).to(x.kind))


@operator("STFT")
def _stft(n: Definition) -> None:
    x, k = n.input(0), n.k
    window, onesided = n.input(2) if n.has(2) else None, bool(n.attr("onesided", 1))
    require(x.rank == 2 or (x.rank == 3 and x.shape[2] in (1, 2)), f"its signal has the shape {list(x.shape)}")
    length = _number(n, 3) or (window.size if window is not None else None)
    given = _number(n, 1)
    if length is None:
        length = (n.shape_of(0)[2] - 1) * 2 if onesided else n.shape_of(0)[2]
    frames = n.shape_of(0)[1] if given is None else (x.shape[1] - length) // max(given, 1) + 1
    require(0 < length <= x.shape[1] and (given is None or given > 0), f"its frames are {length} long, {given} apart")
    require(window is None or window.shape == (length,), f"its window does not fit frames of {length}")
    hop = k.let(n.position(1)) if given is None else index(given)
    shape = (x.shape[0], frames, length // 2 + 1 if onesided else length, 2)
    y, turn = n.output(0, shape, x.dtype), _turn(n, length, False, x.kind)
    with k.each([*shape[:-1], 1]) as at:
        real, imaginary = k.variable(0, x.kind), k.variable(0, x.kind)
        with k.loop(length) as r:
            place = clamp(at[1] * hop + r, 0, x.shape[1] - 1)
            weight = window.flat(r) if window is not None else constant(1, x.kind)
            a = k.let(_sample(x, at[0], place, 0) * weight)
            complex_input = x.rank == 3 and x.shape[2] == 2
            b = k.let(_sample(x, at[0], place, 1) * weight if complex_input else constant(0, x.kind))
            cosine, sine = turn(at[2] * r)
            k.set(real, real + (a * cosine - b * sine))
            k.set(imaginary, imaginary + (a * sine + b * cosine))
        k.store(y, (*at[:-1], index(0)), real)
        k.store(y, (*at[:-1], index(1)), imaginary)


def _sample(x: Tensor, b: Expr, place: Expr, part: int) -> Expr:
    return x[(b, place, index(part))] if x.rank == 3 else x[b, place]


@operator("MelWeightMatrix")
def _mel_weight_matrix(n: Definition) -> None:
    """Define MelWeightMatrix: triangular filters between frequencies that are evenly spaced in mel. Its sizes are those
    of the declared shape.
    """
    k, (rows, bands) = n.k, n.shape_of(0)
    dtype = n.element_type(n.attr("output_datatype", 1))
    y = n.output(0, (rows, bands), dtype)
    length, rate = n.position(1), n.position(2)
    low, high = (n.input(i).scalar().to(WIDE) for i in (3, 4))

    def mel(hertz: Expr) -> Expr:
        return call("log", hertz / 700.0 + 1.0) * (2595.0 / math.log(10.0))

    bottom, top = k.let(mel(low)), k.let(mel(high))

    def bin_of(i: Expr) -> Expr:
        """The bin of the spectrogram in which an edge lies."""
        m = i.to(WIDE) * ((top - bottom) / float(bands + 2)) + bottom
        hertz = (call("power", constant(10.0, WIDE), m / 2595.0) - 1.0) * 700.0
        return floor((length + 1).to(WIDE) * hertz / rate.to(WIDE)).to(INDEX)

    with k.each((rows, bands)) as (row, band):
        left, centre, right = (k.let(bin_of(band + i)) for i in range(3))
        rising = (row - left).to(WIDE) / (centre - left).to(WIDE)
        falling = (right - row).to(WIDE) / (right - centre).to(WIDE)
        slope = where((row >= left) & (row < centre), rising, constant(0, WIDE))
        slope = where((row > centre) & (row < right), falling, slope)
        value = where(row.equals(centre), constant(1, WIDE), slope)
        k.store(y, (row, band), value.to(y.kind))
