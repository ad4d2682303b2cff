"""Intervals of positions: what is proved to lie inside of a tensor, and what has to be clamped when it is read or written.

In: a program. Out: the loads and stores whose position may lie outside. A definition that forgets a case, or a model that contradicts
itself, can then never reach memory outside of a tensor: such a load reads the nearest element, such a store is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glowembed.nest import dtypes
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr
from glowembed.nest.program import Statement, expressions, parts, statements

Interval = tuple[float, float]
UNKNOWN: Interval = (-(2.0**31), 2.0**31 - 1)


def unproved(body: Sequence[Statement]) -> frozenset[int]:
    """The id of every load and of every store statement whose position is not proved to lie inside of its tensor."""
    changed = {s.args[0] for s in statements(body) if s.kind == "set"}
    return frozenset(_unproved(body, {}, changed))


def _unproved(body: Sequence[Statement], known: dict[str, Interval], changed: set[str]) -> Iterator[int]:
    for s in body:
        for root in expressions(s):
            for one in parts(root):
                if one.op == "load" and not _is_inside(one.args[0], one.value.size, known):
                    yield id(one)
        if s.kind == "store" and not _is_inside(s.args[1], s.args[0].size, known):
            yield id(s)
        if s.kind == "declare":
            exact = s.args[0] not in changed and s.args[1].kind == INDEX
            known[s.args[0]] = interval(s.args[1], known) if exact else UNKNOWN
        if s.kind in ("each", "loop"):
            known[s.args[0]] = (0.0, max(interval(s.args[1], known)[1] - 1, 0.0))
        yield from _unproved(s.body, known, changed)


def _is_inside(position: Expr, size: int, known: dict[str, Interval]) -> bool:
    low, high = interval(position, known)
    return low >= 0 and high < size


def interval(root: Expr, known: dict[str, Interval]) -> Interval:
    """The least and the largest value that a position may have."""
    found: dict[int, Interval] = {}
    for one in parts(root):
        found[id(one)] = _of(
            one, known, [found[id(a)] for a in one.args[:1]] if one.op == "load" else [found[id(a)] for a in one.args]
        )
    return found[id(root)]


def _of(one: Expr, known: dict[str, Interval], operands: Sequence[Interval]) -> Interval:
    if one.op == "constant" and one.kind != BOOL and not dtypes.is_float(one.kind):
        return float(one.value), float(one.value)
    if one.op == "variable":
        return known.get(one.value, UNKNOWN)
    if one.kind != INDEX:
        return tuple(float(v) for v in dtypes.limits(one.kind)) if dtypes.is_integer(one.kind) else UNKNOWN  # type: ignore[return-value]
    if one.op == "cast":
        source = one.args[0].kind
        narrow = dtypes.is_integer(source) and dtypes.bits(source) < 32
        low, high = dtypes.limits(source) if narrow else UNKNOWN
        return float(low), float(high)
    result = _combined(one, operands)
    return result if result[0] >= UNKNOWN[0] and result[1] <= UNKNOWN[1] else UNKNOWN


def _combined(one: Expr, operands: Sequence[Interval]) -> Interval:
    if one.op == "?":
        (_, (a, b), (c, d)) = operands
        return min(a, c), max(b, d)
    if one.op in ("neg", "abs", "not") or len(operands) != 2:
        return UNKNOWN
    (a, b), (c, d) = operands
    if one.op == "+":
        return a + c, b + d
    if one.op == "-":
        return a - d, b - c
    if one.op == "*":
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    if one.op == "min":
        return min(a, c), min(b, d)
    if one.op == "max":
        return max(a, c), max(b, d)
    if one.op == "//" and c == d and c > 0:
        return a // c, b // c
    if one.op == "%" and c > 0:
        return (a % c, b % c) if c == d and a // c == b // c else (0.0, d - 1)
    return UNKNOWN
