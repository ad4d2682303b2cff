"""Quantized models as input: the results are those of onnxruntime for the same file, within one step of the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from quantized_forms import CONV, FLAT, FORMS, IMAGE, PER_CHANNEL, RNG, SCALES, UNSIGNED, Form, int8, qdq
from small_models import Inputs, model, node, saved, unoptimized, weights

from glowembed.canonicalize import canonicalize
from glowembed.errors import GlowembedError, UnsupportedModelError, UsageError
from glowembed.graph.ir import Array, Graph, QType, verify
from glowembed.judge import compare
from glowembed.judge.compare import run_onnxruntime
from glowembed.judge.debugging import debug
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import validate
from glowembed.lower.nodes import lower
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.precision import Config, Rule
from glowembed.quantize.simplify import simplify
from glowembed.quantize.types import quantize, typed_names
from glowembed.ranges import datasets
from glowembed.read import onnxquant
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int


def no_range(name: str, *_: Any) -> tuple[float, float]:
    raise AssertionError(f"{name} has no type")


def imported(proto: onnx.ModelProto, folder: Path) -> Graph:
    """The quantized graph, without any sample."""
    graph = canonicalize(load(saved(proto, folder)))
    return verify(quantize(graph, no_range))


def from_onnxruntime(proto: onnx.ModelProto, feed: Mapping[str, Array]) -> dict[str, Array]:
    """Unoptimized: each operator separately, in float between DequantizeLinear and QuantizeLinear."""
    session = unoptimized(proto)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(feed)), strict=True))


def differences(proto: onnx.ModelProto, graph: Graph, samples: int = 8) -> Array:
    """Steps of the output between our integers and onnxruntime's, over random samples."""
    kernels, rng, found = lower(graph), np.random.default_rng(1), []
    for _ in range(samples):
        real = {n: rng.uniform(-2, 3, graph.values[n].shape).astype(np.float32) for n in graph.inputs}
        types = {n: graph.values[n].qtype for n in graph.inputs}
        stored = {n: a if (qtype := types[n]) is None else qtype.quantize(a) for n, a in real.items()}
        given = {n: graph.values[n].logical(a) for n, a in real.items()}
        feed = {n: _feed(graph, n, a) for n, a in given.items()}
        for name, theirs in from_onnxruntime(proto, feed).items():
            value = graph.values[name]
            assert value.qtype is not None
            known = datasets.integers(graph, name)
            real_theirs = theirs if known is None else known.from_model(theirs)
            ours = value.logical(run_int(kernels, stored)[name]).reshape(theirs.shape)
            steps = np.rint(real_theirs / value.qtype.scale[0]) + value.qtype.zero_point[0]
            found.append(np.abs(np.clip(steps, *value.qtype.limits) - ours).reshape(-1))
    return np.concatenate(found)


def _feed(graph: Graph, name: str, real: Array) -> Array:
    known = datasets.integers(graph, name)
    return real if known is None else known.to_model(real)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_form(form: Form, tmp_path: Path) -> None:
    proto = form.proto()
    graph = imported(proto, tmp_path)
    steps = differences(proto, graph)
    assert steps.max() <= 1
    assert (steps == 0).mean() >= form.same
    if form.ops:
        assert " ".join(n.op for n in graph.nodes if n.op != "Transpose") == form.ops


def contrib(op: str, inputs: str, output: str, **attrs: Any) -> onnx.NodeProto:
    return node(op, inputs, output, domain="com.microsoft", **attrs)


def turned(last: onnx.NodeProto) -> list[onnx.NodeProto]:
    """A node from h to d, whose channels are last, between integers whose channels are first."""
    return [node("Transpose", "xq", "h", perm=[0, 2, 3, 1]), last, node("Transpose", "d", "yq", perm=[0, 3, 1, 2])]


