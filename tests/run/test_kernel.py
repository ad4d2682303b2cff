"""Every byte that a kernel under test may not change is compared: the proof of each kernel rests on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from glowembed.graph.registry import kernel_ops
from glowembed.ops.activation import LutParams
from glowembed.run.kernel import GUARD, Arena, HostKernel, Invocation, KernelFault, in_one_piece, in_slots

OP = kernel_ops()["lut_s8"]
PORTABLE = next(kernel for kernel in OP.kernels if not kernel.isa)
PARAMS = LutParams(rows=4, row=5)


def flip(memory: np.ndarray, at: int) -> None:
    memory.view(np.uint8)[at] ^= 1


def call(change: Callable[[Invocation], None], slots: bool) -> None:
    """A kernel that only makes this change, and is to compute the rows 1 and 2 of 4."""
    make = (lambda at: in_slots(at, [2, 0, 3, 1], 5)) if slots else (lambda at: in_one_piece(at, 4, 5))
    kernel = HostKernel(OP, PORTABLE, change)
    kernel.run(Arena(400), PARAMS, [make(0)], [np.zeros(256, np.int8)], make(200), range(1, 3))


@pytest.mark.parametrize("slots", [False, True])
def test_rows_may_change(slots: bool) -> None:
    def change(i: Invocation) -> None:
        for y in i.rows:
            i.arena.row(i.places[-1], y)[:] ^= 255

    call(change, slots)


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.parametrize("column", [0, 4])
def test_no_other_row_may_change(row: int, column: int, slots: bool) -> None:
    with pytest.raises(KernelFault, match="1 bytes of the arena"):
        call(lambda i: flip(i.arena.row(i.places[-1], row), column), slots)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda i: flip(i.arena.row(i.places[0], 1), 2), "1 bytes of the arena outside its rows"),
        (lambda i: flip(i.arena.memory, 0), "the arena outside its rows, first at 0"),
        (lambda i: flip(i.arena.memory, -1), "the arena"),
        (lambda i: flip(i.scratch.memory, GUARD - 1), f"the scratch memory outside its rows, first at {GUARD - 1}"),
        (lambda i: flip(i.scratch.memory, -GUARD), "the scratch memory"),
        (lambda i: flip(i.constants[0], 255), "the constant table outside its rows, first at 255"),
    ],
)
def test_nothing_else_may_change(change: Callable[[Invocation], None], what: str) -> None:
    with pytest.raises(KernelFault, match=what):
        call(change, slots=False)
