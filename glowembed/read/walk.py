"""The state of the walk over the nodes of a file, and the problems that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import OnnxNode
from glowembed.read import functions, inference, nodes
from glowembed.read.builder import GraphBuilder
from glowembed.read.onnxfile import File, name_of
from glowembed.read.onnxquant import Quantized
from glowembed.records import dataclass

FLOATS = {TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16", TensorProto.DOUBLE: "float64"}


@dataclass(frozen=True)
class Problem:
    """A node, input or output that is not supported. `op` is the ONNX operator, "input" or "output"."""

    node: str
    op: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.op} {self.node!r}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


@dataclass(eq=False)
class Walk:
    """The state while nodes are visited in order of execution."""

    file: File
    shapes: Mapping[str, Shape]
    builder: GraphBuilder
    outputs: tuple[str, ...]
    exact: bool = False
    """Whether floats keep the types of the model."""

    arrays: dict[str, Array] = field(default_factory=dict)
    alias: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    guessed: set[str] = field(default_factory=set)
    """The outputs of refused nodes whose shapes are known, so that the walk continues; their types are not."""

    found: list[Problem] = field(default_factory=list)
    folded: int = 0
    """The number of elements of all constants computed so far."""
    generated: dict[str, str] = field(default_factory=dict)
    """For each node in the file that is computed by a definition or a function body and not by an op, by name: the
    reason.
    """

    integers: set[str] = field(default_factory=set)
    """The names in the file whose tensors are integers. DequantizeLinear gives the same value a second name, whose
    tensor is real numbers.
    """

    @cached_property
    def quantized(self) -> Quantized:
        return Quantized(self.builder, self.arrays)

    def resolve(self, name: str) -> str:
        while (next_name := self.alias.get(name, name)) != name:
            name = next_name
        return name

    def is_plain(self, name: str) -> bool:
        """Whether a computed value has a type that is never quantized."""
        value = self.builder.values[name]
        return value.const is None and value.plain and name not in self.quantized.known

    def onnx_node(self, proto: NodeProto, inputs: Sequence[str], opset: int) -> OnnxNode:
        """A node of an inner graph, with its own names."""
        return OnnxNode(
            proto.op_type, name_of(proto), tuple(inputs), tuple(proto.output), nodes.attributes(self, proto), opset
        )

    @cached_property
    def inferred(self) -> dict[str, Shape]:
        """Shapes by inference, which let the walk continue after an unsupported node."""
        model = ModelProto()
        model.CopyFrom(self.file.model)
        for info in model.graph.input:
            if info.name in self.shapes:
                new = helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, self.shapes[info.name])
                info.CopyFrom(new)
        del model.graph.output[:]
        del model.graph.value_info[:]
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in self.outputs)
        return inference.shapes(self.file, model)

    def no_floats(self, nodes: Sequence[NodeProto]) -> set[str]:
        """The inputs of nodes that, by onnx's inference, may not be floats; such nodes are computed and not passed
        through. The input of a DequantizeLinear stands for floats.
        """
        inputs = {node.input[0] for node in nodes if node.op_type != "DequantizeLinear"}
        if not inputs:
            return set()
        try:
            graph = onnx.shape_inference.infer_shapes(self.file.model).graph
        except Exception:
            return inputs
        known = {i.name: i.type.tensor_type.elem_type for i in (*graph.input, *graph.value_info, *graph.output)}
        return {name for name in inputs if known.get(name) not in FLOATS}

    @cached_property
    def declared(self) -> dict[str, Shape]:
        """The shapes that the model declares or, where it declares none, onnx infers."""
        graph = self.file.model.graph
        found = {**self.inferred, **inference.known_shapes([*graph.value_info, *graph.output], 0)}
        functions.backwards(graph.node, found)
        return found
