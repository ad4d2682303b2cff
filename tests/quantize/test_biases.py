"""Bias correction: against tables worked out by hand, against the mean of real outputs, and where there is nothing to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Graph
from glowembed.graph.registry import ops
from glowembed.pipeline import CompileOptions, compile_model, profile_model
from glowembed.quantize.biases import finish_biases, weights_error
from glowembed.quantize.precision import Config, parse, resolve
from glowembed.quantize.types import quantize
from glowembed.ranges.datasets import Dataset, input_specs
from glowembed.ranges.datasets import load as load_data
from glowembed.read.importer import load as load_model

RANGES = (-2.0, 2.0)

Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weights [out, in] and bias of layers with a ReLU between them."""
# weights of two outputs, one row each, that are rounded to multiples of 1/8; mean of x; bias; b - (W~ - W) E[x]
FULLY_CONNECTED = [
    ([[0.5, 0.25], [1.0, -1.0]], (3.0, 5.0), (1.0, 2.0), (1.0, 2.0)),  # nothing is rounded
    ([[0.53125, 0.25], [1.0, -1.0]], (4.0, 5.0), (1.0, 2.0), (1.125, 2.0)),  # W~ - W = -1/32 at x0
    ([[0.46875, 0.25], [1.0, -1.03125]], (4.0, -2.0), (1.0, 2.0), (0.875, 2.0625)),
    ([[0.46875, 0.21875], [1.0, -1.0]], (4.0, -4.0), (1.0, 2.0), (1.0, 2.0)),  # two errors, one sum of nothing
    ([[0.46875, 0.25], [1.0, -1.0]], (0.0, 5.0), (1.0, 2.0), (1.0, 2.0)),  # no mean, no error
]


def canonical(nodes: list, inputs: dict, constants: dict, folder: Path) -> Graph:
    return canonicalize(load_model(saved(model(nodes, inputs, constants), folder)))


def finished(graph: Graph, mean: object, **defaults: object) -> np.ndarray:
    """The bias of the only layer, with weights in steps of 1/8 and this mean of its input."""
    layer = next(n for n in graph.nodes if ops()[n.op].has_weights)
    rules = [{"value": layer.inputs[1], "scale": 0.125}]
    precision = resolve(graph, parse({"defaults": defaults, "rules": rules}))
    done = finish_biases(quantize(graph, lambda name, _: RANGES, precision), precision, lambda name: np.asarray(mean))
    const = done.values[next(n for n in done.nodes if n.name == layer.name).inputs[2]].const
    assert const is not None
    return const.materialize()


@pytest.mark.parametrize(("w", "mean", "bias", "expected"), FULLY_CONNECTED)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_fully_connected(w: list, mean: tuple, bias: tuple, expected: tuple, dtype: str, tmp_path: Path) -> None:
    constants = {"w": np.float32(w), "b": np.float32(bias)}
    graph = canonical([node("Gemm", "x w b", "y", transB=1)], {"x": (1, 2)}, constants, tmp_path)
    assert finished(graph, mean, dtype=dtype).tolist() == list(expected)
    assert finished(graph, mean, dtype=dtype, bias_correction=False).tolist() == list(bias)


def test_matmul_without_a_bias_gets_one(tmp_path: Path) -> None:
    graph = canonical([node("MatMul", "x w", "y")], {"x": (1, 2)}, {"w": np.float32([[0.53125], [0.25]])}, tmp_path)
    assert finished(graph, [4.0, 5.0]).tolist() == [0.125]


def test_padding_is_zero_and_not_the_mean(tmp_path: Path) -> None:
    """Three taps over four positions with one zero at each end: the outer taps meet a value three times in four."""
    w = np.float32([[[0.53125, 0.5, 0.46875]]])  # W~ - W: -1/32, 0, 1/32
    both = canonical([node("Conv", "x w", "y", pads=[1, 1])], {"x": (1, 1, 4)}, {"w": w}, tmp_path)
    left = canonical([node("Conv", "x w", "y", pads=[2, 0])], {"x": (1, 1, 4)}, {"w": w}, tmp_path)
    assert finished(both, [8.0]).tolist() == [0.0]
    assert finished(left, [8.0]).tolist() == [(2 / 4 - 4 / 4) * 8 / 32]


def test_groups_read_their_own_channels(tmp_path: Path) -> None:
    w = np.float32([0.53125, 0.46875]).reshape(2, 1, 1)
    graph = canonical([node("Conv", "x w", "y", group=2)], {"x": (1, 2, 4)}, {"w": w}, tmp_path)
    assert finished(graph, [2.0, 16.0]).tolist() == [2 / 32, -16 / 32]


def test_correction_comes_before_rounding_the_bias(tmp_path: Path) -> None:
    constants = {"w": np.float32([[0.53125]]), "b": np.float32([1.0])}
    graph = canonical([node("Gemm", "x w b", "y", transB=1)], {"x": (1, 1)}, constants, tmp_path)
    np.testing.assert_allclose(finished(graph, [4.0], bias="int8"), [1.125], rtol=1e-6)


def test_a_bias_that_two_layers_share_is_corrected_for_each(tmp_path: Path) -> None:
    nodes = [node("Gemm", "x u b", "h", transB=1), node("Gemm", "h v b", "y", transB=1)]
    constants = {"u": weights(3, 3), "v": weights(3, 3, seed=2), "b": np.float32([1, 2, 3])}
    graph = canonical(nodes, {"x": (1, 3)}, constants, tmp_path)
    precision = resolve(graph)
    done = finish_biases(quantize(graph, lambda name, _: RANGES, precision), precision, lambda name: np.ones(3))
    consts = [done.values[n.inputs[2]].const for n in done.nodes]
    first, second = (c.materialize() for c in consts if c is not None)
    assert not np.array_equal(first, second)


