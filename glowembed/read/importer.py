"""Turns an ONNX file into a float Graph.

In: the path of a model, shapes for axes that the model leaves open. Out: a Graph that is not yet canonical, or the list
of everything that is not supported. A model file is not trusted: onnxfile.py reads it, and no constant is computed here
before its size is known. Names are never changed; the emitter makes identifiers for C.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from glowembed.errors import UnsupportedModelError, UsageError, unknown_name
from glowembed.graph import limits
from glowembed.graph.ir import Array, Const, Graph, Shape, verify
from glowembed.graph.op import OnnxNode, Refused, importers
from glowembed.options.table import InputLayout
from glowembed.read import onnxfold, onnxquant
from glowembed.read.builder import GraphBuilder, inputs_channels_last
from glowembed.read.onnxfile import (
    File,
    array_of,
    channels_read,
    declared_shape,
    input_shapes,
    name_of,
    ordered,
    read,
    single,
    with_batch,
)
from glowembed.read.onnxquant import Quantized

FLOATS = {TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16", TensorProto.DOUBLE: "float64"}

INTEGERS: Mapping[Any, str] = {TensorProto.INT8: "int8", TensorProto.UINT8: "uint8"}
"""The types of inputs in quantized models."""

# Only for operators that nothing imports. An advice keeps what the network computes; tests/test_advice.py follows them.
HINTS = {
    **dict.fromkeys(
        ("If", "Loop", "Scan"), "export without control flow; a constant condition folds with an ONNX simplifier"
    ),
    **dict.fromkeys(
        ("InstanceNormalization", "LayerNormalization"),
        "write it out: d = x - ReduceMean(x), y = d * Reciprocal(Sqrt(ReduceMean(d * d) + epsilon)), then Mul and Add",
    ),
    "RMSNormalization": "write it out: y = x * Reciprocal(Sqrt(ReduceMean(x * x) + epsilon)), then Mul",
    "ReduceSum": "write it as ReduceMean, and Mul by the number of elements",
    "ReduceSumSquare": "write it as Mul(x, x), ReduceMean, and Mul by the number of elements",
    "ReduceL1": "write it as Abs, ReduceMean, and Mul by the number of elements",
    "ReduceL2": "write it as Mul(x, x), ReduceMean, Mul by the number of elements, and Sqrt",
    "ReduceMin": "write it as Neg, ReduceMax, Neg",
    "Sum": "write it as Add",
    "Pow": "write a square as Mul(x, x), a root as Sqrt",
    "Swish": "write it as Sigmoid and Mul",
    **dict.fromkeys(("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"), "use static quantization"),
    **dict.fromkeys(("ArgMax", "TopK"), "end the model before it, and take the largest output in your code"),
    "ArgMin": "end the model before it, and take the smallest output in your code",
    "LogSoftmax": "end the model before it, or use Softmax",
}


@dataclass(frozen=True)
class Problem:
    """One node (or input, or output) that is not supported; `op` is the ONNX operator, "input" or "output"."""

    node: str
    op: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.op} {self.node!r}: {self.reason}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True)
class ModelInfo:
    """Facts about the file itself. `notes`: sentences about what the import changes."""

    opset: int
    producer: str
    sha256: str
    notes: tuple[str, ...] = ()


NO_SHAPES: Mapping[str, Shape] = {}


def load(path: Path | str, shapes: Mapping[str, Shape] = NO_SHAPES, input_layout: str = "model") -> Graph:
    """The float graph of the model. `shapes` are shapes of inputs; with the InputLayout "nhwc" they are channels-last.

    Raises UsageError for a file that is not a valid ONNX model, UnsupportedModelError with all problems for a valid one
    that is not supported.
    """
    if input_layout not in get_args(InputLayout):
        raise unknown_name("input layout", input_layout, get_args(InputLayout))
    graph, found = _import(read(Path(path)), shapes)
    if graph is None or found:
        known = {*importers(), *onnxquant.OPERATORS, "DequantizeLinear", "Dropout", "Identity"}
        lines = [f"{path}: {len(found)} {'thing is' if len(found) == 1 else 'things are'} not supported:"]
        lines += [f"  {problem}" for problem in found]
        if any(problem.op not in (*known, "input", "output") for problem in found):
            lines.append(f"supported operators: {', '.join(sorted(known))}")
        raise UnsupportedModelError("\n".join(lines))
    return verify(inputs_channels_last(graph) if input_layout == "nhwc" else graph)


def problems(path: Path | str, shapes: Mapping[str, Shape] = NO_SHAPES) -> list[Problem]:
    """Everything that prevents the model from being compiled; empty if `load` succeeds."""
    return _import(read(Path(path)), shapes)[1]


def describe(path: Path | str) -> ModelInfo:
    """The opset, producer and hash of the file."""
    file = read(Path(path))
    producer = " ".join(filter(None, (file.model.producer_name, file.model.producer_version)))
    notes = [
        f"{t.name!r} is {FLOATS[t.data_type]} and is used as float32"
        for t in file.model.graph.initializer
        if t.data_type in (TensorProto.FLOAT16, TensorProto.DOUBLE)
    ]
    return ModelInfo(file.opset, producer, file.sha256, tuple(notes))


# ------------------------------------------------------------------------------------------------ the walk


@dataclass(eq=False)
class _Walk:
    """The state while nodes are visited in order of execution."""

    file: File
    shapes: Mapping[str, Shape]
    builder: GraphBuilder
    outputs: tuple[str, ...]
    arrays: dict[str, Array] = field(default_factory=dict)
    alias: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    found: list[Problem] = field(default_factory=list)
    folded: int = 0
    """Elements of the constants that were computed so far."""
    integers: set[str] = field(default_factory=set)
    """The names in the file whose tensors are integers; DequantizeLinear gives the same value a second name, whose
    tensor is not.
    """

    @cached_property
    def quantized(self) -> Quantized:
        return Quantized(self.builder, self.arrays)

    def resolve(self, name: str) -> str:
        while (next_name := self.alias.get(name, name)) != name:
            name = next_name
        return name

    @cached_property
    def inferred(self) -> dict[str, Shape]:
        """Shapes from onnx's own inference, which let the walk continue after an unsupported node."""
        model = ModelProto()
        model.CopyFrom(self.file.model)
        for info in model.graph.input:
            if info.name in self.shapes:
                new = helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, self.shapes[info.name])
                info.CopyFrom(new)
        del model.graph.output[:]
        del model.graph.value_info[:]
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in self.outputs)
        try:
            graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except Exception:
            return {}
        declared = {info.name: declared_shape(info) for info in [*graph.value_info, *graph.output]}
        return {
            n: tuple(d for d in s if d) for n, s in declared.items() if s is not None and all(d and d > 0 for d in s)
        }


