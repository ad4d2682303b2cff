"""Turns an ONNX file into a float Graph.

In: the path of a model, and shapes for axes that the model leaves open. Out: a Graph that is not yet canonical, or a
list of everything that is not supported. Model files are not trusted: onnxfile.py reads them, and no constant is
computed here before its size is known. Names are never changed; the emitter makes C identifiers of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from glowembed.errors import UnsupportedModelError, UsageError, unknown_name
from glowembed.graph.ir import Const, Graph, Shape, verify
from glowembed.graph.notes import Note
from glowembed.graph.op import UNSUPPORTED, Malformed, OnnxNode, Refused, is_a
from glowembed.graph.plan import InputLayout
from glowembed.graph.registry import definitions, importers, ops
from glowembed.nest.retype import is_copy
from glowembed.ops.function import Function
from glowembed.ops.nest import Choice, program_of
from glowembed.ops.shared.definition import ELEMENT_TYPES, TYPES
from glowembed.options.cut import WHOLE, Cut
from glowembed.read import composed, contrib, doubles, inside, labels, nests, nodes, onnxfile, onnxquant, tflite
from glowembed.read.builder import GraphBuilder, inputs_channels_last
from glowembed.read.cut import cut
from glowembed.read.folding import add_constant, fold, pass_through
from glowembed.read.labels import Labelled
from glowembed.read.onnxfile import (
    File,
    array_of,
    channels_read,
    input_shapes,
    name_of,
    ordered,
    read,
    with_batch,
)
from glowembed.read.states import recurrent, with_states
from glowembed.read.walk import FLOATS, Problem, Walk
from glowembed.records import dataclass

CONTROL = ("If", "Loop", "Scan")
"""The operators with inner graphs."""

FOLDED = ("Shape", "Size")
"""Operators that only need shapes, so that they are always constants."""

INFINITE = np.float32(2.0**124)
"""Replaces infinity in a quantized network, whose float32 kernels clamp. The sum of several masks with this number is
finite.
"""

DEQUANTIZE = "put a DequantizeLinear before it"

INTEGERS: Mapping[Any, str] = {
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "uint8",
    TensorProto.INT16: "int16",
    TensorProto.UINT16: "uint16",
}
"""The integer types that inputs of quantized models may have."""


@dataclass(frozen=True)
class ModelInfo:
    """Facts about the model file. notes: sentences about what the import changes."""

    opset: int
    producer: str
    sha256: str
    notes: tuple[str, ...] = ()


NO_SHAPES: Mapping[str, Shape] = {}


def load(
    path: Path | str,
    shapes: Mapping[str, Shape] = NO_SHAPES,
    input_layout: str = "model",
    exact: bool = False,
    at: Cut = WHOLE,
    float64_as_float32: bool = False,
    states: Mapping[str, str] | None = None,
) -> Graph:
    """The float graph of the model, cut at the values of `at`. `shapes` are shapes of inputs; with the InputLayout
    "nhwc" they are channels-last.

    states: pairs of output and input that are states, besides those that the model names (states.py). exact: whether
    floats keep the types of the model, except float64 if it is read as float32; otherwise all floats are float32.

    Raises UsageError for a file that is not a valid ONNX model, and UnsupportedModelError, with all problems, for a
    valid one that is not supported.
    """
    if input_layout not in get_args(InputLayout):
        raise unknown_name("input layout", input_layout, get_args(InputLayout))
    file = read(Path(path))
    file = doubles.as_float32(file) if exact and float64_as_float32 else file
    graph, found = _import(file, shapes, exact, at)
    if graph is None or found:
        lines = [f"{path}: {len(found)} {'thing is' if len(found) == 1 else 'things are'} not supported:"]
        lines += [f"  {problem}" for problem in found]
        if any(problem.reason == UNSUPPORTED for problem in found):
            listed = "tflite.md" if file.law == "tflite" else "operators.md"
            lines.append(f"docs/{listed} lists the supported operators; `glowembed docs` says where it is")
        raise UnsupportedModelError("\n".join(lines))
    graph = with_states(graph, (*file.states, *recurrent(file.model.graph.node)), states)
    return verify(inputs_channels_last(graph) if input_layout == "nhwc" else graph)


def problems(path: Path | str, shapes: Mapping[str, Shape] = NO_SHAPES, at: Cut = WHOLE) -> list[Problem]:
    """Everything that prevents the model from being compiled; empty if `load` would succeed."""
    return _import(read(Path(path)), shapes, at=at)[1]


def operators(path: Path | str, at: Cut = WHOLE) -> dict[str, str]:
    """The operator of each node, by the node's name."""
    model = cut(Path(path), read(Path(path)).model, at, NO_SHAPES)
    return {name_of(node): node.op_type for node in model.graph.node}


