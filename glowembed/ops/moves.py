"""Moves of int16 and float32: Transpose, Slice, Pad, Concat and Reshape in these dtypes.

Kernel-level: copy_<t> makes a whole tensor; reserve_<t> or fill_<t>, and then one copy_into_<t> for each part, make a
tensor of several parts. They compute nothing; an input of another type is converted first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from glowembed.graph.cstruct import f32, i32
from glowembed.graph.geometry import whole
from glowembed.graph.ir import Array, Node, QType, Shape
from glowembed.graph.op import Cost, KernelOp, LowerContext, Lowering, of_element
from glowembed.graph.registry import lower_node
from glowembed.ops.copy import (
    COPY,
    COPY_INTO,
    CopyParams,
    MoveParams,
    Reserve,
    ReserveParams,
    insert_params,
    places,
    slice_params,
    transpose_params,
)
from glowembed.records import dataclass

SUFFIX = {"int16": "s16", "float32": "f32"}


@dataclass(frozen=True)
class FillS16Params:
    """The number of elements, and the value that they get."""

    count: int = i32("elements of the output")
    value: int = i32("what they all are, -32768..32767")


@dataclass(frozen=True)
class FillF32Params:
    """The number of elements, and the value that they get."""

    count: int = i32("elements of the output")
    value: float = f32("what they all are")


def _move_cost(node: Node, _: Any) -> Cost:
    p = node.params
    run = p.in_strides[-1] == 1 and p.out_strides[-1] == 1
    return Cost(p.rows * (prod(p.dims[:-1]) * 25.0 + prod(p.dims) * (2.0 if run else 12.0)), 300)


def _moved(p: MoveParams, x: Array, y: Array) -> Array:
    """`y`, flattened, with the block written into it."""
    source, target = places(p)
    y[target] = x.reshape(-1)[source]
    return y


class _Copy(KernelOp[MoveParams]):
    """Copies a block, which is the whole output."""

    params = MoveParams
    dtype: str
    geometry = COPY

    def int_ref(self, p: MoveParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _moved(p, inputs[0], np.zeros(p.rows * p.out_size, self.dtype))


class CopyS16(_Copy):
    """Copies int16."""

    name, dtype = "copy_s16", "int16"
    kernels = (of_element("ge_copy_as_is", "s16", "ge_copy_s16", cost=_move_cost, store="rows"),)
    element_bytes = (2, 2)


class CopyF32(_Copy):
    """Copies float32."""

    name, dtype = "copy_f32", "float32"
    kernels = (of_element("ge_copy_as_is", "f32", "ge_copy_f32", cost=_move_cost, store="rows"),)
    element_bytes = (4, 4)


class _CopyInto(KernelOp[MoveParams]):
    """Writes a block into an existing tensor: `partial` and the output are the same memory (Node.shares is 0)."""

    params = MoveParams
    inputs = ("partial", "x")
    dtype: str
    geometry = COPY_INTO

    def int_ref(self, p: MoveParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _moved(p, inputs[1], inputs[0].reshape(-1).copy())


class CopyIntoS16(_CopyInto):
    """Writes int16 into an existing tensor."""

    name, dtype = "copy_into_s16", "int16"
    kernels = (of_element("ge_copy_into_as_is", "s16", "ge_copy_into_s16", cost=_move_cost, store="rows"),)
    element_bytes = (2, 2)


class CopyIntoF32(_CopyInto):
    """Writes float32 into an existing tensor."""

    name, dtype = "copy_into_f32", "float32"
    kernels = (of_element("ge_copy_into_as_is", "f32", "ge_copy_into_f32", cost=_move_cost, store="rows"),)
    element_bytes = (4, 4)


FillOf = TypeVar("FillOf", FillS16Params, FillF32Params)


class _Fill(KernelOp[FillOf]):
    """Sets every element of the output to `value`."""

    inputs = ()
    dtype: str
    geometry = whole(lambda p: ((), p.count))

    def int_ref(self, p: FillOf, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return np.full(p.count, p.value, self.dtype)


class FillS16(_Fill[FillS16Params]):
    """Fills with int16."""

    name, dtype, params = "fill_s16", "int16", FillS16Params
    kernels = (
        of_element(
            "ge_fill",
            "s16",
            "ge_fill_s16",
            words={"PARAMS": "ge_fill_s16_params"},
            cost=lambda n, t: Cost(20.0 + 3.0 * n.params.count, 30),
        ),
    )
    element_bytes = (2, 2)


class FillF32(_Fill[FillF32Params]):
    """Fills with float32."""

    name, dtype, params = "fill_f32", "float32", FillF32Params
    kernels = (
        of_element(
            "ge_fill",
            "f32",
            "ge_fill_f32",
            words={"PARAMS": "ge_fill_f32_params"},
            cost=lambda n, t: Cost(20.0 + 3.0 * n.params.count, 30),
        ),
    )
    element_bytes = (4, 4)


class ReserveS16(Reserve):
    """Memory for a tensor of int16."""

    name = "reserve_s16"

    def int_ref(self, p: ReserveParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return np.zeros(p.size // 2, np.int16)


class ReserveF32(Reserve):
    """Memory for a tensor of float32."""

    name = "reserve_f32"

    def int_ref(self, p: ReserveParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return np.zeros(p.size // 4, np.float32)


SAME = QType("int8", (1.0,), (0,))
"""Stands for both types when a block is moved unchanged."""


def _params(p: CopyParams) -> MoveParams:
    return MoveParams(**{f.name: getattr(p, f.name) for f in fields(MoveParams)})


def _suffix(c: LowerContext, name: str) -> str:
    return SUFFIX[c.dtype(name)]


def _transpose(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    params = _params(transpose_params(c.shape(x), node.attrs["perm"], SAME, SAME))
    c.add(node, f"copy_{_suffix(c, y)}", [x], y, params)


def _slice(node: Node, c: LowerContext) -> None:
    x, y, a = node.inputs[0], node.outputs[0], node.attrs
    params = _params(slice_params(c.shape(x), a["starts"], a["steps"], a["sizes"], SAME, SAME))
    c.add(node, f"copy_{_suffix(c, y)}", [x], y, params)


def _view(node: Node, c: LowerContext) -> None:
    c.add(node, "view", [node.inputs[0]], node.outputs[0], shares=0)


def _pad(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    value, qtype = c.value(y), c.value(y).qtype
    real = np.asarray(node.attrs["value"], np.float32)
    filled = replace(value, name=f"{y}/filled")
    c.values[filled.name] = filled
    params: Any = FillF32Params(value.elements, float(real))
    if qtype is not None:
        params = FillS16Params(value.elements, int(qtype.quantize(real)))
    c.add(node, f"fill_{_suffix(c, y)}", [], filled.name, params, role="fill")
    x = stored(node, c, x, y)
    _insert(node, c, x, node.attrs["pads_begin"], filled.name, y, "copy")


def _concat(node: Node, c: LowerContext) -> None:
    y, axis = node.outputs[0], node.attrs["axis"]
    partial, start = _derive(c, y, "reserved"), 0
    c.add(node, f"reserve_{_suffix(c, y)}", [], partial, ReserveParams(c.value(y).bytes), role="reserve")
    for i, x in enumerate(node.inputs):
        output = y if i == len(node.inputs) - 1 else _derive(c, y, f"part{i}")
        starts = tuple(start if a == axis else 0 for a in range(len(c.shape(x))))
        _insert(node, c, stored(node, c, x, y), starts, partial, output, f"part{i}")
        partial, start = output, start + c.shape(x)[axis]


def _derive(c: LowerContext, name: str, role: str) -> str:
    value = replace(c.value(name), name=f"{name}/{role}")
    c.values[value.name] = value
    return value.name


def _insert(node: Node, c: LowerContext, x: str, starts: Shape, partial: str, output: str, role: str) -> None:
    params = _params(insert_params(c.shape(x), c.shape(output), starts, SAME, SAME))
    c.add(node, f"copy_into_{_suffix(c, output)}", [partial, x], output, params, shares=0, role=role)


def stored(node: Node, c: LowerContext, x: str, y: str) -> str:
    """The input in exactly the type of `y`. A constant is stored in that type, and an activation of another type is
    rescaled.
    """
    value, qtype = c.value(x), c.value(y).qtype
    if value.const is not None:
        function = qtype.quantize if qtype is not None else _float32
        const = value.const.then("quantize" if qtype is not None else "float32", function)
        made = replace(value, name=f"{x}/for_{y}", qtype=qtype, dtype="float32", const=const)
        c.values[made.name] = made
        return made.name
    if qtype is None or value.qtype == qtype:
        return x
    made = replace(value, name=f"{x}/for_{y}", qtype=qtype)
    if made.name not in c.values:
        c.values[made.name] = made
        rescale = replace(node, name=made.name, op="Rescale", inputs=(x,), outputs=(made.name,))
        lower_node(rescale, c)
    return made.name


def stored_constant(c: LowerContext, name: str) -> str:
    """The input of a kernel: an activation is unchanged, a constant is stored in its own type."""
    value = c.value(name)
    if value.const is None or value.name in c.values:
        return name
    dtype = c.dtype(name)
    function = value.qtype.quantize if value.qtype is not None else _float32
    made = replace(value, name=f"{name}/{dtype}", dtype="float32", const=value.const.then(dtype, function))
    c.values[made.name] = made
    return made.name


def _float32(array: Array) -> Array:
    return array.astype(np.float32)


_MOVES: Mapping[str, Lowering] = {
    "Transpose": _transpose,
    "Slice": _slice,
    "Reshape": _view,
    "Pad": _pad,
    "PadValue": _pad,
    "Concat": _concat,
}

LOWERINGS = {(op, dtype): function for op, function in _MOVES.items() for dtype in SUFFIX}
KERNEL_OPS = (
    CopyS16(),
    CopyF32(),
    CopyIntoS16(),
    CopyIntoF32(),
    FillS16(),
    FillF32(),
    ReserveS16(),
    ReserveF32(),
)