def _import(file: File, given: Mapping[str, Shape]) -> tuple[Graph | None, list[Problem]]:
    """The graph and the problems. The graph is None if the problems leave none."""
    constant = [tensor.name for tensor in file.model.graph.initializer]
    if len(set(constant)) != len(constant):
        raise UsageError(f"{file.path}: two initializers have the same name")
    inputs = [info for info in file.model.graph.input if info.name not in constant]
    declared = input_shapes(file.path, inputs, given, channels_read(file.model.graph))
    shapes = single(declared)
    file = replace(file, model=with_batch(file.model, shapes))
    graph = file.model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    order = ordered(file.path, _without(graph, tensors), tensors)
    reserved = {*tensors, *shapes, *(name for node in graph.node for name in node.output)}
    outputs = tuple(dict.fromkeys(info.name for info in graph.output))
    walk = _Walk(file, shapes, GraphBuilder(reserved), outputs)
    walk.found.extend(
        Problem(t.values.name, "sparse initializer", "sparse constants") for t in graph.sparse_initializer
    )
    for info in inputs:
        _add_input(walk, info)
    walk.found.extend(_batches(declared, shapes))
    read = {name for node in order for name in node.input} | set(outputs)
    for name, tensor in tensors.items():
        if name in read:
            _add_constant(walk, name, array_of(file.path, tensor), tensor.name, "initializer")
    walk.alias.update(_surviving(order, outputs, {*tensors, *shapes}))
    for node in order:
        _visit(walk, node)
    return _finish(walk, tuple(shapes))


