"""Cuts a model at named values. In: a parsed model, the values that become its inputs and its outputs, and inputs that become
constants. Out: a model with the nodes between them.

A value inside the model has the type and shape that the model declares or that onnx infers from the shapes that the
user gives for inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto, numpy_helper

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import Array, Shape
from glowembed.options.cut import WHOLE, Cut, Numbers
from glowembed.read import onnxfile
from glowembed.read.labels import as_numbers


def cut(path: Path, model: ModelProto, at: Cut, shapes: Mapping[str, Shape]) -> ModelProto:
    """The part of the model between the named values, or the model itself if none is named."""
    model = _with_constants(path, model, at.constants, shapes)
    if not (at.inputs or at.outputs):
        return model
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    given = [info.name for info in graph.input if info.name not in constants]
    maker = {name: node for node in graph.node for name in node.output if name}
    _known("--inputs", path, at.inputs, (*given, *maker), constants)
    _known("--outputs", path, at.outputs, (*given, *maker), constants)
    outputs = list(dict.fromkeys(at.outputs or (info.name for info in graph.output)))
    needed, reached = _between(graph, outputs, set(at.inputs))
    inputs = list(dict.fromkeys(at.inputs)) or [name for name in given if name in reached]
    _complete(path, at, inputs, reached, given)
    infos = _infos(model, shapes)
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.input[:], made.graph.output[:]
    made.graph.node.extend(node for index, node in enumerate(graph.node) if index in needed)
    made.graph.input.extend(_info(path, name, infos) for name in inputs)
    made.graph.output.extend(infos.get(name, ValueInfoProto(name=name)) for name in outputs)
    return made


def _with_constants(
    path: Path, model: ModelProto, constants: Sequence[tuple[str, Numbers]], shapes: Mapping[str, Shape]
) -> ModelProto:
    """The model in which these inputs are initializers."""
    if not constants:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    known = {tensor.name for tensor in model.graph.initializer}
    inputs = {info.name: info for info in model.graph.input if info.name not in known}
    for name, numbers in constants:
        if name not in inputs:
            raise unknown_name("input of the model for --constant:", name, inputs)
        array = _array(f"{path}: --constant {name}", inputs[name], numbers, shapes.get(name))
        made.graph.initializer.append(numpy_helper.from_array(array, name))
        made.graph.input.remove(next(info for info in made.graph.input if info.name == name))
    if all(info.name in known for info in made.graph.input):
        raise UsageError(f"{path}: --constant leaves no input: the outputs would always be the same")
    return made


def _array(what: str, info: ValueInfoProto, numbers: Numbers, shape: Shape | None) -> Array:
    """The value of an input that becomes a constant: one number for all of its elements, or one for each."""
    declared = onnxfile.declared_shape(info)
    sizes = shape or [size or 1 for size in declared or []]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if len(numbers) not in (1, prod(sizes)):
        more = f", or {prod(sizes)} with commas between them" if prod(sizes) > 1 else ""
        raise UsageError(f"{what}: it has the shape {list(sizes)}; give one number{more}")
    if dtype.kind in "iub" and not all(_holds(dtype, number) for number in numbers):
        raise UsageError(f"{what}: its type {dtype} cannot hold {','.join(map(str, numbers))}")
    every = np.full(prod(sizes), numbers[0]) if len(numbers) == 1 else np.array(numbers)
    return every.astype(dtype).reshape(sizes)


def _holds(dtype: np.dtype[Any], number: float) -> bool:
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return number == int(number) and low <= number <= high if np.isfinite(number) else False


def for_inputs(path: Path, shapes: Mapping[str, Shape], at: Cut = WHOLE) -> bytes | None:
    """The model of the file, cut, for inputs of these shapes; None if it is the same as the file."""
    model = onnxfile.read(path).model
    changed = onnxfile.with_batch(as_numbers(cut(path, model, at, shapes)).model, shapes)
    return None if changed is model else bytes(changed.SerializeToString())


def operators(path: Path) -> frozenset[str]:
    """The operators that the model in the file uses."""
    return frozenset(node.op_type for node in onnxfile.read(path).model.graph.node)


def _known(option: str, path: Path, names: Sequence[str], known: Iterable[str], constants: set[str]) -> None:
    """Refuse names of values that the model does not compute."""
    for name in names:
        if name in constants:
            raise UsageError(f"{path}: {option} {name!r}: it is a constant of the model; name a value that is computed")
        if name not in known:
            raise unknown_name(f"value of the model for {option}:", name, known)


def _between(graph: GraphProto, outputs: Sequence[str], inputs: set[str]) -> tuple[set[int], set[str]]:
    """The indices of the nodes between inputs and outputs, and all names that these nodes and the outputs read."""
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needed, reached, waiting = set[int](), set[str](), list(outputs)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in inputs or name not in maker:
            continue
        needed.add(maker[name])
        waiting.extend(onnxfile.reads(graph.node[maker[name]]))
    return needed, reached


def _complete(path: Path, at: Cut, inputs: Sequence[str], reached: set[str], given: Sequence[str]) -> None:
    """Refuse inputs that nothing reads, and outputs that need further inputs."""
    idle = [name for name in inputs if name not in reached]
    if idle:
        raise UsageError(f"{path}: --inputs {','.join(idle)}: the outputs do not depend on it; leave it out")
    further = [name for name in given if name in reached and name not in inputs]
    if further:
        raise UsageError(
            f"{path}: --inputs {','.join(at.inputs)}: the outputs also need the input {', '.join(map(repr, further))}: name it"
            " in --inputs too, or values behind it"
        )


def _infos(model: ModelProto, shapes: Mapping[str, Shape]) -> dict[str, ValueInfoProto]:
    """The known types and shapes of values, for one sample and the shapes that the user gives."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        dims = onnxfile.declared_shape(info)
        if info.name in shapes or dims:
            shape = [*shapes.get(info.name, (dims[0] or 1, *dims[1:]) if dims else ())]
            info.type.tensor_type.shape.CopyFrom(_dims(shape))
    try:
        inferred = onnx.shape_inference.infer_shapes(copy, data_prop=True).graph
    except Exception:  # onnx has no common class of exceptions; the types are then those that the model declares
        inferred = copy.graph
    return {info.name: info for info in (*inferred.value_info, *inferred.output, *copy.graph.input)}


def _dims(shape: Sequence[int | None]) -> TensorShapeProto:
    made = TensorShapeProto()
    for size in shape:
        dim = made.dim.add()
        if size is not None:
            dim.dim_value = size
    return made


def _info(path: Path, name: str, infos: Mapping[str, ValueInfoProto]) -> ValueInfoProto:
    """The declaration of an input."""
    if name not in infos:
        raise UsageError(
            f"{path}: --inputs {name!r}: neither the model nor onnx says which type it has; cut at another value"
        )
    return infos[name]
