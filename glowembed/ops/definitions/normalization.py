"""Normalizations, which subtract a mean from each element and divide by a standard deviation or another norm.

Means and variances are sums in the order of the elements, divided by the number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from glowembed.graph.op import Refused
from glowembed.nest.expr import Expr, call, constant, sqrt, where
from glowembed.ops.definitions.windows import raised, root
from glowembed.ops.shared.definition import Definition, ones_at, operator, with_index


def moments(n: Definition, sizes: Sequence[int], element: Callable[..., Expr], kind: str) -> tuple[Expr, Expr]:
    """The mean and the variance of all elements."""
    count = constant(max(prod(sizes), 1), kind)
    mean = n.k.let(n.k.sum(sizes, element, kind) / count)

    def squared(*r: Expr) -> Expr:
        return (element(*r) - mean) * (element(*r) - mean)

    return mean, n.k.let(n.k.sum(sizes, squared, kind) / count)


@operator("BatchNormalization", on_integers=True)
def _batch_normalization(n: Definition) -> None:
    x, k, epsilon = n.input(0), n.k, n.attr("epsilon", 1e-5)
    y = n.output(0, x.shape, x.dtype)

    def put(at: Sequence[Expr], mean: Expr, variance: Expr) -> None:
        scale, bias = (n.input(i).flat(at[1]).to(x.kind) for i in (1, 2))
        k.store(y, at, (x[tuple(at)] - mean) / sqrt(variance + epsilon) * scale + bias)

    if not n.attr("training_mode", 0):
        with k.each(x.shape) as at:
            put(at, n.input(3).flat(at[1]).to(x.kind), n.input(4).flat(at[1]).to(x.kind))
        return
    momentum = n.attr("momentum", 0.9)
    running = [n.output(1 + i, n.input(3 + i).shape, n.input(3 + i).dtype) for i in (0, 1)]
    others = [a for a in range(x.rank) if a != 1]
    sizes = [x.shape[a] for a in others]
    with k.each((x.shape[1],)) as (c,):

        def place(r: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(c if a == 1 else r[others.index(a)] for a in range(x.rank))

        found = moments(n, sizes, lambda *r: x[place(r)], x.kind)
        for i in (0, 1):
            old = n.input(3 + i).flat(c)
            k.store(running[i], (c,), old * momentum + found[i].to(old.kind) * (1 - momentum))
        with k.loops(sizes) as r:
            put(place(r), *found)


@operator("InstanceNormalization", on_integers=True)
def _instance_normalization(n: Definition) -> None:
    x, k = n.input(0), n.k
    y, sizes = n.output(0, x.shape, x.dtype), x.shape[2:]
    with k.each(x.shape[:2]) as at:
        mean, variance = moments(n, sizes, lambda *r: x[(*at, *r)], x.kind)
        factor = k.let(1.0 / sqrt(variance + n.attr("epsilon", 1e-5)))
        with k.loops(sizes) as r:
            normal = (x[(*at, *r)] - mean) * factor
            k.store(y, (*at, *r), normal * n.input(1).flat(at[1]) + n.input(2).flat(at[1]))


def _normalized(
    n: Definition, axes: Sequence[int], epsilon: float, scale: Callable[[Sequence[Expr]], Expr] | None = None,
    shift: Callable[[Sequence[Expr]], Expr] | None = None, centred: bool = True,
) -> None:  # fmt: skip
    """Subtract the input's mean over some axes, divide by the root of its variance, then scale and shift.

    If the model names outputs 1 and 2, they are the mean and the inverse of the standard deviation.
    """
    x, k = n.input(0), n.k
    y = n.output(0, x.shape, x.dtype)
    sizes, order = [x.shape[a] for a in axes], {a: i for i, a in enumerate(axes)}
    means, factors = (n.output(j, ones_at(x.shape, axes), "float32") if n.wants(j) else None for j in (1, 2))
    with k.each(ones_at(x.shape, axes)) as at:

        def place(r: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(r[order[a]] if a in order else i for a, i in enumerate(at))

        if centred:
            mean, variance = moments(n, sizes, lambda *r: x[place(r)], x.kind)
        else:
            squares = k.sum(sizes, lambda *r: x[place(r)] * x[place(r)], x.kind)
            mean, variance = constant(0, x.kind), k.let(squares / constant(max(prod(sizes), 1), x.kind))
        factor = k.let(1.0 / sqrt(variance + epsilon))
        with k.loops(sizes) as r:
            own = place(r)
            value = (x[own] - mean) * factor if centred else x[own] * factor
            value = value if scale is None else value * scale(own)
            k.store(y, own, value if shift is None else value + shift(own))
        for t, value in ((means, mean), (factors, factor)):
            if t is not None:
                k.store(t, at, value.to("float32"))


@operator("LayerNormalization", "RMSNormalization", on_integers=True)
def _layer_normalization(n: Definition) -> None:
    x = n.input(0)
    axes = list(range(n.axis(-1), x.rank))

    def of_input(i: int) -> Callable[[Sequence[Expr]], Expr] | None:
        return (lambda at: n.input(i).broadcast(at)) if n.has(i) else None

    _normalized(n, axes, n.attr("epsilon", 1e-5), of_input(1), of_input(2), n.kind == "LayerNormalization")


@operator("MeanVarianceNormalization", on_integers=True)
def _mean_variance_normalization(n: Definition) -> None:
    """Define MeanVarianceNormalization; it divides by the standard deviation plus 1e-9, as the operator's function body
    does.
    """
    x, k = n.input(0), n.k
    axes = [int(a) % x.rank for a in n.attr("axes") or (0, 2, 3)]
    y = n.output(0, x.shape, x.dtype)
    order = {a: i for i, a in enumerate(axes)}
    with k.each(ones_at(x.shape, axes)) as at:

        def place(r: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(r[order[a]] if a in order else i for a, i in enumerate(at))

        mean, variance = moments(n, [x.shape[a] for a in axes], lambda *r: x[place(r)], x.kind)
        deviation = k.let(sqrt(variance) + 1e-9)
        with k.loops([x.shape[a] for a in axes]) as r:
            k.store(y, place(r), (x[place(r)] - mean) / deviation)


@operator("GroupNormalization", on_integers=True)
def _group_normalization(n: Definition) -> None:
    """Define GroupNormalization. Scale and bias belong to a channel; before opset 21 they belong to a group."""
    x, k, groups = n.input(0), n.k, int(n.attr("num_groups"))
    if x.shape[1] % groups:
        raise Refused(f"{x.shape[1]} channels in {groups} groups", "check the model with onnx.checker")
    share, sizes = x.shape[1] // groups, x.shape[2:]
    y = n.output(0, x.shape, x.dtype)
    with k.each((x.shape[0], groups)) as (b, group):

        def element(c: Expr, *r: Expr) -> Expr:
            return x[(b, group * share + c, *r)]

        mean, variance = moments(n, [share, *sizes], element, x.kind)
        factor = k.let(1.0 / sqrt(variance + n.attr("epsilon", 1e-5)))
        with k.loops([share, *sizes]) as (c, *r):
            channel = group * share + c
            scale, bias = (n.input(i).flat(channel if n.input(i).size == x.shape[1] else group) for i in (1, 2))
            k.store(y, (b, channel, *r), (element(c, *r) - mean) * factor * scale + bias)


@operator("LpNormalization", on_integers=True)
def _lp_normalization(n: Definition) -> None:
    x, k, axis, p = n.input(0), n.k, n.axis(-1), int(n.attr("p", 2))
    y = n.output(0, x.shape, x.dtype)
    with k.each(ones_at(x.shape, [axis])) as at:
        total = k.sum([x.shape[axis]], lambda r: raised(x[with_index(at, axis, r)], p), x.kind)
        norm = k.let(root(total, p))
        with k.loop(x.shape[axis]) as r:
            place = with_index(at, axis, r)
            k.store(y, place, where(norm.equals(0.0), constant(0, x.kind), x[place] / norm))


@operator("LRN", on_integers=True)
def _lrn(n: Definition) -> None:
    x, size = n.input(0), int(n.attr("size"))
    alpha, beta, bias = n.attr("alpha", 1e-4), n.attr("beta", 0.75), n.attr("bias", 1.0)
    y = n.output(0, x.shape, x.dtype)
    with n.k.each(x.shape) as at:

        def squared(r: Expr) -> Expr:
            channel = at[1] + r - (size - 1) // 2
            value = x[with_index(at, 1, channel)]
            return where((channel >= 0) & (channel < x.shape[1]), value * value, constant(0, x.kind))

        total = n.k.sum([size], squared, x.kind)
        n.k.store(y, at, x[at] / call("power", total * (alpha / size) + bias, constant(beta, x.kind)))