def _without(graph: GraphProto, tensors: Mapping[str, TensorProto]) -> GraphProto:
    """The graph's names and nodes only; older files list their initializers as inputs too."""
    bare = GraphProto(node=graph.node, output=graph.output)
    bare.input.extend(info for info in graph.input if info.name not in tensors)
    return bare


def _add_input(walk: _Walk, info: ValueInfoProto) -> None:
    walk.builder.activation(info.name, walk.shapes[info.name])
    kind = info.type.tensor_type.elem_type if info.type.HasField("tensor_type") else None
    if kind in INTEGERS:
        onnxquant.add_input(walk.quantized, info.name, INTEGERS[kind])
        walk.integers.add(info.name)
    elif kind not in FLOATS:
        name = TensorProto.DataType.Name(kind) if kind in TensorProto.DataType.values() else "no tensor"
        hint = "float, or int8 or uint8 in quantized models, are supported"
        walk.found.append(Problem(info.name, "input", f"its type is {name.lower()}", hint))
        walk.unknown.add(info.name)


def _batches(declared: Mapping[str, Shape], shapes: Mapping[str, Shape]) -> Iterator[Problem]:
    """A problem for an input with a batch. Its hint contains everything that is needed."""
    differing = [name for name, shape in shapes.items() if shape != declared[name]]
    example = " ".join(f"--shape {name}={','.join(map(str, shapes[name]))}" for name in differing)
    for name in differing:
        yield Problem(name, "input", f"its batch is {declared[name][0]}", f"a bundle takes one sample: {example}")


def _add_constant(walk: _Walk, name: str, array: Array, node: str, op: str) -> None:
    """Add a constant unchanged for folding, and as float32 if it is a float."""
    walk.arrays[name] = array
    real = array.dtype.kind == "f" or array.dtype.name in ("bfloat16",) or array.dtype.name.startswith("float8")
    if real:
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
        # A scalar infinity may be a limit (Clip, Pad); anything else would poison the ranges.
        if np.isnan(array).any() or (array.size > 1 and not np.isfinite(array).all()):
            index = [int(i) for i in np.argwhere(~np.isfinite(array))[0]]
            where = f"{name!r} at {index}" if index else repr(name)
            raise UsageError(f"{walk.file.path}: the constant {where} of {op} {node!r} is NaN or infinite in float32")
    walk.builder.model_constant(name, array)


def _surviving(order: Sequence[NodeProto], outputs: Sequence[str], given: set[str]) -> dict[str, str]:
    """Names to be replaced: a value that a pass-through turns into an output of the model takes the name of that
    output.
    """
    passed = {node.output[0]: node.input[0] for node in order if _is_pass_through(node)}
    renamed: dict[str, str] = {}
    for output in outputs:
        source = output
        while source in passed:
            source = passed[source]
        if source != output and source not in given and source not in outputs and source not in renamed:
            renamed[source] = output
    return renamed


def _is_pass_through(node: NodeProto) -> bool:
    kinds = ("Identity", "Dropout", "Cast", "DequantizeLinear")
    return node.op_type in kinds and node.domain in onnxquant.DOMAINS and len(node.input) > 0


def _visit(walk: _Walk, proto: NodeProto) -> None:
    """Fold, pass through or import one node, or record a problem."""
    names = [walk.resolve(name) if name else "" for name in proto.input]
    mark = walk.builder.mark()
    try:
        node = _onnx_node(walk, proto, names)
        if any(name in walk.unknown for name in names):
            walk.unknown.update(filter(None, node.outputs))
            _supported(proto)
        elif not (_fold(walk, proto, node) or _pass_through(walk, proto, node)):
            _supported(proto)
            walk.builder.start(node.name, node.outputs)
            _import_node(walk, proto, node)
            _check_made(walk, node)
    except Refused as refused:
        _refuse(walk, proto, mark, refused.reason, refused.hint)
    except ValueError as error:
        _refuse(walk, proto, mark, str(error), "check the shapes of its inputs")
    except (KeyError, IndexError, TypeError, ArithmeticError) as error:
        _refuse(
            walk, proto, mark, f"it is not well formed ({type(error).__name__}: {error})", "check it with onnx.checker"
        )


