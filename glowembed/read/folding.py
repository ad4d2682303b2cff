"""Folds constants and shapes during the import, and removes nodes that only give a value another name.

In: the state of the walk, and a node. Out: whether nothing is left to do for the node. Raises Refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import NodeProto, TensorProto

from glowembed.errors import UsageError
from glowembed.graph import limits
from glowembed.graph.ir import Array, Const
from glowembed.graph.op import Malformed, OnnxNode, Refused
from glowembed.read import nodes, onnxfold, onnxquant
from glowembed.read.walk import FLOATS, Walk


def add_constant(walk: Walk, name: str, array: Array, node: str, op: str) -> None:
    """Add a constant: unchanged for folding, and as float32 for the graph if it is a float."""
    walk.arrays[name] = array
    real = array.dtype.kind == "f" or array.dtype.name in ("bfloat16",) or array.dtype.name.startswith("float8")
    if real:
        given = array
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
        if not walk.exact:
            _refuse_nan(walk, name, given, array, f"{op} {node!r}")
    walk.builder.model_constant(name, array)


def _refuse_nan(walk: Walk, name: str, given: Array, array: Array, where: str) -> None:
    """Raise UsageError for a constant with NaN, or with finite numbers outside the range of float32. Infinities may be
    limits and masks; _finish checks their readers.
    """
    with np.errstate(invalid="ignore"):  # a signalling NaN
        bad = np.isnan(array) | (np.isinf(array) & np.isfinite(given.astype(np.float64)))
    if bad.any():
        index = [int(i) for i in np.argwhere(bad)[0]]
        at = f" at {index}" if index else ""
        raise UsageError(f"{walk.file.path}: the constant {name!r}{at} of {where} is NaN or infinite in float32")


def fold(walk: Walk, proto: NodeProto, node: OnnxNode) -> bool:
    """Compute the outputs as constants if all inputs are constants, or if only the shape of the input matters."""
    if not onnxfold.folds(proto) or nodes.has_subgraph(proto):
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
    if node.op_type == "QuantizeLinear" and len(inputs) > 1:
        onnxquant.check_scales(inputs[1], walk.arrays[inputs[1]].astype(np.float64))
    feeds = {name: walk.arrays[name] for name in inputs}
    _keep(walk, node, onnxfold.evaluate(walk.file, proto, node.inputs, feeds))
    if grids and node.op_type in onnxquant.moves():
        reals = {name: walk.builder.delayed(name).materialize() for name in grids}
        moved = (onnxfold.evaluate(walk.file, proto, node.inputs, {**feeds, **own}) for own in (reals, grids))
        _keep_grid(walk, node, *moved)
    return True


def _keep_grid(walk: Walk, node: OnnxNode, reals: Sequence[Array], grids: Sequence[Array]) -> None:
    """Keep the grid of a constant that knows its integers when it is moved."""
    for name, real, grid in zip(filter(None, node.outputs), reals, grids, strict=False):
        walk.builder.stored_constant(name, Const(real, grid=grid))


def _shape_of(walk: Walk, node: OnnxNode) -> Array:
    name = node.inputs[0]
    shape = walk.arrays[name].shape if name in walk.arrays else walk.builder.shape(name)
    if node.op_type == "Size":
        return np.asarray(prod(shape), dtype=np.int64)
    return np.asarray(shape[node.attrs.get("start", 0) : node.attrs.get("end", len(shape))], dtype=np.int64)


def _keep(walk: Walk, node: OnnxNode, results: Sequence[Array]) -> None:
    walk.folded += sum(array.size for array in results)
    if walk.folded > limits.FOLDED_IN_ALL:
        raise Refused(
            f"with its result, {walk.folded} elements are constants that are computed, more than {limits.FOLDED_IN_ALL}",
            "compute them before the export",
        )
    for name, array in zip(filter(None, node.outputs), results, strict=False):
        add_constant(walk, name, array, node.name, node.op_type)


def pass_through(walk: Walk, proto: NodeProto, node: OnnxNode) -> bool:
    """Remove Identity, Dropout in inference, Cast from float to float, and DequantizeLinear, whose output is another
    name for their input.
    """
    if node.op_type not in ("Identity", "Dropout", "Cast", "DequantizeLinear") or proto.domain not in onnxquant.DOMAINS:
        return False
    source, output = node.inputs[0], node.outputs[0]
    if node.op_type == "DequantizeLinear":
        real = _dequantized(walk, proto, node)
        if real is None:
            return True
        source = real
    if node.op_type == "Identity" and proto.input[0] in walk.integers:
        walk.integers.add(proto.output[0])
    if node.op_type == "Cast" and proto.input[0] in walk.integers and node.attrs.get("to") in FLOATS:
        onnxquant.read_as_numbers(walk.quantized, source)
    if node.op_type == "Cast" and not (
        node.attrs.get("to") == TensorProto.FLOAT if walk.exact else node.attrs.get("to") in FLOATS
    ):
        raise Refused("a cast to another type")
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


def _dequantized(walk: Walk, proto: NodeProto, node: OnnxNode) -> str | None:
    """The name of the real numbers of a computed tensor; None if the tensor was a constant and remains one. A constant
    whose integers fit no supported type becomes the real numbers that they stand for.
    """
    try:
        return onnxquant.dequantize_linear(node, walk.quantized)
    except Malformed:
        raise
    except Refused:
        if not all(name in walk.arrays for name in node.inputs if name):
            raise
        feeds = {name: walk.arrays[name] for name in node.inputs if name}
        _keep(walk, node, onnxfold.evaluate(walk.file, proto, node.inputs, feeds))
        return None


def _check_training(walk: Walk, node: OnnxNode) -> None:
    training = node.input(2) if node.op_type == "Dropout" else None
    if training is not None and (training not in walk.arrays or walk.arrays[training].any()):
        raise Refused("it is in training mode", "export the model for inference")


def _check_dropout_mask(walk: Walk, node: OnnxNode) -> None:
    mask = node.outputs[1] if len(node.outputs) > 1 else ""
    if mask and (mask in walk.outputs or any(mask in other.input for other in walk.file.model.graph.node)):
        walk.unknown.add(mask)
        raise Refused(f"its mask {mask!r} is used", "export the model for inference")
