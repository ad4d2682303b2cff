"""The shapes of all values of an ONNX graph.

In: a model with the shapes of its inputs. Out: the shapes without an open axis, by name. onnx's own inference stops at a shape
that is computed in a way that it does not follow, such as the paddings of TorchScript; these small constants are computed here. It changes
no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto, numpy_helper

from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import Refused
from glowembed.read import onnxfold
from glowembed.read.nodes import has_subgraph
from glowembed.read.onnxfile import File, declared_shape

ROUNDS = 64
"""The most times that the inference is repeated with more constants."""

SMALL = 256
"""The most elements of a constant that may belong to a shape."""


def shapes(file: File, model: ModelProto) -> dict[str, Shape]:
    """The shapes that are known; none if onnx refuses the model. Nodes of `model` that are constants are replaced."""
    arrays = _small(model)
    known = dict[str, Shape]()
    for _ in range(ROUNDS):
        try:
            graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        except Exception:
            return known
        known = known_shapes([*graph.value_info, *graph.output])
        sizes = {**known_shapes(graph.input), **known}
        unknown = any(name not in sizes for node in graph.node for name in node.output if name)
        computed = _constants(file, model.graph.node, sizes, arrays) if unknown else {}
        if not computed:
            break
        arrays |= computed
        kept = [node for node in model.graph.node if node.output[0] not in computed]
        del model.graph.node[:]
        model.graph.node.extend(kept)
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in computed.items())
    return known | {name: array.shape for name, array in arrays.items() if array.size and name not in known}


def _small(model: ModelProto) -> dict[str, Array]:
    """The small constants of the model; without damaged ones, which the importer reports."""
    found: dict[str, Array] = {}
    for tensor in model.graph.initializer:
        if np.prod(tensor.dims, dtype=float) <= SMALL and not tensor.external_data:
            with suppress(ValueError, TypeError):
                found[tensor.name] = numpy_helper.to_array(tensor)
    return found


def _constants(
    file: File, nodes: Iterable[NodeProto], sizes: Mapping[str, Shape], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """What nodes with one output compute from small constants and from shapes that are known."""
    found: dict[str, Array] = {}
    for node in nodes:
        if len(node.output) != 1 or not onnxfold.folds(node) or has_subgraph(node):
            continue
        if node.op_type == "Shape" and node.input and node.input[0] in sizes:
            limits = {a.name: a.i for a in node.attribute}
            found[node.output[0]] = np.asarray(
                sizes[node.input[0]][limits.get("start", 0) : limits.get("end")], np.int64
            )
            continue
        feeds = {name: found.get(name, arrays.get(name)) for name in node.input if name}
        given = {name: array for name, array in feeds.items() if array is not None}
        if len(given) != len(feeds) or not (given or node.op_type == "Constant"):
            continue
        try:
            (result,) = onnxfold.evaluate(file, node, node.input, given)
        except (Refused, ValueError, LookupError, TypeError):
            continue  # a damaged node, which the importer reports
        if result.size <= SMALL:
            found[node.output[0]] = result
    return found


def known_shapes(infos: Iterable[ValueInfoProto], least: int = 1) -> dict[str, Shape]:
    """The shapes without an open axis, by name. least: the smallest size of an axis that counts as known."""
    found = {info.name: declared_shape(info) for info in infos}
    return {
        name: tuple(d for d in shape if d is not None)
        for name, shape in found.items()
        if shape is not None and all(d is not None and d >= least for d in shape)
    }
