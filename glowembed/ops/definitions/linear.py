"""Sums of products along axes: matrix products of computed operands, Einsum, determinants.

The products of one output are added strictly in the order of the shared axes, in the type of the operands; products of
integers are added in int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glowembed.graph.op import Refused
from glowembed.nest.dtypes import is_float
from glowembed.nest.expr import Expr, absolute, clamp, constant, index, rint, where
from glowembed.nest.program import Tensor
from glowembed.ops.shared.definition import Definition, broadcast_shape, operator

Term = Callable[[Expr, Expr, Sequence[Expr]], Expr]
"""The product of two elements; the third argument is the indices of the output."""

Finish = Callable[[Expr, Sequence[Expr]], Expr]
"""The output for a sum and the indices of the output."""


def matrix_product(n: Definition, a: Tensor, b: Tensor, term: Term, kind: str, dtype: str, finish: Finish) -> None:
    """Define a product like numpy's matmul: vectors become matrices, and batches are broadcast."""
    wide_a = a.view((1, *a.shape)) if a.rank == 1 else a
    wide_b = b.view((*b.shape, 1)) if b.rank == 1 else b
    if wide_a.shape[-1] != wide_b.shape[-2]:
        raise Refused(f"{list(a.shape)} times {list(b.shape)}", "the inner sizes must be the same")
    batch = broadcast_shape(wide_a.shape[:-2], wide_b.shape[:-2])
    shape = (*batch, wide_a.shape[-2], wide_b.shape[-1])
    kept = [s for d, s in enumerate(shape) if (a.rank > 1 or d != len(batch)) and (b.rank > 1 or d != len(shape) - 1)]
    y = n.output(0, kept, dtype).view(shape)

    def element(t: Tensor, at: Sequence[Expr], row: Expr, column: Expr) -> Expr:
        outer = at[len(batch) - (t.rank - 2) : len(batch)]
        own = [index(0) if size == 1 else i for i, size in zip(outer, t.shape, strict=False)]
        return t[(*own, row, column)]

    with n.k.each(shape) as at:

        def product(r: Expr) -> Expr:
            return term(element(wide_a, at, at[-2], r), element(wide_b, at, r, at[-1]), at)

        n.k.store(y, at, finish(n.k.sum([wide_a.shape[-1]], product, kind), at))


@operator("MatMul", on_integers=True)
def _matmul(n: Definition) -> None:
    a = n.input(0)
    matrix_product(n, a, n.input(1), lambda p, q, at: p * q, a.kind, a.dtype, lambda total, at: total)


def zero_point(n: Definition, i: int, at: Expr | int = 0) -> Expr:
    """An optional zero point as int32: 0 if it is absent, one for all channels, or one for each."""
    if not n.has(i):
        return constant(0, "int32")
    t = n.input(i)
    return t.flat(0 if t.size == 1 else at).to("int32")


@operator("MatMulInteger")
def _matmul_integer(n: Definition) -> None:
    def product(p: Expr, q: Expr, at: Sequence[Expr]) -> Expr:
        return (p.to("int32") - zero_point(n, 2, at[-2])) * (q.to("int32") - zero_point(n, 3, at[-1]))

    matrix_product(n, n.input(0), n.input(1), product, "int32", "int32", lambda total, at: total)


def requantized(total: Expr, scale: Expr, zero: Expr, dtype: str) -> Expr:
    """An int32 sum as a quantized output: rounded to nearest, halves to even, and clamped to the type."""
    low, high = {"int8": (-128, 127), "uint8": (0, 255)}[dtype]
    scaled = rint(total.to("float32") * scale.to("float32")).to("int32")
    return clamp(scaled + zero, low, high).to(dtype)


@operator("QLinearMatMul")
def _qlinear_matmul(n: Definition) -> None:
    def product(p: Expr, q: Expr, at: Sequence[Expr]) -> Expr:
        return (p.to("int32") - zero_point(n, 2, at[-2])) * (q.to("int32") - zero_point(n, 5, at[-1]))

    def of_channel(i: int, at: Expr) -> Expr:
        t = n.input(i)
        return t.flat(0 if t.size == 1 else at)

    def finish(total: Expr, at: Sequence[Expr]) -> Expr:
        scale = of_channel(1, at[-2]) * of_channel(4, at[-1]) / n.input(6).scalar()
        return requantized(total, scale, zero_point(n, 7), n.input(7).dtype)

    matrix_product(n, n.input(0), n.input(3), product, "int32", n.input(7).dtype, finish)


