"""Operators along axes: reductions, ArgMax and ArgMin, softmax, running sums, TopK.

Sums are taken strictly in the order of the elements. If the axes of a sum are known only at run time, its kernel reads
the input once and adds each element to the output that strides determine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from glowembed.nest import dtypes
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import Expr, absolute, binary, call, constant, index, is_nan, sqrt, unary, where, within
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.moves import axes_from
from glowembed.ops.definitions.pointwise import greatest, least, precedes
from glowembed.ops.shared.definition import Definition, ones_at, operator, require, with_index, without
from glowembed.records import dataclass


def lowest(kind: str) -> Expr:
    """The neutral element of a maximum."""
    return constant(-math.inf if dtypes.is_float(kind) else dtypes.limits(kind)[0], kind)


def highest(kind: str) -> Expr:
    """The neutral element of a minimum."""
    return constant(math.inf if dtypes.is_float(kind) else dtypes.limits(kind)[1], kind)


def zero(kind: str) -> Expr:
    return constant(0, kind)


def _add(a: Expr, b: Expr) -> Expr:
    return a + b


def _as_it_is(x: Expr, count: Expr) -> Expr:
    return x


def _in_floats(function: Callable[[Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """The function for floats; integers are converted to float64 and back."""
    return lambda x, count: function(x) if dtypes.is_float(x.kind) else function(x.to("float64")).to(x.kind)


@dataclass(frozen=True)
class Reduction:
    """first: the result for no elements; term: the contribution of an element; combine: joins two results; finish: the
    result for the total and the number of elements.
    """

    first: Callable[[str], Expr]
    term: Callable[[Expr], Expr] = lambda x: x
    combine: Callable[[Expr, Expr], Expr] = _add
    finish: Callable[[Expr, Expr], Expr] = _as_it_is


REDUCTIONS = {
    "ReduceSum": Reduction(zero),
    "ReduceMean": Reduction(zero, finish=lambda x, count: x / count.to(x.kind)),
    "ReduceProd": Reduction(lambda kind: constant(1, kind), combine=lambda a, b: a * b),
    "ReduceMax": Reduction(lowest, combine=greatest),
    "ReduceMin": Reduction(highest, combine=least),
    "ReduceL1": Reduction(zero, absolute),
    "ReduceSumSquare": Reduction(zero, lambda x: x * x),
    "ReduceL2": Reduction(zero, lambda x: x * x, finish=_in_floats(sqrt)),
    "ReduceLogSum": Reduction(zero, finish=_in_floats(lambda x: call("log", x))),
    "ReduceLogSumExp": Reduction(zero),
}


@operator(*REDUCTIONS, on_integers=True)
def _reduce(n: Definition) -> None:
    x, rule = n.input(0), REDUCTIONS[n.kind]
    given = n.integers(1, "axes")
    if n.runs_on(1):
        _reduce_at_run_time(n, rule)
        return
    axes = sorted(set(axes_from(n, given or [], x.rank)))
    if not given:
        axes = [] if n.attr("noop_with_empty_axes", 0) else list(range(x.rank))
    keep, sizes = n.attr("keepdims", 1) == 1, [x.shape[a] for a in axes]
    order = {a: i for i, a in enumerate(axes)}
    y = n.output(0, without(x.shape, axes, keep), x.dtype)
    with n.k.each(ones_at(x.shape, axes)) as at:

        def element(*r: Expr) -> Expr:
            return x[tuple(r[order[a]] if a in order else i for a, i in enumerate(at))]

        if n.kind == "ReduceLogSumExp":
            result = _log_sum_exp(n, sizes, element, x.kind)
        else:
            total = n.k.fold(sizes, rule.first(x.kind), lambda *r: rule.term(element(*r)), rule.combine)
            result = rule.finish(total, index(prod(sizes)))
        n.k.store(y, [i for a, i in enumerate(at) if keep or a not in order], result)


def _finite(top: Expr) -> Expr:
    """The largest element, which is subtracted from all elements so that no exponential overflows; 0 if it is NaN or
    infinite.
    """
    return where(is_nan(top) | unary("isinf", top), zero(top.kind), top)


def _log_sum_exp(n: Definition, sizes: Sequence[int], element: Callable[..., Expr], kind: str) -> Expr:
    """The logarithm of the sum of exponentials; integers are converted to float64 and back."""
    wide = kind if dtypes.is_float(kind) else "float64"
    top = n.k.fold(sizes, lowest(wide), lambda *r: element(*r).to(wide), greatest)
    shift = n.k.let(_finite(top))
    total = n.k.sum(sizes, lambda *r: call("exp", element(*r).to(wide) - shift), wide)
    return (call("log", total) + shift).to(kind)


def _reduce_at_run_time(n: Definition, rule: Reduction) -> None:
    x, axes, k = n.input(0), n.input(1), n.k
    y = n.output(0, n.shape_of(0), x.dtype)
    reduced = []
    for a in range(x.rank):
        chosen = k.variable(axes.size == 0 and not n.attr("noop_with_empty_axes", 0), BOOL)
        for j in range(axes.size):
            k.set(chosen, chosen | within(axes.flat(j), x.rank).equals(a))
        reduced.append(chosen)
    stride, count = k.variable(1, INDEX), k.variable(1, INDEX)
    strides: list[Expr] = [index(0)] * x.rank
    for a in reversed(range(x.rank)):
        strides[a] = k.let(where(reduced[a], index(0), stride))
        k.set(stride, where(reduced[a], stride, stride * x.shape[a]))
        k.set(count, where(reduced[a], count * x.shape[a], count))

    def gathered(
        first: Expr, term: Callable[[Expr, Expr], Expr], combine: Callable[[Expr, Expr], Expr] = _add
    ) -> Tensor:
        """The sum, or another reduction, that each element of the output collects. term: maps an element of the input
        and its place in the reduction to its contribution.
        """
        totals = k.temporary((max(y.size, 1),), first.kind)
        with k.each(totals.shape) as (i,):
            k.store(totals, i, first)
        with k.loops(x.shape) as at:
            place = index(0)
            for one, step in zip(at, strides, strict=True):
                place = place + one * step
            place = k.let(within(place, totals.size))
            k.store(totals, place, combine(totals.flat(place), term(x[at], place)))
        return totals

    if n.kind == "ReduceLogSumExp":
        wide = x.kind if dtypes.is_float(x.kind) else "float64"
        tops = gathered(lowest(wide), lambda one, place: one.to(wide), greatest)
        sums = gathered(zero(wide), lambda one, place: call("exp", one.to(wide) - _finite(tops.flat(place))))
        with k.each((y.size,)) as (i,):
            k.store(y, i, (call("log", sums.flat(i)) + _finite(tops.flat(i))).to(x.kind))
        return
    totals = gathered(rule.first(x.kind), lambda one, place: rule.term(one), rule.combine)
    with k.each((y.size,)) as (i,):
        k.store(y, i, rule.finish(totals.flat(i), count))


@operator("ArgMax", "ArgMin")
def _arg(n: Definition) -> None:
    x, axis, keep, k = n.input(0), n.axis(), n.attr("keepdims", 1) == 1, n.k
    better = (">" if n.kind == "ArgMax" else "<") + ("=" if n.attr("select_last_index", 0) else "")
    require(x.rank > 0 and x.shape[axis] > 0, f"there is no element along axis {axis} of {list(x.shape)}")
    y = n.output(0, without(x.shape, [axis], keep), "int64")
    with k.each(ones_at(x.shape, [axis])) as at:
        best, place = k.let(x[with_index(at, axis, index(0))]), k.variable(0, INDEX)
        with k.loop(x.shape[axis]) as r:
            value = k.let(x[with_index(at, axis, r)])
            wins = binary(better, value, best)
            if dtypes.is_float(x.kind):
                newest = is_nan(value) if n.attr("select_last_index", 0) else is_nan(value) & ~is_nan(best)
                wins = wins | newest
            wins = k.let(wins)
            k.set(best, where(wins, value, best))
            k.set(place, where(wins, r, place))
        k.store(y, [i for a, i in enumerate(at) if keep or a != axis], place.to("int64"))


@operator("Softmax", "LogSoftmax", "Hardmax", on_integers=True)
def _softmax(n: Definition) -> None:
    """Define Softmax, LogSoftmax and Hardmax. Before opset 13 they work over all axes from `axis` on as if these were
    one.
    """
    x, k = n.input(0), n.k
    axis = n.axis(-1 if n.opset >= 13 else 1)
    y = n.output(0, x.shape, x.dtype)
    if n.opset < 13:
        shape = (prod(x.shape[:axis]), prod(x.shape[axis:]))
        x, y, axis = x.view(shape), y.view(shape), 1
    size = x.shape[axis] if x.rank else 1
    with k.each(ones_at(x.shape, [axis])) as at:

        def place(r: Expr) -> tuple[Expr, ...]:
            return with_index(at, axis, r) if x.rank else ()

        top = k.fold([size], lowest(x.kind), lambda r: x[place(r)], greatest)
        if n.kind == "Hardmax":
            first = k.variable(0, INDEX)
            with k.loop(size, down=True) as r:
                k.set(first, where(x[place(r)].equals(top), r, first))
            with k.loop(size) as r:
                k.store(y, place(r), where(r.equals(first), constant(1, x.kind), 0))
        else:
            if x.dtype in dtypes.SMALL_FLOATS:
                _narrow_softmax(n, x, y, place, top, size)
                return
            total = k.sum([size], lambda r: call("exp", x[place(r)] - top), x.kind)
            _shares(n, x, y, place, top, total, size)


def _narrow_softmax(
    n: Definition, x: Tensor, y: Tensor, place: Callable[[Expr], tuple[Expr, ...]], top: Expr, size: int
) -> None:
    """Compute as the function body of the operator does: differences, exponentials and their sum are rounded to the
    type of the tensor.
    """
    k = n.k
    below, exps = k.temporary(x.shape, x.dtype), k.temporary(x.shape, x.dtype)
    with k.loop(size) as r:
        k.store(below, place(r), x[place(r)] - top)
        k.store(exps, place(r), call("exp", below[place(r)]))
    total = k.sum([size], lambda r: exps[place(r)], x.kind)
    if n.kind == "LogSoftmax":
        logarithm = k.let(call("log", total))
        with k.loop(size) as r:
            k.store(y, place(r), below[place(r)] - logarithm)
        return
    k.store(y, place(index(0)), total)
    rounded = k.let(y[place(index(0))])
    with k.loop(size) as r:
        k.store(y, place(r), exps[place(r)] / rounded)


def _shares(
    n: Definition, x: Tensor, y: Tensor, place: Callable[[Expr], tuple[Expr, ...]], top: Expr, total: Expr, size: int
) -> None:
    """Store each exponential divided by the sum, or its logarithm."""
    logarithm = n.k.let(call("log", total)) if n.kind == "LogSoftmax" else None
    with n.k.loop(size) as r:
        below = x[place(r)] - top
        n.k.store(y, place(r), call("exp", below) / total if logarithm is None else below - logarithm)


@operator("CumSum", "CumProd", on_integers=True)
def _running(n: Definition) -> None:
    x, k, axes = n.input(0), n.k, n.constant(1)
    y = n.output(0, x.shape, x.dtype)
    first = 1 if n.kind == "CumProd" else 0

    def along(axis: int) -> None:
        with k.each(ones_at(x.shape, [axis])) as at:
            total = k.variable(first, x.kind)
            with k.loop(x.shape[axis], down=bool(n.attr("reverse", 0))) as r:
                value = k.let(x[with_index(at, axis, r)])
                new = k.let(total * value if first else total + value)
                k.store(y, with_index(at, axis, r), total if n.attr("exclusive", 0) else new)
                k.set(total, new)

    if axes is not None:
        along(axes_from(n, [int(np.ravel(axes)[0])], x.rank)[0])
        return
    chosen = k.let(within(n.input(1).scalar(), x.rank))
    for axis in range(x.rank):
        with k.when(chosen.equals(axis)):
            along(axis)


@operator("TopK")
def _top_k(n: Definition) -> None:
    """Define TopK. The rank of an element is the number of elements that come before it; the element is stored at its
    rank if that is below k.
    """
    x, axis, k = n.input(0), n.axis(-1), n.k
    counts = n.constant(1)
    if n.attr("k") is not None:
        count = int(n.attr("k"))
    else:
        count = n.shape_of(0)[axis] if counts is None else int(np.ravel(counts)[0])
    require(0 <= count <= x.shape[axis], f"the {count} largest of {x.shape[axis]} elements")
    largest = n.attr("largest", 1)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    values, places = n.output(0, shape, x.dtype), n.output(1, shape, "int64")
    with k.each(x.shape) as at:
        mine = k.let(x[at])

        def before(r: Expr) -> Expr:
            other = x[with_index(at, axis, r)]
            equal = other.equals(mine)
            if dtypes.is_float(x.kind):
                equal = equal | (is_nan(other) & is_nan(mine))
            return (precedes(mine, other) if largest else precedes(other, mine)) | (equal & (r < at[axis]))

        rank = k.count([x.shape[axis]], before)
        with k.when(rank < count):
            k.store(values, with_index(at, axis, rank), mine)
            k.store(places, with_index(at, axis, rank), at[axis].to("int64"))
