"""Replaces ZipMap, which ends classifiers of scikit-learn, by the tensor of scores that it reads.

In: a model. Out: the same model, or a copy in which each output of a ZipMap is a tensor of float32, a column for each class.
"""

from __future__ import annotations

from onnx import ModelProto, TensorProto


def as_tensors(model: ModelProto) -> ModelProto:
    """The model without ZipMap."""
    if not any(node.op_type == "ZipMap" and node.domain == "ai.onnx.ml" for node in model.graph.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    replaced = set()
    for node in copy.graph.node:
        if node.op_type == "ZipMap" and node.domain == "ai.onnx.ml":
            node.op_type, node.domain = "Identity", ""
            del node.attribute[:]
            replaced.update(node.output)
    for info in copy.graph.output:
        if info.name in replaced:
            info.ClearField("type")
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    return copy
