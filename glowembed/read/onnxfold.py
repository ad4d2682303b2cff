"""Evaluates one ONNX node on constants, with the reference evaluator of onnx and in the opsets of the model.

In: a parsed file, a node of it, the arrays of its inputs. Out: the arrays of its outputs, or Refused. The meaning of an
operator depends on the opset, so the node becomes a separate model with the opset imports of the file. The size of a
result is inferred before it is computed. If the evaluator does not know an old form of an operator, the node is
rewritten in an equivalent newer form. It knows no graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

from glowembed.graph import limits
from glowembed.graph.ir import Array, Shape
from glowembed.graph.op import Refused
from glowembed.ops.shared.slices import sliced
from glowembed.read.onnxfile import File, declared_shape
from glowembed.records import dataclass

MAX_FOLDED = limits.FOLDED

DOMAINS = ("", "ai.onnx", "ai.onnx.ml")

RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")

WRONG = ("LRN",)
"""Operators that the reference evaluator computes wrongly: for LRN it takes the batch for the channels."""

BOUNDED = ("NonZero", "Compress", "Unique", "Slice", "Squeeze", "Reshape")
"""Operators whose output has at most as many elements as their input, times its rank."""


@dataclass(frozen=True)
class _Call:
    """A node, the arrays of its inputs by name, the opset of the standard operators, and the shape of its result."""

    node: NodeProto
    feeds: Mapping[str, Array]
    opset: int
    result: Shape | None = None
    """The shape of the result; None means the shape that the evaluator gives."""


def folds(proto: NodeProto) -> bool:
    """Whether `evaluate` supports the operator."""
    return proto.domain in DOMAINS and proto.op_type not in (*RANDOM, *WRONG)


def evaluate(file: File, proto: NodeProto, inputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
    """The results of the node on the arrays of `inputs`, in the order of the outputs that have a name."""
    from onnx.reference import ReferenceEvaluator  # imported only for models that have something to fold

    node = NodeProto()
    node.CopyFrom(proto)
    node.input[:] = inputs
    node.domain = "" if proto.domain == "ai.onnx" else proto.domain
    call = _newer(_Call(node, feeds, file.opset))
    model = _model_of(file.model, call)
    _check_size(model, call.feeds)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            given = {info.name: call.feeds[info.name] for info in model.graph.input}
            results = ReferenceEvaluator(model).run(None, given)
        except Exception as error:
            raise Refused(
                "it cannot be computed from its constant inputs, which do not fit each other",
                "check it with onnx.checker",
            ) from error
    if not all(isinstance(array, np.ndarray | np.generic) for array in results):
        raise Refused("its result is not a tensor", "fold constants before export")
    arrays = [np.asarray(array) for array in results]
    return arrays if call.result is None else [array.reshape(call.result) for array in arrays]


def _model_of(model: ModelProto, call: _Call) -> ModelProto:
    """A model of the node alone. Small constants are initializers, because shapes may depend on them; the other arrays
    are inputs.
    """
    inputs, constants = [], []
    for name, array in call.feeds.items():
        if array.size <= 1024:
            constants.append(numpy_helper.from_array(array, name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
    outputs = [helper.make_empty_tensor_value_info(name) for name in call.node.output if name]
    opsets = {o.domain: o.version for o in model.opset_import if o.domain != "ai.onnx"} | {"": call.opset}
    return helper.make_model(
        helper.make_graph([call.node], "fold", inputs, outputs, constants),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        ir_version=max(model.ir_version, 4),  # before version 4, an initializer had to be an input
    )


def _check_size(model: ModelProto, feeds: Mapping[str, Array]) -> None:
    """Refuse a node whose result would be larger than MAX_FOLDED, or of unknown size, before it is computed."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception as error:
        raise Refused("its constant inputs do not fit each other", "check it with onnx.checker") from error
    limit = max(1024, *(array.size for array in feeds.values())) if feeds else 1024
    for info in graph.output:
        shape = declared_shape(info)
        if shape is None or None in shape:
            if graph.node[0].op_type in BOUNDED and limit < MAX_FOLDED:
                continue
            raise Refused("the size of its constant result is not known in advance", "fold constants before export")
        if prod(d or 0 for d in shape) > MAX_FOLDED:
            raise Refused(
                f"its constant result of shape {shape} has {prod(d or 0 for d in shape)} elements, more than {MAX_FOLDED}"
            )


