"""What patterns of nodes are looked for in: the nodes of an ONNX graph by what they make, and its small constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from glowembed.graph.ir import Array, Shape
from glowembed.read.onnxfile import reads
from glowembed.records import dataclass

SMALL = 2**20
"""The most elements of a constant that is read here."""


@dataclass(eq=False)
class Nodes:
    """The nodes of a graph and its constants. shapes: returns the known shapes, which are computed when they are first
    needed.
    """

    order: list[NodeProto]
    tensors: dict[str, TensorProto]
    outputs: Sequence[str]
    shapes: Callable[[], Mapping[str, Shape]]
    made: dict[str, NodeProto] = field(init=False)
    readers: dict[str, list[NodeProto]] = field(init=False)

    def __post_init__(self) -> None:
        self.made = {name: node for node in self.order for name in node.output if name}
        self.readers = {}
        for node in self.order:
            for name in reads(node):
                self.readers.setdefault(name, []).append(node)

    @cached_property
    def known(self) -> Mapping[str, Shape]:
        return self.shapes()

    def maker(self, name: str, *kinds: str) -> NodeProto | None:
        """The node that makes a value, if it is a standard operator of one of these kinds; else None."""
        node = self.made.get(name)
        own = node is not None and node.domain in ("", "ai.onnx") and node.op_type in kinds
        return node if own else None

    def only_reader(self, name: str, kind: str) -> NodeProto | None:
        """The node that reads a value, if it is of this kind and the only reader; else None."""
        found = self.readers.get(name, [])
        alone = len(found) == 1 and name not in self.outputs and found[0].domain in ("", "ai.onnx")
        return found[0] if alone and found[0].op_type == kind else None

    def array(self, name: str) -> Array | None:
        """The content of a small constant, found through Identity and Cast."""
        while (node := self.maker(name, "Identity", "Cast")) is not None:
            name = node.input[0]
        tensor: Any = self.tensors.get(name)
        if tensor is None and (node := self.maker(name, "Constant")) is not None:
            (attribute,) = node.attribute[:1] or (None,)
            if attribute is None or attribute.name not in ("value", "value_float", "value_int", "value_ints"):
                return None
            if attribute.name != "value":
                return np.asarray(helper.get_attribute_value(attribute))
            tensor = attribute.t
        if tensor is None or np.prod(tensor.dims, dtype=float) > SMALL or tensor.external_data:
            return None
        try:
            return np.asarray(numpy_helper.to_array(tensor))
        except (ValueError, TypeError):
            return None  # a damaged tensor, which the importer reports

    def scalar(self, name: str) -> float | None:
        array = self.array(name)
        return (
            float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "fiu" else None
        )

    def same(self, a: str, b: str) -> bool:
        """Whether two names stand for one value, or for equal constants."""
        if a == b:
            return True
        first, second = self.array(a), self.array(b)
        return first is not None and second is not None and np.array_equal(first, second)

    def add(self, name: str, array: Array) -> str:
        """Add a constant and return its name."""
        while name in self.made or name in self.tensors:
            name += "'"
        self.tensors[name] = numpy_helper.from_array(array, name)
        return name


@dataclass(frozen=True)
class Found:
    """A normalization, perhaps without its scale and shift: its input, its attributes, and the value that it makes."""

    kind: str
    x: str
    attrs: Mapping[str, Any]
    output: str
    fits: Callable[[Array], Array | None]
    """Turns the constant of a Mul or Add into an input of the operator, or returns None if it does not fit."""

    shape: Shape = (1,)
    """The shape of scale and shift if both are absent."""

    follow: tuple[str, ...] = ("Mul", "Add")
    """The operators that, with a constant, give the further inputs of the operator: its scale and shift."""

    constants: tuple[Array, ...] = ()
    """The scale, or the scale and the shift, if the pattern itself contains them."""

    order: tuple[int, ...] = ()
    """The order of axes in which the normalized ones are the last; empty if they are."""
