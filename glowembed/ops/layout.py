"""Ops that move or rename axes: Transpose, and Reshape with Flatten, Squeeze and Unsqueeze.

A Reshape costs nothing: kernel-level it is a `view`, whose output is the memory of its input. A Transpose that survives
canonicalization is a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from glowembed.graph.geometry import whole
from glowembed.graph.ir import Array, Node, Shape
from glowembed.graph.op import Builder, KernelOp, LowerContext, Malformed, OnnxNode, Op, Refused
from glowembed.ops.copy import transpose_params
from glowembed.ops.transpose import channels_last_params


class Transpose(Op):
    """Output axis i is input axis perm[i]."""

    name = "Transpose"
    onnx = ("Transpose",)
    dependence = "move"
    output_type = "input"

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        x, rank = node.inputs[0], len(b.shape(node.inputs[0]))
        perm = tuple(node.attrs.get("perm", range(rank)[::-1]))
        if sorted(perm) != list(range(rank)):
            raise Malformed(f"perm {list(perm)} does not order the axes of {list(b.shape(x))}")
        b.transpose(x, perm, node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (tuple(shapes[0][axis] for axis in attrs["perm"]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (np.ascontiguousarray(np.transpose(inputs[0], attrs["perm"])),)

    def lower(self, node: Node, c: LowerContext) -> None:
        x, y = node.inputs[0], node.outputs[0]
        by_rows = channels_last_params(c.shape(x), node.attrs["perm"])
        if by_rows is not None and c.qtype(x) == c.qtype(y):
            c.add(node, "channels_last_s8", [x], y, by_rows)
            return
        params = transpose_params(c.shape(x), node.attrs["perm"], c.qtype(x), c.qtype(y))
        c.add(node, "copy_s8", [x], y, params)


class Reshape(Op):
    """Gives the tensor the shape in the attr `shape`; the elements keep their order."""

    name = "Reshape"
    onnx = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
    dependence = "move"
    output_type = "input"

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        shape = {"Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze}
        b.add("Reshape", [node.inputs[0]], {"shape": shape[node.op_type](node, b)}, node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        if prod(attrs["shape"]) != prod(shapes[0]):
            raise Malformed(
                f"{list(shapes[0])} cannot become {list(attrs['shape'])}: the number of elements differs",
                "check the shapes of its inputs",
            )
        return (tuple(attrs["shape"]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (inputs[0].reshape(attrs["shape"]),)

    def narrowed(self, attrs: Mapping[str, Any], kept: Array | None, x: Shape, y: Shape) -> Mapping[str, Any]:
        return {**attrs, "shape": y}

    def lower(self, node: Node, c: LowerContext) -> None:
        c.add(node, "view", [node.inputs[0]], node.outputs[0], shares=0)


def _reshape(node: OnnxNode, b: Builder) -> Shape:
    """Import a Reshape. A 0 stands for the size of the input's axis (unless allowzero), and one -1 for the size that
    the number of elements requires.
    """
    x = b.shape(node.inputs[0])
    wanted = _integers(node, b, 1, "shape")
    if wanted is None:
        raise Refused("it has no shape", "give it a constant shape")
    if not node.attrs.get("allowzero", 0):
        if any(d == 0 and i >= len(x) for i, d in enumerate(wanted)):
            raise Malformed(f"shape {wanted} copies an axis that {list(x)} does not have")
        wanted = [x[i] if d == 0 else d for i, d in enumerate(wanted)]
    if wanted.count(-1) > 1 or any(d < -1 for d in wanted):
        raise Refused(f"shape {wanted} is not a shape", "one axis may be -1, the others must be positive")
    known = prod(d for d in wanted if d != -1)
    if -1 in wanted and (known == 0 or prod(x) % known):
        raise Malformed(f"{list(x)} cannot become {wanted}")
    return tuple(prod(x) // known if d == -1 else d for d in wanted)


def _flatten(node: OnnxNode, b: Builder) -> Shape:
    x, axis = b.shape(node.inputs[0]), node.attrs.get("axis", 1)
    if not -len(x) <= axis <= len(x):
        raise Malformed(f"axis {axis} is outside {list(x)}")
    axis = axis + len(x) if axis < 0 else axis
    return prod(x[:axis]), prod(x[axis:])


def _squeeze(node: OnnxNode, b: Builder) -> Shape:
    x = b.shape(node.inputs[0])
    axes = _integers(node, b, 1, "axes")
    gone = {i for i, d in enumerate(x) if d == 1} if axes is None else {_axis(a, len(x)) for a in axes}
    if any(x[a] != 1 for a in gone):
        raise Malformed(f"axes {sorted(gone)} of {list(x)} are not all 1")
    return tuple(d for i, d in enumerate(x) if i not in gone)


def _unsqueeze(node: OnnxNode, b: Builder) -> Shape:
    axes = _integers(node, b, 1, "axes")
    if axes is None:
        raise Refused("it has no axes")
    rest = list(b.shape(node.inputs[0]))
    rank = len(rest) + len(axes)
    new = {_axis(a, rank) for a in axes}
    if len(new) != len(axes):
        raise Malformed(f"axes {axes} repeat")
    return tuple(1 if i in new else rest.pop(0) for i in range(rank))


def _integers(node: OnnxNode, b: Builder, index: int, attr: str) -> list[int] | None:
    """A list that is an attribute in older opsets and a constant input in newer ones."""
    name = node.input(index)
    if name is None:
        return list(node.attrs[attr]) if attr in node.attrs else None
    array = b.const(name)
    if array is None:
        raise Malformed(
            f"{attr} {name!r} is computed at run time", "it follows from data, not from shapes: make it a constant"
        )
    return [int(v) for v in array.reshape(-1)]


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Malformed(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


class View(KernelOp[None]):
    """The input's own memory under another shape; it has no code and no kernel."""

    name = "view"
    params = type(None)
    geometry = whole(lambda p: ((0,), 0))

    def int_ref(self, p: None, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return inputs[0]


OPS = (Transpose(), Reshape())
KERNEL_OPS = (View(),)
