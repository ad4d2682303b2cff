"""Several runs of a program at once are the runs one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from glowembed.nest import interpret
from glowembed.nest.expr import constant, index, to_index
from glowembed.nest.program import Program, Recorder, Tensor

RNG = np.random.default_rng(5)


def program(nested: bool) -> Program:
    """Every kind of statement: loops whose length differs between runs, loads and stores outside their tensors, conditions, an
    accumulator, and a temporary that is read after it was written.
    """
    x, table, y = Tensor("x0", (4,), "float32"), Tensor("x1", (3, 4), "float32"), Tensor("y0", (3, 4), "float32")
    k = Recorder()
    kept = k.temporary((4,), "float32")
    with k.each((4,)) as (i,):
        k.store(kept, (i,), x[i] * x[i])
    with k.each((3,) if nested else (1,)) as (row,):
        total = k.variable(0.0, "float32")
        with k.loop(to_index(x.flat(row))) as step:
            k.set(total, total + table.flat(step * index(2) + row))
        with k.when(total > constant(1.0, "float32")):
            k.set(total, total * constant(0.5, "float32"))
        with k.each((4,)) as (column,):
            k.store(y, row * index(5) + column, total + kept[column])
    return Program((x, table), y, tuple(k.temporaries), tuple(k.body))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_runs_at_once_are_single_runs(count: int, nested: bool, shared: bool) -> None:
    made, table = program(nested), RNG.standard_normal((3, 4)).astype(np.float32)
    runs = [
        (RNG.uniform(-2, 6, 4).astype(np.float32), table if shared else RNG.standard_normal((3, 4)).astype(np.float32))
        for _ in range(count)
    ]
    alone = [interpret.run(made, inputs) for inputs in runs]
    assert np.array_equal(interpret.run_all(made, runs), alone)
    assert count == 1 or not np.array_equal(alone[0], alone[1])
