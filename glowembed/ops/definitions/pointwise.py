"""Elementwise functions with broadcasting: arithmetic, comparisons, logic, activations, casts.

Source: the operators' sections of ONNX 1.23, opsets 1 to 26. Integers wrap around; floats are IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest import dtypes
from glowembed.nest.expr import (
    Expr,
    absolute,
    binary,
    bits_of,
    call,
    clamp,
    constant,
    is_nan,
    maximum,
    minimum,
    rint,
    sqrt,
    unary,
    where,
)
from glowembed.nest.program import Tensor
from glowembed.ops.shared.definition import Definition, element_type, elementwise, operator

Unary = Callable[[Expr], Expr]


def _of_older_opsets(n: Definition, b: Tensor) -> Tensor:
    """The second operand in the way that opsets 1 to 6 broadcast it; the attribute `axis` says where it begins."""
    a = n.input(0)
    if n.opset >= 7:
        return b
    if n.kind == "PRelu" and b.rank == 1 and a.rank > 1 and b.size > 1:
        return b.view(b.shape + (1,) * (a.rank - 2))
    if n.attr("broadcast", 0) and "axis" in n.node.attrs:
        return b.view(b.shape + (1,) * (a.rank - n.axis(rank=a.rank) - b.rank))
    return b


def sign(x: Expr) -> Expr:
    """The sign as -1, 0 or 1; NaN stays NaN."""
    negative = x if dtypes.is_unsigned(x.kind) else where(x < 0, constant(-1, x.kind), x)
    return where(x > 0, constant(1, x.kind), negative)


def sigmoid(x: Expr) -> Expr:
    return call("sigmoid", x)


def greatest(a: Expr, b: Expr) -> Expr:
    """The larger operand; NaN if either is NaN."""
    return where((a > b) | is_nan(a), a, b) if dtypes.is_float(a.kind) else maximum(a, b)


def least(a: Expr, b: Expr) -> Expr:
    """The smaller operand; NaN if either is NaN."""
    return where((a < b) | is_nan(a), a, b) if dtypes.is_float(a.kind) else minimum(a, b)


def precedes(a: Expr, b: Expr) -> Expr:
    """Whether `a` comes before `b` in ascending order, in which NaN comes after every number."""
    return (a < b) | (is_nan(b) & ~is_nan(a)) if dtypes.is_float(a.kind) else a < b


def _gelu(n: Definition) -> Unary:
    if n.attr("approximate", "none") == "none":
        return lambda x: x * 0.5 * (call("erf", x * math.sqrt(0.5)) + 1.0)
    return lambda x: x * 0.5 * (call("tanh", (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1.0)


def _shrink(n: Definition) -> Unary:
    limit, bias = n.attr("lambd", 0.5), n.attr("bias", 0.0)

    def shrunk(x: Expr) -> Expr:
        real = x if dtypes.is_float(x.kind) else x.to("float32")
        return where(real < -limit, real + bias, where(real > limit, real - bias, 0.0)).to(x.kind)

    return shrunk


def _elu(x: Expr, alpha: float) -> Expr:
    return where(x < 0.0, call("expm1", x) * alpha, x)


def _selu(n: Definition) -> Unary:
    alpha, gamma = n.attr("alpha", 1.67326319217681884765625), n.attr("gamma", 1.05070102214813232421875)
    return lambda x: where(x > 0.0, x, call("expm1", x) * alpha) * gamma


def _functions(*names: str) -> dict[str, Callable[[Definition], Unary]]:
    """Operators that are the function of the same name in functions.py."""
    return {name: (lambda n: lambda x: call(n.kind.lower(), x)) for name in names}


UNARY: dict[str, Callable[[Definition], Unary]] = {
    "Identity": lambda n: lambda x: x,
    "Abs": lambda n: absolute,
    "Neg": lambda n: lambda x: -x,
    "Sign": lambda n: sign,
    "Floor": lambda n: lambda x: unary("floor", x),
    "Ceil": lambda n: lambda x: unary("ceil", x),
    "Round": lambda n: rint,
    "Sqrt": lambda n: sqrt,
    "Reciprocal": lambda n: lambda x: 1.0 / x,
    "Not": lambda n: lambda x: ~x,
    "BitwiseNot": lambda n: lambda x: ~x,
    **_functions(
        "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh",
        "Erf", "Sigmoid", "Softplus",
    ),
    "Softsign": lambda n: lambda x: x / (absolute(x) + 1.0),
    "Relu": lambda n: lambda x: where(x < 0, constant(0, x.kind), x),
    "Gelu": _gelu,
    "LeakyRelu": lambda n: lambda x: where(x < 0.0, x * n.attr("alpha", 0.01), x),
    "ThresholdedRelu": lambda n: lambda x: where(x > n.attr("alpha", 1.0), x, 0.0),
    "Elu": lambda n: lambda x: _elu(x, n.attr("alpha", 1.0)),
    "Celu": lambda n: lambda x: where(x < 0.0, call("expm1", x / n.attr("alpha", 1.0)) * n.attr("alpha", 1.0), x),
    "Selu": _selu,
    "HardSigmoid": lambda n: lambda x: clamp(x * n.attr("alpha", 0.2) + n.attr("beta", 0.5), 0.0, 1.0),
    "HardSwish": lambda n: lambda x: x * clamp(x * (1 / 6) + 0.5, 0.0, 1.0),
    "Mish": lambda n: lambda x: x * call("tanh", call("softplus", x)),
    "Swish": lambda n: lambda x: x * sigmoid(x * n.attr("alpha", 1.0)),
    "Shrink": _shrink,
}  # fmt: skip


@operator(*UNARY)
def _unary(n: Definition) -> None:
    elementwise(n, [n.input(0)], UNARY[n.kind](n))


@operator("IsNaN")
def _isnan(n: Definition) -> None:
    elementwise(n, [n.input(0)], is_nan, "bool")


@operator("IsInf")
def _isinf(n: Definition) -> None:
    plus, minus = (constant(n.attr(f"detect_{end}", 1), "bool") for end in ("positive", "negative"))
    elementwise(n, [n.input(0)], lambda x: unary("isinf", x) & (plus | (x < 0.0)) & (minus | (x > 0.0)), "bool")


BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
    "PRelu": lambda x, slope: where(x < 0, x * slope, x),
}
COMPARED = {"Equal": "==", "Greater": ">", "Less": "<", "GreaterOrEqual": ">=", "LessOrEqual": "<="}


@operator(*BINARY, on_integers=True)
def _binary(n: Definition) -> None:
    divisor = n.constant(1) if n.kind == "Div" and not n.exact else None
    if divisor is not None and not np.all(divisor):
        raise Refused("a division by zero", "export the model without it")
    elementwise(n, [n.input(0), _of_older_opsets(n, n.input(1))], BINARY[n.kind])


@operator(*COMPARED)
def _compared(n: Definition) -> None:
    operands = [n.input(0), _of_older_opsets(n, n.input(1))]
    elementwise(n, operands, lambda a, b: binary(COMPARED[n.kind], a, b), "bool")


@operator("Mod")
def _mod(n: Definition) -> None:
    kind = "fmod" if n.attr("fmod", 0) else "%"
    elementwise(n, n.given(), lambda a, b: binary(kind, a, b))


@operator("BitShift")
def _bit_shift(n: Definition) -> None:
    left = n.attr("direction") == "LEFT"
    elementwise(n, n.given(), lambda a, b: a << b if left else a >> b)


@operator("Pow")
def _pow(n: Definition) -> None:
    def raised(x: Expr, y: Expr) -> Expr:
        if dtypes.is_float(x.kind):
            return call("power", x, y.to(x.kind))
        return call("power", x.to("float64"), y.to("float64")).to(x.kind)

    elementwise(n, [n.input(0), _of_older_opsets(n, n.input(1))], raised)


VARIADIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Max": greatest,
    "Min": least,
    "Sum": lambda a, b: a + b,
    "Mean": lambda a, b: a + b,
}


@operator(*VARIADIC, on_integers=True)
def _variadic(n: Definition) -> None:
    count = len(n.given())

    def combined(*elements: Expr) -> Expr:
        total = elements[0]
        for one in elements[1:]:
            total = n.k.let(VARIADIC[n.kind](total, one))
        return total / float(count) if n.kind == "Mean" else total

    elementwise(n, n.given(), combined)


@operator("Clip")
def _clip(n: Definition) -> None:
    def limit(i: int, name: str, kind: str) -> Expr | None:
        if name in n.node.attrs:
            return constant(n.attr(name), kind)
        return n.input(i).scalar() if n.has(i) else None

    def clipped(x: Expr) -> Expr:
        low, high = limit(1, "min", x.kind), limit(2, "max", x.kind)
        x = n.k.let(x if low is None else greatest(x, low))
        return x if high is None else least(x, high)

    elementwise(n, [n.input(0)], clipped)


@operator("Where")
def _where(n: Definition) -> None:
    elementwise(n, n.given(), where, n.input(1).dtype)


LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
OLD_NAMES = {"FLOAT": 1, "DOUBLE": 11, "FLOAT16": 10, "BOOL": 9, "INT32": 6, "INT64": 7, "INT8": 3, "UINT8": 2}


@operator("Cast", "CastLike")
def _cast(n: Definition) -> None:
    to = n.attr("to")
    number = OLD_NAMES.get(to, 0) if isinstance(to, str) else to
    dtype = n.input(1).dtype if n.kind == "CastLike" else n.element_type(number)
    elementwise(n, [n.input(0)], lambda x: converted(n, x, dtype), dtype)


def converted(n: Definition, x: Expr, dtype: str) -> Expr:
    """The value for storage in this type. Floats are converted to 8-bit and 16-bit integers by way of int64, and wrap
    around.
    """
    kind = dtypes.COMPUTED[dtype]
    if dtypes.is_float(x.kind) and (dtype in dtypes.NIBBLES or kind in ("int8", "int16", "uint8", "uint16")):
        x = x.to("int64")
    x = x.to(kind)
    if dtype in LARGEST and n.attr("saturate", 1):
        most = LARGEST[dtype]
        return where(x > most, most, where(x < -most, -most, x))
    return _power_of_two(x, n.attr("round_mode", "up"), n.attr("saturate", 1)) if dtype == "float8_e8m0fnu" else x


def _power_of_two(x: Expr, mode: str, saturate: int) -> Expr:
    """The power of two that float8_e8m0fnu stores for a number, by its rounding mode."""
    pattern = bits_of(absolute(x))
    rest = pattern & 0x7FFFFF
    up = {"up": rest > 0, "nearest": rest >= 0x400000}.get(mode, rest < 0)
    rounded = bits_of((pattern - rest) + where(up & (pattern < 0x7F000000), constant(0x800000, "int32"), 0))
    finite = where(pattern < 0x400000, constant(2.0**-127, "float32"), rounded)
    special = where(is_nan(x), x, 2.0**127) if saturate else x
    return where(is_nan(x) | unary("isinf", x), special, finite)


@operator("BitCast")
def _bit_cast(n: Definition) -> None:
    x, dtype = n.input(0), element_type(n.attr("to"))
    narrow = {"float16", "bfloat16"} & {x.dtype, dtype}
    if dtypes.numpy_type(x.dtype).itemsize != dtypes.numpy_type(dtype).itemsize or narrow:
        was_double = x.dtype == "float32" and dtypes.numpy_type(dtype).itemsize == 8
        hint = (
            "--dtype model keeps float64, which is float32 here"
            if was_double
            else "cast between types of 32 or 64 bits"
        )
        raise Refused(f"a bit cast from {x.dtype} to {dtype}", hint)
    kind = dtypes.COMPUTED[dtype]
    whole = {"float32": "int32", "float64": "int64"}

    def reread(e: Expr) -> Expr:
        e = bits_of(e) if dtypes.is_float(e.kind) and e.kind != kind else e
        return bits_of(e.to(whole[kind])) if dtypes.is_float(kind) and e.kind != kind else e.to(kind)

    elementwise(n, [x], reread, dtype)


@operator("Dropout")
def _dropout(n: Definition) -> None:
    ratio, training = n.constant(1), n.constant(2)
    drops = training is not None and bool(np.any(training)) and (ratio is None or float(np.ravel(ratio)[0]) != 0)
    if n.runs_on(2) or drops:
        raise Refused("it is in training mode", "export the model for inference")
    elementwise(n, [n.input(0)], lambda x: x)
    if n.wants(1):
        mask = n.output(1, n.input(0).shape, "bool" if n.opset >= 10 else n.input(0).dtype)
        with n.k.each(mask.shape) as at:
            n.k.store(mask, at, 1)
