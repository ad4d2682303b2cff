"""Imports a node by the definition of its operator as a loop nest, in the types that its inputs have.

In: the state of the walk, and a node. Out: nodes of the graph, one for each output that the model names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import NodeProto

from glowembed.graph.ir import Array, Const, Shape
from glowembed.graph.op import OnnxNode, Refused
from glowembed.graph.registry import definitions
from glowembed.nest.program import Tensor
from glowembed.ops.shared.definition import ON_INTEGERS, Definition, known
from glowembed.read.builder import GraphBuilder
from glowembed.read.onnxfile import File, reads
from glowembed.read.operand import Operand
from glowembed.read.subgraphs import Builder


class Walk(Protocol):
    """The parts of the importer's state that this module uses."""

    builder: GraphBuilder
    arrays: dict[str, Array]
    exact: bool
    file: File
    outputs: tuple[str, ...]

    @property
    def declared(self) -> Mapping[str, Shape]: ...

    def resolve(self, name: str) -> str: ...

    def onnx_node(self, proto: NodeProto, inputs: Sequence[str], opset: int) -> OnnxNode: ...


def definition_of(proto: NodeProto) -> Any:
    """The definition of the operator, or None."""
    domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}:"
    return definitions().get(f"{domain}{proto.op_type}")


def define(walk: Walk, proto: NodeProto, node: OnnxNode) -> bool:
    """Add the nodes of an operator that has a definition, and return whether it has one. Raises Refused."""
    rule = definition_of(proto)
    if rule is None:
        return False
    inner = [name for name in reads(proto) if name not in proto.input]
    names = [*node.inputs, *(walk.resolve(name) for name in inner)]
    tensors = [_tensor(walk, i, name) for i, name in enumerate(names)]
    n = Definition(
        node,
        tensors[: len(node.inputs)],
        [walk.arrays.get(name) if name else None for name in node.inputs],
        [walk.declared.get(name) for name in proto.output],
        exact=walk.exact,
        captured=[t for t in tensors[len(node.inputs) :] if t is not None],
        leaves=[name in walk.outputs for name in node.outputs],
    )
    visible = {name: t for name, t in zip([*proto.input, *inner], tensors, strict=True) if t is not None}
    arrays = {
        name: walk.arrays[own] for name, own in zip([*proto.input, *inner], names, strict=True) if own in walk.arrays
    }
    n.build = Builder(walk.file, n, visible, arrays, walk.onnx_node).graphs_of(proto, walk.file.opset)
    check_types(proto, walk.file.opset, [None if t is None else t.dtype for t in n.x], walk.exact)
    rule(n)
    outputs = (*node.outputs, *_found(walk, n))
    walk.builder.start(node.name, outputs)
    between: dict[str, str] = {}
    for j, program in n.programs().items():
        if not walk.exact and isinstance(j, int) and (whole := between.get(n.copies.get(j, ""))) is not None:
            walk.builder.add("Reshape", [whole], {"shape": program.output.shape}, outputs[j])
            continue
        operands = [between.get(t.name) or _name(walk, n, node, names, t) for t in program.inputs]
        output = outputs[j] if isinstance(j, int) else f"{node.name}/{j}"
        made = walk.builder.nest(
            proto.op_type, operands, program, output, walk.exact, n.quantized.get(j), rule in ON_INTEGERS
        )
        if isinstance(j, str):
            between[j] = made
        if j in n.counted:
            walk.builder.values[made] = replace(walk.builder.values[made], found=(outputs[-1], n.counted[j]))
    missing = [name for j, name in enumerate(node.outputs) if name and j not in n.outputs]
    if missing:
        raise Refused(f"its output {missing[0]!r} is not supported")
    return True


def _found(walk: Walk, n: Definition) -> list[str]:
    """The name of the output with the number of found elements, if the node has one; it becomes an output of the
    network.
    """
    if not n.counted:
        return []
    name = walk.builder.reserve(f"{n.node.outputs[min(n.counted)]}_found")
    walk.outputs = (*walk.outputs, name)
    return [name]


_ONNX_NAMES = {"float32": "float", "float64": "double"}
_FLOATS = ("float", "double", "float16", "bfloat16")


def check_types(proto: NodeProto, opset: int, given: Sequence[str | None], exact: bool) -> None:
    """Refuse inputs with types that the operator does not take, or that differ although the operator requires one type.
    A float32 may stand for a float of another width. exact: whether types are those of the model; otherwise all floats
    count as float32.
    """
    if proto.domain not in ("", "ai.onnx") or not onnx.defs.has(proto.op_type, opset, ""):
        return
    formal = onnx.defs.get_schema(proto.op_type, opset, "").inputs
    variables: dict[str, str] = {}
    for i, dtype in enumerate(given):
        if dtype is None or not formal:
            continue
        wanted = formal[min(i, len(formal) - 1)]
        names = {n.removeprefix("tensor(").removesuffix(")").replace("_", "") for n in wanted.types}
        own = _ONNX_NAMES.get(dtype, dtype).replace("_", "")
        own = {"float4e2m1fn": "float4e2m1", "float8e8m0fnu": "float8e8m0"}.get(own, own)
        if own not in names and not (own == "float" and names.intersection(_FLOATS)):
            raise Refused(
                f"its input {wanted.name} is {dtype}", f"opset {opset} takes {', '.join(sorted(names))} there"
            )
        kind = "float32" if not exact and own in _FLOATS else dtype
        if wanted.is_homogeneous and variables.setdefault(wanted.type_str, kind) != kind:
            raise Refused(
                f"its inputs are {variables[wanted.type_str]} and {dtype}", "they must have one type: Cast one"
            )


def operand(walk: Walk, name: str) -> Operand:
    """The type of a value, and its content if it is a constant."""
    if name in walk.arrays:
        array = walk.arrays[name]
        return Operand(known(_dtype(walk, array)), array.shape, array)
    value = walk.builder.values[name]
    return Operand(known(value.dtype), value.shape)


def _tensor(walk: Walk, i: int, name: str) -> Tensor | None:
    if not name:
        return None
    if name in walk.arrays:
        array = walk.arrays[name]
        return Tensor.constant(f"x{i}", array, known(_dtype(walk, array)))
    value = walk.builder.values[name]
    return Tensor(f"x{i}", value.shape, known(value.dtype))


def _dtype(walk: Walk, array: Array) -> str:
    """The type of a constant: its type in the model, or float32 for every float."""
    floating = array.dtype.name in ("float16", "bfloat16", "float32", "float64")
    return "float32" if floating and not walk.exact else array.dtype.name


def _name(walk: Walk, n: Definition, node: OnnxNode, names: Sequence[str], t: Tensor) -> str:
    """The name of the graph's value that a tensor of the program stands for."""
    if t.name in n.extra:
        return walk.builder.constant(f"{node.outputs[0] or node.name}/{t.name}", Const(n.extra[t.name]))
    name = names[int(t.name[1:])]
    if name not in walk.arrays or walk.builder.values[name].dtype == t.dtype:
        return name
    array = np.asarray(walk.arrays[name])
    return walk.builder.constant(f"{name}/{t.dtype}", Const(array))
