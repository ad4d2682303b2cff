"""Padding with a constant: ONNX Pad, any axes. It is lowered to fill_s8 and copy_into_s8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from glowembed.graph.ir import Array, Node, QType, Shape
from glowembed.graph.op import Builder, Dependence, LowerContext, OnnxNode, Op, OutputType, Refused
from glowembed.ops.copy import FillParams, insert_params
from glowembed.ops.slice import add_slice, check_axis


class Pad(Op):
    """x with `pads_begin` elements of 0 before it on each axis and `pads_end` after it; every QType can represent 0."""

    name = "Pad"
    onnx: ClassVar[tuple[str, ...]] = ("Pad",)
    dependence: ClassVar[Dependence] = "move"
    output_type: ClassVar[OutputType | QType] = "input"

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        mode = node.attrs.get("mode", "constant")
        if mode != "constant":
            raise Refused(f"mode {mode!r}", "only constant padding is supported")
        rank = len(b.shape(node.inputs[0]))
        begin, end = _pads(node, b, rank)
        value = _value(node, b)
        cropped = _crop(node, b, begin, end)
        if max(*begin, *end) <= 0:
            b.add("Reshape", [cropped], {"shape": b.shape(cropped)}, node.outputs[0])
            return
        attrs = {
            "pads_begin": tuple(max(0, p) for p in begin),
            "pads_end": tuple(max(0, p) for p in end),
            "value": value,
        }
        b.add("Pad" if value == 0.0 else "PadValue", [cropped], attrs, node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        pads = zip(attrs["pads_begin"], shapes[0], attrs["pads_end"], strict=True)
        return (tuple(begin + size + end for begin, size, end in pads),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        pads = list(zip(attrs["pads_begin"], attrs["pads_end"], strict=True))
        return (np.pad(inputs[0], pads, constant_values=np.float32(attrs["value"])),)

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        back = np.argsort(perm).tolist()
        return {**attrs, **{key: tuple(attrs[key][i] for i in back) for key in ("pads_begin", "pads_end")}}

    def keeps_channels(self, attrs: Mapping[str, Any]) -> bool:
        return not (attrs["pads_begin"][-1] or attrs["pads_end"][-1])

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        yq = c.qtype(y)
        filled = c.derive(y, "filled", c.shape(y), yq)
        value = int(yq.quantize(np.asarray(node.attrs["value"])))
        c.add(node, "fill_s8", [], filled, FillParams(c.value(y).bytes, value), role="fill")
        params = insert_params(c.shape(x), c.shape(y), node.attrs["pads_begin"], c.qtype(x), yq)
        c.add(node, "copy_into_s8", [filled, x], y, params, shares=0, role="copy")


class PadValue(Pad):
    """x padded with `value` instead of 0, which the QType of the input may not be able to represent."""

    name = "PadValue"
    onnx = ()
    dependence = "unknown"
    output_type = "profile"


def _pads(node: OnnxNode, b: Builder, rank: int) -> tuple[list[int], list[int]]:
    """The number of elements to add per axis; negative numbers remove elements."""
    if "pads" in node.attrs:
        flat = list(node.attrs["pads"])
        return flat[:rank], flat[rank:]
    flat = [int(p) for p in _constant(b, node.inputs[1], "pads")]
    names = node.input(3)
    axes = range(rank) if names is None else [check_axis(int(a), rank) for a in _constant(b, names, "axes")]
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = flat[i], flat[i + len(axes)]
    return begin, end


def _value(node: OnnxNode, b: Builder) -> float:
    """The value of the padding: an attribute up to opset 10, then an optional input."""
    name = node.input(2)
    value = (
        float(node.attrs.get("value", 0.0)) if name is None else float(_constant(b, name, "the value").reshape(-1)[0])
    )
    if not np.isfinite(value):
        raise Refused(f"padding with {value}", "give the pads to the MaxPool that follows")
    return value


def _constant(b: Builder, name: str, what: str) -> Array:
    array = b.const(name)
    if array is None:
        raise Refused(f"{what}, {name!r}, is computed at run time", f"{what} must be constant")
    return array.reshape(-1)


def _crop(node: OnnxNode, b: Builder, begin: Sequence[int], end: Sequence[int]) -> str:
    """Remove the elements that negative pads cut off from the input."""
    x = node.inputs[0]
    if min(*begin, *end) >= 0:
        return x
    shape = b.shape(x)
    kept = {axis: range(max(0, -begin[axis]), size - max(0, -end[axis])) for axis, size in enumerate(shape)}
    return add_slice(b, x, kept, f"{node.outputs[0]}/cropped")


OPS = (Pad(), PadValue())
