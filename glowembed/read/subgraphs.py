"""Adds a graph inside a node (If, Loop, Scan) to the loop nest of that node.

In: a graph of the file, the tensors that it reads, and the recorder of the node. Out: the tensors of its outputs. Each
of its nodes becomes statements of the nest; intermediate values are temporaries, and constant expressions are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, numpy_helper

from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import OnnxNode, Refused
from glowembed.graph.registry import definitions
from glowembed.nest.program import Tensor
from glowembed.ops.shared.definition import Definition, known
from glowembed.read import functions, onnxfold
from glowembed.read.onnxfile import File, declared_shape
from glowembed.read.operand import Operand
from glowembed.records import dataclass


class Inner(Definition):
    """A node of an inner graph; its outputs are temporaries of the outer node."""

    def output(self, j: int, shape: Sequence[int], dtype: str) -> Tensor:
        tensor = self.k.temporary([int(size) for size in shape], dtype)
        if self.wants(j):
            self.outputs[j] = tensor
        return tensor


@dataclass(eq=False)
class Builder:
    """The visible names, their constants, and the node to whose nest everything is added."""

    file: File
    owner: Definition
    tensors: dict[str, Tensor]
    arrays: dict[str, Array]
    to_node: Callable[[NodeProto, Sequence[str], int], OnnxNode]

    def constant(self, name: str, array: Array) -> Tensor:
        """Add a constant of the nest under a name of the graph."""
        self.arrays[name] = np.asarray(array)
        self.tensors[name] = self.owner.add_constant(self.arrays[name])
        return self.tensors[name]

    def graph(self, graph: GraphProto, inputs: Sequence[Tensor], opset: int) -> list[Tensor]:
        """Record the graph for these inputs, and return its outputs."""
        inner = Builder(self.file, self.owner, dict(self.tensors), dict(self.arrays), self.to_node)
        for tensor in graph.initializer:
            inner.constant(tensor.name, numpy_helper.to_array(tensor))
        for info, given in zip(graph.input, inputs, strict=False):
            inner.tensors[info.name] = given
            inner.arrays.pop(info.name, None)
        declared = {info.name: declared_shape(info) for info in (*graph.value_info, *graph.output)}
        shapes = {n: tuple(d for d in s if d is not None) for n, s in declared.items() if s and None not in s}
        functions.backwards(graph.node, shapes, proved=True)
        for node in graph.node:
            inner.node(node, shapes, opset)
        return [inner.tensors[info.name] for info in graph.output]

    def node(self, proto: NodeProto, shapes: Mapping[str, Shape], opset: int) -> None:
        """Record one node: fold it, or use its definition, or expand it."""
        missing = [name for name in proto.input if name and name not in self.tensors]
        if missing:
            raise Refused(f"{proto.op_type} inside reads {missing[0]!r}, which is not supported")
        if self._folded(proto):
            return
        domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}:"
        rule = definitions().get(f"{domain}{proto.op_type}")
        if rule is None:
            self._expanded(proto, opset)
            return
        names = list(proto.input)
        n = Inner(
            self.to_node(proto, names, opset),
            [self.tensors[name] if name else None for name in names],
            [self.arrays.get(name) if name else None for name in names],
            [shapes.get(name) for name in proto.output],
            self.owner.k,
            exact=self.owner.exact,
            extra=self.owner.extra,
            build=self.graphs_of(proto, opset),
        )
        rule(n)
        for j, name in enumerate(proto.output):
            if name and j not in n.outputs:
                raise Refused(f"the output {name!r} of {proto.op_type} inside is not supported")
            if name:
                self.tensors[name] = n.outputs[j]
                self.arrays.pop(name, None)

    def graphs_of(self, proto: NodeProto, opset: int) -> Callable[[str, Sequence[Tensor]], list[Tensor]]:
        """A function that records a graph in an attribute of the node."""
        graphs = {a.name: a.g for a in proto.attribute if a.type == AttributeProto.GRAPH}

        def build(attribute: str, inputs: Sequence[Tensor]) -> list[Tensor]:
            if attribute not in graphs:
                raise Refused(f"it has no graph {attribute!r}", "check the model with onnx.checker")
            return self.graph(graphs[attribute], inputs, opset)

        return build

    def _folded(self, proto: NodeProto) -> bool:
        inside = any(a.type == AttributeProto.GRAPH for a in proto.attribute)
        given = [name for name in proto.input if name]
        if inside or not onnxfold.folds(proto) or (not given and proto.op_type != "Constant"):
            return False
        if proto.op_type in ("Shape", "Size"):
            shape = np.asarray(self.tensors[proto.input[0]].shape, np.int64)
            attributes = {a.name: a.i for a in proto.attribute}
            cut = shape[attributes.get("start", 0) : attributes.get("end", len(shape))]
            self.constant(proto.output[0], cut if proto.op_type == "Shape" else np.asarray(shape.prod(), np.int64))
            return True
        if not all(name in self.arrays for name in given):
            return False
        results = onnxfold.evaluate(self.file, proto, list(proto.input), {name: self.arrays[name] for name in given})
        for name, array in zip(filter(None, proto.output), results, strict=False):
            self.constant(name, array)
        return True

    def _expanded(self, proto: NodeProto, opset: int) -> None:
        operands = [self._operand(name) if name else None for name in proto.input]
        number = len(self.tensors)
        made = functions.expand(proto, operands, opset, lambda inner: f"{proto.output[0]}/{number}/{inner}")
        if made is None:
            raise Refused(f"{proto.op_type} inside is not supported")
        for node in made.nodes:
            self.node(node, made.shapes, made.opset)

    def _operand(self, name: str) -> Operand:
        t = self.tensors[name]
        return Operand(known(t.dtype), t.shape, self.arrays.get(name))
