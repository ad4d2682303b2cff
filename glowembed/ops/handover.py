"""Data that a bundle exchanges with the caller or with its next run: rows of an input that the caller delivers, whole
tensors in a buffer of the caller, and states. The options for inputs and outputs make these nodes, not ONNX.
Kernel-level: take_rows, copy_rows, store_rows, slide_rows, join_rows, which move bytes of any type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import per_row, whole
from glowembed.graph.ir import Array
from glowembed.graph.op import Cost, Kernel, KernelOp

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
    """Which old rows are kept, and which new ones follow them."""

    bytes: int = i32("of the old rows, and of the new ones")
    stays: int = i32("bytes at the end of the old rows that move to their start; may be 0")
    x_bytes: int = i32("bytes of x")
    x_first: int = i32("first byte that is taken of x; bytes - stays are taken")


class SlideRows(KernelOp[SlideParams]):
    """y = the end of old, then a piece of x: `old` and the output are the same memory (Node.shares is 0)."""

    name = "slide_rows"
    params = SlideParams
    inputs = ("old", "x")
    geometry = whole(lambda p: ((p.bytes, p.x_bytes), p.bytes))
    kernels = (Kernel("ge_slide_rows", cost=lambda n, t: Cost(0.7 * n.params.bytes + 40.0, 70)),)

    def int_ref(self, p: SlideParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        old, x = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in inputs)
        taken = x[p.x_first : p.x_first + p.bytes - p.stays]
        return np.concatenate([old[p.bytes - p.stays :], taken]).view(inputs[0].dtype)


PIECES = 3
"""The number of tensors from which join_rows takes pieces."""


@dataclass(frozen=True)
class JoinParams:
    """The sizes of all tensors, and the piece that is taken of each input."""

    out_bytes: int = i32("bytes of the output")
    a_bytes: int = i32("bytes of the first input")
    b_bytes: int = i32("bytes of the second input")
    c_bytes: int = i32("bytes of the third input")
    a_first: int = i32("first byte that is taken of the first input")
    a_count: int = i32("bytes that are taken of it")
    b_first: int = i32("the same for the second input")
    b_count: int = i32("bytes that are taken of it; may be 0")
    c_first: int = i32("the same for the third input")
    c_count: int = i32("bytes that are taken of it; may be 0")


class JoinRows(KernelOp[JoinParams]):
    """y = a piece of a, then a piece of b, then a piece of c."""

    name = "join_rows"
    params = JoinParams
    inputs = ("a", "b", "c")
    geometry = whole(lambda p: ((p.a_bytes, p.b_bytes, p.c_bytes), p.out_bytes))
    kernels = (Kernel("ge_join_rows", cost=lambda n, t: Cost(0.7 * n.params.out_bytes + 60.0, 80)),)

    def int_ref(self, p: JoinParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        spans = ((p.a_first, p.a_count), (p.b_first, p.b_count), (p.c_first, p.c_count))
        flat = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in inputs]
        pieces = [x[first : first + count] for x, (first, count) in zip(flat, spans, strict=True)]
        return np.concatenate(pieces).view(inputs[0].dtype)


OPS = ()
KERNEL_OPS = (TakeRows(), CopyRows(), StoreRows(), SlideRows(), JoinRows())
