"""How far an output may overlap an input that is not read again, in bytes.

In: a kernel-level node, with or without its kernel. Out: the least distance between the two. tests/plan/test_overlap.py
proves it address by address.
"""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.registry import kernel, kernel_ops


def overlap_distance(node: Node, index: int = 0) -> int | None:
    """The number of bytes by which the output must start before input `index` for rows computed in order; None means no
    overlap.

    A placement is safe if and only if output offset <= input offset - distance; the distance may be negative. It is
    found by scanning the rows: once row y is written, no later row may need bytes below its end.
    """
    op = kernel_ops()[node.op]
    store = kernel(node.kernel).store_of(node.params) if node.kernel else "disjoint"
    if store == "disjoint":
        return None
    rows, (strides, out_stride) = op.rows(node.params), op.row_bytes(node.params)
    distance, needed = None, None
    for y in reversed(range(rows)):
        later = op.needs(node.params, y)[index]
        needed = (
            min(needed, later.start) if needed is not None and len(later) else (later.start if len(later) else needed)
        )
        if needed is None:
            continue
        in_place = store == "elements" and strides[index] == out_stride
        end = (0 if op.accumulates else y) + (0 if in_place else 1)
        candidate = end * out_stride - needed * strides[index]
        distance = candidate if distance is None else max(distance, candidate)
    return distance