@operator("Gemm", on_integers=True)
def _gemm(n: Definition) -> None:
    a, b = n.input(0), n.input(1)
    across_a, across_b = n.attr("transA", 0), n.attr("transB", 0)
    rows, inner = reversed(a.shape) if across_a else a.shape
    columns = b.shape[0] if across_b else b.shape[1]
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    if not is_float(a.kind):
        alpha, beta = int(alpha), int(beta)
    y = n.output(0, (rows, columns), a.dtype)
    with n.k.each(y.shape) as (i, j):

        def product(r: Expr) -> Expr:
            return a[(r, i) if across_a else (i, r)] * b[(j, r) if across_b else (r, j)]

        total = n.k.sum([inner], product, a.kind)
        total = total if alpha == 1 else total * alpha
        if n.has(2):
            bias = n.input(2).broadcast((i, j))
            total = total + (bias if beta == 1 else bias * beta)
        n.k.store(y, (i, j), total)


@operator("Einsum", on_integers=True)
def _einsum(n: Definition) -> None:
    """Define Einsum with one loop for every letter: those of the result outside, the others inside, in the order of the
    equation.
    """
    inputs, result = _letters(n)
    sizes: dict[str, int] = {}
    for letters, t in zip(inputs, n.given(), strict=True):
        for letter, size in zip(letters, t.shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), size)
    inner = [letter for letter in sizes if letter not in result]
    kind = n.input(0).kind
    y = n.output(0, [sizes[letter] for letter in result], n.input(0).dtype)
    with n.k.each(y.shape) as at:

        def product(*r: Expr) -> Expr:
            where_is = dict(zip([*result, *inner], [*at, *r], strict=True))
            total: Expr | None = None
            for letters, t in zip(inputs, n.given(), strict=True):
                own = [index(0) if size == 1 else where_is[a] for a, size in zip(letters, t.shape, strict=True)]
                total = t[tuple(own)] if total is None else total * t[tuple(own)]
            assert total is not None
            return total

        n.k.store(y, at, n.k.sum([sizes[letter] for letter in inner], product, kind))


def _letters(n: Definition) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the result. The axes of an ellipsis are named 0, 1, 2 from the right."""
    equation = str(n.attr("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(n.given()):
        raise Refused(f"its equation {equation!r} has {len(terms)} operands", "check the model with onnx.checker")
    inputs = [_expanded(term, t.rank) for term, t in zip(terms, n.given(), strict=True)]
    most = max((sum(len(a) > 1 for a in letters) for letters in inputs), default=0)
    every = [letter for letters in inputs for letter in letters]
    if arrow:
        return inputs, _expanded(right, len(right.replace("...", "")) + (most if "..." in right else 0))
    once = sorted({a for a in every if len(a) == 1 and every.count(a) == 1})
    return inputs, [*(f"...{i}" for i in reversed(range(most))), *once]


def _expanded(term: str, rank: int) -> list[str]:
    before, dots, after = term.partition("...")
    count = rank - len(before) - len(after)
    if count < 0 or (count and not dots):
        raise Refused(f"the term {term!r} for a tensor of {rank} axes", "check the model with onnx.checker")
    return [*before, *(f"...{i}" for i in reversed(range(count))), *after]


@operator("Det")
def _det(n: Definition) -> None:
    """Define Det by Gaussian elimination; the pivot of each column is the element of the largest magnitude."""
    x, k = n.input(0), n.k
    size, batch = x.shape[-1], x.shape[:-2]
    y = n.output(0, batch, x.dtype)
    m = k.temporary(x.shape, x.dtype)
    with k.each(x.shape) as at:
        k.store(m, at, x[at])
    with k.loops(batch) as outer:
        result = k.variable(1, x.kind)
        with k.loop(size) as column:
            best = k.let(column)
            with k.loop(size) as row:
                larger = absolute(m[(*outer, row, column)]) > absolute(m[(*outer, best, column)])
                k.set(best, where((row > column) & larger, row, best))
            with k.loop(size) as j:
                upper, lower = k.let(m[(*outer, column, j)]), k.let(m[(*outer, best, j)])
                k.store(m, (*outer, column, j), lower)
                k.store(m, (*outer, best, j), upper)
            pivot = k.let(m[(*outer, column, column)])
            k.set(result, where(best.equals(column), result, -result) * pivot)
            with k.loop(size) as row, k.when((row > column) & pivot.differs(0.0)):
                factor = k.let(m[(*outer, row, column)] / pivot)
                with k.loop(size) as j:
                    k.store(m, (*outer, row, j), m[(*outer, row, j)] - factor * m[(*outer, column, j)])
        k.store(y, outer, result)
