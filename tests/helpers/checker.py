"""The one op checker. In: a case, which is one ONNX node with its input shapes and constants. Out: nothing, or a failure.

Each case goes through every arrow of the proof, in this order:

1. import_onnx of the one node; inferred shapes against those of onnx
2. float reference against onnxruntime
3. integer reference against the float reference, within `steps` steps of the output
4. every kernel that this host can run against the integer reference, bit for bit, on full-range data and once with
   full-range weights: whole, in random row ranges, with rows in random slots, and in a ring that keeps only what `needs`
   asks for; all memory aligned to a word and no more; kernels for other cores the same way under QEMU, on every core that
   has the instructions, and some of them with params that the compiler knows, as in a bundle: only then do two operands of
   inline assembly with one value end up in one register
5. the store rule of the kernel, at the smallest distance that it allows
6. 2 and 3 once more for what the whole importer and canonicalize make of it

Ops that take a fused activation pass 2 to 5 a second time with one; of these two, one goes through all of 4 and 5, the other
whole, as neither changes how rows lie. Of the laws of other engines, one goes through all of 4 and 5, the others through 4 with
portable kernels, whole. The name of the case chooses.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from kernel_checker import KNOWN_SHARE, check_kernels
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import build
from small_models import unoptimized

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array, Const, Graph, Node, Value, verify
from glowembed.graph.registry import ops
from glowembed.lower.nodes import lower
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize
from glowembed.read import importer
from glowembed.reference import run_float, run_int

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
"""Around the boundaries of the tiles that kernels like."""


@dataclass(frozen=True)
class Case:
    """One ONNX node. Inputs are shapes (activations), arrays (constants) or None (absent); `low`, `high` bound the data."""

    name: str
    op_type: str
    inputs: tuple[tuple[int, ...] | Array | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    outputs: int = 1
    low: float = -2.0
    high: float = 3.0

    def __str__(self) -> str:
        return self.name

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())


def case(name: str, op_type: str, *inputs: tuple[int, ...] | Array | None, **attrs: Any) -> Case:
    """`case("name", "Conv", (1, 3, 8, 8), weights, strides=[2, 2], opset=11, low=-1.0)`: the rest are attributes."""
    own = {key: attrs.pop(key) for key in ("opset", "outputs", "low", "high") if key in attrs}
    return Case(name, op_type, inputs, attrs, **own)


def weights(*shape: int, seed: int = 1, scale: float = 0.5) -> Array:
    """Normally distributed float32 numbers."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def check_op(
    case: Case, steps: float = 1.01, tolerance: float = 1e-5, settings: Mapping[str, Any] | None = None
) -> None:
    """Prove one case. `steps`: how far int_ref may be from the float reference, in output steps.

    `settings`: defaults of a precision.yaml, such as {"dtype": "int16"}.
    """
    model = one_node_model(case)
    graph = imported(model)
    rng = np.random.default_rng(case.seed)
    samples = [_sample(graph, case, rng) for _ in range(4)]
    session = unoptimized(model)
    expected = [session.run(None, sample) for sample in samples]
    clips = (None, (-0.25, 0.7)) if any(ops()[n.op].fuses_activation for n in graph.nodes) else (None,)
    for i, clip in enumerate(clips):
        clipped = graph if clip is None else _with_activation(graph, clip)
        lowered = _check_references(clipped, samples, expected, steps, tolerance, settings, clip)
        full = case.seed % len(clips) == i  # one of them: other numbers, but the same operands and places
        for node in _own_nodes(lowered, clipped):
            check_kernels(node, lowered, np.random.default_rng(case.seed), known=KNOWN_SHARE * full, thorough=full)
    if settings is None:
        _check_laws(graph, samples[:1], expected[:1], steps, tolerance, case.seed)
    if all(graph.values[name].shape[:1] == (1,) for name in graph.inputs):
        _check_references(canonicalize(load(model)), samples, expected, steps, tolerance, settings)


OTHER_LAWS = {"onnx": 0.0, "glow": 2.0, "tflite": 0.5}
"""Requantization -> how much further from the float reference its outputs may be, in steps."""


def _check_laws(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    expected: Sequence[Sequence[Array]],
    steps: float,
    tolerance: float,
    seed: int,
) -> None:
    """Steps 3 and 4 for the other requantizations, where an op has them: all kernels of one of them, of the others the portable kernels, whole."""
    met = [(n.op, n.params) for n in _check_references(graph, samples, expected, steps, tolerance).nodes]
    for i, (mode, further) in enumerate(OTHER_LAWS.items()):
        full = seed % len(OTHER_LAWS) == i
        other = graph.with_nodes(replace(n, attrs={**n.attrs, "requantization": mode}) for n in graph.nodes)
        lowered = _check_references(other, samples, expected, steps + further, tolerance)
        for node in _own_nodes(lowered, graph):
            if (node.op, node.params) not in met:
                rng, fills = np.random.default_rng(seed), ("random", "extremes")
                known = KNOWN_SHARE * (full and seed % 2 == 0)
                check_kernels(node, lowered, rng, fills, None if full else "", known=known, thorough=full)


def _own_nodes(lowered: Graph, graph: Graph) -> list[Node]:
    """The kernel-level nodes of a case without the Transposes that import_onnx inserts around them, which are tested
    separately.
    """
    around = {n.name for n in graph.nodes if n.op == "Transpose"}
    own = [n for n in lowered.nodes if n.name not in around]
    return own or list(lowered.nodes)


