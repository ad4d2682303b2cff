"""The indices that ONNX's Slice takes along an axis; numpy and onnxruntime differ in some of them."""

from __future__ import annotations

from glowembed.graph.op import Malformed

WHOLE = (2**31 - 1, 2**63 - 1)
"""Values of `end` that mean the end of the axis in the direction of the step, also for a negative step, as in
onnxruntime.
"""


def sliced(start: int, end: int, step: int, size: int) -> range:
    """The indices of a slice. A start before the axis means its first element, also for a negative step, as in
    onnxruntime.
    """
    if step == 0:
        raise Malformed("a step of 0", "check the model with onnx.checker")
    if step < 0:
        start = max(start, -size)
    stop = None if step < 0 and (end < -size or end in WHOLE) else end
    return range(*slice(start, stop, step).indices(size))
