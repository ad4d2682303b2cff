"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear on stored integers and small floats.

A scale is one number, or there is one for each index of an axis, or one for each block along an axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from glowembed.graph.op import Refused
from glowembed.nest import dtypes
from glowembed.nest.expr import Expr, clamp, constant, maximum, minimum, rint, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.pointwise import converted
from glowembed.ops.shared.definition import Definition, operator


def _of_place(n: Definition, t: Tensor, x: Tensor, at: Sequence[Expr]) -> Expr:
    """The scale or zero point for an element."""
    if t.size == 1:
        return t.scalar()
    axis, block = n.axis(1), int(n.attr("block_size", 0))
    if t.rank == 1:
        return t.flat(at[axis])
    if t.rank != x.rank or not block:
        raise Refused(f"scales of shape {list(t.shape)} for {list(x.shape)}", "one, one for each channel, or blocks")
    return t[tuple(i // block if a == axis else i for a, i in enumerate(at))]


def integer_limits(dtype: str) -> tuple[int, int]:
    """The least and the largest stored integer."""
    if dtype not in dtypes.NIBBLES:
        return dtypes.limits(dtype)
    kind, bits = dtypes.NIBBLES[dtype]
    return (0, (1 << bits) - 1) if dtypes.is_unsigned(kind) else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@operator("QuantizeLinear")
def _quantize_linear(n: Definition) -> None:
    x, scale = n.input(0), n.input(1)
    dtype = n.element_type(n.attr("output_dtype")) if n.attr("output_dtype") else "uint8"
    dtype = n.input(2).dtype if n.has(2) else dtype
    y = n.output(0, x.shape, dtype)
    exact = n.attr("precision", 0) == 11 or "float64" in (x.dtype, scale.dtype)
    wide = "float64" if exact else "float32"
    with n.k.each(x.shape) as at:
        value = x[at].to(wide) / _of_place(n, scale, x, at).to(wide)
        zero = _of_place(n, n.input(2), x, at) if n.has(2) else None
        if dtypes.is_float(y.kind):
            shifted = value if zero is None else value + zero.to(wide)
            n.k.store(y, at, converted(n, shifted.to("float32"), dtype))
        else:
            shifted = rint(value).to("int64") + (0 if zero is None else zero.to("int64"))
            n.k.store(y, at, clamp(shifted, *integer_limits(dtype)).to(y.kind))


@operator("DequantizeLinear")
def _dequantize_linear(n: Definition) -> None:
    x, scale = n.input(0), n.input(1)
    dtype = n.element_type(n.attr("output_dtype")) if n.attr("output_dtype") else scale.dtype
    y = n.output(0, x.shape, dtype)
    with n.k.each(x.shape) as at:
        value = x[at]
        if dtypes.is_float(x.kind):
            shifted = value - _of_place(n, n.input(2), x, at) if n.has(2) else value
        else:
            zero = _of_place(n, n.input(2), x, at).to("int64") if n.has(2) else constant(0, "int64")
            shifted = (value.to("int64") - zero).to("float32")
        n.k.store(y, at, shifted.to(y.kind) * _of_place(n, scale, x, at).to(y.kind))


@operator("DynamicQuantizeLinear")
def _dynamic_quantize_linear(n: Definition) -> None:
    x, k = n.input(0), n.k
    y, scales, zeros = n.output(0, x.shape, "uint8"), n.output(1, (), "float32"), n.output(2, (), "uint8")
    low = k.fold([x.size], constant(0, "float32"), x.flat, minimum)
    high = k.fold([x.size], constant(0, "float32"), x.flat, maximum)
    scale = k.let((high - low) / 255.0)
    safe = k.let(where(scale.equals(0.0), constant(1, "float32"), scale))
    zero = k.let(clamp(rint(-low / safe), 0.0, 255.0))
    k.store(scales, (), scale)
    k.store(zeros, (), zero.to("uint8"))
    with k.each((x.size,)) as (i,):
        k.store(y, i, clamp(rint(x.flat(i) / safe) + zero, 0.0, 255.0).to("uint8"))