def _newer(call: _Call) -> _Call:
    """The node in a form that the evaluator computes correctly."""
    before, written = FORMS.get(call.node.op_type, (0, _flattened))
    return written(call) if not call.node.domain and call.opset < before else call


def _flattened(call: _Call) -> _Call:
    """Rewrite a Softmax before opset 13, which treats all axes from `axis` on as one."""
    ((name, array),) = call.feeds.items()
    axis = _attributes(call.node).get("axis", 1)
    matrix = array.reshape(prod(array.shape[: axis % max(array.ndim, 1)]), -1)
    return replace(call, node=_node(call, [name], axis=1), feeds={name: matrix}, opset=13, result=array.shape)


def _batch_normalization(call: _Call) -> _Call:
    """Rewrite a BatchNormalization with one output, which is inference whatever its momentum."""
    attributes = _attributes(call.node)
    if attributes.get("spatial", 1) != 1 or any(call.node.output[1:]):
        raise Refused("it is in training mode, or has parameters for each element", "export the model for inference")
    kept = {key: value for key, value in attributes.items() if key == "epsilon"}
    return replace(call, node=_node(call, call.node.input, **kept), opset=15)


def _upsample(call: _Call) -> _Call:
    """Rewrite an Upsample before opset 9, whose scales were an attribute, or two of them before opset 7."""
    attributes = _attributes(call.node)
    old = [1.0, 1.0, attributes.get("height_scale", 1.0), attributes.get("width_scale", 1.0)]
    scales = np.asarray(attributes.get("scales", old), np.float32)
    node = _node(call, [call.node.input[0], SCALES], mode=attributes.get("mode", "nearest"))
    return replace(call, node=node, feeds={**call.feeds, SCALES: scales}, opset=9)


def _resize(call: _Call) -> _Call:
    """Rewrite a Resize of opset 10, which had no region of interest and counted pixels from their corner."""
    x, scales = call.node.input
    mode = _attributes(call.node).get("mode", "nearest")
    asymmetric = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return replace(call, node=_node(call, [x, "", scales], mode=mode, **asymmetric), opset=13)


def _quantize(call: _Call) -> _Call:
    """Clamp the input of a QuantizeLinear to the range of int32, because the evaluator casts steps to integers before
    it saturates them.
    """
    x, scale = call.node.input[:2]
    array, step = call.feeds[x], call.feeds[scale]
    if step.ndim > 1 or array.dtype.kind != "f" or (step.size > 1 and not array.ndim):
        return call
    shape = [1] * array.ndim
    if step.size > 1:
        shape[_attributes(call.node).get("axis", 1) % array.ndim] = -1
    reach = np.abs(step.astype(np.float64)).reshape(shape) * 2**24
    clipped = np.clip(array.astype(np.float64), -reach, reach).astype(array.dtype)
    return replace(call, feeds={**call.feeds, x: clipped})


def _slice(call: _Call) -> _Call:
    """Rewrite a Slice with the indices that ONNX means, because the evaluator clamps like numpy. From opset 10 on,
    starts and ends are inputs, and steps may be negative.
    """
    if len(call.node.input) < 5 or not call.node.input[4]:
        return call
    x, first, last, axes, steps = call.node.input
    shape, starts, ends = call.feeds[x].shape, call.feeds[first].copy(), call.feeds[last].copy()
    for i, step in enumerate(call.feeds[steps].tolist()):
        size = shape[call.feeds[axes].tolist()[i] if axes else i]
        taken = sliced(int(starts[i]), int(ends[i]), step, size)
        if step < 0:
            starts[i], ends[i] = taken.start, taken.stop if taken.stop >= 0 else -size - 1
    return replace(call, feeds={**call.feeds, first: starts, last: ends})


EVERY = 1 << 30
"""An opset beyond all others, for operators that the evaluator computes correctly in no form."""

FORMS: Mapping[str, tuple[int, Callable[[_Call], _Call]]] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), (13, _flattened)),
    "BatchNormalization": (14, _batch_normalization),
    "Upsample": (9, _upsample),
    "Resize": (11, _resize),
    "QuantizeLinear": (EVERY, _quantize),
    "Slice": (EVERY, _slice),
}
"""For each operator, the first opset whose form the evaluator computes correctly, and the function that rewrites an
older form as a newer one.
"""

SCALES = "scales of the Upsample"


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _node(call: _Call, inputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(call.node.op_type, list(inputs), list(call.node.output), call.node.name, **attributes)
