"""Operands of quantized models in the less usual forms of onnxruntime's quantizers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, unoptimized

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array
from glowembed.lower.nodes import lower
from glowembed.quantize.types import quantize
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int

RNG = np.random.default_rng(5)


def no_range(name: str, *_: object) -> tuple[float, float]:
    raise AssertionError(f"{name} has no type")


@pytest.mark.parametrize(
    ("stored", "zero"),
    [
        (RNG.integers(-32767, 32768, (12, 5), dtype=np.int16), np.int16(0)),
        (RNG.integers(0, 256, (12, 5), dtype=np.uint8), np.uint8(77)),
        (RNG.integers(-127, 128, (12, 5), dtype=np.int8), np.int8(0)),
    ],
)
def test_weights_beside_int16_keep_their_integers(stored: Array, zero: np.generic, tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"), node("DequantizeLinear", "w v k", "wd"),
        node("MatMul", "xd wd", "r"), node("QuantizeLinear", "r t z", "rq"), node("DequantizeLinear", "rq t z", "y"),
    ]  # fmt: skip
    scale = 1 / float(np.abs(stored.astype(np.float64) - float(zero)).max())
    proto = model(
        nodes, {"x": (1, 12)}, {"s": 1e-4, "t": 4e-4, "z": np.int16(7), "w": stored, "v": scale, "k": zero}, opset=21
    )
    graph = quantize(canonicalize(load(saved(proto, tmp_path))), no_range)
    weights = next(v for v in graph.values.values() if v.const is not None and v.const.array.size == 60)
    assert weights.qtype is not None and weights.const is not None
    assert weights.qtype.dtype == ("int8" if stored.dtype == np.int8 else "int16")
    assert (
        np.sort(weights.qtype.quantize(weights.const.materialize()), axis=None)
        == np.sort(stored.astype(int) - int(zero), axis=None)
    ).all()
    x = RNG.uniform(-2, 3, (1, 12)).astype(np.float32)
    xq, yq = (graph.values[name].qtype for name in "xy")
    assert xq is not None and yq is not None
    found = yq.dequantize(run_int(lower(graph), {"x": xq.quantize(x)})["y"])
    np.testing.assert_allclose(found, unoptimized(proto).run(None, {"x": x})[0], rtol=0, atol=4.1e-4)


def test_scales_of_blocks_have_any_sign(tmp_path: Path) -> None:
    """onnxruntime's MatMulNBitsQuantizer gives the largest weight of a block the integer -8."""
    stored, scales = (
        RNG.integers(-8, 8, (8, 3), dtype=np.int8),
        np.asarray([[-0.2, 0.1, 0.0], [0.3, -0.1, 0.2]], np.float32),
    )
    nodes = [node("DequantizeLinear", "w s", "wd", axis=0, block_size=4), node("MatMul", "x wd", "y")]
    proto = model(nodes, {"x": (1, 8)}, {"w": stored, "s": scales}, opset=21)
    graph, x = load(saved(proto, tmp_path)), RNG.normal(size=(1, 8)).astype(np.float32)
    np.testing.assert_allclose(
        run_float(graph, {"x": x})["y"], x @ (stored * np.repeat(scales, 4, axis=0)), rtol=1e-5, atol=1e-6
    )


def test_both_operands_may_be_quantized_dynamically(tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", "a", "aq as az"), node("DynamicQuantizeLinear", "b", "bq bs bz"), node("MatMulInteger", "aq bq az bz", "i"),
        node("Cast", "i", "f", to=1), node("Mul", "as bs", "s"), node("Mul", "f s", "y"),
    ]  # fmt: skip
    graph = load(saved(model(nodes, {"a": (1, 3, 4), "b": (1, 4, 5)}, {}), tmp_path))
    given = {name: RNG.normal(size=graph.values[name].shape).astype(np.float32) for name in "ab"}
    np.testing.assert_allclose(run_float(graph, given)["y"], given["a"] @ given["b"], rtol=1e-5, atol=1e-6)
