"""Scalar expressions of loop nests: a graph of typed operations. Python's operators build them.

The operations; operands have one type unless stated otherwise:

    + - * /      integers wrap around; / of integers truncates, x / 0 is 0; of bools, + is "or" and * is "and"
    // %         rounds down; the result of % has the sign of the divisor, x % 0 is 0
    fmod         the remainder of a division that truncates
    & | ^ << >>  bitwise, of bools logical; a shift by the width or more, or by a negative number, gives 0 or the sign
    < <= > >= == !=      bool
    neg not abs sqrt floor ceil trunc rint isnan isinf min max ?
    sqrt length  for an int64 >= 0: the floor of its root, the number of its bits
    cast         to another type; a float to an integer is truncated and clamped, NaN is 0
    bits         the bits of a float32 as int32, of a float64 as int64, and back
    load         an element of a tensor: the flat index, then one index for each axis
    call         a function of functions.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from glowembed.nest import dtypes
from glowembed.nest.dtypes import BOOL, INDEX

COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")

Operand = Any
"""An Expr, or a Python number, which takes the type of the other operand."""


class Expr:
    """One operation: its name, its operands, the type of its result, and the value of a constant, the name of a
    variable or function, or the tensor of a load.
    """

    __slots__ = ("args", "kind", "op", "value")

    def __init__(self, op: str, args: Iterable[Expr], kind: str, value: Any = None) -> None:
        self.op, self.args, self.kind, self.value = op, tuple(args), kind, value

    def __add__(self, other: Operand) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return binary("//", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return binary("%", self, other)

    def __and__(self, other: Operand) -> Expr:
        return binary("&", self, other)

    def __or__(self, other: Operand) -> Expr:
        return binary("|", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return binary("^", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return binary("<<", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return binary(">>", self, other)

    def __lt__(self, other: Operand) -> Expr:
        return binary("<", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return binary(">", self, other)

    def __le__(self, other: Operand) -> Expr:
        return binary("<=", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return binary(">=", self, other)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __invert__(self) -> Expr:
        return unary("not", self)

    def equals(self, other: Operand) -> Expr:
        """Whether both are the same number. The operator == compares the objects."""
        return binary("==", self, other)

    def differs(self, other: Operand) -> Expr:
        """Whether the numbers are different."""
        return binary("!=", self, other)

    def to(self, kind: str) -> Expr:
        """The value in another type."""
        if kind == self.kind:
            return self
        if self.op == "constant" and not dtypes.is_float(self.kind):
            return constant(self.value, kind)
        return Expr("cast", [self], kind)


def constant(value: Any, kind: str) -> Expr:
    """A constant of this type; an Expr is returned unchanged."""
    if isinstance(value, Expr):
        return value
    if kind == BOOL:
        return Expr("constant", [], kind, bool(value))
    if dtypes.is_float(kind):
        return Expr("constant", [], kind, float(dtypes.scalar_type(kind)(value)))
    return Expr("constant", [], kind, int(value))


def index(value: Operand) -> Expr:
    """A number or a position expression as a position."""
    return constant(value, INDEX)


def variable(name: str, kind: str) -> Expr:
    """The value of a variable."""
    return Expr("variable", [], kind, name)


def _same_type(a: Operand, b: Operand) -> tuple[Expr, Expr]:
    a = a if isinstance(a, Expr) else constant(a, b.kind)
    b = b if isinstance(b, Expr) else constant(b, a.kind)
    if a.kind != b.kind:
        raise ValueError(f"an operation on {a.kind} and {b.kind}")
    return a, b


def binary(op: str, a: Operand, b: Operand) -> Expr:
    """An operation on two operands. Positions are simplified: constants are computed, and + 0, * 1, * 0, // 1 and % 1
    disappear.
    """
    a, b = _same_type(a, b)
    simpler = _simplified(op, a, b) if a.kind == INDEX else None
    return simpler or Expr(op, [a, b], BOOL if op in COMPARISONS else a.kind)


def _simplified(op: str, a: Expr, b: Expr) -> Expr | None:
    if a.op == b.op == "constant":
        results = {"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}
        if b.value:
            results |= {"//": a.value // b.value, "%": a.value % b.value}
        return index(results[op]) if op in results else None
    for one, other in ((a, b), (b, a)):
        if one.op == "constant" and (op, one.value) in (("+", 0), ("*", 1)):
            return other
        if one.op == "constant" and (op, one.value) == ("*", 0):
            return one
    if b.op == "constant" and (op, b.value) in (("-", 0), ("//", 1)):
        return a
    return index(0) if b.op == "constant" and (op, b.value) == ("%", 1) else None


def unary(op: str, a: Expr) -> Expr:
    """An operation on one operand."""
    return Expr(op, [a], BOOL if op in ("isnan", "isinf") else a.kind)


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """`a` if the condition holds, else `b`. C computes only the chosen one."""
    a, b = _same_type(a, b)
    return Expr("?", [condition, a, b], a.kind)


def minimum(a: Operand, b: Operand) -> Expr:
    """a < b ? a : b."""
    a, b = _same_type(a, b)
    return a & b if a.kind == BOOL else Expr("min", [a, b], a.kind)


def maximum(a: Operand, b: Operand) -> Expr:
    """a > b ? a : b."""
    a, b = _same_type(a, b)
    return a | b if a.kind == BOOL else Expr("max", [a, b], a.kind)


def clamp(a: Expr, low: Operand, high: Operand) -> Expr:
    """The number in low..high that is nearest to `a`."""
    return minimum(maximum(a, low), high)


def absolute(a: Expr) -> Expr:
    return unary("abs", a)


def sqrt(a: Expr) -> Expr:
    return unary("sqrt", a)


def length(a: Expr) -> Expr:
    """The number of bits of an int64 >= 0."""
    return unary("length", a)


def floor(a: Expr) -> Expr:
    return unary("floor", a)


def rint(a: Expr) -> Expr:
    """The nearest integer, halves to even."""
    return unary("rint", a)


def is_nan(a: Expr) -> Expr:
    return unary("isnan", a)


def bits_of(a: Expr) -> Expr:
    """The bits of a float as an integer, or the float with these bits."""
    kinds = {"float32": "int32", "float64": "int64", "int32": "float32", "int64": "float64"}
    return Expr("bits", [a], kinds[a.kind])


def call(name: str, *args: Expr) -> Expr:
    """A function of functions.py, in the type of its first argument."""
    return Expr("call", args, args[0].kind, name)


def all_of(*conditions: Expr) -> Expr:
    """Whether all conditions hold."""
    result = constant(True, BOOL)
    for number, condition in enumerate(conditions):
        result = condition if number == 0 else result & condition
    return result


def to_index(a: Expr) -> Expr:
    """A number as a position, clamped to the range of int32."""
    if a.kind in ("int64", "uint64", "uint32"):
        low, high = dtypes.limits(INDEX)
        a = minimum(a, high) if dtypes.is_unsigned(a.kind) else clamp(a, low + 1, high)
    return a.to(INDEX)


def within(a: Expr, size: int) -> Expr:
    """An index as ONNX allows it, possibly negative and counted from the end, as a position that is clamped to the
    axis.
    """
    position = to_index(a)
    if dtypes.is_unsigned(a.kind):
        return minimum(position, max(size - 1, 0))
    return clamp(where(position < 0, position + size, position), 0, max(size - 1, 0))