def describe(path: Path | str) -> ModelInfo:
    """The opset, producer and hash of the file."""
    file = read(Path(path))
    words = f"{file.model.producer_name} {file.model.producer_version}".split()
    producer = " ".join(word for word in words if word != "None")  # tf2onnx writes an unknown revision as None
    notes = [
        f"{t.name!r} is {FLOATS[t.data_type]} and is used as float32"
        for t in file.model.graph.initializer
        if t.data_type in (TensorProto.FLOAT16, TensorProto.DOUBLE)
    ]
    return ModelInfo(file.opset, producer, file.sha256, (*notes, *file.notes))


def _import(
    file: File, given: Mapping[str, Shape], exact: bool = False, at: Cut = WHOLE
) -> tuple[Graph | None, list[Problem]]:
    """The graph and the problems. The graph is None if the problems leave none."""
    labelled = labels.as_numbers(cut(file.path, file.model, at, given))
    file = replace(file, model=labelled.model)
    constant = [tensor.name for tensor in file.model.graph.initializer]
    if len(set(constant)) != len(constant):
        raise UsageError(f"{file.path}: two initializers have the same name")
    inputs = [info for info in file.model.graph.input if info.name not in constant]
    shapes = input_shapes(file.path, inputs, given, channels_read(file.model.graph), may_be_empty=exact)
    file = replace(file, model=with_batch(file.model, shapes))
    graph = file.model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    order = ordered(file.path, _without(graph, tensors), tensors)
    reserved = {*tensors, *shapes, *(name for node in graph.node for name in node.output)}
    outputs = tuple(dict.fromkeys(info.name for info in graph.output))
    walk = Walk(file, shapes, GraphBuilder(reserved), outputs, exact)
    found = frozenset[str]()
    if not exact:
        order, tensors, found = composed.recognized(order, tensors, outputs, lambda: {**shapes, **walk.inferred})
    walk.found.extend(
        Problem(t.values.name, "sparse initializer", "sparse constants") for t in graph.sparse_initializer
    )
    for info in inputs:
        _add_input(walk, info)
    read = {name for node in order for name in onnxfile.reads(node)} | set(outputs)
    for name, tensor in tensors.items():
        if name in read:
            add_constant(walk, name, array_of(file.path, tensor), tensor.name, "initializer")
    if not exact:
        walk.alias.update(_surviving(walk, order, {*tensors, *shapes}))
    for node in order:
        walk.file = replace(file, opset=composed.OPSET) if found.intersection(node.output) else file
        _visit(walk, node)
    made, problems = _finish(walk, tuple(shapes))
    branches = inside.undecided(order, walk)
    if made is not None:
        both = "chooses between two branches in each run, so both are compiled, in float32"
        notes = [Note("branch", f"If {name!r} {both}; {advice}") for name, advice in branches.items()]
        made = replace(_named(made, labelled), assumed=(*_open_batches(inputs, given, shapes), *notes))
    return made, [replace(problem, hint=branches.get(problem.node, problem.hint)) for problem in problems]


def _open_batches(
    inputs: Sequence[ValueInfoProto], given: Mapping[str, Shape], shapes: Mapping[str, Shape]
) -> tuple[Note, ...]:
    """A note about the inputs whose batch the model leaves open, if there are any."""
    full = [info for info in inputs if info.name not in given and 0 not in shapes[info.name]]
    opened = [info.name for info in full if onnxfile.open_batch(info)]
    if not opened:
        return ()
    listed = ", ".join(f"{name}: {list(shapes[name])}" for name in opened)
    return (Note("batch", f"the model leaves the batch open, and the bundle takes one sample: {listed}"),)


def _without(graph: GraphProto, tensors: Mapping[str, TensorProto]) -> GraphProto:
    """Only the names and nodes of the graph, because older files list their initializers as inputs too."""
    bare = GraphProto(node=graph.node, output=graph.output)
    bare.input.extend(info for info in graph.input if info.name not in tensors)
    return bare


