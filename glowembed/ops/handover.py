"""Data that a bundle exchanges with the caller or with its next run: rows of an input that the caller delivers, whole
tensors in a buffer of the caller, and states. The options for inputs and outputs make these nodes, not ONNX.
Kernel-level: take_rows, copy_rows, store_rows, slide_rows, crop_rows, join_rows, which move bytes of any type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Geometry, per_row
from glowembed.graph.ir import Array
from glowembed.graph.op import Cost, Kernel, KernelOp
from glowembed.records import dataclass

CALL_CYCLES = 20.0
"""The cycles for each row that the caller delivers, without the caller's own work."""


@dataclass(frozen=True)
class HandoverParams:
    """The size of a tensor in rows."""

    rows: int = i32("rows of the tensor")
    row_bytes: int = i32("bytes of a row")


class _Handover(KernelOp[HandoverParams]):
    params = HandoverParams
    geometry = per_row(lambda p: ((p.row_bytes,), p.row_bytes))

    def int_ref(self, p: HandoverParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return inputs[0]


def _calls(n: Any, t: Any) -> Cost:
    return Cost(CALL_CYCLES * n.params.rows, 40)


class TakeRows(_Handover):
    """y = x. A function of the caller delivers the rows of x in order, each once."""

    name = "take_rows"
    kernels = (Kernel("ge_take_rows", cost=_calls, store="rows"),)


class CopyRows(_Handover):
    """y = x."""

    name = "copy_rows"
    kernels = (
        Kernel("ge_copy_rows", cost=lambda n, t: Cost(0.5 * n.params.rows * n.params.row_bytes + 20.0, 40), store="rows"),
    )  # fmt: skip


class StoreRows(_Handover):
    """y = x, written over `old`, which is not read afterwards: `old` and the output are the same memory (Node.shares is
    0).
    """

    name = "store_rows"
    inputs = ("old", "x")
    geometry = replace(
        per_row(lambda p: ((p.row_bytes, p.row_bytes), p.row_bytes)),
        needs=lambda p, y: (range(0), range(y, y + 1)),
    )
    kernels = (
        Kernel("ge_store_rows", cost=lambda n, t: Cost(0.5 * n.params.rows * n.params.row_bytes + 20.0, 40), store="rows"),
    )  # fmt: skip

    def int_ref(self, p: HandoverParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return inputs[1]


@dataclass(frozen=True)
class SlideParams:
    """The rows that stay, and those that follow them."""

    row_bytes: int = i32("bytes of a row")
    rows: int = i32("of old, and of the output")
    x_first: int = i32("first row that is taken of x")
    x_count: int = i32("rows that are taken of it, at least 1; the last rows - x_count of old move to its start")


class SlideRows(KernelOp[SlideParams]):
    """y = the last rows of old, then rows of x: `old` and the output are the same memory (Node.shares is 0)."""

    name = "slide_rows"
    params = SlideParams
    inputs = ("old", "x")
    geometry = Geometry(
        lambda p: 1,
        lambda p: ((p.rows * p.row_bytes, p.row_bytes), p.rows * p.row_bytes),
        lambda p, y: (range(1), range(p.x_first, p.x_first + p.x_count)),
    )
    kernels = (Kernel("ge_slide_rows", cost=lambda n, t: moved_cost(n.params.rows, n.params.row_bytes)),)

    def int_ref(self, p: SlideParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        old, x = as_rows(inputs, p.row_bytes)
        return as_stored(np.concatenate([old[p.x_count :], x[p.x_first : p.x_first + p.x_count]]), inputs)


def as_rows(inputs: Sequence[Array], row_bytes: int) -> list[Array]:
    """Tensors of any type as rows of bytes."""
    return [np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(-1, row_bytes) for x in inputs]


def as_stored(rows: Array, inputs: Sequence[Array]) -> Array:
    """Rows of bytes in the type of the inputs."""
    return np.ascontiguousarray(rows).reshape(-1).view(inputs[0].dtype)


def moved_cost(rows: int, row_bytes: int) -> Cost:
    """Of rows that are copied by memcpy."""
    return Cost(rows * (1.2 * row_bytes + 15.0) + 40.0, 90)


@dataclass(frozen=True)
class CropParams:
    """The rows that are taken."""

    row_bytes: int = i32("bytes of a row")
    rows: int = i32("rows of the output")
    first: int = i32("the first row that is taken")
    step: int = i32("rows from one to the next")


class CropRows(KernelOp[CropParams]):
    """y = rows of x. The graph of a hop has views or join_rows in its place, so it has no kernel."""

    name = "crop_rows"
    params = CropParams
    geometry = Geometry(
        lambda p: int(p.rows),
        lambda p: ((p.row_bytes,), p.row_bytes),
        lambda p, y: (range(p.first + p.step * y, p.first + p.step * y + 1),),
        part=lambda p, out, rows: replace(p, rows=len(out), first=p.first + p.step * out.start - rows.start),
    )

    def int_ref(self, p: CropParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        (x,) = as_rows(inputs, p.row_bytes)
        return as_stored(x[p.first :: p.step][: p.rows], inputs)


PIECES = 3
"""The number of tensors from which join_rows takes pieces."""


@dataclass(frozen=True)
class JoinParams:
    """The rows that are taken of each input."""

    row_bytes: int = i32("bytes of a row")
    rows: int = i32("rows of the output")
    a_first: int = i32("first row that is taken of the first input")
    a_count: int = i32("rows that are taken of it")
    b_first: int = i32("the same for the second input")
    b_count: int = i32("rows that are taken of it; may be 0")
    c_first: int = i32("the same for the third input; rows - a_count - b_count are taken")


def _joined(p: JoinParams, y: int) -> tuple[range, ...]:
    """The row of the inputs that row y of the output is."""
    found = [range(0)] * PIECES
    starts = ((p.a_first, 0), (p.b_first, p.a_count), (p.c_first, p.a_count + p.b_count))
    piece = 0 if y < p.a_count else 1 if y < p.a_count + p.b_count else 2
    first, before = starts[piece]
    found[piece] = range(first + y - before, first + y - before + 1)
    return tuple(found)


class JoinRows(KernelOp[JoinParams]):
    """y = rows of a, then rows of b, then rows of c."""

    name = "join_rows"
    params = JoinParams
    inputs = ("a", "b", "c")
    geometry = Geometry(lambda p: int(p.rows), lambda p: ((p.row_bytes,) * PIECES, p.row_bytes), _joined)
    kernels = (
        Kernel("ge_join_rows", cost=lambda n, t: moved_cost(n.params.rows, n.params.row_bytes), store="elements"),
    )

    def int_ref(self, p: JoinParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        pieces = as_rows(inputs, p.row_bytes)
        taken = [_joined(p, y) for y in range(p.rows)]
        rows = [pieces[i][rows.start] for of_row in taken for i, rows in enumerate(of_row) if rows]
        return as_stored(np.stack(rows), inputs)


OPS = ()
KERNEL_OPS = (TakeRows(), CopyRows(), StoreRows(), SlideRows(), CropRows(), JoinRows())
