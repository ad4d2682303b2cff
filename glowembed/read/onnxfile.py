"""Reads an untrusted ONNX file: parses, checks and completes it, before any other module looks at its operators.

In: a path. Out: the model with its external data inside, its hash, its nodes in order of execution, and shapes for its
inputs. Nothing is allocated before its size is known, and nothing outside the folder of the model is read. It knows no
operator.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from glowembed.errors import UnsupportedModelError, UsageError, unknown_name
from glowembed.files import source
from glowembed.graph.ir import Array, Shape
from glowembed.graph.states import State
from glowembed.law.modes import Mode
from glowembed.read import formats, tflite
from glowembed.read.builder import MAX_ELEMENTS
from glowembed.read.labels import as_numbers
from glowembed.records import dataclass

OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)

MOST_EXPANDED = 1_000_000
"""The most nodes that the functions of a model may expand to. Thirty functions that call each other twice would fill
the memory.
"""

Function = tuple[str, str, str]
"""The domain, name and overload of a function of the model."""


@dataclass(frozen=True, eq=False)
class File:
    """A parsed model, as ONNX whatever the file's format. `opset` is that of the standard operators; `sha256` covers
    external data, too.
    """

    path: Path
    model: ModelProto
    opset: int
    sha256: str
    law: Mode | None = None
    """the law of the engine that the model was quantized for, if the file names it"""
    notes: tuple[str, ...] = ()
    """sentences about what the translation from another format changes"""
    states: tuple[State, ...] = ()
    """the states that the file itself names"""


def read(path: Path) -> File:
    """The parsed model with its external data inside. The hash covers the file and the external data that it names."""
    if path.is_dir():
        raise UsageError(f"{path}: {formats.of_folder([file.name for file in path.iterdir()])}")
    data = source.read_bytes(path)
    if tflite.is_tflite(data):
        (model, notes, states), digest = tflite.to_onnx(path, data), hashlib.sha256(data)
        return File(path, model, tflite.OPSET, digest.hexdigest(), "tflite", notes, states)
    try:
        model = ModelProto.FromString(data)
    except DecodeError as error:
        raise _no_model(
            path, data, f"its {len(data)} bytes are damaged or cut short; copy or export it again"
        ) from error
    if not model.HasField("graph") or not model.graph.output or not model.opset_import:
        raise _no_model(path, data, "it has no graph, no output or no opset")
    opset = _opset(path, model)
    digest = hashlib.sha256(data)
    _check_text(path, model)
    for tensor in _tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            digest.update(_embed(path, tensor))
    return File(path, _inlined(path, model), opset, digest.hexdigest())


def _no_model(path: Path, data: bytes, otherwise: str) -> UsageError:
    other = formats.other_kind(data, path.suffix)
    return UsageError(f"{path}: {other or f'not an ONNX or TensorFlow Lite model: {otherwise}'}")


def beside(path: Path) -> list[Path]:
    """The files beside an ONNX model in which it keeps tensors; none for other files."""
    if path.suffix != ".onnx" or not path.is_file():
        return []
    try:
        tensors = _tensors(ModelProto.FromString(source.read_bytes(path)))
    except DecodeError:
        return []  # `read` reports what is wrong with it
    outside = (tensor for tensor in tensors if tensor.data_location == TensorProto.EXTERNAL)
    named = {(t.name, item.value) for t in outside for item in t.external_data if item.key == "location"}
    return sorted({_inside(path, name, location) for name, location in named})


def _check_text(path: Path, model: ModelProto) -> None:
    """Check that names are UTF-8, because protobuf passes other names on as bytes."""
    graph = model.graph
    texts = [item.name for item in (*graph.initializer, *graph.input, *graph.output)] + [graph.name]
    for node in (*graph.node, *(node for function in model.functions for node in function.node)):
        texts += [*node.input, *node.output, node.name, node.op_type, node.domain, *(a.name for a in node.attribute)]
    texts += [o.domain for o in model.opset_import] + [model.producer_name, model.producer_version]
    texts += [d.dim_param for i in (*graph.input, *graph.output) for d in i.type.tensor_type.shape.dim]
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{path}: the name {text!r:.100} is not UTF-8")


def _opset(path: Path, model: ModelProto) -> int:
    """The opset of ONNX's own operators, or the newest for a model without such operators."""
    found = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    if not found:
        return OPSETS[-1]
    # Readers take the first or the last, and operators such as Softmax mean something else in each.
    if len(set(found)) > 1:
        raise UnsupportedModelError(
            f"{path}: the model names {len(set(found))} opsets, {' and '.join(map(str, found))}, and may name one: "
            "remove all but the one that it was exported with from opset_import"
        )
    if not 1 <= found[0] <= OPSETS[-1]:
        raise UnsupportedModelError(
            f"{path}: opset {found[0]} is not supported; opsets 1 to {OPSETS[-1]} are: convert the model with "
            "onnx.version_converter, or export it again"
        )
    return int(found[0])