def _add_input(walk: Walk, info: ValueInfoProto) -> None:
    kind = info.type.tensor_type.elem_type if info.type.HasField("tensor_type") else None
    floating = kind in FLOATS and not (walk.exact and kind != TensorProto.FLOAT)
    dtype = "float32" if floating else ELEMENT_TYPES.get(kind or 0, "float32")
    quantized = kind in INTEGERS and not walk.exact and _says_what_integers_mean(walk.file.model, info.name)
    walk.builder.activation(info.name, walk.shapes[info.name], "float32" if quantized else dtype)
    if quantized:
        onnxquant.add_input(walk.quantized, info.name, INTEGERS[kind])
        walk.integers.add(info.name)
    elif kind not in ELEMENT_TYPES:
        name = TensorProto.DataType.Name(kind) if kind in TensorProto.DataType.values() else "no tensor"
        walk.found.append(Problem(info.name, "input", f"its type is {name.lower()}", TYPES))
        walk.unknown.add(info.name)


def _says_what_integers_mean(model: ModelProto, name: str) -> bool:
    """Whether operators of the model define the meaning of this integer input, and none of its readers gets a scale at
    run time.
    """
    kinds = {*onnxquant.OPERATORS, "DequantizeLinear"}
    found = [node for node in model.graph.node if node.op_type in kinds]
    constant = {tensor.name for tensor in model.graph.initializer}
    floats = {i.name for i in model.graph.input if i.type.tensor_type.elem_type in FLOATS and i.name not in constant}
    return bool(found) and not any(name in node.input and floats.intersection(node.input) for node in found)


def _surviving(walk: Walk, order: Sequence[NodeProto], given: set[str]) -> dict[str, str]:
    """The names to be replaced: a value that a pass-through node turns into an output of the model takes the name of
    that output.
    """
    constants = {tensor.name: tensor for tensor in walk.file.model.graph.initializer}
    constants |= {n.output[0]: a.t for n in order if n.op_type == "Constant" for a in n.attribute if a.name == "value"}
    made = {name: node for node in order for name in node.output}
    renaming = [node for node in order if _ispass_through(node) and _is_exact(node, made, constants)]
    others = walk.no_floats(renaming)
    passed = {node.output[0]: node.input[0] for node in renaming if node.input[0] not in others}
    renamed: dict[str, str] = {}
    for output in walk.outputs:
        source = output
        while source in passed:
            source = passed[source]
        if source != output and source not in given and source not in walk.outputs and source not in renamed:
            renamed[source] = output
    return renamed


def _is_exact(node: NodeProto, made: Mapping[str, NodeProto], constants: Mapping[str, TensorProto]) -> bool:
    """Whether a node gives exactly the real numbers that its input stands for; a DequantizeLinear may have to compute
    them.
    """
    if node.op_type != "DequantizeLinear":
        return True
    scale, zero = (constants.get(node.input[i]) if len(node.input) > i else None for i in (1, 2))
    if scale is None or scale.data_type != TensorProto.FLOAT or prod(scale.dims) != 1:
        return False
    if len(node.input) > 2 and node.input[2]:
        return zero is not None and zero.data_type in INTEGERS
    maker = made.get(node.input[0], NodeProto())
    return all(attribute.i in (0, *INTEGERS) for attribute in maker.attribute if attribute.name == "output_dtype")


def _ispass_through(node: NodeProto) -> bool:
    kinds = ("Identity", "Dropout", "Cast", "DequantizeLinear")
    integers = any(attribute.name == "to" and attribute.i not in FLOATS for attribute in node.attribute)
    return node.op_type in kinds and node.domain in onnxquant.DOMAINS and len(node.input) > 0 and not integers


def _visit(walk: Walk, proto: NodeProto) -> None:
    """Fold, pass through or import one node, or record a problem."""
    names = [walk.resolve(name) if name else "" for name in proto.input]
    mark = walk.builder.mark()
    try:
        node = nodes.onnx_node(walk, proto, names)
        if any(name in walk.unknown for name in names):
            walk.unknown.update(filter(None, node.outputs))
            _supported(proto)
        elif not fold(walk, proto, node):
            _require_one_kind(walk, proto)
            try:
                _by_own_op(walk, proto, node)
            except Refused as refused:
                walk.builder.rollback(mark)
                if isinstance(refused, Malformed) or _has_wrong_subgraph(proto):
                    raise
                if _is_renamed(names, node.outputs):
                    raise Refused(
                        "it makes an output of the model from integers that it cannot take",
                        "end the model before it: --outputs NAME",
                    ) from refused
                integers = walk.integers.intersection(proto.input) and not contrib.has_body(proto)
                if integers and _computes_integers(proto):
                    raise
                if integers:
                    if not _choose_integers(walk, proto, node):
                        walk.builder.rollback(mark)
                        raise
                elif not (
                    inside.decide(walk, proto, node, _visit)
                    or nests.define(walk, proto, node)
                    or inside.expand(walk, proto, node, _visit)
                ):
                    _supported(proto)
                    raise
                walk.generated[node.name] = refused.reason
    except Refused as refused:
        _refuse(walk, proto, mark, refused.reason, refused.hint)
    except (ValueError, KeyError, IndexError, TypeError, ArithmeticError) as error:
        _refuse(walk, proto, mark, f"it is not well formed: {_in_words(error)}", "check it with onnx.checker")


