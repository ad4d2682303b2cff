"""Programs that only choose among the numbers of their inputs; they make the same choice on stored integers as on the
real numbers.

In: a program over float32. Out: whether it only moves, compares and selects, and the same program over int8 or int16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from glowembed.nest.dtypes import BOOL
from glowembed.nest.expr import Expr, constant
from glowembed.nest.program import Program, Statement, Tensor, expressions, parts, statements

FLOAT = "float32"

CHOICES = ("load", "constant", "variable", "?", "min", "max", "<", "<=", ">", ">=", "==", "!=", "isnan", "isinf")
"""The operations that may have a float operand or result. A stored integer is never NaN or infinite."""

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def chooses(program: Program) -> bool:
    """Whether the program only moves, compares and selects the float32 numbers that it reads."""
    tensors = (*program.inputs, program.output, *program.temporaries)
    if all(t.dtype != FLOAT for t in program.inputs) or any(t.kind == FLOAT != t.dtype for t in tensors):
        return False
    floats = (one for root in _roots(program) for one in parts(root) if _is_float(one))
    return all(one.op in CHOICES for one in floats) and all(map(math.isfinite, limits(program)))


def is_copy(program: Program) -> bool:
    """Whether the program returns elements that it reads, without a comparison or selection of floats."""
    floats = (one for root in _roots(program) for one in parts(root) if _is_float(one))
    return chooses(program) and all(one.op == "load" for one in floats)


def limits(program: Program) -> list[float]:
    """The constants of the program that its type must hold. The initial value of a variable need not be held, because
    it only starts a search.
    """
    first = {id(s.args[1]) for s in statements(program.body) if s.kind == "declare"}
    found = [one for root in _roots(program) for one in parts(root) if one.op == "constant" and one.kind == FLOAT]
    return [one.value for one in found if id(one) not in first]


def stored_as(program: Program, dtype: str, stored: Callable[[float], int]) -> Program:
    """The program over integers. stored: gives the integer for a real number, clamped to the type."""
    done: dict[int, Expr] = {}

    def tensor(t: Tensor) -> Tensor:
        return Tensor(t.name, t.shape, dtype) if t.dtype == FLOAT else t

    def rebuilt(one: Expr) -> Expr:
        if one.op in ("isnan", "isinf"):
            return constant(False, BOOL)
        kind = dtype if one.kind == FLOAT else one.kind
        if one.op == "constant" and one.kind == FLOAT:
            return constant(stored(one.value), dtype)
        args = [done[id(arg)] for arg in (one.args[:1] if one.op == "load" else one.args)]
        if one.op in MIRRORED and _is_float(one) and (known := _decided(one.op, *args)) is not None:
            return constant(known, BOOL)
        return Expr(one.op, args, kind, tensor(one.value) if one.op == "load" else one.value)

    def expression(root: Expr) -> Expr:
        for one in parts(root):
            if id(one) not in done:
                done[id(one)] = rebuilt(one)
        return done[id(root)]

    def of(arg: object) -> object:
        return expression(arg) if isinstance(arg, Expr) else tensor(arg) if isinstance(arg, Tensor) else arg

    def body(block: tuple[Statement, ...] | list[Statement]) -> tuple[Statement, ...]:
        return tuple(Statement(s.kind, tuple(map(of, s.args)), body(s.body)) for s in block)

    inputs, temporaries = (tuple(map(tensor, ts)) for ts in (program.inputs, program.temporaries))
    return Program(inputs, tensor(program.output), temporaries, body(program.body))


def _decided(op: str, a: Expr, b: Expr) -> bool | None:
    """The result of a comparison with the smallest or the largest stored integer, if it is the same for all integers;
    compilers warn about these.
    """
    if a.op == "constant":
        op, a, b = MIRRORED[op], b, a
    if b.op != "constant" or a.op == "constant":
        return None
    limit = {"<": "min", ">=": "min", ">": "max", "<=": "max"}[op]
    return op in (">=", "<=") if b.value == getattr(np.iinfo(a.kind), limit) else None


def _roots(program: Program) -> Iterator[Expr]:
    return (root for statement in statements(program.body) for root in expressions(statement))


def _is_float(one: Expr) -> bool:
    operands = () if one.op == "load" else one.args
    return any(e.kind in (FLOAT, "float64") for e in (one, *operands))
