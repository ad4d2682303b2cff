"""Intervals of positions: which accesses are proved to lie inside their tensor, and which must be checked at run time.

In: a program. Out: the loads and stores whose position may lie outside. An incomplete definition or a contradictory
model can therefore never access memory outside a tensor: an unproved load reads the nearest element, and an unproved
store outside the tensor is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from glowembed.nest import dtypes
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr
from glowembed.nest.program import Statement, expressions, parts, statements

Interval = tuple[float, float]
UNKNOWN: Interval = (-(2.0**31), 2.0**31 - 1)


def unproved(body: Sequence[Statement]) -> frozenset[int]:
    """The ids of all loads and store statements whose position is not proved to lie inside the tensor."""
    changed = {s.args[0]: UNKNOWN for s in statements(body) if s.kind == "set"}
    values: dict[str, list[Interval]] = {name: [] for name in changed}
    for _ in _unproved(body, {}, changed, values):  # finds the new values' intervals
        pass
    hulls = {name: (min(low for low, _ in own), max(high for _, high in own)) for name, own in values.items()}
    return frozenset(_unproved(body, {}, hulls, {}))


def _unproved(
    body: Sequence[Statement],
    known: dict[str, Interval],
    changed: Mapping[str, Interval],
    values: dict[str, list[Interval]],
) -> Iterator[int]:
    """changed: the intervals of the variables that get new values. values: collects the intervals of these new
    values.
    """
    for s in body:
        for root in expressions(s):
            for one in parts(root):
                if one.op == "load" and not _is_inside(one.args[0], one.value.size, known):
                    yield id(one)
        if s.kind == "store" and not _is_inside(s.args[1], s.args[0].size, known):
            yield id(s)
        if s.kind in ("declare", "set"):
            own = interval(s.args[1], known) if s.args[1].kind == INDEX else UNKNOWN
            values.get(s.args[0], []).append(own)
            known[s.args[0]] = changed.get(s.args[0], own)
        if s.kind in ("each", "loop"):
            known[s.args[0]] = (0.0, max(interval(s.args[1], known)[1] - 1, 0.0))
        yield from _unproved(s.body, known, changed, values)


def _is_inside(position: Expr, size: int, known: dict[str, Interval]) -> bool:
    low, high = interval(position, known)
    return low >= 0 and high < size


def interval(root: Expr, known: dict[str, Interval]) -> Interval:
    """The smallest and the largest value that a position may have."""
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
    if one.op == "load" and one.value.bounds is not None:
        return float(one.value.bounds[0]), float(one.value.bounds[1])
    if one.kind != INDEX:
        return tuple(float(v) for v in dtypes.limits(one.kind)) if dtypes.is_integer(one.kind) else UNKNOWN  # type: ignore[return-value]
    if one.op == "cast":
        source = one.args[0].kind
        return operands[0] if dtypes.is_integer(source) and _within(operands[0], UNKNOWN) else UNKNOWN
    result = _combined(one, operands)
    return result if _within(result, UNKNOWN) else UNKNOWN


def _within(inner: Interval, outer: Interval) -> bool:
    return inner[0] >= outer[0] and inner[1] <= outer[1]


def _combined(one: Expr, operands: Sequence[Interval]) -> Interval:
    if one.op == "?":
        (_, (a, b), (c, d)) = operands
        return min(a, c), max(b, d)
    if one.op in ("neg", "abs", "not") or len(operands) != 2:
        return UNKNOWN
    (a, b), (c, d) = operands
    if one.op == "&" and c == d and c >= 0:
        return 0.0, c
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