def _import_node(walk: _Walk, proto: NodeProto, node: OnnxNode) -> None:
    """Import a node by the op's importer, or by onnxquant if it makes or reads integers."""
    quantized = walk.quantized
    integers = [name for name in proto.input if name in walk.integers]
    if node.op_type in onnxquant.OPERATORS:
        onnxquant.OPERATORS[node.op_type](node, quantized)
        walk.integers.update(n for n, own in zip(proto.output, node.outputs, strict=True) if own in quantized.known)
    elif not integers:
        importers()[node.op_type].import_onnx(node, walk.builder)
    elif node.op_type in onnxquant.moves():
        importers()[node.op_type].import_onnx(onnxquant.before_move(node, quantized), walk.builder)
        onnxquant.after_move(node, quantized)
        walk.integers.update(filter(None, proto.output))
    else:
        raise Refused(f"it computes with the integer tensor {integers[0]!r}", "put a DequantizeLinear before it")


def _refuse(walk: _Walk, proto: NodeProto, mark: tuple[int, set[str]], reason: str, hint: str) -> None:
    """Record the problem. The outputs keep their shape if onnx can infer it, so that the walk continues."""
    walk.found.append(Problem(name_of(proto), proto.op_type, reason, hint))
    walk.builder.rollback(mark)
    for output in filter(None, proto.output):
        name = walk.resolve(output)
        integers = proto.op_type in (*onnxquant.OPERATORS, "DequantizeLinear")
        if output in walk.inferred and name not in walk.builder.values and not integers:
            walk.builder.activation(name, walk.inferred[output])
        else:
            walk.unknown.add(name)


def _supported(proto: NodeProto) -> None:
    """Raise Refused for an operator that nothing imports."""
    if proto.op_type in (*onnxquant.OPERATORS, "DequantizeLinear") and proto.domain in onnxquant.DOMAINS:
        return
    if proto.domain not in ("", "ai.onnx"):
        raise Refused(f"an operator of the domain {proto.domain!r}", "export with standard ONNX operators")
    if proto.op_type in importers() and not _has_subgraph(proto):
        return
    near = (
        [] if onnx.defs.has(proto.op_type) else difflib.get_close_matches(proto.op_type, importers(), n=1, cutoff=0.75)
    )
    hint = HINTS.get(proto.op_type, f"did you mean {near[0]}?" if near else "")
    raise Refused("a graph inside a node" if _has_subgraph(proto) else "the operator is not supported", hint)


def _has_subgraph(proto: NodeProto) -> bool:
    return any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in proto.attribute)


def _onnx_node(walk: _Walk, proto: NodeProto, inputs: Sequence[str]) -> OnnxNode:
    outputs = tuple(walk.resolve(name) if name else "" for name in proto.output)
    opset = walk.file.opset
    if proto.op_type in ("DequantizeLinear", "QuantizeLinear") and not "".join(inputs[1:2]):
        raise Refused("it has no scale", "quantize the model again")
    if proto.domain in ("", "ai.onnx") and onnx.defs.has(proto.op_type):
        _check_node(walk, proto)
    attributes = _attributes(walk, proto)
    _check_numbers(proto.op_type, attributes)
    return OnnxNode(proto.op_type, name_of(proto), tuple(inputs), outputs, attributes, opset)


def _check_numbers(op_type: str, attributes: Mapping[str, Any]) -> None:
    """Check that attributes are finite numbers; a limit of Clip may be infinite, and the content of a Constant is
    checked later.
    """
    for name, value in attributes.items():
        numbers = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, float)]
        wrong = [v for v in numbers if math.isnan(v) or (math.isinf(v) and op_type != "Clip")]
        if wrong and op_type != "Constant":
            raise Refused(f"its attribute {name!r} is {wrong[0]}", "attributes must be finite numbers")


