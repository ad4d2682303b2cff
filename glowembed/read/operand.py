"""Describes an input of a node during the import."""

from __future__ import annotations

from onnx import TypeProto, helper

from glowembed.graph.ir import Array, Shape
from glowembed.ops.shared.definition import ELEMENT_TYPES
from glowembed.records import dataclass

_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


@dataclass(frozen=True)
class Operand:
    """The type of an input of the node, and its content if it is a constant."""

    dtype: str
    shape: Shape
    array: Array | None = None

    def type(self) -> TypeProto:
        """The type as ONNX writes it."""
        return helper.make_tensor_type_proto(_NUMBERS[self.dtype], self.shape)
