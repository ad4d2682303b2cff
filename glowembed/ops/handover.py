"""Data exchanged with the caller, or with the next run: rows of an input that the caller delivers, whole tensors that go into a
buffer of the caller, and states. Nodes are made from the options for inputs and outputs, not from ONNX nodes. Kernel-level:
take_rows, copy_rows, store_rows; bytes of any type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import per_row
from glowembed.graph.ir import Array
from glowembed.graph.op import Cost, Kernel, KernelOp

CALL_CYCLES = 20.0
"""The cycles of a row that the caller delivers, without the caller's own work."""


@dataclass(frozen=True)
class HandoverParams:
    """A tensor as rows."""

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
    """y = x, where a function of the caller delivers the rows of x in order, each once."""

    name = "take_rows"
    kernels = (Kernel("ge_take_rows", cost=_calls, store="rows"),)


class CopyRows(_Handover):
    """y = x."""

    name = "copy_rows"
    kernels = (
        Kernel("ge_copy_rows", cost=lambda n, t: Cost(0.5 * n.params.rows * n.params.row_bytes + 20.0, 40), store="rows"),
    )  # fmt: skip


class StoreRows(_Handover):
    """y = x, written over `old`, which nobody reads afterwards: `old` and the output are the same memory (Node.shares is 0)."""

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


OPS = ()
KERNEL_OPS = (TakeRows(), CopyRows(), StoreRows())
