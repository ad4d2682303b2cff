"""Translates a TensorFlow Lite model into an ONNX model in memory, which the importer then reads.

In: a parsed file. Out: a ModelProto with the same inputs, outputs and names. An operator on quantized tensors becomes
the ONNX operator on real numbers, between DequantizeLinear and QuantizeLinear with the scales of the file; constants
keep their integers. The modules of `operators/` translate operators. An operator that none of them translates stays in
the model as a node of the domain `tflite`; the importer refuses it by name, unless the user's own operators (--ops)
compute it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from glowembed.errors import UnsupportedModelError, UsageError
from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import UNSUPPORTED, Refused
from glowembed.graph.states import State as Pair
from glowembed.read.tflite import flat, operators
from glowembed.read.tflite.flat import Model, Operator, Tensor
from glowembed.records import dataclass

OPSET = 21
DOMAIN = "tflite"
QUANTIZED = ("int8", "uint8", "int16")
"""The types of computed tensors that stand for real numbers if they have a scale."""

NO_NAMES: Mapping[int, str] = {}


def is_tflite(data: bytes) -> bool:
    """Whether a file says that it is a TensorFlow Lite model."""
    return data[4:8] == flat.IDENTIFIER


def to_onnx(path: Path, data: bytes) -> tuple[ModelProto, tuple[str, ...], tuple[Pair, ...]]:
    """The equivalent ONNX model, sentences about what differs, and its states that begin with 0. Raises UsageError for
    a damaged file and UnsupportedModelError for one whose form is not supported; the importer reports operators that
    are not supported.
    """
    model = flat.parse(path, data)
    main = model.subgraphs[0]
    if not main.operators or not main.outputs:
        raise UsageError(f"{path}: its graph has no operator or no output")
    translation = Translation(path, model)
    for operator in main.operators:
        translation.add(operator)
    proto = helper.make_model(
        translation.graph(path.stem), opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    )
    proto.producer_name = "TensorFlow Lite"
    proto.ir_version = 10
    return proto, tuple(translation.notes), tuple(translation.pairs)


def refusal(node: NodeProto) -> tuple[str, str]:
    """The reason why a node of the domain `tflite` was not translated, and what to do."""
    found = {attribute.name: attribute.s.decode("utf-8", "replace") for attribute in node.attribute}
    return found.get("refused", UNSUPPORTED), found.get("hint", "")


@cache
def handlers() -> Mapping[str, Callable[[Call], None]]:
    """For each operator, the function that translates it, from all modules in `operators/`."""
    found: dict[str, Callable[[Call], None]] = {}
    for module in pkgutil.iter_modules(operators.__path__):
        found |= importlib.import_module(f"{operators.__name__}.{module.name}").OPERATORS
    return found


@dataclass
class State:
    """A tensor that outlives a run: its value at the first read is an input of the network, its value at the end an
    output.
    """

    first: int | None = None
    """the tensor with the value that the previous run left"""
    last: str | None = None
    """the name of the value that this run leaves"""
    index: int | None = None
    """a tensor with the type and shape of `last`"""
    initial: str = "zeros"
    """the value before the first run"""


class Translation:
    """The ONNX graph that is made from a subgraph. states: the tensors whose values pass from run to run.

    taken: the names that exist already; given: the names of the inputs of an inner graph; prefix: of its other names;
    inside: the subgraphs that it is in.
    """

    def __init__(
        self,
        path: Path,
        model: Model,
        number: int = 0,
        taken: set[str] | None = None,
        given: Mapping[int, str] = NO_NAMES,
        prefix: str = "",
        inside: frozenset[int] = frozenset(),
    ) -> None:
        self.inside = inside | {number}
        self.path, self.model, self.subgraph = path, model, model.subgraphs[number]
        subgraph = self.subgraph
        self.states: dict[str, State] = {}
        self.notes: list[str] = []
        self.pairs: list[Pair] = []
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        self.taken: set[str] = set() if taken is None else taken
        self.names = [
            given[index] if index in given else self.fresh(f"{prefix}{tensor.name or f'tensor_{index}'}")
            for index, tensor in enumerate(subgraph.tensors)
        ]
        self._read: dict[tuple[int, str], str] = {}

    def fresh(self, name: str) -> str:
        """A name that does not exist yet, because names in the file need not be unique."""
        while name in self.taken:
            name += "'"
        self.taken.add(name)
        return name

    def tensor(self, index: int) -> Tensor:
        return self.subgraph.tensors[index]

    def reshape(self, index: int, shape: Shape) -> None:
        """Set the shape of a tensor, for an operator whose results have none in the file."""
        tensors = list(self.subgraph.tensors)
        tensors[index] = replace(tensors[index], shape=shape, open_axes=())
        self.subgraph = replace(self.subgraph, tensors=tuple(tensors))

    def alias(self, index: int, constant: int) -> bool:
        """Give a tensor the numbers and the type of a constant, under its own name. An output of the graph keeps its
        own type.
        """
        source = self.tensor(constant)
        if source.array is None or index in self.subgraph.outputs:
            return False
        tensors = list(self.subgraph.tensors)
        tensors[index] = replace(source, name=tensors[index].name)
        self.subgraph = replace(self.subgraph, tensors=tuple(tensors))
        return True

    def is_quantized(self, index: int) -> bool:
        tensor = self.tensor(index)
        return tensor.scales is not None and tensor.dtype in QUANTIZED

    def constant(self, name: str, array: Array) -> str:
        """Add an initializer, and return its name."""
        name = self.fresh(name)
        self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def node(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], name: str, **attrs: Any) -> None:
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), name, **attrs))

    def stored(self, index: int) -> str:
        """The name of the tensor as the file stores it."""
        name, tensor = self.names[index], self.tensor(index)
        if tensor.array is not None and name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(tensor.array, name)
        return name

    def real(self, index: int) -> str:
        """The name of the real numbers of a tensor, or of the tensor itself if it is not quantized."""
        tensor = self.tensor(index)
        if tensor.dtype == "float16" and tensor.array is not None:
            return self._once(index, "real", lambda: self.constant(self.names[index], tensor.array.astype(np.float32)))  # type: ignore[union-attr]
        if tensor.scales is None or tensor.dtype not in (*QUANTIZED, "int4", "int32"):
            return self.stored(index)
        if tensor.dtype == "int32" and tensor.array is None:
            return self.stored(index)
        return self._once(index, "real", lambda: self._dequantized(index, self.stored(index)))

    def weights(self, index: int, role: str, arranged: Callable[[Array], Array], axis: int = 0) -> str:
        """The real numbers of constant weights after `arranged` has moved their elements. axis: that of the scales
        afterwards.
        """
        tensor = self.tensor(index)
        if tensor.array is None:
            raise Refused(f"its weights {self.names[index]!r} are computed", "weights must be constants of the file")
        array = arranged(tensor.array)

        def make() -> str:
            if tensor.scales is None:
                real = array.astype(np.float32) if array.dtype == np.float16 else array
                return self.constant(self.names[index] if role == "weights" else f"{self.names[index]}/{role}", real)
            return self._dequantized(index, self.constant(f"{self.names[index]}/{role}", array), axis)

        return self._once(index, role, make)

    def bias(self, index: int, x: int, w: int) -> str:
        """The real numbers of a bias, whose int32 numbers are in units of the scale of the input times that of the
        weights.
        """
        bias, x_scales, w_scales = self.tensor(index), self.tensor(x).scales, self.tensor(w).scales
        if bias.array is None or bias.dtype not in ("int32", "int64") or x_scales is None or w_scales is None:
            return self.real(index)
        name = self.names[index]
        if np.abs(bias.array).max(initial=0) >= 2**31:
            raise Refused(f"its bias {name!r} has more than 32 bits", "quantize the model again")
        steps = self.constant(f"{name}/steps", bias.array.astype(np.int32))
        scale = self.constant(f"{name}/scale", _scalar(x_scales.scale * w_scales.scale))
        real = self.fresh(f"{name}/real")
        self.node("DequantizeLinear", [steps, scale], [real], real, axis=0)
        return real

    def _once(self, index: int, role: str, make: Callable[[], str]) -> str:
        if (index, role) not in self._read:
            self._read[index, role] = make()
        return self._read[index, role]

    def _dequantized(self, index: int, stored: str, axis: int | None = None) -> str:
        scales = self.tensor(index).scales
        assert scales is not None
        real = self.fresh(f"{stored}/real")
        parameters = self.parameters(index)
        self.node("DequantizeLinear", [stored, *parameters], [real], real, axis=scales.axis if axis is None else axis)
        return real

    def parameters(self, index: int) -> list[str]:
        """The names of the scale and the zero point of a tensor."""
        tensor, name = self.tensor(index), self.names[index]
        scales = tensor.scales
        assert scales is not None
        if not (np.isfinite(scales.scale).all() and (scales.scale > 0).all()):
            raise Refused(
                f"the scale of {name!r} is {scales.scale.min():g}", "scales must be above 0: quantize the model again"
            )
        dtype = "int8" if tensor.dtype == "int4" else tensor.dtype
        if scales.zero_point.min() < np.iinfo(dtype).min or scales.zero_point.max() > np.iinfo(dtype).max:
            raise Refused(f"the zero point of {name!r} is no {dtype}", "quantize the model again")
        scale = self._once(index, "scale", lambda: self.constant(f"{name}/scale", _scalar(scales.scale)))
        zero = self._once(
            index, "zero_point", lambda: self.constant(f"{name}/zero_point", _scalar(scales.zero_point.astype(dtype)))
        )
        return [scale, zero]

    def made(self, index: int, real: str, node: str) -> None:
        """Store real numbers in the quantized tensor `index`."""
        self.node("QuantizeLinear", [real, *self.parameters(index)], [self.names[index]], node)

    def add(self, operator: Operator) -> None:
        """Add the nodes for an operator; one that cannot be translated stays as it is, with the reason."""
        nodes, taken, read = len(self.nodes), set(self.taken), dict(self._read)
        handler = handlers().get(operator.kind) if not operator.is_custom or operator.kind in handlers() else None
        try:
            if handler is None:
                _refuse_unknown(operator)
            handler(Call(self, operator))
        except Refused as refused:
            if not operator.outputs:
                raise UnsupportedModelError(
                    f"{self.path}: {operator.kind}: {refused.reason} ({refused.hint})"
                ) from refused
            del self.nodes[nodes:]
            self.taken.intersection_update(taken)
            self._read = read
            self._unknown(operator, refused)
        except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as error:
            raise UsageError(
                f"{self.path}: {operator.kind} {_name(self.names, operator)!r}: its inputs and options do not fit each other ({error})"
            ) from error

    def _unknown(self, operator: Operator, refused: Refused) -> None:
        inputs = [self.names[index] if index >= 0 else "" for index in operator.inputs]
        for index in operator.inputs:
            if index >= 0:
                self.stored(index)
        outputs = [self.names[index] for index in operator.outputs]
        node = helper.make_node(operator.kind, inputs, outputs, outputs[0], domain=DOMAIN)
        node.attribute.append(helper.make_attribute("refused", refused.reason))
        node.attribute.append(helper.make_attribute("hint", refused.hint))
        self.nodes.append(node)

    def graph(self, name: str) -> onnx.GraphProto:
        sub = self.subgraph
        inputs = [self.info(index) for index in sub.inputs]
        outputs = [self.info(index) for index in sub.outputs]
        for index in sub.outputs:
            self.stored(index)
        for state in self.states.values():
            if state.first is None:
                continue
            inputs.append(self.info(state.first))
            first, last = self.names[state.first], state.last
            if last is None or state.index is None:
                self.notes.append(f"{first!r} is a variable of the file that nothing changes; it is an input here")
                continue
            if last not in (info.name for info in outputs):
                outputs.append(self.info(state.index, last))
            if state.initial == "zeros":
                self.pairs.append(Pair(last, first))
                continue
            self.notes.append(
                f"the network has a state: give the input {first!r} what the output {last!r} was in the run before,"
                f" and {state.initial} in the first run"
            )
        known = {*self.initializers, *(info.name for info in inputs), *(n for node in self.nodes for n in node.output)}
        for node in self.nodes:
            if node.domain == DOMAIN:  # handles and states that only untranslated operators use
                node.input[:] = [n if n in known else "" for n in node.input]
        return helper.make_graph(self.nodes, name, inputs, outputs, [*self.initializers.values()])

    def info(self, index: int, name: str = "") -> ValueInfoProto:
        """The type and shape of an input or output; axes that the file leaves open stay open."""
        tensor, name = self.tensor(index), name or self.names[index]
        if tensor.dtype not in flat.DTYPES.values() or tensor.dtype == "int4":
            raise UnsupportedModelError(
                f"{self.path}: {name!r} is {tensor.dtype}: inputs and outputs must be numbers or bool"
            )
        shape = [None if axis in tensor.open_axes else d for axis, d in enumerate(tensor.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)), shape)


def _name(names: Sequence[str], operator: Operator) -> str:
    """A name for an operator, because the file has none: that of its first output, or else of its last input."""
    index = next((i for i in (*operator.outputs[:1], *reversed(operator.inputs)) if i >= 0), None)
    return operator.kind if index is None else names[index]


def _refuse_unknown(operator: Operator) -> NoReturn:
    if not operator.is_custom:
        raise Refused(UNSUPPORTED, "")
    raise Refused(
        "a custom operator", f"add an operator 'tflite:{operator.kind}' with --ops FOLDER (docs/adding-an-op.md)"
    )


def _scalar(array: Array) -> Array:
    """An array with one number as a scalar, others as a vector."""
    return array.reshape(()) if array.size == 1 else array


class Call:
    """One operator while it is translated: gives its inputs as names of real numbers and its options, and adds
    nodes.
    """

    def __init__(self, translation: Translation, operator: Operator) -> None:
        self.t, self.operator = translation, operator
        self.name = _name(translation.names, operator)
        self._main = False

    def has(self, i: int) -> bool:
        return i < len(self.operator.inputs) and self.operator.inputs[i] >= 0

    def index(self, i: int) -> int:
        """The tensor that is input i."""
        if not self.has(i):
            raise Refused(f"it has no input {i}", "check the file")
        return self.operator.inputs[i]

    def tensor(self, i: int) -> Tensor:
        return self.t.tensor(self.index(i))

    def shape(self, i: int) -> Shape:
        return self.tensor(i).shape

    def real(self, i: int) -> str:
        return self.t.real(self.index(i))

    def reals(self) -> list[str]:
        return [self.real(i) for i in range(len(self.operator.inputs))]

    def numbers(self, i: int, what: str) -> Array:
        """A constant input as it is stored."""
        array = self.tensor(i).array
        if array is None:
            raise Refused(f"its {what} is computed", f"the {what} must be a constant of the file")
        return array

    def integers(self, i: int, what: str) -> list[int]:
        return [int(n) for n in self.numbers(i, what).reshape(-1)]

    def option(self, name: str, default: Any = 0) -> Any:
        return self.operator.options.get(name, default)

    def output(self, j: int = 0) -> Tensor:
        return self.t.tensor(self.operator.outputs[j])

    @property
    def is_quantized(self) -> bool:
        """Whether the output holds quantized numbers."""
        return self.t.is_quantized(self.operator.outputs[0])

    def constant(self, role: str, array: Any, dtype: str = "int64") -> str:
        return self.t.constant(f"{self.name}/{role}", np.asarray(array, dtype))

    def add(self, kind: str, inputs: Sequence[str], role: str, **attrs: Any) -> str:
        """Add a node before the last one. role: names its output."""
        output = self.t.fresh(f"{self.name}/{role}")
        self.t.node(kind, inputs, [output], output, **attrs)
        return output

    def add_main(self, kind: str, inputs: Sequence[str], role: str, **attrs: Any) -> str:
        """Add the node that has the name of the operator, although it is not the last one."""
        output, self._main = self.t.fresh(f"{self.name}/{role}"), True
        self.t.node(kind, inputs, [output], self.name, **attrs)
        return output

    def done(self, kind: str, inputs: Sequence[str], j: int = 0, activated: bool = True, **attrs: Any) -> None:
        """Add the node that makes output j, then the fused activation if `activated`, then the rounding."""
        index = self.operator.outputs[j]
        name = self.t.names[index]
        kinds = [(kind, list(inputs), attrs)]
        if activated and (activation := self.activation()) is not None:
            kinds.append(activation)
        if self.t.is_quantized(index):
            kinds.append(("QuantizeLinear", self.t.parameters(index), {}))
        source: list[str] = []
        for at, (operator, operands, own) in enumerate(kinds):
            is_last = at == len(kinds) - 1
            made = name if is_last else self.t.fresh(f"{name}/{operator.lower()}")
            label = name if at == 0 and not self._main else f"{name}/{operator.lower()}"
            self.t.node(operator, [*source, *operands], [made], label, **own)
            source = [made]

    def activation(self) -> tuple[str, list[str], dict[str, Any]] | None:
        """The operator, the further inputs and the attributes of the fused activation; None if there is none."""
        number = self.option("FusedActivationFunction")
        limits = {1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
        if number == 0:
            return None
        if number in limits:
            low, high = (self.constant("limit", n, "float32") if n is not None else "" for n in limits[number])
            return ("Clip", [low, high] if high else [low], {})
        if number == 4:
            return ("Tanh", [], {})
        raise Refused(f"the fused activation {number}", "NONE, RELU, RELU_N1_TO_1, RELU6 and TANH are supported")

    def reshaped(self, x: str, shape: Sequence[int], role: str) -> str:
        return self.add("Reshape", [x, self.constant(f"{role}_shape", shape)], role)

    def transposed(self, x: str, perm: Sequence[int], role: str) -> str:
        return self.add("Transpose", [x], role, perm=list(perm))

    def channels_first(self, x: str) -> str:
        """An image [n, h, w, c] in ONNX's order, [n, c, h, w]."""
        return self.transposed(x, (0, 3, 1, 2), "nchw")

    def done_channels_last(self, x: str) -> None:
        """Add the Transpose from ONNX's order of an image as the last node."""
        self.done("Transpose", [x], perm=[0, 2, 3, 1])