def _require_one_kind(walk: Walk, proto: NodeProto) -> None:
    """Refuse a Concat of integers with real numbers that they, or others, stand for, because in the graph both are real
    numbers.
    """
    given = [name in walk.integers for name in proto.input]
    if proto.op_type == "Concat" and any(given) and not all(given):
        raise Malformed("its inputs are quantized integers and real numbers", "quantize or dequantize all of them")


def _is_renamed(inputs: Sequence[str], outputs: Sequence[str]) -> bool:
    """Whether the input of a pass-through node already has the name of its output (_surviving), so that no node could
    compute it.
    """
    return bool({*filter(None, inputs)}.intersection(outputs))


def _choose_integers(walk: Walk, proto: NodeProto, node: OnnxNode) -> bool:
    """Add the nodes of a definition for integers of a quantized model, if it only moves, compares and selects those of
    its first input, so that it also works on the real numbers that they stand for.
    """
    if proto.input[0] not in walk.integers or walk.integers.intersection(proto.input[1:]):
        return False
    if not nests.define(walk, proto, node):
        return False
    values, outputs = walk.builder.values, {name for name in node.outputs if name}
    for made in (n for n in walk.builder.nodes if outputs.intersection(n.outputs)):
        numbers = [name for name in made.inputs if values[name].const is not None and not values[name].plain]
        moves = is_a(made, Choice) or (is_a(made, Function) and is_copy(program_of(made.attrs["params"])))
        if not moves or numbers or ops()[made.op].limits(made.attrs):
            return False
    real = tuple(name for name in node.outputs if name and not values[name].plain)
    onnxquant.after_move(replace(node, outputs=real), walk.quantized)
    walk.integers.update(name for name, own in zip(proto.output, node.outputs, strict=True) if own in real)
    return True


def _in_words(error: Exception) -> str:
    """The message for a node whose definition or op raised an unexpected Python exception."""
    if isinstance(error, KeyError):
        return f"{error.args[0] if error.args else ''!s:.60} is missing or unknown"
    if isinstance(error, IndexError):
        return "it lacks an input, or one of its inputs lacks an axis or an element"
    if isinstance(error, ArithmeticError):
        return "a number of its attributes is 0 or too large"
    return "its inputs and attributes do not fit each other"


def _computes_integers(proto: NodeProto) -> bool:
    """Whether the operator belongs to quantized models."""
    kinds = (*onnxquant.OPERATORS, "DequantizeLinear")
    return proto.op_type in kinds and proto.domain in onnxquant.DOMAINS


def _computes_exactly(walk: Walk, proto: NodeProto) -> bool:
    """Whether the op that would import a node only moves elements, or has constant weights, for which its kernels are
    made. The float32 kernels of other ops limit infinities to the largest number, which would change the effect of
    masks.
    """
    op = importers().get(_kind(proto))
    if op is None:
        return False
    constant = any(walk.resolve(name) in walk.arrays for name in proto.input[:2])
    sums = op.has_weights and op.dependence == "sum" and constant
    return op.dependence == "move" or sums or nests.definition_of(proto) is None


def _kind(proto: NodeProto) -> str:
    """The operator's key in `importers`: its type, with the domain unless that is ONNX's own."""
    return proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}:{proto.op_type}"