def _check_node(walk: _Walk, proto: NodeProto) -> None:
    """Check the number of inputs and outputs, and the names and types of attributes, against the schema of the opset."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = walk.file.model.ir_version
    context.opset_imports = {"": walk.file.opset}
    if _has_subgraph(proto):
        return
    try:
        onnx.checker.check_node(proto, context)
    except onnx.checker.ValidationError as error:
        raise Refused(f"it is not well formed: {str(error).splitlines()[0]}", "check it with onnx.checker") from error
    _check_types(walk, proto)


def _check_types(walk: _Walk, proto: NodeProto) -> None:
    """Check that constants have a type that the operator takes; an axis, for example, is not a complex number.

    The operators of onnxquant check their parameters themselves, because they accept fewer types and name them in
    errors.
    """
    if proto.op_type in (*onnxquant.OPERATORS, "DequantizeLinear"):
        return
    declared = onnx.defs.get_schema(proto.op_type, walk.file.opset, "").inputs
    for index, name in enumerate(proto.input):
        array = walk.arrays.get(walk.resolve(name))
        if array is None or not declared:
            continue
        kind = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype)).lower()
        wanted = declared[min(index, len(declared) - 1)]
        if f"tensor({kind})" not in wanted.types:
            taken = ", ".join(sorted(t.removeprefix("tensor(").removesuffix(")") for t in wanted.types))
            raise Refused(f"its input {wanted.name} {name!r} is {kind}", f"opset {walk.file.opset} takes {taken} there")


def _attributes(walk: _Walk, proto: NodeProto) -> dict[str, Any]:
    """Attributes as Python objects: text decoded, tensors as arrays."""
    result = {}
    for attribute in proto.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            continue
        value = (
            array_of(walk.file.path, attribute.t)
            if attribute.type == AttributeProto.TENSOR
            else helper.get_attribute_value(attribute)
        )
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, list | tuple) or attribute.type == AttributeProto.STRINGS:
            value = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value]
        result[attribute.name] = value
    return result


def _check_made(walk: _Walk, node: OnnxNode) -> None:
    """Record a problem for outputs that an importer did not make but something reads."""
    for name in filter(None, node.outputs):
        if name not in walk.builder.values:
            walk.unknown.add(name)
            if any(name in other.input for other in walk.file.model.graph.node) or name in walk.outputs:
                raise Refused(f"its output {name!r} is not supported", "only the first output is")


# ------------------------------------------------------------------------------------- folding, pass-through


def _fold(walk: _Walk, proto: NodeProto, node: OnnxNode) -> bool:
    """Compute the outputs as constants if all inputs are constants, or if only the shape of the input matters."""
    if not onnxfold.folds(proto) or _has_subgraph(proto):
        return False
    if node.op_type in ("Shape", "Size"):
        _keep(walk, node, [_shape_of(walk, node)])
        return True
    inputs = [name for name in node.inputs if name]
    if not all(name in walk.arrays for name in inputs) or (not inputs and node.op_type != "Constant"):
        return False
    if node.op_type == "Constant" and "value" in node.attrs:
        _keep(walk, node, [node.attrs["value"]])
        return True
    if node.op_type == "DequantizeLinear":
        return False
    grids = {
        name: const.grid for name in inputs if (const := walk.builder.values[name].const) and const.grid is not None
    }
    _check_training(walk, node)
    feeds = {name: walk.arrays[name] for name in inputs}
    _keep(walk, node, onnxfold.evaluate(walk.file, proto, node.inputs, feeds))
    if grids and node.op_type in onnxquant.moves():
        reals = {name: walk.builder.delayed(name).materialize() for name in grids}
        moved = (onnxfold.evaluate(walk.file, proto, node.inputs, {**feeds, **own}) for own in (reals, grids))
        _keep_grid(walk, node, *moved)
    return True


def _keep_grid(walk: _Walk, node: OnnxNode, reals: Sequence[Array], grids: Sequence[Array]) -> None:
    """Give a moved constant the grid of a constant that knows its integers."""
    for name, real, grid in zip(filter(None, node.outputs), reals, grids, strict=False):
        walk.builder.stored_constant(name, Const(real, grid=grid))


def _shape_of(walk: _Walk, node: OnnxNode) -> Array:
    name = node.inputs[0]
    shape = walk.arrays[name].shape if name in walk.arrays else walk.builder.shape(name)
    if node.op_type == "Size":
        return np.asarray(prod(shape), dtype=np.int64)
    return np.asarray(shape[node.attrs.get("start", 0) : node.attrs.get("end", len(shape))], dtype=np.int64)


def _keep(walk: _Walk, node: OnnxNode, results: Sequence[Array]) -> None:
    walk.folded += sum(array.size for array in results)
    if walk.folded > limits.FOLDED_IN_ALL:
        raise Refused(
            f"with its result, {walk.folded} elements are constants that are computed, more than {limits.FOLDED_IN_ALL}",
            "compute them before the export",
        )
    for name, array in zip(filter(None, node.outputs), results, strict=False):
        _add_constant(walk, name, array, node.name, node.op_type)


def _pass_through(walk: _Walk, proto: NodeProto, node: OnnxNode) -> bool:
    """Remove Identity, Dropout in inference, Cast from float to float, and DequantizeLinear: their output is another
    name of the input.
    """
    if node.op_type not in ("Identity", "Dropout", "Cast", "DequantizeLinear"):
        return False
    source, output = node.inputs[0], node.outputs[0]
    if node.op_type == "DequantizeLinear":
        real = onnxquant.dequantize_linear(node, walk.quantized)
        if real is None:
            return True
        source = real
    if node.op_type == "Identity" and proto.input[0] in walk.integers:
        walk.integers.add(proto.output[0])
    if node.op_type == "Cast" and proto.input[0] in walk.integers and node.attrs.get("to") in FLOATS:
        onnxquant.read_as_numbers(walk.quantized, source)
    if node.op_type == "Cast" and node.attrs.get("to") not in FLOATS:
        raise Refused(
            "a cast of computed values to another type than float", "values between layers are quantized floats"
        )
    _check_training(walk, node)
    if source == output:
        return True
    if output in walk.outputs:
        walk.builder.start(node.name, node.outputs)
        walk.builder.add("Reshape", [source], {"shape": walk.builder.shape(source)}, output)
    else:
        walk.alias[output] = source
    _check_dropout_mask(walk, node)
    return True


def _check_training(walk: _Walk, node: OnnxNode) -> None:
    training = node.input(2) if node.op_type == "Dropout" else None
    if training is not None and (training not in walk.arrays or walk.arrays[training].any()):
        raise Refused("it is in training mode", "export the model for inference")


def _check_dropout_mask(walk: _Walk, node: OnnxNode) -> None:
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    if mask and (mask in walk.outputs or any(mask in other.input for other in walk.file.model.graph.node)):
        walk.unknown.add(mask)
        raise Refused(f"its mask {mask!r} is used", "export the model for inference")


def _finish(walk: _Walk, inputs: tuple[str, ...]) -> tuple[Graph | None, list[Problem]]:
    """The graph, with the last checks: every output is computed, every constant is a finite number."""
    values = walk.builder.values
    for name in walk.outputs:
        known = walk.resolve(name)
        if name in inputs:
            walk.found.append(Problem(name, "output", "it is an input of the model", "remove it from the outputs"))
        elif known in values and values[known].const is not None:
            walk.found.append(Problem(name, "output", "it is a constant", "remove it from the outputs"))
    for name in onnxquant.untyped_inputs(walk.quantized):
        walk.found.append(
            Problem(name, "input", "no DequantizeLinear says what its integers mean", "export it as float, or with one")
        )
    if walk.found:
        return None, walk.found
    onnxquant.mark_outputs(walk.quantized, [name for name in walk.outputs if name in walk.integers])
    name = walk.file.model.graph.name or walk.file.path.stem
    graph = walk.builder.graph(name, inputs, walk.outputs, walk.file.sha256)
    reader = {name: node for node in graph.nodes for name in node.inputs}
    for value in graph.values.values():
        if value.const is None or value.name not in reader:
            continue
        array, node = value.const.materialize(), reader[value.name]
        if array.size == 0 or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            reason = "no elements" if array.size == 0 else "values that are not finite numbers"
            walk.found.append(Problem(node.origins[0], node.op, f"its constant {value.name!r} has {reason}"))
    return (graph, []) if not walk.found else (None, walk.found)
