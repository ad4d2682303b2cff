"""The fixed-point exp and reciprocal of gemmlowp against the real functions, MEAN against LiteRT; bits are proved by whole networks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import model, node, saved

from glowembed.canonicalize import canonicalize
from glowembed.law import tflite
from glowembed.lower.nodes import lower
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize
from glowembed.read.importer import load
from glowembed.reference import run_int


def test_exp_is_exp():
    x = -np.arange(0, 2**31, 99991, dtype=np.int64)
    real = np.exp(x / 2.0**26)
    np.testing.assert_allclose(tflite.exp_of_negative(x) / 2.0**31, real, atol=2e-7)


def test_reciprocal_is_a_reciprocal():
    total = np.unique(np.concatenate([np.geomspace(2**19, 2**31 - 1, 5000).astype(np.int64), 2 ** np.arange(19, 31)]))
    scale, bits = tflite.reciprocal(total)
    real = 2.0**19 / total
    np.testing.assert_allclose(scale / 2.0**31 / 2.0**bits, real, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 0.01, 0.09, 0.5, 3.0, 40.0])
def test_table(scale):
    table = tflite.softmax_table(scale)
    assert table[0] == tflite.ONE
    real = np.exp(-scale * np.arange(256))
    np.testing.assert_allclose(table / 2.0**31, real, atol=3e-7)
    assert (np.diff(table) <= 0).all()


# size, type of the input, type of the output, result of the reference kernels of ai-edge-litert 2.3.0 for `stored`
# below
MEANS = (
    ((2, 2), (0.0235, -128), (0.0235, -128), [-90, -75, -92, -88, -99, -71, -93, -77, -75, -70, -80, -69]),
    ((2, 2), (0.0235, -128), (0.0157, -128), [-72, -49, -74, -69, -84, -43, -76, -52, -50, -42, -57, -41]),
    ((2, 2), (0.05, 3), (0.02, -10), [-94, 20, -106, -78, -128, 49, -116, 5, 18, 53, -20, 62]),
    ((2, 2), (0.1, 3), (0.1, 3), [-31, 15, -36, -24, -56, 27, -40, 9, 14, 29, -1, 32]),
    ((3, 3), (0.0235, -128), (0.0235, -128), [-74, -74, -84, -90, -82, -70, -91, -76, -80, -78, -95, -76]),
    ((3, 3), (0.0235, -128), (0.0157, -128), [-48, -48, -63, -71, -59, -41, -73, -50, -56, -53, -78, -50]),
    ((3, 3), (0.05, 3), (0.02, -10), [26, 28, -50, -89, -32, 63, -98, 14, -13, -1, -128, 18]),
    ((3, 3), (0.1, 3), (0.1, 3), [17, 18, -13, -29, -6, 32, -32, 13, 2, 7, -44, 14]),
    ((5, 6), (0.0235, -128), (0.0235, -128), [-69, -83, -87, -85, -79, -76, -80, -78, -78, -83, -89, -81]),
    ((5, 6), (0.0235, -128), (0.0157, -128), [-40, -60, -67, -64, -55, -50, -56, -52, -53, -61, -70, -58]),
    ((5, 6), (0.05, 3), (0.02, -10), [68, -35, -70, -56, -10, 15, -16, 3, 1, -40, -84, -25]),
    ((5, 6), (0.1, 3), (0.1, 3), [34, -7, -21, -15, 3, 13, 1, 8, 7, -9, -26, -3]),
    ((7, 7), (0.0235, -128), (0.0235, -128), [-74, -80, -83, -82, -82, -81, -83, -74, -81, -86, -86, -81]),
    ((7, 7), (0.0235, -128), (0.0157, -128), [-48, -56, -60, -59, -59, -58, -60, -47, -58, -65, -66, -57]),
    ((7, 7), (0.05, 3), (0.02, -10), [28, -17, -35, -28, -28, -23, -35, 32, -25, -57, -63, -22]),
    ((7, 7), (0.1, 3), (0.1, 3), [18, 0, -7, -4, -4, -2, -7, 20, -3, -16, -18, -2]),
    ((8, 8), (0.0235, -128), (0.0235, -128), [-78, -81, -78, -83, -83, -82, -82, -77, -79, -82, -84, -82]),
    ((8, 8), (0.0235, -128), (0.0157, -128), [-53, -58, -54, -61, -61, -59, -59, -51, -55, -59, -62, -59]),
    ((8, 8), (0.05, 3), (0.02, -10), [-1, -26, -3, -40, -38, -28, -28, 11, -9, -31, -46, -30]),
    ((8, 8), (0.1, 3), (0.1, 3), [7, -3, 6, -9, -8, -4, -4, 11, 3, -5, -11, -5]),
    ((49,), (0.0235, -128), (0.0235, -128), [-74, -80, -83, -82, -82, -81, -83, -74, -81, -86, -86, -81]),
    ((49,), (0.0235, -128), (0.0157, -128), [-48, -56, -60, -59, -59, -58, -60, -47, -58, -65, -66, -57]),
    ((49,), (0.05, 3), (0.02, -10), [28, -17, -35, -28, -28, -23, -35, 32, -25, -57, -63, -22]),
    ((49,), (0.1, 3), (0.1, 3), [18, 0, -7, -4, -4, -2, -7, 20, -3, -16, -18, -2]),
)  # fmt: skip


def stored(size: tuple[int, ...], unsigned: bool) -> np.ndarray:
    n = np.arange(int(np.prod(size)) * 12)
    x = (n * 7919 + n**2 * 31) % 211 - 105
    return (x // 3 - 80 if unsigned else x).clip(-128, 127).astype(np.int8).reshape(1, *size, 12)


@pytest.mark.parametrize(("size", "x", "y", "expected"), MEANS, ids=lambda v: str(v) if isinstance(v, tuple) else "")
def test_mean_has_the_bits_of_litert(
    size: tuple[int, ...], x: Any, y: Any, expected: list[int], tmp_path: Path
) -> None:
    """A MEAN of a .tflite file is a ReduceMean in the ONNX file that is made of it."""
    types = {"s": np.float32(x[0]), "z": np.int8(x[1]), "t": np.float32(y[0]), "o": np.int8(y[1])}
    nodes = [
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
        node("ReduceMean", "xd", "m", axes=list(range(1, len(size) + 1))),
        node("QuantizeLinear", "m t o", "mq"), node("DequantizeLinear", "mq t o", "y"),
    ]  # fmt: skip
    graph = canonicalize(load(saved(model(nodes, {"x": (1, *size, 12)}, types, opset=13), tmp_path)))
    precision = resolve(graph, Config({"requantization": "tflite"}))
    kernels = lower(quantize(graph, lambda name, _: (0.0, 1.0), precision))
    found = run_int(kernels, {"x": stored(size, x[1] == -128)})["y"]
    assert found.reshape(-1).tolist() == expected
