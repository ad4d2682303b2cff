"""Operators that choose elements by index: gathers, scatters, and selections whose size depends on data.

Negative indices count from the end, and indices are clamped to their axis. If several updates of a scatter have the
same place, the last one in the order of the indices wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from glowembed.graph.op import Refused
from glowembed.nest.dtypes import INDEX
from glowembed.nest.expr import Expr, clamp, constant, index, where, within
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.moves import ZERO
from glowembed.ops.definitions.pointwise import greatest, least, precedes
from glowembed.ops.shared.definition import Definition, ones_at, operator, require, with_index, with_size


def _nothing_missing(x: Tensor, y: Tensor) -> None:
    """Raise Refused if elements are to be read from an empty tensor."""
    require(x.size > 0 or y.size == 0, f"no element of {list(x.shape)} can be chosen")


def _within_axes(x: Tensor, chosen: Tensor, axis: int) -> None:
    """Raise Refused if indices along one axis would read or write beyond the other axes."""
    pairs = list(zip(chosen.shape, x.shape, strict=True))
    fits = all(a == axis or own <= size for a, (own, size) in enumerate(pairs))
    require(fits, f"indices of {list(chosen.shape)} for {list(x.shape)}")


@operator("Gather")
def _gather(n: Definition) -> None:
    x, chosen, axis = n.input(0), n.input(1), n.axis()
    y = n.output(0, (*x.shape[:axis], *chosen.shape, *x.shape[axis + 1 :]), x.dtype)
    _nothing_missing(x, y)
    with n.k.each(y.shape) as at:
        i = within(chosen[at[axis : axis + chosen.rank]], x.shape[axis])
        n.k.store(y, at, x[(*at[:axis], i, *at[axis + chosen.rank :])])


@operator("GatherElements")
def _gather_elements(n: Definition) -> None:
    x, chosen, axis = n.input(0), n.input(1), n.axis()
    y = n.output(0, chosen.shape, x.dtype)
    _within_axes(x, chosen, axis)
    _nothing_missing(x, y)
    with n.k.each(y.shape) as at:
        n.k.store(y, at, x[with_index(at, axis, within(chosen[at], x.shape[axis]))])


@operator("GatherND")
def _gather_nd(n: Definition) -> None:
    x, chosen, batch = n.input(0), n.input(1), int(n.attr("batch_dims", 0))
    width, outer = chosen.shape[-1], chosen.shape[:-1]
    fits = 0 <= batch <= len(outer) and outer[:batch] == x.shape[:batch] and batch + width <= x.rank
    require(fits, f"indices of {list(chosen.shape)} for {list(x.shape)} with batch_dims {batch}")
    y = n.output(0, (*outer, *x.shape[batch + width :]), x.dtype)
    _nothing_missing(x, y)
    with n.k.each(y.shape) as at:
        head = at[: len(outer)]
        picked = [within(chosen[(*head, index(j))], x.shape[batch + j]) for j in range(width)]
        n.k.store(y, at, x[(*at[:batch], *picked, *at[len(outer) :])])


REDUCTIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": greatest,
    "min": least,
}


def _scatter(n: Definition, at: Callable[[Sequence[Expr]], Sequence[Expr]], updates: Tensor) -> None:
    """A copy of input 0 in which every update is combined with the element in its place."""
    x, reduction = n.input(0), n.attr("reduction", "none")
    if reduction not in REDUCTIONS:
        raise Refused(f"its reduction is {reduction!r}", f"supported: {', '.join(REDUCTIONS)}")
    y = n.output(0, x.shape, x.dtype)
    _nothing_missing(x, updates)
    with n.k.each((x.size,)) as (i,):
        n.k.store(y, i, x.flat(i))
    with n.k.loops(updates.shape) as i:
        place = n.k.let(y.position(at(i)))
        n.k.store(y, place, REDUCTIONS[reduction](y.flat(place), updates[i]))


@operator("ScatterElements", "Scatter")
def _scatter_elements(n: Definition) -> None:
    x, chosen, updates, axis = n.input(0), n.input(1), n.input(2), n.axis()
    _within_axes(x, chosen, axis)
    require(updates.shape == chosen.shape, f"updates of {list(updates.shape)} for indices of {list(chosen.shape)}")
    _scatter(n, lambda i: with_index(i, axis, within(chosen[tuple(i)], x.shape[axis])), updates)


@operator("ScatterND")
def _scatter_nd(n: Definition) -> None:
    x, chosen, updates = n.input(0), n.input(1), n.input(2)
    width, outer = chosen.shape[-1], chosen.rank - 1
    fits = width <= x.rank and updates.shape == (*chosen.shape[:-1], *x.shape[width:])
    require(fits, f"updates of {list(updates.shape)} for indices of {list(chosen.shape)} into {list(x.shape)}")

    def place(i: Sequence[Expr]) -> Sequence[Expr]:
        head = [within(chosen[(*i[:outer], index(j))], x.shape[j]) for j in range(width)]
        return [*head, *i[outer:]]

    _scatter(n, place, updates)


@operator("TensorScatter")
def _tensor_scatter(n: Definition) -> None:
    x, updates, axis = n.input(0), n.input(1), n.axis(-2)
    circular, size = n.attr("mode", "linear") == "circular", x.shape[axis]
    fits = ones_at(updates.shape, [axis]) == ones_at(x.shape, [axis]) and updates.shape[axis] <= size
    require(fits, f"updates of {list(updates.shape)} for {list(x.shape)}")
    if n.has(2):
        require(n.input(2).size == x.shape[0], f"{n.input(2).size} indices for a batch of {x.shape[0]}")

    def place(i: Sequence[Expr]) -> Sequence[Expr]:
        start = n.position(2, i[0]) if n.has(2) else ZERO
        if circular:
            return with_index(i, axis, (start % size + i[axis]) % size)
        return with_index(i, axis, clamp(clamp(start, -size, size) + i[axis], 0, size - 1))

    _scatter(n, place, updates)


def _bounded(n: Definition, j: int, shape: Sequence[int], dtype: str) -> Tensor:
    """An output whose size is a bound; unused elements are 0."""
    y = n.output(j, shape, dtype)
    with n.k.each((y.size,)) as (i,):
        n.k.store(y, i, 0)
    return y


@operator("Compress")
def _compress(n: Definition) -> None:
    x, chosen = n.input(0), n.input(1)
    axis = None if n.attr("axis") is None else n.axis()
    most = min(x.size if axis is None else x.shape[axis], chosen.size)
    bound = (most,) if axis is None else with_size(x.shape, axis, most)
    y = _bounded(n, 0, n.shape_within(bound, {0: axis or 0}), x.dtype)
    fits = y.rank == 1 if axis is None else ones_at(y.shape, [axis]) == ones_at(x.shape, [axis])
    require(fits, f"its output is declared as {list(y.shape)}, its input is {list(x.shape)}")
    length = x.size if axis is None else x.shape[axis]
    count = n.k.variable(0, INDEX)
    with n.k.loop(min(length, chosen.size)) as r, n.k.when(chosen.flat(r).to("bool")):
        with n.k.when(count < (y.size if axis is None else y.shape[axis])):
            if axis is None:
                n.k.store(y, count, x.flat(r))
            else:
                with n.k.loops((*x.shape[:axis], 1, *x.shape[axis + 1 :])) as at:
                    n.k.store(y, with_index(at, axis, count), x[with_index(at, axis, r)])
        n.k.set(count, count + 1)
    n.tell_found(count)


@operator("NonZero")
def _non_zero(n: Definition) -> None:
    """Define NonZero; a scalar counts as a tensor of one element."""
    x = n.input(0)
    x = x.view(x.shape or (1,))
    y = _bounded(n, 0, n.shape_within((x.rank, x.size), {0: 1}), "int64")
    fits = y.rank == 2 and y.shape[0] == x.rank
    require(fits, f"its output is declared as {list(y.shape)}, its input has {x.rank} axes")
    count = n.k.variable(0, INDEX)
    with n.k.loops(x.shape) as at, n.k.when(x[at].differs(constant(0, x.kind)) & (count < y.shape[-1])):
        for a, i in enumerate(at):
            n.k.store(y, (index(a), count), i.to("int64"))
        n.k.set(count, count + 1)
    n.tell_found(count)


@operator("Unique")
def _unique(n: Definition) -> None:
    """Define Unique: the distinct slices along an axis, or elements of a tensor, in the order of their first occurrence
    or sorted.
    """
    x, k = n.input(0), n.k
    flat = n.attr("axis") is None
    axis = 0 if flat else n.axis()
    x = x.view((x.size,)) if flat else x
    count, rest = x.shape[axis], [size for a, size in enumerate(x.shape) if a != axis]
    y = _bounded(n, 0, n.shape_within(x.shape, {0: axis, 1: 0, 3: 0}), x.dtype)
    fits = ones_at(y.shape, [axis]) == ones_at(x.shape, [axis]) and y.shape[axis] > 0
    require(fits, f"its output is declared as {list(y.shape)}, its input is {list(x.shape)}")
    found = y.shape[axis]
    inverse = n.output(2, (count,), "int64")
    first, counts = (_bounded(n, j, (found,), "int64") for j in (1, 3))
    heads, different = k.temporary((count,), "int32"), k.variable(0, INDEX)

    def element(i: Expr, r: Sequence[Expr]) -> Expr:
        return x[(*r[:axis], i, *r[axis:])]

    def order(a: Expr, b: Expr) -> Expr:
        """Compare two slices by the first elements that differ: -1, 0 or 1."""
        result = k.variable(0, INDEX)
        with k.loops(rest) as r:
            one, other = k.let(element(a, r)), k.let(element(b, r))
            k.set(
                result,
                where(
                    result.differs(0),
                    result,
                    where(precedes(one, other), index(-1), where(precedes(other, one), index(1), ZERO)),
                ),
            )
        return result

    with k.loop(count) as p:
        head = k.let(p)
        with k.loop(count, down=True) as q, k.when(q < p):
            same = order(p, q)
            k.set(head, where(same.equals(0), q, head))
        k.store(heads, (p,), head.to("int32"))
        k.set(different, where(head.equals(p), different + 1, different))
    n.tell_found(different)
    with k.loop(count) as p:
        place, mine = k.variable(0, INDEX), k.let(heads[p].to(INDEX))
        with k.loop(count) as q, k.when(heads[q].to(INDEX).equals(q)):
            before = order(q, mine) < 0 if n.attr("sorted", 1) else q < mine
            k.set(place, where(before, place + 1, place))
        at = k.let(clamp(place, 0, found - 1))
        k.store(inverse, (p,), at.to("int64"))
        k.store(counts, (at,), counts[at] + 1)
        with k.when(mine.equals(p)):
            k.store(first, (at,), p.to("int64"))
            with k.loops(rest) as r:
                k.store(y, (*r[:axis], at, *r[axis:]), element(p, r))


@operator("ArrayFeatureExtractor", "ai.onnx.ml:ArrayFeatureExtractor")
def _array_feature_extractor(n: Definition) -> None:
    x, chosen = n.input(0), n.input(1)
    width = x.shape[-1] if x.rank else 1
    rows = x.view((x.size // width, width))
    outer = (1,) if x.rank == 1 else x.shape[:-1]
    y = n.output(0, (*outer, chosen.size), x.dtype).view((prod(outer), chosen.size))
    with n.k.each(y.shape) as (i, j):
        n.k.store(y, (i, j), rows[i, within(chosen.flat(j), width)])
