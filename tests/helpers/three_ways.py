"""A network computed by onnxruntime, by the numpy reference and by C, as the model has it. In: nodes and arrays. Out: three arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from glowembed.options.table import CompileOptions
from glowembed.pipeline import compile_model
from glowembed.reference import run_int
from glowembed.run import host

Arrays = Mapping[str, Any]
Outputs = Mapping[str, tuple[str, Sequence[int] | None]]
"""A mapping from the name of an output to its dtype and the shape that the model declares."""

IR_VERSION = 10


def network(
    nodes: Sequence[onnx.NodeProto], inputs: Arrays, outputs: Outputs, opsets: Mapping[str, int], constants: Arrays
) -> onnx.ModelProto:
    """A model of these nodes, with the inputs and constants that they read."""
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [_info(name, array.dtype, array.shape) for name, array in inputs.items() if name in read],
        [_info(name, np.dtype(dtype), shape) for name, (dtype, shape) in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if name in read],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _info(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def run(model: onnx.ModelProto, inputs: Arrays, folder: Path) -> dict[str, tuple[Any, Any, Any]]:
    """For each output by its name, the results of onnxruntime, of the reference and of C. onnxruntime's is None for
    an output that only the bundle has.
    """
    onnx.save(model, folder / "m.onnx")
    feeds = {info.name: inputs[info.name] for info in model.graph.input}
    names = [info.name for info in model.graph.output]
    theirs = dict(zip(names, onnxruntime.InferenceSession(folder / "m.onnx").run(names, feeds), strict=True))
    bundle = compile_model(
        folder / "m.onnx", folder / "b", CompileOptions(target="x86-64", isa="portable", dtype="model")
    )
    reference, c = run_int(bundle.graph, feeds), host.load(folder / "b").run_stored(feeds)
    return {name: (theirs.get(name), reference[name], c[name]) for name in bundle.graph.outputs}