def one_node_model(case: Case) -> onnx.ModelProto:
    """The ONNX model of a case; inputs x0, x1 ..., constants c0, c1 ..., outputs y0, y1 ..."""
    names, inputs, constants = [], [], []
    for i, entry in enumerate(case.inputs):
        if entry is None:
            names.append("")
        elif isinstance(entry, tuple):
            names.append(f"x{i}")
            inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, entry))
        else:
            names.append(f"c{i}")
            constants.append(numpy_helper.from_array(np.asarray(entry), f"c{i}"))
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op_type, names, outputs, name="node", **case.attrs)
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], case.name, inputs, infos, constants)
    opsets = [helper.make_opsetid("", case.opset), *([helper.make_opsetid(node.domain, 3)] if node.domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model)
    return model


def imported(model: onnx.ModelProto) -> Graph:
    """The graph of the model, its shapes compared with those that onnx infers; of another domain by the whole importer."""
    graph = verify(load(model) if model.graph.node[0].domain else build(model))
    for info in model.graph.output:
        known = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        if all(known):
            assert graph.values[info.name].shape == known, (
                f"{info.name}: shape {graph.values[info.name].shape}, onnx says {known}"
            )
    return graph


def load(model: onnx.ModelProto) -> Graph:
    """The graph that the compiler would begin with; it takes no batch but 1."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return importer.load(path)


def _sample(graph: Graph, case: Case, rng: np.random.Generator) -> dict[str, Array]:
    return {n: rng.uniform(case.low, case.high, graph.values[n].shape).astype(np.float32) for n in graph.inputs}


def _with_activation(graph: Graph, clip: tuple[float, float]) -> Graph:
    """The clip goes to the last node that can fuse one."""
    last = [n.name for n in graph.nodes if ops()[n.op].fuses_activation][-1]
    attrs = {"act_min": clip[0], "act_max": clip[1]}
    return graph.with_nodes(replace(n, attrs={**n.attrs, **attrs}) if n.name == last else n for n in graph.nodes)


def _check_references(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    expected: Sequence[Sequence[Array]],
    steps: float,
    tolerance: float,
    settings: Mapping[str, Any] | None = None,
    clip: tuple[float, float] | None = None,
) -> Graph:
    """Steps 2 and 3 for samples and what onnxruntime makes of them before `clip`; the kernel-level graph."""
    floats = [run_float(graph, sample) for sample in samples]
    for found, outputs in zip(floats, expected, strict=True):
        for name, array in zip(graph.outputs, outputs, strict=True):
            assert found[name].dtype == np.float32, f"{name} is {found[name].dtype}"
            assert found[name].shape == array.shape == graph.values[name].shape
            limited = array if clip is None else np.clip(array, *clip)
            _near(found[name], limited, tolerance, _rounding(graph) * _reach(array), f"{name}: float_ref")
    ranges = {n: (float(min(f[n].min() for f in floats)), float(max(f[n].max() for f in floats))) for n in graph.values}
    typed = quantize(graph, lambda name, _: ranges[name], resolve(graph, Config(settings or {})))
    lowered = verify(lower(typed))
    graph = _with_stored_constants(graph, typed)
    for sample in samples:
        stored = {n: _as_stored(lowered.values[n], sample[n]) for n in lowered.inputs}
        exact = run_float(graph, {n: _as_real(lowered.values[n], q) for n, q in stored.items()})
        found = run_int(lowered, stored)
        for name in lowered.outputs:
            if lowered.values[name].qtype is None:
                assert found[name].dtype == np.float32
                _near(found[name], exact[name], 1e-5, _rounding(graph) * _reach(exact[name]), name)
            else:
                _within(found[name], exact[name], lowered.values[name], steps)
    return lowered


def _near(found: Array, expected: Array, tolerance: float, rounding: float, name: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance + rounding, err_msg=name)


def _reach(outputs: Array) -> float:
    return float(np.abs(outputs).max(initial=0.0))


def _rounding(graph: Graph) -> float:
    """How far two float32 sums in different orders may be from each other, as a part of the largest output before a clip.

    Each of n additions rounds by up to 2^-24 of the sum so far. Roundings have either sign, so that they add up like
    sqrt(n), and terms that cancel leave them behind in outputs near zero: the measure is the largest. Four times that; the
    largest found, in sums of 9 to 2700 terms, was 1.4 times.
    """
    linear = [n for n in graph.nodes if ops()[n.op].has_weights]
    sizes = [np.prod(graph.values[n.inputs[1]].shape) / graph.values[n.outputs[0]].shape[-1] for n in linear]
    return 4.0 * max(sizes, default=0.0) ** 0.5 * 2.0**-24


def _with_stored_constants(graph: Graph, typed: Graph) -> Graph:
    """Constants as the integers represent them, so that only the arithmetic is compared."""

    def rounded(value: Value) -> Value:
        qtype = typed.values[value.name].qtype
        if value.const is None or qtype is None:
            return value
        return replace(value, const=Const(qtype.dequantize(qtype.quantize(value.const.materialize()))))

    return replace(graph, values={name: rounded(value) for name, value in graph.values.items()})


def _as_stored(value: Value, real: Array) -> Array:
    return value.qtype.quantize(real) if value.qtype else real


def _as_real(value: Value, stored: Array) -> Array:
    return value.qtype.dequantize(stored) if value.qtype else stored


def _within(stored: Array, real: Array, value: Value, steps: float) -> None:
    assert value.qtype is not None
    assert stored.dtype == np.dtype(value.qtype.dtype), f"{value.name} is {stored.dtype}"
    low, high = value.qtype.range()
    error = np.abs(value.qtype.dequantize(stored) - np.clip(real, low, high)) / value.qtype.scale[0]
    assert error.max() <= steps, f"{value.name}: int_ref is {error.max():.3f} output steps from the float reference"
