"""Operators of com.microsoft against onnxruntime, which defines them: as the model has them, and quantized by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import three_ways
from onnx import helper

from glowembed.errors import UnsupportedModelError
from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.read import contrib
from glowembed.reference import run_int

pytestmark = pytest.mark.cc
RNG = np.random.default_rng(8)


def real(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def whole(dtype: Any, *shape: int) -> Any:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return RNG.integers(low, high + 1, shape).astype(dtype)


def narrow(*shape: int) -> Any:
    """Weights of seven bits: on a CPU without VNNI, onnxruntime saturates the sum of two products of uint8 and int8 at 16 bits."""
    return RNG.integers(-64, 64, shape).astype(np.int8)


def scale(*shape: int) -> Any:
    return RNG.uniform(0.01, 0.02, shape).astype(np.float32)


CONSTANTS = {
    "w": real(5, 3, 3, 3), "b5": real(5), "z": real(1, 5, 6, 6), "m": real(5, 8), "b8": real(8), "g8": real(8),
    "q": whole(np.uint8, 8, 5), "s5": scale(5), "s1": scale(1), "z5": whole(np.uint8, 5),
    "lw": narrow(1, 8, 16), "lr": narrow(1, 4, 16), "lb": real(1, 32), "ls": scale(1), "lz": np.zeros(1, np.int8),
    "one": np.float32(0.02),
    "uz0": np.uint8(120), "ys": np.float32(0.01), "yz": np.uint8(100),
}  # fmt: skip
INPUTS = {
    "image": real(1, 3, 6, 6),
    "pixels": whole(np.uint8, 1, 6, 6, 3),
    "x": real(1, 3, 8),
    "skip": real(1, 3, 8),
    "rows": real(1, 8),
}

Case = tuple[str, str, dict[str, Any]]
"""An operator, its inputs (_ for an absent one), and its attributes."""

CASES: dict[str, Case] = {
    **{f"FusedConv {a}": ("FusedConv", "image w b5", {"activation": a, "pads": [1] * 4}) for a in ("Relu", "Tanh", "Sigmoid")},
    "FusedConv LeakyRelu": ("FusedConv", "image w", {"activation": "LeakyRelu", "activation_params": [0.2], "pads": [1] * 4}),
    "FusedConv Clip": ("FusedConv", "image w", {"activation": "Clip", "activation_params": [0.0, 1.5], "strides": [2, 2]}),
    "FusedConv HardSigmoid": ("FusedConv", "image w", {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]}),
    "FusedConv and a sum": ("FusedConv", "image w b5 z", {"activation": "Relu", "pads": [1] * 4}),
    "FusedGemm": ("FusedGemm", "rows m b5", {"transB": 1, "activation": "Relu", "alpha": 0.5}),
    **{
        f"FusedGemm {name}": ("FusedGemm", "rows m", {"transB": 1, "activation": name, **own})
        for name, own in (("LeakyRelu", {"activation_alpha": 0.3}), ("Elu", {"activation_alpha": 0.5}), ("Softplus", {}),
                          ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}))
    },
    "FusedMatMul": ("FusedMatMul", "x m", {"transB": 1, "alpha": 0.5}),
    "FusedMatMul of two computed": ("FusedMatMul", "x skip", {"transB": 1, "alpha": 0.25}),
    "FusedMatMul, batches behind": ("FusedMatMul", "left right", {"transBatchA": 1, "transBatchB": 1}),
    "FusedMatMul, all turned": ("FusedMatMul", "right left", {"transA": 1, "transB": 1, "transBatchA": 1, "transBatchB": 1}),
    "FusedMatMul, one row of heads": ("FusedMatMul", "head key", {"transBatchA": 1, "transBatchB": 1, "transB": 1, "alpha": 0.5}),
    "Gelu": ("Gelu", "x", {}),
    "BiasGelu": ("BiasGelu", "x b8", {}),
    "FastGelu": ("FastGelu", "x", {}),
    "FastGelu with a bias": ("FastGelu", "x b8", {}),
    "QuickGelu": ("QuickGelu", "x", {"alpha": 1.5}),
    "SkipLayerNormalization": ("SkipLayerNormalization", "x skip g8 b8 b8", {"epsilon": 1e-5}),
    "SkipSimplifiedLayerNormalization": ("SkipSimplifiedLayerNormalization", "x skip g8", {"epsilon": 1e-5}),
    "SimplifiedLayerNormalization": ("SimplifiedLayerNormalization", "x g8", {"epsilon": 1e-5, "axis": -1}),
    "Attention": ("Attention", "x wqkv bqkv", {"num_heads": 2}),
    "Attention, causal": ("Attention", "x wqkv bqkv", {"num_heads": 4, "unidirectional": 1, "scale": 0.7}),
    "MultiHeadAttention": ("MultiHeadAttention", "x skip skip bqkv", {"num_heads": 2}),
    "Attention, some keys": ("Attention", "x wqkv bqkv keys _ bias", {"num_heads": 2}),
    "Attention, keys by query": ("Attention", "x wqkv bqkv by_query", {"num_heads": 2, "mask_filter_value": -3.0}),
    "Attention, the first keys": ("Attention", "x wqkv bqkv end", {"num_heads": 2}),
    "Attention, keys between two": ("Attention", "x wqkv bqkv span", {"num_heads": 2}),
    "Attention after earlier keys": ("Attention", "x wqkv bqkv later past", {"num_heads": 2, "unidirectional": 1}),
    "MultiHeadAttention, some keys": ("MultiHeadAttention", "x skip skip bqkv keys", {"num_heads": 2}),
    "MultiHeadAttention after earlier keys": ("MultiHeadAttention", "x skip skip _ _ _ pk pv", {"num_heads": 2, "unidirectional": 1}),
    "MultiHeadAttention, keys by head": ("MultiHeadAttention", "x k4 v4 bqkv", {"num_heads": 2}),
    "QAttention": ("QAttention", "stored q24 bqkv one one keys uz0 i3", {"num_heads": 2}),
    "QAttention per column": ("QAttention", "stored q24 bqkv one s24 _ uz0 i24", {"num_heads": 2, "unidirectional": 1}),
    "EmbedLayerNormalization": ("EmbedLayerNormalization", "ids segment words places segments g8 b8 keys", {"epsilon": 1e-5}),
    "EmbedLayerNormalization, given places": ("EmbedLayerNormalization", "ids _ words places _ g8 b8 _ ids", {"epsilon": 1e-5}),
    "RotaryEmbedding": ("RotaryEmbedding", "x at cosines sines", {}),
    "RotaryEmbedding from a place on": ("RotaryEmbedding", "k4 first cosines sines", {"interleaved": 1}),
    "RotaryEmbedding of a part": ("RotaryEmbedding", "x at cosines sines", {"num_heads": 1, "rotary_embedding_dim": 4}),
    "QLinearWhere": ("QLinearWhere", "which stored one uz0 stored ys yz one uz0", {}),
    "CDist": ("CDist", "many others", {"metric": "euclidean"}),
    "CDist, squared": ("CDist", "many others", {}),
    "Trilu": ("Trilu", "k4", {"upper": 0}),
    "GatherND": ("GatherND", "k4 picks", {}),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", "x q s1", {}),
    "DynamicQuantizeMatMul per column": ("DynamicQuantizeMatMul", "x q s5 z5 b5", {}),
    "MatMulNBits": ("MatMulNBits", "wide n4 ns4", {"K": 24, "N": 5, "bits": 4, "block_size": 16}),
    "MatMulNBits with zero points": ("MatMulNBits", "wide n4 ns4 nz4", {"K": 24, "N": 5, "bits": 4, "block_size": 16}),
    "DynamicQuantizeLSTM": ("DynamicQuantizeLSTM", "steps lw lr lb _ _ _ _ ls lz ls lz", {"hidden_size": 4}),
    "NhwcMaxPool": ("NhwcMaxPool", "pixels", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
}  # fmt: skip
CONSTANTS |= {
    "wqkv": real(8, 24),
    "bqkv": real(24),
    "n4": whole(np.uint8, 5, 2, 8),
    "ns4": scale(10),
    "nz4": whole(np.uint8, 5),
}
INPUTS |= {"left": real(4, 2, 3, 5), "right": real(5, 2, 3, 6), "head": real(1, 2, 3, 8), "key": real(1, 2, 3, 8)}
INPUTS |= {"wide": real(1, 3, 24), "steps": real(4, 1, 8)}
CONSTANTS |= {
    "q24": narrow(8, 24), "s24": scale(24), "i3": np.int8(3), "i24": np.zeros(24, np.int8),
    "words": real(5, 8), "places": real(5, 8), "segments": real(2, 8), "cosines": real(5, 2), "sines": real(5, 2),
}  # fmt: skip
INPUTS |= {
    "keys": np.int32([[1, 0, 1]]), "by_query": np.int32([[[1, 0, 1], [0, 0, 1], [0, 0, 0]]]), "end": np.int32([2]), "span": np.int32([3, 1]),
    "later": np.int32([[0, 1, 1, 1, 1]]), "past": real(2, 1, 2, 2, 4), "k4": real(1, 2, 3, 4), "v4": real(1, 2, 3, 4), "pk": real(1, 2, 2, 4), "pv": real(1, 2, 2, 4), "bias": real(1, 2, 3, 3),
    "stored": whole(np.uint8, 1, 3, 8), "ids": np.int32([[3, 1, 4]]), "segment": np.int32([[0, 1, 1]]),
    "five": real(1, 3, 2, 4, 4), "at": np.int64([[2, 0, 1]]), "first": np.int64([1]), "picks": np.int64([[0, 1], [0, 0]]),
    "which": np.arange(24).reshape(1, 3, 8) % 3 == 0, "many": real(4, 8), "others": real(5, 8),
}  # fmt: skip
TYPES = {"NhwcMaxPool": ["uint8"], "QLinearWhere": ["uint8"], "EmbedLayerNormalization": ["float32", "int32"]}
"""The types of the outputs of operators that have more than one of float32."""
LOOSE = {"DynamicQuantizeLSTM": 0.05}
"""Where onnxruntime rounds more than the weights: how far apart real numbers may be."""


def network(*cases: Case) -> onnx.ModelProto:
    """One node for each case. Its outputs are y<number of the case>, and the same with _ and a number for further ones."""
    nodes, outputs = [], {}
    for i, (op, names, attributes) in enumerate(cases):
        inputs = ["" if name == "_" else name for name in names.split()]
        dtypes = TYPES.get(op, ["float32"] * (1 + inputs.count("past") + 2 * inputs.count("pv")))
        own = {f"y{i}" + (f"_{j}" if j else ""): (dtype, None) for j, dtype in enumerate(dtypes)}
        domain = contrib.DOMAINS.get(op, (contrib.DOMAIN,))[0]
        nodes.append(helper.make_node(op, inputs, [*own], domain=domain, name=f"n{i}", **attributes))
        outputs |= own
    return three_ways.network(nodes, INPUTS, outputs, {"": 17, contrib.DOMAIN: 1}, CONSTANTS)


Results = dict[str, list[tuple[Any, Any, Any]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The outputs of each case, by name."""
    model = network(*CASES.values())
    outputs = three_ways.run(model, INPUTS, tmp_path_factory.mktemp("contrib"))
    return {name: [outputs[y] for y in n.output] for name, n in zip(CASES, model.graph.node, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_onnxruntime_computes(name: str, results: Results) -> None:
    loose = LOOSE.get(CASES[name][0], 2e-5)
    for theirs, reference, c in results[name]:
        assert np.array_equal(reference, c)
        np.testing.assert_allclose(reference, theirs, rtol=loose, atol=loose)


def is_suitable(op: str, names: str) -> bool:
    """Whether all inputs can have samples of random real numbers."""
    read = [INPUTS[name] for name in names.split() if name in INPUTS]
    return op != "DynamicQuantizeLSTM" and all(a.dtype == np.float32 and len(a) == 1 for a in read)


QUANTIZED = [name for name, (op, inputs, _) in CASES.items() if is_suitable(op, inputs)]


@pytest.mark.parametrize("name", QUANTIZED)
def test_it_is_quantized_by_default(name: str, tmp_path: Path) -> None:
    proto = network(CASES[name])
    onnx.save(proto, tmp_path / "m.onnx")
    shapes = {info.name: INPUTS[info.name].shape for info in proto.graph.input}
    data = {n: RNG.normal(size=(16, *shape[1:])).astype(np.float32) for n, shape in shapes.items()}
    np.savez(tmp_path / "d.npz", **{f"{role}_{n}": a for n, a in data.items() for role in ("calib", "test")})
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(), tmp_path / "d.npz")
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = (
        compare.run_onnxruntime(tmp_path / "m.onnx", dataset)["y0"],
        integer_outputs(bundle.graph, dataset)["y0"],
    )
    assert compare.output_metrics("y0", theirs, ours.reshape(theirs.shape)).sqnr_db > 22
    assert {entry["dtype"] for entry in bundle.manifest["precision"]} == {"int8"}


def test_quantized_reduce_mean(tmp_path: Path) -> None:
    """The mean of stored integers is rounded once. onnxruntime has only the operator's schema, so numpy computes the
    expected result.
    """
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "uz0"], ["xq"]),
        helper.make_node("QLinearReduceMean", ["xq", "one", "uz0", "ys", "yz"], ["yq"], domain=contrib.DOMAIN, axes=[2], keepdims=1),
        helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]  # fmt: skip
    proto = three_ways.network(nodes, INPUTS, {"y": ("float32", None)}, {"": 17, contrib.DOMAIN: 1}, CONSTANTS)
    onnx.save(proto, tmp_path / "m.onnx")
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions())
    x = real(8, 3, 8)
    np.savez(tmp_path / "d.npz", test_x=x)
    ours = integer_outputs(bundle.graph, samples_for(bundle, tmp_path / "d.npz"))["y"].reshape(8, 3, 1)
    stored = np.clip(np.rint(x / np.float32(0.02)) + 120, 0, 255)
    exact = (stored - 120).mean(axis=2, keepdims=True) * 0.02
    assert np.abs(ours - np.clip(exact, -1.0, 1.55)).max() <= 0.005 + 1e-6


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("skip", [False, True])
def test_group_norm(last: int, skip: bool, tmp_path: Path) -> None:
    """onnxruntime has this operator on GPUs only, so numpy computes the expected result."""
    op, names = ("SkipGroupNorm", "maps g6 b6 offsets b6") if skip else ("GroupNorm", "maps g6 b6")
    maps = real(2, 4, 5, 6) if last else real(2, 6, 4, 5)
    inputs = {"maps": maps, "offsets": real(2, 6)}
    constants = {"g6": real(6), "b6": real(6)}
    made = helper.make_node(
        op, names.split(), ["y", "sum"][: 1 + skip], domain=contrib.DOMAIN, groups=3, activation=1, channels_last=last
    )
    outputs = dict.fromkeys(made.output, ("float32", maps.shape))
    proto = three_ways.network([made], inputs, outputs, {"": 17, contrib.DOMAIN: 1}, constants)
    onnx.save(proto, tmp_path / "m.onnx")
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(dtype="model"))
    ours = run_int(bundle.graph, {info.name: inputs[info.name] for info in proto.graph.input})
    first = maps if last else maps.transpose(0, 2, 3, 1)
    first = first + (inputs["offsets"][:, None, None] + constants["b6"] if skip else 0)
    by_group = first.reshape(2, 4, 5, 3, 2).astype(np.float64)
    mean, variance = (f(by_group, axis=(1, 2, 4), keepdims=True) for f in (np.mean, np.var))
    y = ((by_group - mean) / np.sqrt(variance + 1e-5)).reshape(first.shape) * constants["g6"] + constants["b6"]
    for name, expected in (("y", y / (1 + np.exp(-y))), ("sum", first))[: 1 + skip]:
        np.testing.assert_allclose(
            ours[name], expected if last else expected.transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("packed", [3, 2])
def test_packed_heads_are_those_side_by_side(packed: int, tmp_path: Path) -> None:
    """onnxruntime takes packed inputs on GPUs only, so the same attention with separate inputs gives the expected
    result.
    """
    parts = {name: real(1, 3, 2, 4) for name in "qkv"}
    flat = {name: a.reshape(1, 3, 8) for name, a in parts.items()}
    last = "qkv"[3 - packed :]
    inputs = {**flat, "packed": np.stack([parts[name] for name in last], axis=3)}
    forms = {"y": ["q", "k", "v"], "z": [*(["q"] if packed == 2 else []), "packed"]}
    nodes = [
        helper.make_node("MultiHeadAttention", names, [y], domain=contrib.DOMAIN, num_heads=2)
        for y, names in forms.items()
    ]
    outputs = dict.fromkeys(forms, ("float32", (1, 3, 8)))
    proto = three_ways.network(nodes, inputs, outputs, {"": 17, contrib.DOMAIN: 1}, {})
    onnx.save(proto, tmp_path / "m.onnx")
    bundle = compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(dtype="model"))
    ours = run_int(bundle.graph, inputs)
    assert np.array_equal(ours["y"].reshape(-1), ours["z"].reshape(-1))


