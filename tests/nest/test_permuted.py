"""Elementwise generated operators let Transposes pass: their loop nests are written again for axes in another order."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from small_models import canonical, model, node, weights

from glowembed.graph.layout import inverse
from glowembed.graph.layout import permuted as shape_permuted
from glowembed.nest import interpret
from glowembed.nest.expr import constant, where
from glowembed.nest.permuted import permuted
from glowembed.nest.program import Program, Recorder, Tensor

SHAPES = (
    ((2, 3, 4), [(2, 3, 4), (2, 3, 4)]),
    ((2, 3, 4), [(2, 3, 4), (3, 1)]),
    ((2, 3, 4), [(2, 1, 4), (1, 3, 1), (1,)]),
    ((1, 3, 1, 5), [(1, 3, 1, 5), (5,), (3, 1, 1)]),
    ((4,), [(4,), (1,)]),
)


def elementwise(shape, operands) -> Program:
    """where(a < 0, a * b, a + c), with a variable in between, as definitions record it."""
    inputs = [Tensor(f"x{i}", own, "float32") for i, own in enumerate(operands)]
    k, y = Recorder(), Tensor("y0", shape, "float32")
    with k.each(shape) as at:
        first, *others = (t.broadcast(at) for t in inputs)
        product = k.let(first * others[0])
        k.store(y, at, where(first < 0, product, first + others[-1]))
    return Program(tuple(inputs), y, (), tuple(k.body))


@pytest.mark.parametrize(("shape", "operands"), SHAPES)
def test_a_permuted_program_is_the_program_between_transposes(shape, operands) -> None:
    program, rng = elementwise(shape, operands), np.random.default_rng(3)
    arrays = [rng.normal(size=own).astype(np.float32) for own in operands]
    for perm in itertools.permutations(range(len(shape))):
        other = permuted(program, perm)
        assert other is not None and other.output.shape == shape_permuted(shape, perm)
        full = [a if a.size == 1 else a.reshape((1,) * (len(shape) - a.ndim) + a.shape).transpose(perm) for a in arrays]
        found = interpret.run(other, full)
        assert np.array_equal(found.transpose(inverse(perm)), interpret.run(program, arrays))


def test_programs_that_do_more_are_not_permuted() -> None:
    x, y = Tensor("x0", (2, 3), "float32"), Tensor("y0", (2, 3), "float32")

    def recorded(body) -> Program:
        k = Recorder()
        body(k)
        return Program((x,), y, (), tuple(k.body))

    def moved(k: Recorder) -> None:
        with k.each((2, 3)) as (i, j):
            k.store(y, (i, j), x[i, constant(2, "index") - j])

    def summed(k: Recorder) -> None:
        with k.each((2, 3)) as at:
            k.store(y, at, k.sum([3], lambda r: x[at[0], r], "float32"))

    def flat(k: Recorder) -> None:
        with k.each((6,)) as (i,):
            k.store(y, i, x.flat(5 - i))

    assert [permuted(recorded(body), (1, 0)) for body in (moved, summed, flat)] == [None] * 3


def test_a_program_that_chooses_one_of_several_is_not_permuted() -> None:
    """Its input is longer than its output along an axis, as in front of GatherND or of a Slice."""
    x, y = Tensor("x0", (2, 3), "float32"), Tensor("y0", (2, 1), "float32")
    k = Recorder()
    with k.each((2,)) as (i,):
        k.store(y, (i, constant(0, "index")), x[i, constant(0, "index")])
    assert permuted(Program((x,), y, (), tuple(k.body)), (1, 0)) is None


@pytest.mark.parametrize("dtype", ["int32", "bool", "float16"])
def test_numbers_that_a_transpose_cannot_hold_stay_where_they_are(dtype: str) -> None:
    """An image of int32 that is quantized by the model had a Transpose before it, which has no form for int32."""
    for kinds in ((dtype, "float32"), ("float32", dtype)):
        x, y = (Tensor(name, (2, 3), kind) for name, kind in zip(("x0", "y0"), kinds, strict=True))
        k = Recorder()
        with k.each((2, 3)) as at:
            k.store(y, at, x[at].to(y.dtype))
        assert permuted(Program((x,), y, (), tuple(k.body)), (1, 0)) is None


def test_a_network_of_feature_maps_has_no_transposes(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "a", pads=[1] * 4), node("Conv", "x v", "b", pads=[1] * 4), node("Max", "a b", "m"),
        node("PRelu", "m slopes", "p"), node("Sum", "a p m", "s"), node("Div", "s far", "d"), node("Conv", "d u", "y"),
    ]  # fmt: skip
    constants = {
        "w": weights(8, 3, 3, 3), "v": weights(8, 3, 3, 3, seed=2), "u": weights(2, 8, 1, 1, seed=3), "slopes": weights(8, 1, 1),
        "far": np.arange(2, 10, dtype=np.float32).reshape(8, 1, 1),
    }  # fmt: skip
    graph = canonical(model(nodes, {"x": (1, 3, 6, 5)}, constants), tmp_path)
    made = [n.op for n in graph.nodes]
    assert made == ["Transpose", "Conv", "Conv", "Choice", "Arithmetic", "Arithmetic", "Affine", "Conv", "Transpose"]
