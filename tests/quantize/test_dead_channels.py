"""Channels whose weights are nearly zero: their output is the bias, within one step, in every dtype and law."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, saved, weights

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array
from glowembed.lower.nodes import lower
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.schema import WIDE_BIAS_LIMITS, weights_type
from glowembed.quantize.types import quantize
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int

BIAS = np.float32([0.3, 0.8, -0.5, 0.1])
DEAD = 1
"""The number of the dead channel."""

VALUES = (0.0, 1e-45, 1e-40, 1e-38, 1e-36, 1e-30, 1e-20, 1e-10, 1e-5)
POWER2 = "symmetric_with_power2_scale"
SETTINGS: tuple[Mapping[str, Any], ...] = (
    {}, {"per_channel": False}, {"schema": POWER2, "weights_schema": POWER2}, {"weights_schema": "asymmetric"}, {"bias": "int8"},
    {"requantization": "onnx"}, {"requantization": "glow"}, {"requantization": "tflite"},
    {"dtype": "int16"}, {"dtype": "int16", "per_channel": False}, {"dtype": "int16", "weights": "int16"}, {"dtype": "float32"},
)  # fmt: skip


def dead(value: float, *shape: int) -> Array:
    w = weights(*shape)
    w[DEAD] = np.sign(w[DEAD]) * np.float32(value)
    return w


def network(kind: str, value: float) -> tuple[onnx.ModelProto, int]:
    """The model, and the axis of its channels."""
    bias = {"b": BIAS}
    if kind == "Conv":
        return model([node("Conv", "x w b", "y")], {"x": (1, 3, 6, 6)}, {"w": dead(value, 4, 3, 3, 3), **bias}), 1
    if kind == "depthwise":
        constants = {"w": dead(value, 4, 1, 3, 3), **bias}
        return model([node("Conv", "x w b", "y", group=4)], {"x": (1, 4, 6, 6)}, constants), 1
    if kind == "ConvTranspose":
        w = np.ascontiguousarray(dead(value, 4, 3, 2, 2).transpose(1, 0, 2, 3))
        return model([node("ConvTranspose", "x w b", "y", strides=[2, 2])], {"x": (1, 3, 4, 4)}, {"w": w, **bias}), 1
    if kind == "Gemm":
        return model([node("Gemm", "x w b", "y", transB=1)], {"x": (1, 8)}, {"w": dead(value, 4, 8), **bias}), 1
    nodes = [node("Mul", "x s", "t"), node("Add", "t b", "y")]
    return model(nodes, {"x": (1, 5, 4)}, {"s": dead(value, 4), **bias}), 2


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "_".join(f"{k}={v}" for k, v in s.items()) or "default")
@pytest.mark.parametrize("kind", ["Conv", "depthwise", "ConvTranspose", "Gemm", "Affine"])
def test_a_dead_channel_is_its_bias(kind: str, settings: Mapping[str, Any], tmp_path: Path) -> None:
    for value in VALUES:
        if kind == "Affine" and "weights_schema" in settings:
            continue  # it has no weights that are rounded
        proto, axis = network(kind, value)
        graph = canonicalize(load(saved(proto, tmp_path)))
        rng = np.random.default_rng(1)
        sample = {n: rng.uniform(-2, 3, graph.values[n].shape).astype(np.float32) for n in graph.inputs}
        floats = run_float(graph, sample)
        ranges = {n: (float(a.min()), float(a.max())) for n, a in floats.items()}
        config = resolve(graph, Config(settings))
        kernels = lower(quantize(graph, lambda name, _, ranges=ranges: ranges[name], config))
        types = {n: kernels.values[n].qtype for n in (*kernels.inputs, "y")}
        stored = {n: a if (q := types[n]) is None else q.quantize(a) for n, a in sample.items()}
        found, qtype = run_int(kernels, stored)["y"], types["y"]
        error = np.abs((found if qtype is None else qtype.dequantize(found)) - floats["y"]).take(DEAD, axis)
        assert error.max() <= 1.01 * (1e-6 if qtype is None else qtype.scale[0]), value


def test_other_channels_keep_their_scale() -> None:
    """Only the channel that is dead gets another one, with no more steps in its bias than the limit."""
    limit, scales = WIDE_BIAS_LIMITS["int8"], []
    for value in (1e-2, 1e-30):
        w = weights(4, 8) * np.float32([value, 1.0, 1.0, 1.0])[:, None]
        scales.append(weights_type(w, BIAS, 1e-4, bias_limit=limit).scale)
    ordinary, raised = scales
    assert ordinary[1:] == raised[1:]
    assert BIAS[0] / (1e-4 * ordinary[0]) < limit
    assert BIAS[0] / (1e-4 * raised[0]) == pytest.approx(limit, rel=1e-6)
