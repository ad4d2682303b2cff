"""Parts of a tensor: ONNX Slice, Split, and Gather with equally spaced indices. They are lowered to copy_s8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node, Shape
from glowembed.graph.op import Builder, LowerContext, Malformed, OnnxNode, Op, Refused
from glowembed.ops.copy import slice_params
from glowembed.ops.shared.slices import sliced


class Slice(Op):
    """y[i, j, ..] = x[starts[0] + i * steps[0], starts[1] + j * steps[1], ..] of shape `sizes`; steps may be negative."""

    name = "Slice"
    onnx = ("Slice", "Split", "Gather")
    dependence = "move"
    output_type = "input"

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        {"Slice": _import_slice, "Split": _import_split, "Gather": _import_gather}[node.op_type](node, b)

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        sizes: Shape = attrs["sizes"]
        for start, step, size, limit in zip(attrs["starts"], attrs["steps"], sizes, shapes[0], strict=True):
            last = start + (size - 1) * step
            if size < 1 or not (0 <= start < limit and 0 <= last < limit):
                raise Malformed(
                    f"{size} elements from {start} in steps of {step} do not lie in an axis of {limit}",
                    "check the shapes of its inputs",
                )
        return (sizes,)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        taken = [
            start + step * np.arange(size)
            for start, step, size in zip(attrs["starts"], attrs["steps"], attrs["sizes"], strict=True)
        ]
        return (inputs[0][np.ix_(*taken)],)

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        back = np.argsort(perm).tolist()
        return {**attrs, **{key: tuple(attrs[key][i] for i in back) for key in ("starts", "steps", "sizes")}}

    def keeps_channels(self, attrs: Mapping[str, Any]) -> bool:
        return bool(attrs["steps"][-1] == 1)

    def narrowed(self, attrs: Mapping[str, Any], kept: Array | None, x: Shape, y: Shape) -> Mapping[str, Any]:
        first = attrs["starts"][-1]
        before = first if kept is None else int(np.count_nonzero(kept < first))
        return {**attrs, "sizes": (*attrs["sizes"][:-1], y[-1]), "starts": (*attrs["starts"][:-1], before)}

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        attrs = node.attrs
        params = slice_params(c.shape(x), attrs["starts"], attrs["steps"], attrs["sizes"], c.qtype(x), c.qtype(y))
        c.add(node, "copy_s8", [x], y, params)


def add_slice(b: Builder, x: str, ranges: Mapping[int, range], output: str) -> str:
    """Add a Slice with these indices along the named axes, and all indices along the others. All indices must exist."""
    taken = [ranges.get(axis, range(size)) for axis, size in enumerate(b.shape(x))]
    if any(len(r) == 0 for r in taken):
        raise Refused(f"nothing is left of the shape {list(b.shape(x))}")
    if all(r == range(size) for r, size in zip(taken, b.shape(x), strict=True)):
        return b.add("Reshape", [x], {"shape": b.shape(x)}, output)
    attrs = {
        "starts": tuple(r.start for r in taken),
        "steps": tuple(r.step for r in taken),
        "sizes": tuple(len(r) for r in taken),
    }
    return b.add("Slice", [x], attrs, output)


def _import_slice(node: OnnxNode, b: Builder) -> None:
    """Import a Slice; its ranges are attributes up to opset 9, and inputs from 10 on."""
    x, y = node.inputs[0], node.outputs[0]
    shape = b.shape(x)
    starts, ends = _integers(node, b, 1, "starts"), _integers(node, b, 2, "ends")
    if starts is None or ends is None:
        raise Refused("no starts or no ends")
    axes = _integers(node, b, 3, "axes")
    steps = _integers(node, b, 4, "steps")
    ranges = {}
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = check_axis(i if axes is None else axes[i], len(shape))
        ranges[axis] = sliced(start, end, 1 if steps is None else steps[i], shape[axis])
    add_slice(b, x, ranges, y)


def _integers(node: OnnxNode, b: Builder, index: int, name: str) -> list[int] | None:
    """An attribute or, in later opsets, a constant input; None if absent."""
    if name in node.attrs:
        return [int(v) for v in node.attrs[name]]
    source = node.input(index)
    if source is None:
        return None
    array = b.const(source)
    if array is None:
        raise Refused(f"{name}, {source!r}, is computed at run time", f"{name} must be constant")
    return [int(v) for v in array.reshape(-1)]


def check_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; a negative axis counts from the end."""
    if not -rank <= axis < rank:
        raise Malformed(f"axis {axis} of {rank} axes")
    return axis % rank


def _import_split(node: OnnxNode, b: Builder) -> None:
    """Import a Split as one Slice per output. Without sizes, the parts are equal, except that the last one may be
    smaller (opset 18).
    """
    x = node.inputs[0]
    axis = check_axis(node.attrs.get("axis", 0), len(b.shape(x)))
    length = b.shape(x)[axis]
    sizes = _integers(node, b, 1, "split") or _equal_parts(length, node.attrs.get("num_outputs", len(node.outputs)))
    if sum(sizes) != length or len(sizes) != len(node.outputs):
        raise Malformed(f"parts of {sizes} for {len(node.outputs)} outputs and an axis of {length}")
    start = 0
    for size, output in zip(sizes, node.outputs, strict=True):
        if output:
            add_slice(b, x, {axis: range(start, start + size)}, output)
        start += size


def _equal_parts(length: int, count: int) -> list[int]:
    part = -(-length // count)
    return [min(part, length - i * part) for i in range(count)]


def _import_gather(node: OnnxNode, b: Builder) -> None:
    """Import a Gather with equally spaced indices as a Slice; a scalar index drops its axis."""
    x, y = node.inputs[0], node.outputs[0]
    shape = b.shape(x)
    axis = check_axis(node.attrs.get("axis", 0), len(shape))
    indices = b.const(node.inputs[1])
    if indices is None:
        raise Refused(f"the indices {node.inputs[1]!r} are computed at run time", "indices must be constant")
    taken = _progression([int(i) for i in indices.reshape(-1)], shape[axis])
    result = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    if indices.ndim == 1:
        add_slice(b, x, {axis: taken}, y)
    else:
        b.add("Reshape", [add_slice(b, x, {axis: taken}, f"{y}/taken")], {"shape": result}, y)


def _progression(indices: list[int], length: int) -> range:
    """The range that gives these indices."""
    if any(not -length <= i < length for i in indices):
        raise Malformed(f"indices {indices} of an axis of {length}")
    indices = [i % length for i in indices]
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    if step != 0 and indices:
        taken = range(indices[0], indices[0] + len(indices) * step, step)
        if list(taken) == indices:
            return taken
    raise Refused(f"indices {indices}", "only indices in equal steps are supported; use several Slices and a Concat")


OPS = (Slice(),)