REFUSED: dict[str, tuple[Case, str]] = {
    "an unknown activation": (("FusedConv", "image w", {"activation": "Swish"}), "activation is 'Swish'"),
    "computed weights": (("MatMulNBits", "wide pixels ns4", {"K": 24, "N": 5, "block_size": 16}), "weights are computed at run time"),
    "three bits": (("MatMulNBits", "wide n4 ns4", {"K": 24, "N": 5, "bits": 3, "block_size": 16}), "weights of 3 bits"),
    "no weights": (("FusedGemm", "rows", {}), "n0"),
    "a mask of another size": (("Attention", "x wqkv bqkv later", {"num_heads": 2}), r"its mask is \[1, 5\]"),
    "packed in four": (("MultiHeadAttention", "five", {"num_heads": 2}), r"its inputs are \[\[1, 3, 2, 4, 4\]\]"),
    "another distance": (("CDist", "many others", {"metric": "cosine"}), "its metric is 'cosine'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_forms_are_refused(name: str, tmp_path: Path) -> None:
    case, words = REFUSED[name]
    onnx.save(network(case), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedModelError, match=words):
        compile_model(tmp_path / "m.onnx", tmp_path / "b", CompileOptions(dtype="model"))


def test_every_operator_with_a_body_has_a_case() -> None:
    tried = {op for op, *_ in CASES.values()} | {"QLinearReduceMean", "GroupNorm", "SkipGroupNorm"}
    same = {"TransposeMatMul": "FusedMatMul", "MatMulIntegerToFloat": "DynamicQuantizeMatMul"}
    assert set(contrib.BODIES) - set(same) == tried
