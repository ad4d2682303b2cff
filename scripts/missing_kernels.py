"""Which kernel-level ops have only portable C on a core with kernels, and why.

In: the ops and the ISA words of a target. Out: names with reasons, for docs/operators.md and its test. A family is the name of an
op without its types: add_s16 is of the family add.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glowembed.graph.op import KernelOp
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import Target

MOVES = "they move numbers by memcpy and memset, which the C library has for the core"
CALLS = "the caller's function moves the numbers"
GENERATED = "generated from a loop nest: one text for all cores"
UNWRITTEN = "kernels are not written yet"
"""The reason of every other op, so that a new op needs no entry here."""

WHY: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "copy",
            "copy_into",
            "copy_rows",
            "store_rows",
            "slide_rows",
            "join_rows",
            "fill_s8",
            "insert",
        ),
        MOVES,
    ),
    "nest": GENERATED,
    "take_rows": CALLS,
}
"""Family or op -> the reason why it needs no kernels on some core."""

TYPES = frozenset(("s8", "s16", "s16w", "s32", "w4", "w16", "f32"))


def family(op: str) -> str:
    """The name of a kernel-level op without its types."""
    words = op.split("_")
    while words[-1] in TYPES:
        words.pop()
    return "_".join(words)


def missing(target: Target) -> dict[str, str]:
    """The ops of the default law without a kernel for any of the target's ISA words, with the reasons."""
    return {
        name: WHY.get(name, WHY.get(family(name), UNWRITTEN))
        for name, op in sorted(kernel_ops().items())
        if _only_portable(op, target)
    }


def _only_portable(op: KernelOp[Any], target: Target) -> bool:
    return bool(op.kernels) and not op.twin_of and not any(kernel.isa in target.isa for kernel in op.kernels)