def _inlined(path: Path, model: ModelProto) -> ModelProto:
    """The model with its functions expanded where they are called."""
    if not model.functions:
        return model
    from onnx.inliner import inline_local_functions

    functions = {(f.domain, f.name, f.overload): list(f.node) for f in model.functions}
    try:
        if _expanded_nodes(model.graph.node, functions, {}) > MOST_EXPANDED:
            raise UnsupportedModelError(
                f"{path}: its functions expand to more than {MOST_EXPANDED:,} nodes: export the model without functions"
                " that call one another so often"
            )
    except RecursionError as error:
        raise UsageError(f"{path}: its functions cannot be inlined: they call one another too deeply") from error
    try:
        return inline_local_functions(model)
    except Exception as error:
        raise UsageError(f"{path}: its functions cannot be inlined: {error}") from error


def _expanded_nodes(
    nodes: Iterable[NodeProto], functions: Mapping[Function, Sequence[NodeProto]], known: dict[Function, int]
) -> int:
    """The number of nodes after all functions are expanded. A function that calls itself counts once there, because the
    inliner refuses it. known: the numbers of functions that were counted before.
    """
    total = 0
    for node in nodes:
        name = (node.domain, node.op_type, node.overload)
        if name in functions and name not in known:
            known[name] = 1
            known[name] = _expanded_nodes(functions[name], functions, known)
        graphs = [g for a in node.attribute for g in (a.g, *a.graphs)]
        total += known.get(name, 1) + sum(_expanded_nodes(g.node, functions, known) for g in graphs)
    return total


def _tensors(model: ModelProto) -> Iterable[TensorProto]:
    yield from model.graph.initializer
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _embed(model_path: Path, tensor: TensorProto) -> bytes:
    """Put the external data of a tensor into it, and return the number of bytes. Sizes are compared before anything is
    read.
    """
    entry = {item.key: item.value for item in tensor.external_data}
    if not all(isinstance(text, str) for pair in entry.items() for text in pair):  # protobuf gives other text as bytes
        raise UsageError(f"{model_path}: the place of the data of tensor {tensor.name!r:.100} is not UTF-8")
    path = _inside(model_path, tensor.name, entry.get("location", ""))
    size, expected = path.stat().st_size, _nbytes(model_path, tensor)
    try:
        offset = int(entry.get("offset", "0"))
        length = int(entry.get("length", str(size - offset)))
    except ValueError as error:
        raise UsageError(f"{model_path}: tensor {tensor.name!r}: offset and length are not numbers") from error
    if offset < 0 or length != expected or offset + length > size:
        raise UsageError(
            f"{model_path}: tensor {tensor.name!r} needs {expected} bytes; its data should be {length} bytes at "
            f"{offset} of {path.name}, which has {size}"
        )
    with source.opened(path) as file:
        file.seek(offset)
        tensor.raw_data = file.read(length)
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]
    return tensor.raw_data


def _inside(model_path: Path, name: str, location: str) -> Path:
    """The file at `location`, which must be in the model's folder even after links are followed."""
    folder = model_path.resolve().parent
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive or location.startswith("\\")
    parts = PureWindowsPath(location).parts
    named = 0 < len(location) < 4096 and "\0" not in location
    try:
        path = (folder / location).resolve() if named else folder
        if not named or absolute or ".." in parts or not path.is_relative_to(folder):
            raise UsageError(
                f"{model_path}: tensor {name!r} has its data in {location!r:.200}; only files in the model's folder are read"
            )
        if not path.is_file():
            raise UsageError(
                f"{model_path}: the weights {name!r} are in a file of their own, {location!r}, which does not exist: copy it"
                " into the folder of the model, under this name"
            )
    except OSError as error:  # the name is too long for a file
        raise UsageError(f"{model_path}: tensor {name!r}: {location!r:.200}: {error.strerror}") from error
    return path