def _by_own_op(walk: Walk, proto: NodeProto, node: OnnxNode) -> None:
    """Import a node by an op that can be quantized. Raises Refused if there is none, or if that op cannot import it."""
    if any(walk.is_plain(name) for name in node.inputs if name) or (walk.exact and _computes_integers(proto)):
        raise Refused("it computes with a tensor that is not float32")
    given = [walk.builder.values[name] for name in node.inputs if name in walk.builder.values]
    if any(value.const is None and value.elements == 0 for value in given):
        raise Refused("it reads a tensor without elements")
    if pass_through(walk, proto, node):
        return
    _supported(proto)
    if walk.exact and not _computes_exactly(walk, proto):
        raise Refused("its kernels clamp infinities")
    if not (_kind(proto) in importers() or _computes_integers(proto)) or walk.file.opset < onnxfile.OPSETS[0]:
        raise Refused("no kernels of its own compute it")
    walk.builder.start(node.name, node.outputs)
    _import_node(walk, proto, node)
    _check_made(walk, node)


def _import_node(walk: Walk, proto: NodeProto, node: OnnxNode) -> None:
    """Import a node by the op's importer, or by onnxquant if it makes or reads integers."""
    quantized = walk.quantized
    integers = [name for name in proto.input if name in walk.integers]
    if node.op_type in onnxquant.OPERATORS and _computes_integers(proto):
        onnxquant.OPERATORS[node.op_type](node, quantized)
        walk.integers.update(n for n, own in zip(proto.output, node.outputs, strict=True) if own in quantized.known)
    elif not integers:
        importers()[_kind(proto)].import_onnx(node, walk.builder)
    elif onnxquant.interpolates(node):
        onnxquant.interpolated(node, quantized)
        walk.integers.update(filter(None, proto.output))
    elif _kind(proto) in onnxquant.choices():
        first = len(walk.builder.nodes)
        importers()[_kind(proto)].import_onnx(onnxquant.before_move(node, quantized), walk.builder)
        if not all(ops()[made.op].chooses(made.attrs) for made in walk.builder.nodes[first:]):
            raise Refused(f"it computes new numbers of the integer tensor {integers[0]!r}", DEQUANTIZE)
        onnxquant.after_move(node, quantized)
        walk.integers.update(filter(None, proto.output))
    else:
        raise Refused(f"it computes with the integer tensor {integers[0]!r}", DEQUANTIZE)


def _refuse(walk: Walk, proto: NodeProto, mark: tuple[int, set[str]], reason: str, hint: str) -> None:
    """Record a problem. The outputs keep their shapes if onnx can infer them, so that the walk continues."""
    walk.found.append(Problem(name_of(proto), proto.op_type, reason, hint))
    walk.builder.rollback(mark)
    for output in filter(None, proto.output):
        name = walk.resolve(output)
        integers = proto.op_type in (*onnxquant.OPERATORS, "DequantizeLinear") or walk.integers.intersection(
            proto.input
        )
        if output in walk.inferred and name not in walk.builder.values and not integers:
            walk.builder.activation(name, walk.inferred[output])
            walk.guessed.add(name)
        else:
            walk.unknown.add(name)


def _supported(proto: NodeProto) -> None:
    """Raise Refused for an operator that nothing imports, folds or passes through."""
    if proto.op_type in (*onnxquant.OPERATORS, "DequantizeLinear", *FOLDED) and proto.domain in onnxquant.DOMAINS:
        return
    if nests.definition_of(proto) is not None and (proto.op_type in CONTROL or not nodes.has_subgraph(proto)):
        return
    if contrib.has_body(proto) or (_kind(proto) in importers() and not nodes.has_subgraph(proto)):
        return
    if proto.domain == tflite.DOMAIN:
        reason, hint = tflite.refusal(proto)
        raise Refused(reason, hint)
    if proto.domain not in ("", "ai.onnx"):
        saved = "save the optimized model with ORT_ENABLE_EXTENDED: ORT_ENABLE_ALL writes it for the CPU that it ran on"
        other = "export with standard ONNX operators, or add it: --ops FOLDER (docs/adding-an-op.md)"
        hint = saved if proto.domain == "com.microsoft.nchwc" else other
        raise Refused(f"an operator of the domain {proto.domain!r}", hint)
    near = (
        []
        if onnx.defs.has(proto.op_type)
        else difflib.get_close_matches(proto.op_type, {*importers(), *definitions()}, n=1, cutoff=0.75)
    )
    hint = f"did you mean {near[0]}?" if near else ""
    raise Refused("a graph inside a node" if nodes.has_subgraph(proto) else UNSUPPORTED, hint)


def _has_wrong_subgraph(proto: NodeProto) -> bool:
    """Whether an operator that must have no inner graph has one."""
    known = proto.op_type in importers() or nests.definition_of(proto) is not None
    return nodes.has_subgraph(proto) and known and proto.op_type not in CONTROL


