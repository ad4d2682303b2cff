"""A one-node importer for the op checker: `import_onnx` of an op and nothing else, no folding and no cleaning up.

In: a one-node ONNX model. Out: its graph, with every Transpose that the op asked for still in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper, numpy_helper

from glowembed.graph.ir import Array, Const, Graph, Node, Shape, Value
from glowembed.graph.op import OnnxNode
from glowembed.graph.registry import importers, ops


class OneNodeBuilder:
    """The Builder of op.py over plain dictionaries."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []

    def shape(self, name: str) -> Shape:
        return self.values[name].shape

    def const(self, name: str) -> Array | None:
        const = self.values[name].const
        return None if const is None else const.materialize()

    def dtype(self, name: str) -> str:
        return self.values[name].dtype

    def delayed(self, name: str) -> Const:
        const = self.values[name].const
        assert const is not None
        return const

    def constant(self, name: str, const: Const) -> str:
        array = const.materialize()
        self.values[name] = Value(name, array.shape, str(array.dtype), const=const)
        return name

    def add(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any], output: str) -> str:
        (shape,) = ops()[op].infer(attrs, [self.shape(name) for name in inputs])
        self.values[output] = Value(output, shape)
        self.nodes.append(Node(output, op, tuple(inputs), (output,), dict(attrs), ("node",)))
        return output

    def transpose(self, name: str, perm: Sequence[int], output: str | None = None) -> str:
        if tuple(perm) == tuple(range(len(perm))) and output is None:
            return name
        target = output or f"{name}/{','.join(map(str, perm))}"
        if target in self.values:
            return target
        const = self.values[name].const
        if const is not None:
            return self.constant(target, const.then("transpose", lambda a: a.transpose(perm)))
        return self.add("Transpose", [name], {"perm": tuple(perm)}, target)


def build(model: onnx.ModelProto) -> Graph:
    """The graph of a one-node model."""
    b = OneNodeBuilder()
    for tensor in model.graph.initializer:
        b.constant(tensor.name, Const(numpy_helper.to_array(tensor)))
    for info in model.graph.input:
        shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        b.values[info.name] = Value(info.name, shape)
    (node,) = model.graph.node
    attrs = {a.name: _attribute(helper.get_attribute_value(a)) for a in node.attribute}
    opset = model.opset_import[0].version
    importers()[node.op_type].import_onnx(
        OnnxNode(node.op_type, node.name, tuple(node.input), tuple(node.output), attrs, opset), b
    )
    inputs, outputs = tuple(i.name for i in model.graph.input), tuple(o.name for o in model.graph.output)
    return Graph(model.graph.name, (), b.values, inputs, outputs).with_nodes(b.nodes)


def _attribute(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return tuple(value) if isinstance(value, list) else value
