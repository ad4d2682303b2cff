"""Translates TFLite_Detection_PostProcess, the custom operator at the end of SSD networks. Its options are a map of
FlexBuffers.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from flatbuffers import flexbuffers

from glowembed.graph.op import Refused
from glowembed.read.tflite.translate import DOMAIN, Call

MOST_DETECTIONS = 1 << 16


def detection_postprocess(c: Call) -> None:
    """Both forms: boxes are kept or not for each class by itself (use_regular_nms), or by their best class."""
    options = _Options(c.operator.custom_options)
    most, classes, each = (options.whole(key) for key in ("max_detections", "num_classes", "max_classes_per_detection"))
    by_class = bool(options.number("use_regular_nms", 0))
    of_class = options.whole("detections_per_class", 100)
    scales = [options.number(f"{axis}_scale") for axis in "yxhw"]
    if not all(scales):
        raise Refused(f"its scales are {scales}", "none of them may be 0: check the file")
    if len(c.operator.outputs) != 4 or len(c.operator.inputs) != 3:
        raise Refused("it does not have 3 inputs and 4 outputs", "check the file")
    rows = most * each
    if rows > MOST_DETECTIONS:
        raise Refused(f"it gives {rows} detections", f"the most are {MOST_DETECTIONS}")
    for index, shape in zip(c.operator.outputs, [(1, rows, 4), (1, rows), (1, rows), (1,)], strict=True):
        c.t.reshape(index, shape)
    c.t.node(
        "DetectionPostprocess", c.reals(), [c.t.names[index] for index in c.operator.outputs], c.name, domain=DOMAIN,
        max_detections=most, num_classes=classes, classes_per_detection=each, by_class=int(by_class),
        detections_per_class=of_class, scales=scales,
        score_threshold=options.number("nms_score_threshold"), overlap_threshold=options.number("nms_iou_threshold"),
    )  # fmt: skip


class _Options:
    """The numbers in a map of FlexBuffers. Raises Refused where there is no such map or number."""

    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)

    def number(self, key: str, default: float | None = None) -> float:
        found: Any = None
        try:
            found = flexbuffers.GetRoot(self._data).AsMap[key].AsFloat
        except KeyError:
            found = default
        except (struct.error, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError):
            pass  # an offset of a damaged map
        if found is None or not math.isfinite(found):
            raise Refused(f"its option {key!r} is missing or damaged", "check the file")
        return float(found)

    def whole(self, key: str, default: int | None = None) -> int:
        """A number from 1 on."""
        number = self.number(key, default)
        if not 1 <= number <= MOST_DETECTIONS or number % 1:
            raise Refused(f"its option {key!r} is {number:g}", f"it must be within 1..{MOST_DETECTIONS}")
        return int(number)


OPERATORS = {"TFLite_Detection_PostProcess": detection_postprocess}