def _nbytes(path: Path, tensor: TensorProto) -> int:
    """The bytes of the stored tensor. Raises UsageError for an absurd shape."""
    elements = int(prod(tensor.dims))
    if any(d < 0 for d in tensor.dims):
        raise UsageError(f"{path}: tensor {tensor.name!r} has the shape {list(tensor.dims)}")
    if elements > MAX_ELEMENTS:
        raise UnsupportedModelError(
            f"{path}: tensor {tensor.name!r} of shape {list(tensor.dims)} has {elements} elements, more than any target holds"
        )
    try:
        bits = numpy_helper.to_array(helper.make_tensor("", tensor.data_type, [0], [])).dtype.itemsize * 8
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: tensor {tensor.name!r} has the unknown type {tensor.data_type}") from error
    half = tensor.data_type in (TensorProto.INT4, TensorProto.UINT4)
    return (elements + 1) // 2 if half else elements * bits // 8


def array_of(path: Path, tensor: TensorProto) -> Array:
    """The data of a tensor as stored in the file."""
    expected = _nbytes(path, tensor)
    if tensor.HasField("raw_data") and len(tensor.raw_data) != expected:
        raise UsageError(f"{path}: tensor {tensor.name!r} needs {expected} bytes and has {len(tensor.raw_data)}")
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except MemoryError:
        raise
    except Exception as error:
        raise UsageError(f"{path}: tensor {tensor.name!r} cannot be read: {error}") from error


def reads(node: NodeProto) -> list[str]:
    """The names that a node reads: its inputs, and the values that its inner graphs take from the surrounding graph."""
    inside = [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]
    return [*node.input, *dict.fromkeys(name for graph in inside for name in free_names(graph))]


def free_names(graph: GraphProto) -> list[str]:
    """The names that the nodes and outputs of a graph read but that the graph does not make."""
    made = {t.name for t in graph.initializer} | {i.name for i in graph.input}
    found: dict[str, None] = {}
    for node in graph.node:
        found |= dict.fromkeys(name for name in reads(node) if name and name not in made)
        made.update(node.output)
    found |= dict.fromkeys(info.name for info in graph.output if info.name not in made)
    return list(found)


