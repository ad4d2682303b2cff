"""Small ONNX models in a line, and the comparison with onnxruntime that every rewrite must stand.

In: nodes, inputs and constants. Out: models, files, canonical graphs. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array, Graph
from glowembed.read.importer import load
from glowembed.reference import run_float

Inputs = Mapping[str, Sequence[int | str | None]]


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    """`node("Conv", "x w b", "y", strides=[2, 2])`; `_` is an absent input. Named after its first output."""
    names = ["" if name == "_" else name for name in inputs.split()]
    name = attrs.pop("node_name", f"n_{outputs.split()[0]}")
    return helper.make_node(op, names, outputs.split(), name=name, **attrs)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Inputs,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model whose inputs and outputs are float32; ints become int64 constants, floats float32."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    tensors = [numpy_helper.from_array(as_array(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "small", infos, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="test")


def as_array(value: Any) -> Array:
    array = np.asarray(value)
    kinds = {"f": np.float32, "i": np.int64}
    plain = not isinstance(value, np.ndarray | np.generic)
    return array.astype(kinds[array.dtype.kind]) if plain and array.dtype.kind in kinds else array


def weights(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) * np.float32(0.5)


def saved(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def canonical(proto: onnx.ModelProto, folder: Path, twice: bool = True, **options: Any) -> Graph:
    """Loaded, canonicalized, and compared with onnxruntime before and after, value by value; `twice`: canonicalized twice."""
    graph = load(saved(proto, folder), **options)
    result = canonicalize(graph)
    sample = {name: _sample(graph, name) for name in graph.inputs}
    expected = all_values(proto, sample)
    for candidate in (graph, result):
        compare(candidate, sample, expected)
    if twice:
        assert dump(canonicalize(result)) == dump(result)
    return result


def _sample(graph: Graph, name: str) -> Array:
    value = graph.values[name]
    stored = np.random.default_rng(0).uniform(-2, 3, value.shape).astype(np.float32)
    return value.logical(stored)


def unoptimized(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Operator by operator, as the model says."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def all_values(proto: onnx.ModelProto, sample: Mapping[str, Array]) -> dict[str, Array]:
    """Every value that onnxruntime computes, by name."""
    full = onnx.ModelProto()
    full.CopyFrom(proto)
    for n in full.graph.node:
        n.name = ""
    known = {info.name for info in full.graph.output}
    made = [name for n in full.graph.node for name in n.output if name and name not in known]
    full.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in made)
    session = unoptimized(full)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(sample)), strict=True))


def compare(graph: Graph, sample: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float = 1e-4) -> int:
    """Every computed value of the graph whose name onnxruntime knows; returns how many there were."""
    inputs = {name: _stored(graph, name, array) for name, array in sample.items()}
    found = run_float(graph, inputs)
    names = [n for n in found if n in expected and graph.values[n].const is None]
    assert set(graph.outputs) <= set(names)
    for name in names:
        logical = graph.values[name].logical(found[name])
        assert logical.shape == expected[name].shape, name
        scale = max(float(np.abs(expected[name]).max()), 1e-6)
        assert np.abs(logical - expected[name]).max() <= tolerance * scale, name
    return len(names)


def _stored(graph: Graph, name: str, logical: Array) -> Array:
    layout = graph.values[name].layout
    return logical if layout is None else np.ascontiguousarray(np.transpose(logical, layout))


def sequence(graph: Graph) -> str:
    """The ops in order; `+` is a fused activation."""
    return " ".join(n.op + ("+" if "act_min" in n.attrs else "") for n in graph.nodes)


def dump(graph: Graph) -> list[Any]:
    """Everything except the data: graphs are the same to a reader if this is."""
    values = [(v.name, v.shape, v.layout, v.const is None) for v in graph.values.values()]
    return [
        [(n.name, n.op, n.inputs, n.outputs, dict(n.attrs), n.origins) for n in graph.nodes],
        sorted(values, key=str),
    ]