OPERATORS = [
    # name, nodes from the integers xq to the integers yq, least share of equal outputs
    (
        "QLinearAdd",
        [contrib("QLinearSigmoid", "xq s z u p", "h"), contrib("QLinearAdd", "xq s z h u p t o", "yq")],
        1.0,
    ),
    ("QLinearAdd, a constant", [contrib("QLinearAdd", "xq s z c u p t o", "yq")], 1.0),
    (
        "QLinearMul",
        [contrib("QLinearSigmoid", "xq s z u p", "h"), contrib("QLinearMul", "xq s z h u p t o", "yq")],
        0.999,
    ),
    (
        "QLinearMul, rows of stored integers",
        [
            node("ArgMax", "xq", "i", axis=2),
            node("Gather", "table i", "h"),
            contrib("QLinearMul", "xq s z h u p t o", "yq"),
        ],
        0.99,
    ),
    (
        "QLinearConcat",
        [contrib("QLinearSigmoid", "xq s z u p", "h"), contrib("QLinearConcat", "t o xq s z h u p", "yq", axis=1)],
        0.98,
    ),
    ("QLinearSigmoid", [contrib("QLinearSigmoid", "xq s z v p", "yq")], 1.0),
    ("QLinearLeakyRelu", [contrib("QLinearLeakyRelu", "xq s z t o", "yq", alpha=0.2)], 0.999),
    (
        "QLinearAveragePool",
        [contrib("QLinearAveragePool", "xq s z t o", "yq", kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
        0.999,
    ),
    ("QLinearAveragePool, one type", [contrib("QLinearAveragePool", "xq s z s z", "yq", kernel_shape=[2, 2])], 0.999),
    ("QLinearGlobalAveragePool", [contrib("QLinearGlobalAveragePool", "xq s z s z", "yq", channels_last=0)], 1.0),
    (
        "QLinearConv, channels last",
        turned(contrib("QLinearConv", "h s z w ws wz t o b", "d", pads=[1, 1, 1, 1], channels_last=1)),
        0.99,
    ),
    (
        "QLinearAveragePool, channels last",
        turned(contrib("QLinearAveragePool", "h s z t o", "d", kernel_shape=[3, 2], channels_last=1)),
        0.999,
    ),
    (
        "QLinearGlobalAveragePool, channels last",
        turned(contrib("QLinearGlobalAveragePool", "h s z s z", "d", channels_last=1)),
        1.0,
    ),
    ("QLinearSoftmax", [contrib("QLinearSoftmax", "xq s z k l", "yq", axis=1, opset=13)], 0.99),
    ("QLinearConv", [node("QLinearConv", "xq s z w ws wz t o b", "yq", pads=[1, 1, 1, 1])], 0.99),
    ("QLinearConv per channel", [node("QLinearConv", "xq s z w wv wo t o b", "yq", strides=[2, 2])], 0.99),
    ("QLinearMatMul", [node("Reshape", "xq shape", "f"), node("QLinearMatMul", "f s z m ws wz t o", "yq")], 1.0),
    ("Resize between integers", [node("Resize", "xq none twice", "yq", mode="linear")], 0.4),
    ("QGemm", [node("Reshape", "xq shape", "f"), contrib("QGemm", "f s z m ws wz b5 t o", "yq", transB=0)], 1.0),
]


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize(("name", "body", "same"), OPERATORS, ids=[o[0] for o in OPERATORS])
def test_integer_operator(name: str, body: list[onnx.NodeProto], same: float, unsigned: bool, tmp_path: Path) -> None:
    """One operator on integers of either type: outputs equal those of onnxruntime but for its own float32.

    The scale of x is exact in it, so that halves are halves there too. Zero points are even: its QLinearAveragePool adds them
    before it rounds, where QuantizeLinear, and ours, adds them behind. Its Resize cuts off fractions. Weights that meet uint8 have 7 bits, as everywhere here:
    on a CPU with AVX2 and no VNNI it cuts the sum of two products of uint8 and int8 off at 16 bits.
    """
    kind = np.uint8 if unsigned else np.int8
    shift = 128 if unsigned else 0
    points = {key: kind(value + shift) for key, value in (("z", 4), ("o", -10), ("p", -20), ("l", -128))}
    rng = np.random.default_rng(7)
    limit = 64 if unsigned else 128
    w = {"w": rng.integers(-limit, limit, (4, 3, 3, 3)).astype(np.int8), "m": rng.integers(-limit, limit, (192, 5)).astype(np.int8),
         "ws": np.float32(0.01), "wz": np.int8(0), "b": CONV["b"]}  # fmt: skip
    constants: dict[str, Any] = {
        **points, **w, "s": 1 / 64, "t": 0.0517, "u": 0.01137, "v": 1 / 128, "k": np.float32(1 / 256),
        "wv": PER_CHANNEL["ws"], "wo": np.zeros(4, np.int8), "b5": np.arange(-2, 3, dtype=np.int32) * 999,
        "none": np.zeros(0, np.float32), "twice": np.array([1, 1, 2, 2], np.float32), "c": rng.integers(0, 100, (3, 1, 1)).astype(kind), "table": rng.integers(0, 100, 16).astype(kind), "shape": [1, -1],
    }  # fmt: skip
    main = next(n for n in reversed(body) if n.op_type != "Transpose")
    out = main.input
    by_op = {"QLinearConcat": (out[0], out[1]), "Resize": ("s", "z")}
    scale, zero = by_op.get(main.op_type) or _output_type(main)
    ends = [node("QuantizeLinear", "x s z", "xq"), *body, node("DequantizeLinear", f"yq {scale} {zero}", "y")]
    used = {i for n in ends for i in n.input}
    proto = model(ends, IMAGE, {k: v for k, v in constants.items() if k in used})
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    steps = differences(proto, imported(proto, tmp_path))
    assert steps.max() <= 1
    assert (steps == 0).mean() >= same


def _output_type(last: onnx.NodeProto) -> tuple[str, str]:
    """Names of the scale and zero point that the operator writes with."""
    at = {"QLinearConv": 6, "QLinearMatMul": 6, "QLinearAdd": 6, "QLinearMul": 6, "QGemm": 7}.get(last.op_type, 3)
    return last.input[at], last.input[at + 1]


def test_dynamic_quantization_is_a_float_island(tmp_path: Path) -> None:
    """Between layers of stored types: weights keep their integers, the rest is float32, no samples are requested."""
    nodes = [
        *qdq(node("Tanh", "xd", "r")), node("DynamicQuantizeLinear", "y", "dq ds dz"),
        node("MatMulInteger", "dq m dz wz", "i"), node("Cast", "i", "f", to=1), node("Mul", "f ds", "g"),
        node("Mul", "g ws", "out"),
    ]  # fmt: skip
    proto = model(nodes, FLAT, SCALES | {"m": int8(12, 5) // 2, "ws": 0.01, "wz": np.int8(0)}, outputs=("out",))
    graph = quantized_as_compiled(saved(proto, tmp_path))
    assert {n.op: graph.values[n.outputs[0]].qtype is None for n in graph.nodes}["Gemm"]
    kernels, rng = lower(graph), np.random.default_rng(4)
    x = rng.uniform(-2, 3, (1, 12)).astype(np.float32)
    stored = {"x": graph.values["x"].qtype.quantize(x)}  # type: ignore[union-attr]
    theirs = from_onnxruntime(proto, {"x": x})["out"]
    assert np.abs(run_int(kernels, stored)["out"] - theirs).max() < 0.01 * np.abs(theirs).max()


class Random(CalibrationDataReader):  # type: ignore[misc]
    """A few samples for onnxruntime's own quantizer."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(2)
        self.rows = iter([{"x": rng.uniform(-2, 3, shape).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.rows, None)


def float_net() -> onnx.ModelProto:
    """All that onnxruntime has integer operators for."""
    layers = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"), node("Sigmoid", "r", "g"),
        node("Mul", "r g", "m"), node("Conv", "m v", "d", pads=[1, 1, 1, 1]), node("LeakyRelu", "d", "l", alpha=0.1),
        node("Add", "l r", "a"), node("Concat", "a m", "k", axis=1),
        node("AveragePool", "k", "p", kernel_shape=[2, 2], strides=[2, 2]), node("GlobalAveragePool", "p", "q"),
        node("Flatten", "q", "f"), node("Gemm", "f fc fb", "y", transB=1),
    ]  # fmt: skip
    constants = {
        "w": weights(6, 3, 3, 3), "b": weights(6), "v": weights(6, 6, 3, 3, seed=2), "fc": weights(5, 12), "fb": weights(5),
    }  # fmt: skip
    return model(layers, IMAGE, constants)


QUANTIZERS = [
    (form, activations, per_channel)
    for form in (QuantFormat.QDQ, QuantFormat.QOperator)
    for activations in (QuantType.QInt8, QuantType.QUInt8)
    for per_channel in (False, True)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("form", "activations", "per_channel"), QUANTIZERS, ids=[f"{f}-{a}-{p}" for f, a, p in QUANTIZERS]
)
def test_what_onnxruntime_quantizes(form: Any, activations: Any, per_channel: bool, tmp_path: Path) -> None:
    source, target = saved(float_net(), tmp_path), tmp_path / "quantized.onnx"
    quantize_static(
        source, target, Random((1, 3, 8, 8)), quant_format=form, activation_type=activations, weight_type=QuantType.QInt8,
        per_channel=per_channel, reduce_range=activations == QuantType.QUInt8,
    )  # fmt: skip
    proto = onnx.load(target)
    steps = differences(proto, imported(proto, tmp_path))
    assert (steps <= 1).mean() >= 0.95
    assert steps.max() <= 2


@pytest.mark.filterwarnings("ignore")
def test_dynamic_quantization_is_calibrated(tmp_path: Path) -> None:
    """The weights are the model's own integers; ranges come from samples."""
    source, target = saved(float_net(), tmp_path), tmp_path / "dynamic.onnx"
    quantize_dynamic(source, target, weight_type=QuantType.QInt8, reduce_range=True)
    graph = canonicalize(load(target))
    exact = [v for v in graph.values.values() if v.qtype is not None and v.const]
    assert len(exact) >= 1
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 3, (1, 3, 8, 8)).astype(np.float32)
    found = run_float(graph, {"x": x if graph.values["x"].layout is None else x.transpose(0, 2, 3, 1)})["y"]
    expected = from_onnxruntime(onnx.load(target), {"x": x})["y"]
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def typed(
    kind: int, nodes: list[onnx.NodeProto], constants: Mapping[str, Any], inputs: Inputs = FLAT
) -> onnx.ModelProto:
    """A model whose input x and output y are integers."""
    proto = model(nodes, inputs, constants, opset=21)
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.elem_type = kind
    return proto


EDGES = [
    (TensorProto.INT8, np.int8(3)), (TensorProto.UINT8, np.uint8(131)), (TensorProto.INT16, np.int16(3)),
    (TensorProto.UINT16, np.uint16(32771)),
]  # fmt: skip
"""Types of integers at the inputs and outputs of a model, with a zero point that is 3 in the signed type."""


@pytest.mark.parametrize(("kind", "zero"), EDGES)
def test_integers_at_the_edges(kind: int, zero: Any, tmp_path: Path) -> None:
    body = [node("DequantizeLinear", "x s z", "xd"), node("Tanh", "xd", "r"), node("QuantizeLinear", "r t z", "y")]
    proto = typed(kind, body, {"s": 0.02, "t": 0.01, "z": zero})
    graph = imported(proto, tmp_path)
    assert graph.values["x"].qtype == QType(zero.dtype.name.removeprefix("u"), (float(np.float32(0.02)),), (3,))
    assert graph.values["y"].model_dtype == zero.dtype.name
    assert differences(proto, graph).max() <= (zero.itemsize > 1)  # int16: a table with lines between its entries


def test_an_integer_input_that_is_cast(tmp_path: Path) -> None:
    body = [node("Cast", "x", "xd", to=1), node("Tanh", "xd", "r"), node("QuantizeLinear", "r t z", "y")]
    proto = typed(TensorProto.UINT8, body, {"t": 0.01, "z": np.uint8(0)})
    graph = imported(proto, tmp_path)
    assert graph.values["x"].qtype == QType("int8", (1.0,), (-128,))


def test_weights_are_the_very_integers(tmp_path: Path) -> None:
    graph = imported(FORMS[1].proto(), tmp_path)
    (conv,) = (n for n in graph.nodes if n.op == "Conv")
    w, b = (graph.values[name] for name in conv.inputs[1:])
    assert w.qtype is not None
    assert w.const is not None
    assert b.const is not None
    assert np.array_equal(w.qtype.quantize(w.const.materialize()), CONV["w"])
    steps = graph.values[conv.inputs[0]].qtype.scale[0] * np.asarray(w.qtype.scale)  # type: ignore[union-attr]
    assert np.array_equal(b.const.materialize() / steps, CONV["b"].astype(np.float64))


@pytest.mark.parametrize("largest", [2**23 + 1, 2**30 + 1])
def test_large_biases_are_exact(largest: int, tmp_path: Path) -> None:
    """More than float32 holds: conv, and a matmul with an add after it."""
    bias = np.array([largest, -largest, 1, 0], np.int32)
    for form in (FORMS[1], next(f for f in FORMS if f.name == "matmul, add, relu")):
        proto = model(form.nodes, form.inputs or IMAGE, {**form.constants, "b": bias})
        graph = imported(proto, tmp_path)
        (linear,) = (n for n in graph.nodes if n.op in ("Conv", "Gemm"))
        x, w, b = (graph.values[name] for name in linear.inputs)
        assert x.qtype is not None
        assert w.qtype is not None
        assert b.const is not None
        assert np.array_equal(b.const.materialize() / (x.qtype.scale[0] * np.asarray(w.qtype.scale)), bias)


def test_a_value_without_a_range_is_named(tmp_path: Path) -> None:
    """Nothing of the model is quantized: it does not become a float32 bundle unasked."""
    proto = model([node("Exp", "x", "e"), node("Tanh", "e", "y")], FLAT, {})
    with pytest.raises(UsageError, match=r"store 2 of its values[\s\S]*--data[\s\S]*\n  x\n  y"):
        compile_model(saved(proto, tmp_path), tmp_path / "out")


@dataclass(frozen=True)
class Net:
    """`near`: least share of outputs within one step of onnxruntime's; `accuracy`: top-1 by its README."""

    file: str
    near: float
    samples: int = 60
    accuracy: float | None = None
    integers: bool = False
    """onnxruntime computes with the model's integers, not in float32 between them: docs/quantized-models.md."""


NETS = [
    Net("ad01/model_qdq", 0.995),
    Net("ad01/model_qdq_bn", 0.995),
    Net("ad01/model_tflite_qdq", 0.995),
    Net("digits_cnn/model_qdq", 0.995, 450, 0.991),
    Net("kws/model_qdq", 0.995, 880, 0.919),
    Net("kws/model_tflite_qdq", 0.995, 880, 0.902),
    Net("mobilenetv2/model_qdq", 0.995, 100, 0.973),
    Net("resnet8/model_qdq", 0.995, 400, 0.875),
    Net("resnet8/model_tflite_qdq", 1.0, 400, 0.880, integers=True),
    Net("tcn/model_qdq", 0.995, 240, 0.771),
]


def integer_options(plain: Callable[[], Any]) -> Any:
    options = plain()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    return options


def test_onnxruntime_cuts_no_sums_off(tmp_path: Path) -> None:
    """255 * 127 twice exceeds 16 bits: the comparison gives the same result on CPUs with and without VNNI."""
    constants = {**UNSIGNED, "w": np.full((12, 5), 127, np.int8), "ws": 0.001, "wz": np.int8(0), "t": 0.1}
    body = node("QLinearMatMul", "xq s z w ws wz t o", "yq")
    ends = [node("QuantizeLinear", "x s z", "xq"), body, node("DequantizeLinear", "yq t o", "y")]
    x = np.full((1, 12), 2.48, np.float32)
    data = datasets.Dataset({"x": x}, shapes={"x": x.shape})
    found = run_onnxruntime(saved(model(ends, FLAT, constants), tmp_path), data)["y"]
    assert found == pytest.approx(12 * 2.48 * 0.127, abs=0.051)


HUGE_BIAS: dict[str, Any] = {
    "s": 0.02, "z": np.int8(3), "w": np.arange(1, 41, dtype=np.int8).reshape(5, 8), "ws": 0.01, "t": 0.05, "o": np.int8(-10),
    "b": np.float32([0.1, 1e30, 0.2, -1e30, 0.5]),
}  # fmt: skip


def test_a_bias_that_no_sum_holds_is_refused_and_the_judge_does_not_round_it(tmp_path: Path) -> None:
    """onnxruntime's optimizer casts such a bias to int32, where 1e30 becomes the lowest number."""
    body = [node("DequantizeLinear", "w ws", "wd"), node("Gemm", "xd wd b", "g", transB=1)]
    first = [node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd")]
    last = [node("QuantizeLinear", "g t o", "yq"), node("DequantizeLinear", "yq t o", "y")]
    file = saved(model([*first, *body, *last], {"x": (1, 8)}, HUGE_BIAS, opset=13), tmp_path)
    data = datasets.Dataset({"x": np.zeros((1, 8), np.float32)}, shapes={"x": (1, 8)})
    found = run_onnxruntime(file, data)["y"]
    np.testing.assert_allclose(found, [[0.1, 137 * 0.05, 0.2, -118 * 0.05, 0.5]], atol=1e-6)
    with pytest.raises(UnsupportedModelError, match=r"n_g: the bias of output channel 1, 1e\+30, is .* steps"):
        lower(quantize(canonicalize(load(file)), no_range))


@pytest.mark.shared
@pytest.mark.parametrize("net", NETS, ids=lambda n: n.file)
def test_shared_model_against_onnxruntime(net: Net, shared_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file without samples for calibration, simplified as compile does it, against onnxruntime's integers."""
    monkeypatch.setattr(onnxquant, "INTEGER_OPERATORS", frozenset(onnxquant.OPERATORS))
    if net.integers:
        monkeypatch.setattr(compare, "session_options", partial(integer_options, compare.session_options))
    file, data = shared_models / f"{net.file}.onnx", (shared_models / net.file).parent / "data.npz"
    canonical = canonicalize(load(file))
    kernels = lower(simplify(quantized_as_compiled(file), typed_names(canonical))[0])
    dataset = datasets.load(data, datasets.input_specs(canonical), "test").every(net.samples)
    ((name, theirs),) = run_onnxruntime(file, dataset).items()
    value = kernels.values[name]
    assert value.qtype is not None
    ours = np.stack(
        [value.logical(run_int(kernels, _stored(kernels, dataset.sample(i)))[name]) for i in range(len(dataset))]
    )
    known = datasets.integers(canonical, name)
    real = (theirs if known is None else known.from_model(theirs)).reshape(ours.shape)
    steps = np.rint(real / value.qtype.scale[0]) + value.qtype.zero_point[0] - ours
    assert (np.abs(steps) <= 1).mean() >= net.near
    if net.accuracy is not None and dataset.labels is not None:
        classes = ours.reshape(len(ours), -1).argmax(axis=1)
        allowed = 0.003 if len(ours) > 200 else 0.02
        assert (classes == dataset.labels.reshape(-1)).mean() >= net.accuracy - allowed


@pytest.mark.shared
@pytest.mark.parametrize("scale", [{}, {"x_scale": 1.0, "x_zero": 0.0}], ids=["no scale", "scale 1"])
def test_stored_integers_keep_the_accuracy(scale: dict[str, float], shared_models: Path, tmp_path: Path) -> None:
    """An archive with the integers of the model's own input, read as real numbers, would saturate them."""
    with np.load(shared_models / "kws" / "data.npz") as given:
        np.savez(tmp_path / "stored.npz", test_x=given["test_x"][:150], test_y=given["test_y"][:150], **scale)
    file = shared_models / "kws" / "model_tflite_qdq.onnx"
    dataset = datasets.load(tmp_path / "stored.npz", datasets.input_specs(canonicalize(load(file))), "test")
    found = integer_outputs(lower(quantized_as_compiled(file)), dataset)
    assert (next(iter(found.values())).reshape(150, -1).argmax(axis=1) == dataset.labels).mean() >= 0.88


@pytest.mark.parametrize(("kind", "zero"), EDGES)
def test_stored_integers_are_what_the_model_is_fed_with(kind: int, zero: Any, tmp_path: Path) -> None:
    body = [node("DequantizeLinear", "x s z", "xd"), node("Relu", "xd", "r"), node("QuantizeLinear", "r s z", "y")]
    file = saved(typed(kind, body, {"s": 0.02, "z": zero}), tmp_path)
    specs = datasets.input_specs(canonicalize(load(file)))
    stored = RNG.integers(0, 120, (20, *specs[0].sample_shape)).astype(zero.dtype)
    np.savez(tmp_path / "d.npz", test_x=stored, x_scale=1.0, x_zero=0)
    dataset = datasets.load(tmp_path / "d.npz", specs, "test")
    graph = lower(quantized_as_compiled(file))
    theirs = run_onnxruntime(file, dataset)["y"]
    known = datasets.integers(graph, "y")
    assert known is not None
    np.testing.assert_array_equal(theirs, np.maximum(stored, zero).reshape(theirs.shape))
    np.testing.assert_allclose(
        integer_outputs(graph, dataset)["y"], known.from_model(theirs).reshape(20, *graph.values["y"].shape), atol=1e-6
    )


def _stored(graph: Graph, sample: Mapping[str, Array]) -> dict[str, Array]:
    def one(name: str) -> Array:
        value = graph.values[name]
        array = datasets.stored(value, sample[name])
        return array.astype(np.float32) if value.qtype is None else value.qtype.quantize(array)

    return {name: one(name) for name in graph.inputs}


class Enough(Exception):
    """Raised to stop a compilation."""


def quantized_as_compiled(file: Path, data: datasets.Dataset | None = None, **options: Any) -> Graph:
    """The graph that compile makes of a model before it is simplified; without any sample, if there are none."""
    found: list[Graph] = []

    def keep(stage: str, result: Any) -> None:
        if stage == "quantize":
            found.append(result)
            raise Enough

    with pytest.raises(Enough):
        compile_model(file, file.parent / "never written", CompileOptions(**options), data, on_stage=keep)
    return found[0]


def test_samples_change_nothing_in_a_quantized_model(tmp_path: Path) -> None:
    """A bias of more than float32 holds keeps its integers too."""
    bias = np.array([2**30 + 1, -(2**30), 1, 0], np.int32)
    form = next(f for f in FORMS if f.name == "conv per channel")
    path = saved(model(form.nodes, IMAGE, {**form.constants, "b": bias}), tmp_path)
    x = np.random.default_rng(3).uniform(-2, 3, (6, 3, 8, 8)).astype(np.float32)
    sampled = quantized_as_compiled(path, datasets.Dataset({"x": x}, shapes={"x": (1, 3, 8, 8)}))
    plain = quantized_as_compiled(path)
    assert [(n.op, n.inputs, n.attrs) for n in sampled.nodes] == [(n.op, n.inputs, n.attrs) for n in plain.nodes]
    for name, value in plain.values.items():
        assert sampled.values[name].qtype == value.qtype
        if value.const is not None:
            assert np.array_equal(sampled.values[name].const.materialize(), value.const.materialize())  # type: ignore[union-attr]


def test_the_float_reference_keeps_the_clips_of_the_types(tmp_path: Path) -> None:
    """A type that begins at 0 is all that is left of a ReLU; profiles and `debug` must see it."""
    form = next(f for f in FORMS if f.name == "conv per channel")
    proto = model(form.nodes, IMAGE, {**form.constants, "o": np.int8(-128)})
    path = saved(proto, tmp_path)
    graph, x = canonicalize(load(path)), np.random.default_rng(3).uniform(-2, 3, (1, 3, 8, 8)).astype(np.float32)
    theirs = from_onnxruntime(proto, {"x": x})["y"]
    assert (theirs == 0).mean() > 0.2
    ours = graph.values["y"].logical(run_float(graph, {"x": datasets.stored(graph.values["x"], x)})["y"])
    assert ours.min() == 0
    assert np.abs(ours - theirs).max() < 6 * SCALES["t"]
    bundle = compile_model(path, tmp_path / "bundle", CompileOptions("generic"))
    run = debug(bundle, datasets.Dataset({"x": np.repeat(x, 2, axis=0)}, shapes={"x": (1, 3, 8, 8)}), "host")
    losses = [layer.isolated.max_steps for layer in run.layers if layer.isolated]
    assert max(losses) < 6


NORMALIZED = [node("Sub", "x m", "c"), node("Mul", "c k", "n"), *qdq(node("Tanh", "xd", "r"))]
NORMALIZED[2].input[0] = "n"


def test_what_a_model_leaves_in_float_stays_float(tmp_path: Path) -> None:
    constants = SCALES | {"m": weights(12), "k": 0.3}
    proto = model(NORMALIZED, FLAT, constants)
    path = saved(proto, tmp_path)
    graph = quantized_as_compiled(path)
    assert [(n.op, graph.values[n.outputs[0]].qtype is None) for n in graph.nodes][:2] == [
        ("Affine", True),
        ("Quantize", False),
    ]
    rng, kernels = np.random.default_rng(3), lower(graph)
    for _ in range(8):
        x = rng.uniform(-2, 3, (1, 12)).astype(np.float32)
        ours, theirs = run_int(kernels, {"x": x})["y"], from_onnxruntime(proto, {"x": x})["y"]
        assert np.array_equal(ours, graph.values["y"].qtype.quantize(theirs))  # type: ignore[union-attr]
    with pytest.raises(GlowembedError, match="not quantized:\n  Affine 'n_c': the model leaves it in float"):
        compile_model(path, tmp_path / "out", CompileOptions(require_all_quantized=True))
    asked = Config(rules=(Rule("rule 1", kinds=("Affine",), settings={"dtype": "int8"}),))
    with pytest.raises(UsageError, match="store 1 of its values"):
        compile_model(path, tmp_path / "out", CompileOptions(precision=asked))


@pytest.mark.parametrize(("zero", "dtype"), [(np.int16(0), "int16"), (np.int8(0), "int8")])
def test_what_a_model_leaves_in_float_is_as_wide_as_the_rest(zero: Any, dtype: str, tmp_path: Path) -> None:
    """With samples, the nodes without a type take int16 if all others are int16."""
    nodes = [*qdq(node("Tanh", "xd", "h"), node("Mul", "h k", "m"), node("Erf", "m", "r"))]
    proto = model(nodes, FLAT, {"s": 1e-4, "t": 1e-4, "z": zero, "o": zero, "k": 0.3}, opset=21)
    np.savez(tmp_path / "d.npz", calib_x=RNG.normal(size=(8, 12)).astype(np.float32))
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "b", CompileOptions(), tmp_path / "d.npz")
    assert {entry["dtype"] for entry in bundle.manifest["precision"]} == {dtype}


@pytest.mark.shared
@pytest.mark.cc
@pytest.mark.parametrize("file", ["ad01/model_qdq_bn", "digits_cnn/model_qdq", "kws/model_tflite_qdq"])
@pytest.mark.parametrize("float_io", [False, True])
def test_shared_model_on_the_host(file: str, float_io: bool, shared_models: Path, tmp_path: Path) -> None:
    """Compiled without samples; integers at the edges as in the model, or floats."""
    source, data = shared_models / f"{file}.onnx", (shared_models / file).parent / "data.npz"
    bundle = compile_model(source, tmp_path / "bundle", CompileOptions(target="generic", float_io=float_io))
    result = validate(bundle, data, "host", 20)
    assert result.bit_exact
    assert result.json["outputs"][0]["cosine"] > 0.9999
    assert bundle.manifest["simplified"]["macs_after"] == bundle.manifest["macs"] or float_io


@pytest.mark.parametrize("op", ["Mul", "Div"])
@pytest.mark.parametrize("number", [0.5, [0.7, -2.5, 0.01]], ids=["one", "per channel"])
def test_int16_times_a_constant_with_a_zero_point(op: str, number: Any, tmp_path: Path) -> None:
    """onnxruntime's quantizer stores 0.5 as 32767 with the zero point -32768; a weight of each channel is exact in 8 bits."""
    real = np.asarray(number, np.float32)
    scale = np.float32((max(real.max(), 0) - min(real.min(), 0)) / 65535)
    zero = np.int16(np.rint(-32768 - min(real.min(), 0) / scale))
    stored = np.clip(np.rint(real / scale) + int(zero), -32768, 32767).astype(np.int16)
    nodes = [
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("DequantizeLinear", "c cs cz", "cd"),
        node(op, "xd cd", "r"), node("QuantizeLinear", "r t z", "rq"), node("DequantizeLinear", "rq t z", "y"),
    ]  # fmt: skip
    constants = {
        "s": 1e-4,
        "z": np.int16(7),
        "c": stored,
        "cs": scale,
        "cz": zero,
        "t": 3.1e-4 if op == "Mul" else 9e-3,
    }
    proto = model(nodes, {"x": (2, 4, 3)}, constants, opset=21)
    graph = lower(imported(proto, tmp_path))
    assert {n.op for n in graph.nodes} == {"depthwise_s16"}
    x, y = (graph.values[name].qtype for name in "xy")
    assert x is not None and y is not None
    given = np.random.default_rng(3).uniform(-2, 3, (2, 4, 3)).astype(np.float32)
    theirs = np.rint(from_onnxruntime(proto, {"x": given})["y"] / y.scale[0])
    ours = run_int(graph, {"x": x.quantize(given)})["y"] - y.zero_point[0]
    assert np.abs(theirs - ours).max() <= 1