def test_the_mean_output_is_that_of_the_float_model(tmp_path: Path) -> None:
    """A convolution with padding and stride: the mean error of its outputs over the samples vanishes, to their steps."""
    rng = np.random.default_rng(5)
    samples = (rng.random((64, 4, 9, 9)) + np.arange(4).reshape(4, 1, 1)).astype(np.float32)
    nodes = [node("Conv", "x w", "y", pads=[1, 1, 0, 0], strides=[2, 2])]
    constants = {"w": weights(6, 4, 3, 3)}
    path = saved(model(nodes, {"x": (1, 4, 9, 9)}, constants), tmp_path)
    data = Dataset({"x": samples}, shapes={"x": (1, 4, 9, 9)})
    ranges = profile_model(path, data, CompileOptions())
    mean = ranges.mean("x")
    assert mean is not None
    graph = canonicalize(load_model(path))
    precision = resolve(graph)
    typed = quantize(graph, lambda name, _: RANGES, precision)
    done = finish_biases(typed, precision, ranges.mean)
    layer = next(n for n in done.nodes if n.op == "Conv")
    x, w, b = (done.values[name] for name in layer.inputs)
    assert w.const is not None
    assert w.qtype is not None
    assert b.const is not None
    real = w.const.materialize()
    errors = []
    for sample in samples.transpose(0, 2, 3, 1).reshape(len(samples), *x.shape):
        rounded = (real + weights_error(real, w.qtype)).astype(np.float32)
        (meant,) = ops()["Conv"].float_ref(layer.attrs, [sample, real, np.zeros(6, np.float32)])
        (found,) = ops()["Conv"].float_ref(layer.attrs, [sample, rounded, b.const.materialize()])
        (plain,) = ops()["Conv"].float_ref(layer.attrs, [sample, rounded, np.zeros(6, np.float32)])
        errors.append([np.mean(y - meant, axis=tuple(range(meant.ndim - 1))) for y in (found, plain)])
    corrected, uncorrected = np.abs(np.mean(errors, axis=0)).max(axis=1)
    assert corrected < uncorrected / 50


def test_the_option_and_the_setting(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    constants = {"w": weights(3, 4)}
    path = saved(model([node("Gemm", "x w", "y", transB=1)], {"x": (1, 4)}, constants), tmp_path)
    data = Dataset({"x": rng.random((16, 4), np.float32)}, shapes={"x": (1, 4)})

    def bias(options: CompileOptions) -> list[int]:
        bundle = compile_model(path, tmp_path / "bundle", options, data)
        return next(n for n in bundle.graph.nodes if "bias" in n.constants).constants["bias"].materialize().tolist()

    on, off = bias(CompileOptions()), bias(CompileOptions(bias_correction=False))
    assert on != off
    assert bias(CompileOptions(precision=Config({"bias_correction": False}))) == off
    assert bias(CompileOptions(bias_correction=False, precision=parse({"defaults": {"bias_correction": True}}))) == on


@pytest.mark.shared
def test_weights_of_8_bits_alone_cost_ad01_more_than_activations_of_16(shared_models: Path) -> None:
    """docs/quantization.md: with float activations and corrected biases, rounding the weights to 8 bits per channel costs
    more than 0.02 of RMS error, that of one layer alone too; weights of 11 bits do not.
    """
    graph = canonicalize(load_model(shared_models / "ad01/model.onnx"))
    layers = [(_array(graph, n.inputs[1]), _array(graph, n.inputs[2])) for n in graph.nodes]
    seen, test = (_rows(graph, shared_models / "ad01/data.npz", part) for part in ("calib", "test"))
    exact, inner = _outputs(layers, test)[-1], _outputs(layers, seen)

    def rmse(bits: int, only: int | None = None) -> float:
        changed = [
            _rounded(layer, x, bits) if only in (None, i) else layer
            for i, (layer, x) in enumerate(zip(layers, inner, strict=False))
        ]
        return float(np.sqrt(np.mean((_outputs(changed, test)[-1] - exact) ** 2)))

    assert len(layers) == 10
    assert rmse(8) == pytest.approx(0.092, abs=0.01)
    assert [rmse(bits) > 0.02 for bits in (8, 9, 10, 11, 12)] == [True, True, True, False, False]
    assert [rmse(8, only=i) > 0.02 for i in range(4)] == [True] * 4


def _array(graph: Graph, name: str) -> np.ndarray:
    const = graph.values[name].const
    assert const is not None
    return np.asarray(const.materialize(), np.float64)


def _rows(graph: Graph, data: Path, part: str) -> np.ndarray:
    samples = load_data(data, input_specs(graph), part)
    return np.stack([samples.sample(i)[graph.inputs[0]].reshape(-1) for i in range(len(samples))]).astype(np.float64)


def _outputs(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """The input of every layer, then the output."""
    found = [x]
    for i, (matrix, bias) in enumerate(layers):
        y = found[-1] @ matrix.T + bias
        found.append(y if i == len(layers) - 1 else np.maximum(y, 0))
    return found


def _rounded(layer: tuple[np.ndarray, np.ndarray], x: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """One scale per output channel, symmetric, the mean error taken off the bias."""
    matrix, bias = layer
    scale = np.abs(matrix).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    stored = np.rint(matrix / scale) * scale
    return stored, bias - (stored - matrix) @ x.mean(axis=0)