def ordered(path: Path, graph: GraphProto, constants: Iterable[str]) -> list[NodeProto]:
    """The nodes that the outputs need, in order of execution. Raises UsageError if a name is made twice or is missing,
    or if there is a cycle.
    """
    inputs = Counter(info.name for info in graph.input)
    twice = next((name for name, count in inputs.items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"{path}: the value {twice!r} is made twice, both times as an input of the model")
    given = {*constants, *inputs}
    maker: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in given or name in maker:
                raise UsageError(f"{path}: the value {name!r} is made twice, the second time by {label(node)}")
            maker[name] = index
    missing = {
        name: label(node)
        for node in graph.node
        for name in node.input
        if name and name not in given and name not in maker
    }
    missing |= {
        info.name: "the outputs of the model"
        for info in graph.output
        if info.name not in given and info.name not in maker
    }
    if missing:
        listed = ", ".join(f"{name!r} (read by {reader})" for name, reader in missing.items())
        raise UsageError(f"{path}: names that nothing makes: {listed}")
    order = _topological(path, graph.node, maker)
    needed = {info.name for info in graph.output}
    live = []
    for node in reversed(order):
        if needed.intersection(node.output):
            needed.update(reads(node))
            live.append(node)
    return live[::-1]


def _topological(path: Path, nodes: Sequence[NodeProto], maker: Mapping[str, int]) -> list[NodeProto]:
    """Kahn's algorithm; it keeps the order of the file where possible."""
    before = [{maker[name] for name in reads(node) if name in maker} for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for index, needs in enumerate(before):
        for need in needs:
            after[need].append(index)
    open_needs = [len(needs) for needs in before]
    ready = [index for index, count in enumerate(open_needs) if count == 0]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for reader in after[index]:
            open_needs[reader] -= 1
            if open_needs[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(nodes):
        stuck = [label(nodes[i]) for i, count in enumerate(open_needs) if count]
        more = f" and {len(stuck) - 5} more" if len(stuck) > 5 else ""
        raise UsageError(f"{path}: the graph has a cycle through or before {', '.join(stuck[:5])}{more}")
    return order


def label(node: NodeProto) -> str:
    return f"{node.op_type} {name_of(node)!r}"


def name_of(node: NodeProto) -> str:
    return node.name or next(filter(None, node.output), "")


def input_shapes(
    path: Path,
    inputs: Sequence[ValueInfoProto],
    given: Mapping[str, Shape],
    channels: Mapping[str, int] | None = None,
    may_be_empty: bool = False,
) -> dict[str, Shape]:
    """A shape for every input: the user's, or else the model's. An open batch becomes 1, and an open axis with the same name
    as one in a shape of the user has the same size. Sizes below 0 count as open, and so does a batch of 0 unless tensors
    may be empty.

    An input of shape [0] is empty if the first axes of the other inputs have a size. channels: the channels of inputs,
    for the example in the error.
    """
    for name in given:
        if name not in {info.name for info in inputs}:
            raise unknown_name("input", name, (info.name for info in inputs))
    shapes, missing = {}, []
    hollow = {info.name for info in inputs if _is_empty(info, inputs)}
    sizes = _named_sizes(inputs, given)
    for info in inputs:
        declared = _with_open_axes(declared_shape(info), may_be_empty or info.name in hollow)
        if info.name in given:
            shapes[info.name] = _given_shape(path, info.name, declared, tuple(given[info.name]))
            continue
        filled = declared and [
            sizes.get(name, d) if d is None else d for name, d in zip(_names(info), declared, strict=True)
        ]
        if filled is None or None in filled[1:]:
            missing.append(_ask_shape(info, filled, (channels or {}).get(info.name, 0)))
        else:
            shapes[info.name] = tuple(1 if d is None else d for d in filled)
    if missing:
        raise UsageError(f"{path}: shapes are open; give them:\n" + "\n".join(f"  {line}" for line in missing))
    for name, shape in shapes.items():
        if any(d <= 0 for d in shape) and not may_be_empty and name not in hollow:
            raise UsageError(f"{path}: the input {name!r} has the shape {list(shape)}: a tensor without elements")
        if prod(shape) > MAX_ELEMENTS:
            raise UnsupportedModelError(
                f"{path}: the input {name!r} of shape {list(shape)} has {prod(shape)} elements, more than {MAX_ELEMENTS}"
            )
    return shapes


BATCH = re.compile(r"batch([ _-]?size)?", re.IGNORECASE)
"""Names that exporters give to the axis of the batch."""

SHORT = re.compile(r"b|bs|n", re.IGNORECASE)
"""Short names of it, which have other meanings where no input has them on its first axis."""


def _names(info: ValueInfoProto) -> list[str]:
    """The names of the axes of an input; empty for an axis without one."""
    return [dim.dim_param for dim in info.type.tensor_type.shape.dim]


def _named_sizes(inputs: Sequence[ValueInfoProto], given: Mapping[str, Shape]) -> dict[str, int]:
    """The sizes of named open axes: those in the shapes that the user gives, and 1 for axes named as the batch."""
    pairs = [pair for info in inputs for pair in zip(_names(info), given.get(info.name, ()), strict=False)]
    first = {name for info in inputs for name in _names(info)[:1]}
    batches = {n for info in inputs for n in _names(info) if BATCH.fullmatch(n) or (n in first and SHORT.fullmatch(n))}
    return dict.fromkeys(batches, 1) | {name: size for name, size in reversed(pairs) if name}


def _is_empty(info: ValueInfoProto, inputs: Sequence[ValueInfoProto]) -> bool:
    """Whether an input has no elements: a size of 0 on an axis after the first, or an empty vector that only gives a
    type or an empty list of axes and is not a batch of 0.
    """
    declared = declared_shape(info)
    if declared is not None and 0 in declared[1:]:
        return True
    firsts = [shape[0] for other in inputs if other.name != info.name and (shape := declared_shape(other))]
    return declared == [0] and bool(firsts) and all(size is not None and size > 0 for size in firsts)


def _with_open_axes(declared: list[int | None] | None, may_be_empty: bool) -> list[int | None] | None:
    """The shape with None for open axes, for which exporters also write -1, or 0 for the batch."""
    if declared is None:
        return None
    least = [0 if may_be_empty or axis else 1 for axis in range(len(declared))]
    return [size if size is not None and size >= low else None for size, low in zip(declared, least, strict=True)]


def open_batch(info: ValueInfoProto) -> bool:
    """Whether the model leaves the first axis of an input open, or one that is named as the batch."""
    declared = _with_open_axes(declared_shape(info), False) or []
    return any(d is None and (i == 0 or BATCH.fullmatch(_names(info)[i]) is not None) for i, d in enumerate(declared))


def with_batch(model: ModelProto, shapes: Mapping[str, Shape]) -> ModelProto:
    """The model for inputs of these shapes, whose batch may differ from the one that the model fixes; the model itself
    if it does not differ.

    Exporters also write a fixed batch into the constants of Reshape and Expand.
    """
    declared = {info.name: declared_shape(info) for info in model.graph.input if info.name in shapes}
    fixed = {name: d[0] for name, d in declared.items() if d and _differs(d, shapes[name])}
    if not fixed:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        for dim, size in (
            zip(info.type.tensor_type.shape.dim, shapes[info.name], strict=True) if info.name in fixed else ()
        ):
            dim.dim_value = size
    del copy.graph.value_info[:]
    for info in copy.graph.output:
        info.type.tensor_type.ClearField("shape")
    name, batch = next(iter(fixed.items()))
    if batch is not None and batch > 0:
        _rebatch(copy.graph, set(declared), batch, shapes[name][0])
    return copy


def _differs(declared: list[int | None], shape: Shape) -> bool:
    """Whether a size in the declared shape differs from the shape."""
    return any(size not in (None, own) for size, own in zip(declared, shape, strict=True))


def _rebatch(graph: GraphProto, computed: set[str], old: int, new: int) -> None:
    """Change constant shapes that give computed tensors the old batch."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in graph.node
        for attribute in node.attribute
        if node.op_type == "Constant" and attribute.name == "value"
    }
    for index, node in enumerate(graph.node):
        if computed.isdisjoint(node.input):
            continue
        computed.update(node.output)
        tensor = constants.get(node.input[1]) if node.op_type in ("Reshape", "Expand") and len(node.input) > 1 else None
        if tensor is None or node.input[0] not in computed:
            continue
        dims = numpy_helper.to_array(tensor).copy()
        if dims.ndim == 1 and len(dims) > 1 and dims[0] == old:
            dims[0] = new
            node.input[1] = f"{node.input[1]}/batch_{index}"
            graph.initializer.append(numpy_helper.from_array(dims, node.input[1]))


def is_translated(path: Path) -> bool:
    """Whether the file is not ONNX but is translated into an ONNX model."""
    with source.opened(path) as file:
        return path.suffix == ".tflite" or tflite.is_tflite(file.read(8))


def has_own_operators(path: Path) -> bool:
    """Whether the file is translated into a model with operators that ONNX does not have, and onnxruntime cannot run."""
    return is_translated(path) and any(node.domain == tflite.DOMAIN for node in read(path).model.graph.node)


def loadable(path: Path) -> str | bytes:
    """A model that onnxruntime can load and whose outputs are tensors of numbers: the path of an ONNX file, or an
    equivalent model in memory.
    """
    model = read(path).model
    changed = as_numbers(model).model
    return str(path) if changed is model and not is_translated(path) else bytes(changed.SerializeToString())


def declared_shape(info: ValueInfoProto) -> list[int | None] | None:
    """The shape in the model, with None for an open axis; None if the shape is open altogether."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]


def _given_shape(path: Path, name: str, declared: list[int | None] | None, shape: Shape) -> Shape:
    """The user's shape. It may change the batch, but no other size that the model fixes."""
    fits = declared is None or (
        len(declared) == len(shape) and all(d in (None, s) for d, s in zip(declared[1:], shape[1:], strict=True))
    )
    if not fits:
        raise UsageError(
            f"{path}: shape {list(shape)} for the input {name!r} does not fit the model's {_open(declared)}"
        )
    return shape


def channels_read(graph: GraphProto) -> dict[str, int]:
    """For each input that a convolution reads, the number of channels of the convolution's weights."""
    weights = {tensor.name: tensor.dims for tensor in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type == "Conv" and len(node.input) > 1 and len(weights.get(node.input[1], ())) > 2:
            group = next((a.i for a in node.attribute if a.name == "group"), 1)
            found[node.input[0]] = int(weights[node.input[1]][1] * group)
    return found


def _ask_shape(info: ValueInfoProto, declared: list[int | None] | None, channels: int) -> str:
    likely = (1, channels or (3 if declared is None else 64), 64, 64)
    filled = likely if declared is None else [d or (likely[i] if i < 4 else 64) for i, d in enumerate(declared)]
    names = [d.dim_param or str(d.dim_value or "?") for d in info.type.tensor_type.shape.dim] if declared else ["?"]
    example = f"--shape {info.name}={','.join(map(str, filled))}"
    return f"input {info.name!r} has the shape [{', '.join(names)}]: for example {example}"


def _open(declared: list[int | None] | None) -> list[int | str]:
    return ["?" if d is None else d for d in declared or []]
