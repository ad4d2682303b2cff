"""Concatenation along any axis: ONNX Concat. It is lowered to reserve and one copy_into_s8 (or insert_s8) for each
input, which also rescales.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Node, Shape
from glowembed.graph.op import Builder, LowerContext, Malformed, OnnxNode, Op
from glowembed.ops.copy import ReserveParams, insert_params


class Concat(Op):
    """The inputs one after the other along `axis`; any of them may be a constant."""

    name = "Concat"
    onnx = ("Concat",)
    dependence = "move"
    rounds_once = True

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        rank = len(b.shape(node.inputs[0]))
        axis = node.attrs["axis"]
        if not -rank <= axis < rank:
            raise Malformed(f"axis {axis} of {rank} axes")
        parts = [x for x in node.inputs if len(b.shape(x)) != rank or b.shape(x)[axis]]
        b.add("Concat", parts or node.inputs, {"axis": axis % rank}, node.outputs[0])

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        axis, first = attrs["axis"], shapes[0]
        for shape in shapes:
            if len(shape) != len(first) or shape != (*first[:axis], shape[axis], *first[axis + 1 :]):
                raise Malformed(
                    f"shapes {list(first)} and {list(shape)} differ on another axis than {axis}",
                    "check the shapes of its inputs",
                )
        return ((*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :]),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (np.concatenate(inputs, axis=attrs["axis"]),)

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        return {**attrs, "axis": perm[attrs["axis"]]}

    def lower(self, node: Node, c: LowerContext) -> None:
        y, axis = node.outputs[0], node.attrs["axis"]
        partial, start = c.derive(y, "reserved", c.shape(y), c.qtype(y)), 0
        c.add(node, "reserve", [], partial, ReserveParams(c.value(y).bytes), role="reserve")
        for i, x in enumerate(node.inputs):
            last = i == len(node.inputs) - 1
            output = y if last else c.derive(y, f"part{i}", c.shape(y), c.qtype(y))
            starts = tuple(start if a == axis else 0 for a in range(len(c.shape(x))))
            _add_part(node, c, x, starts, partial, output, f"part{i}")
            partial, start = output, start + c.shape(x)[axis]


def _add_part(node: Node, c: LowerContext, x: str, starts: Shape, partial: str, output: str, role: str) -> None:
    """Copy one input to its place. A constant is quantized to the type of the output directly, with one rounding."""
    yq, const = c.qtype(output), c.value(x).const
    xq = c.qtype(x) if const is None else yq
    params = insert_params(c.shape(x), c.shape(output), starts, xq, yq)
    if const is None:
        c.add(node, "copy_into_s8", [partial, x], output, params, shares=0, role=role)
    else:
        stored = {"x": const.then("quantize", yq.quantize)}
        c.add(node, "insert_s8", [partial], output, params, stored, shares=0, role=role)


OPS = (Concat(),)