def _check_made(walk: Walk, node: OnnxNode) -> None:
    """Record a problem for outputs that an importer did not make but something reads."""
    for name in filter(None, node.outputs):
        if name not in walk.builder.values:
            walk.unknown.add(name)
            if any(name in other.input for other in walk.file.model.graph.node) or name in walk.outputs:
                raise Refused(f"its output {name!r} is not supported", "only the first output is")


def _copy_constants(walk: Walk) -> None:
    """Replace every output that is a constant by a copy of it."""
    for name in walk.outputs:
        value = walk.builder.values.get(name)
        if value is not None and value.const is not None and name in walk.arrays:
            walk.builder.copy_constant(name, walk.arrays[name])


def _readers_of_bounds(walk: Walk) -> Iterator[Problem]:
    """A problem for every node that would mistake a bound for the actual size, which depends on data."""
    for node in walk.builder.nodes:
        for name in node.inputs:
            if walk.builder.values[name].found:
                reason = f"it reads {name!r}, whose size depends on data"
                yield Problem(node.origins[0], node.op, reason, f"declare the shape of {name!r} in the model")


def _declared_otherwise(walk: Walk) -> Iterator[Problem]:
    """A problem for every output that is declared as integers and computed as floats, or the other way round."""
    for info in walk.file.model.graph.output:
        kind, value = info.type.tensor_type.elem_type, walk.builder.values.get(info.name)
        if value is None or info.name in walk.integers | walk.guessed or kind not in ELEMENT_TYPES:
            continue
        made, declared = value.dtype, ELEMENT_TYPES[kind]
        if _are_integers(made) != _are_integers(declared):
            reason = f"it is declared as {declared}, and computed as {made}"
            yield Problem(info.name, "output", reason, "check it with onnx.checker, or cast it")


def _are_integers(dtype: str) -> bool:
    return dtype.startswith(("int", "uint", "bool"))


def _finish(walk: Walk, inputs: tuple[str, ...]) -> tuple[Graph | None, list[Problem]]:
    """The graph, after the last checks: every output is computed, and every constant is finite."""
    _copy_constants(walk)
    for name in onnxquant.untyped_inputs(walk.quantized):
        walk.found.append(
            Problem(name, "input", "no DequantizeLinear says what its integers mean", "export it as float, or with one")
        )
    walk.found.extend(_readers_of_bounds(walk))
    walk.found.extend(_declared_otherwise(walk))
    if walk.found:
        return None, walk.found
    onnxquant.mark_outputs(walk.quantized, [name for name in walk.outputs if name in walk.integers])
    name = walk.file.model.graph.name or walk.file.path.stem
    graph = replace(
        walk.builder.graph(name, inputs, walk.outputs, walk.file.sha256), law=walk.file.law, notes=walk.file.notes
    )
    graph = replace(graph, generated=walk.generated)
    if walk.exact:
        return graph, []
    walk.found.extend(_without_numbers(graph))
    return (_finite(graph), []) if not walk.found else (None, walk.found)


def _named(graph: Graph, labelled: Labelled) -> Graph:
    """The graph in which outputs that are indices of strings know these strings."""
    named = {name: replace(graph.values[name], labels=labelled.names) for name in sorted(labelled.outputs)}
    return replace(graph, values={**graph.values, **named})


def _without_numbers(graph: Graph) -> Iterator[Problem]:
    """A problem for each constant that its reader cannot use: without elements, or infinite weights."""
    for node in graph.nodes:
        if ops()[node.op].plain:
            continue
        for name in dict.fromkeys(node.inputs):
            value = graph.values[name]
            if value.const is None:
                continue
            array = value.const.materialize()
            numbers = not ops()[node.op].has_weights or (array.dtype.kind in "fiu" and np.isfinite(array).all())
            if array.size == 0 or not numbers:
                reason = "no elements" if array.size == 0 else "values that are not finite numbers"
                yield Problem(node.origins[0], node.op, f"its constant {name!r} has {reason}")


def _finite(graph: Graph) -> Graph:
    """The graph with INFINITE in place of infinities in its constants, such as masks."""
    values = dict(graph.values)
    for name, value in graph.values.items():
        if value.const is not None and value.dtype == "float32":
            array = value.const.materialize()
            if np.isinf(array).any():
                values[name] = replace(value, const=Const(np.clip(array, -INFINITE, INFINITE)))
    return replace(graph, values=values)
