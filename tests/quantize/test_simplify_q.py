"""Rewrites on the quantized graph change no bit of an output and remove all that they can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import model, node, saved, weights

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array, Const, Graph, Node, QType, Value, verify
from glowembed.graph.registry import ops
from glowembed.judge.debugging import debug
from glowembed.judge.validation import validate
from glowembed.lower.nodes import lower
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.quantize.simplify import Savings, simplify
from glowembed.quantize.simplify.channels import drop_channels, figures, filling
from glowembed.quantize.simplify.intervals import intervals
from glowembed.quantize.simplify.rescales import fold_rescales, remove_clips
from glowembed.quantize.types import quantize
from glowembed.read.importer import load
from glowembed.reference import run_float, run_int
from glowembed.show import report


def quantized(proto: onnx.ModelProto, folder: Path) -> Graph:
    """The graph quantized with the ranges of a few random samples."""
    graph = canonicalize(load(saved(proto, folder)))
    rng = np.random.default_rng(3)
    runs = [
        run_float(graph, {n: rng.uniform(-2, 3, graph.values[n].shape).astype(np.float32) for n in graph.inputs})
        for _ in range(3)
    ]
    return verify(quantize(graph, lambda name, *_: _range([run[name] for run in runs])))


def _range(arrays: list[Array]) -> tuple[float, float]:
    return float(min(a.min() for a in arrays)), float(max(a.max() for a in arrays))


def same_bits(before: Graph, after: Graph, samples: int = 4) -> None:
    """Both graphs give the same stored outputs for inputs over the whole range, and every value lies in its interval."""
    kernels, rng, bounds = [lower(graph) for graph in (before, after)], np.random.default_rng(5), intervals(before)
    for index in range(samples):
        feed = {name: _input(rng, before.values[name].shape, index) for name in before.inputs}
        first, second = (run_int(graph, feed) for graph in kernels)
        for name in before.outputs:
            assert np.array_equal(first[name], second[name]), name
        for name, bound in bounds.items():
            if name in first and before.values[name].const is None:
                stored = first[name].reshape(-1, before.values[name].shape[-1])
                assert (stored >= bound.low).all(), name
                assert (stored <= bound.high).all(), name


def _input(rng: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
    """All at an end, or anything."""
    if index < 2:
        return np.full(shape, (-128, 127)[index], np.int8)
    return rng.integers(-128, 128, shape).astype(np.int8)


def simplified(proto: onnx.ModelProto, folder: Path) -> tuple[Graph, Savings]:
    """The channels' part alone is compared: the others replace two roundings by one."""
    before = remove_clips(fold_rescales(quantized(proto, folder), ()))
    after, savings = simplify(before)
    same_bits(before, after)
    assert (savings.macs_before, savings.macs_after) == (figures(before)[0], figures(after)[0])
    assert [after.values[n].shape for n in after.outputs] == [before.values[n].shape for n in before.outputs]
    return after, savings


@dataclass
class Net:
    """A network in a line, made layer by layer."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    last: str = "x"

    def add(self, op: str, inputs: str, **attrs: Any) -> str:
        self.last = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, self.last, **attrs))
        return self.last

    def slice(self, start: int, end: int) -> str:
        name = f"s{len(self.nodes)}"
        self.constants |= {f"{name}i": [start], f"{name}j": [end], f"{name}a": [1]}
        return self.add("Slice", f"{self.last} {name}i {name}j {name}a")

    def conv(self, w: Array, b: Array, relu: bool = True, op: str = "Conv", **attrs: Any) -> str:
        name = f"c{len(self.nodes)}"
        self.constants |= {f"{name}w": w.astype(np.float32), f"{name}b": b.astype(np.float32)}
        self.add(op, f"{self.last} {name}w {name}b", **attrs)
        return self.add("Relu", self.last) if relu else self.last

    def depthwise(self, w: Array, b: Array, **attrs: Any) -> str:
        return self.conv(w, b, group=len(w), pads=[1, 1, 1, 1], **attrs)

    def finish(self, channels: int, classes: int = 5) -> onnx.ModelProto:
        self.constants["fc"] = weights(classes, channels, seed=99)
        self.add("GlobalAveragePool", self.last)
        self.add("Flatten", self.last)
        self.nodes.append(node("Gemm", f"{self.last} fc", "y", transB=1))
        return model(self.nodes, {"x": (1, 3, 12, 12)}, self.constants)


def blanked(w: Array, channels: list[int]) -> Array:
    w = w.copy()
    w[channels] = 0
    return w


def mobilenet(residual: bool) -> onnx.ModelProto:
    """Stem with stride 2, then depthwise and pointwise twice; some channels are zero, some constant, some unread."""
    net = Net()
    bias = weights(8, seed=2)
    bias[[1, 2]] = -0.7  # with weights of zero and a ReLU: always the zero point
    bias[3] = 0.9  # always 0.9, which is not what padding holds
    net.conv(blanked(weights(8, 3, 3, 3, seed=1), [1, 2, 3]), bias, strides=[2, 2], pads=[1, 1, 1, 1])
    dw_bias = weights(8, seed=4)
    dw_bias[1] = 0.5  # the constant zero of channel 1 becomes the constant 0.5 of the next
    start = net.depthwise(blanked(weights(8, 1, 3, 3, seed=3), [5]), dw_bias)
    net.conv(weights(16, 8, 1, 1, seed=5), weights(16, seed=6))
    net.depthwise(weights(16, 1, 3, 3, seed=7), weights(16, seed=8), strides=[1, 1])
    w = weights(8, 16, 1, 1, seed=9)
    w[:, [0, 9]] = 0  # channels 0 and 9 are never read
    last = net.conv(w, weights(8, seed=10), relu=False)
    if residual:
        net.add("Add", f"{start} {last}")
        net.conv(weights(12, 8, 1, 1, seed=11), weights(12, seed=12), strides=[2, 2])
    return net.finish(12 if residual else 8)


def channels(graph: Graph) -> dict[str, int]:
    return {n.origins[0]: graph.values[n.outputs[0]].shape[-1] for n in graph.nodes if ops()[n.op].has_weights}


def test_mobilenet(tmp_path: Path) -> None:
    after, savings = simplified(mobilenet(residual=False), tmp_path)
    # Stem: 1, 2 and 5 go (5: constant after the depthwise). 3 is not zero: the border of the depthwise reads it. Second
    # block: 0 and 9 are never read, and four channels are proved to be never above 0 by their bounds; two of these six
    # stay, because twelve are whole vectors of four.
    assert channels(after) == {"n_v0": 5, "n_v2": 5, "n_v4": 12, "n_v6": 12, "n_v8": 8, "n_y": 5}
    # By hand, 6 x 6 positions: stem, depthwise, pointwise twice, classifier.
    macs = [36 * (27 * a + 9 * a + a * b + 9 * b + b * 8) + 8 * 5 for a, b in ((8, 16), (5, 12))]
    weights_and_biases = [
        (27 * a + 9 * a + a * b + 9 * b + b * 8 + 8 * 5) + 4 * (2 * a + 2 * b + 8 + 5) for a, b in ((8, 16), (5, 12))
    ]
    assert [savings.macs_before, savings.macs_after] == macs == [24808, 16024]
    assert [savings.weights_before, savings.weights_after] == weights_and_biases == [972, 672]
    assert savings.kept["v1"] == (0, 3, 4, 6, 7)


def test_mobilenet_with_a_residual_add_keeps_what_the_add_needs(tmp_path: Path) -> None:
    after, _ = simplified(mobilenet(residual=True), tmp_path)
    assert channels(after) == {"n_v0": 8, "n_v2": 8, "n_v4": 12, "n_v6": 12, "n_v8": 8, "n_v10": 12, "n_y": 5}


@pytest.mark.cc
def test_compiled_and_run(tmp_path: Path) -> None:
    """The C of the smaller network is right layer by layer; the manifest and the printed table list the savings."""
    data = tmp_path / "data.npz"
    np.savez(data, x=np.random.default_rng(8).uniform(-2, 3, (6, 3, 12, 12)).astype(np.float32))
    bundle = compile_model(
        saved(mobilenet(residual=True), tmp_path), tmp_path / "bundle", CompileOptions("generic"), data=data
    )
    saving = bundle.manifest["simplified"]
    assert saving["channels"] > 0
    assert saving["macs_after"] == bundle.manifest["macs"] < saving["macs_before"]
    assert validate(bundle, data, "host", layers=True).bit_exact
    # 12 of the 16 channels between the last two pointwise layers stay, and 8, 8, 8, 12, 5 elsewhere.
    assert report._saved(saving) == [
        ("channels removed", "8, constant or unread"),
        ("  multiply-accumulates", "25,692 -> 22,092 (-14.0 %)"),
        ("  weights and biases", "1,136 B -> 1,004 B (-11.6 %)"),
    ]
    layers = {layer.name: layer for layer in debug(bundle, data, "host").layers}
    assert all(
        layer.cumulated for name, layer in layers.items() if name.startswith("n_v") and not name.endswith("/sum")
    )


def small(*layers: str, w: Mapping[str, Any], inputs: Mapping[str, Any] | None = None) -> onnx.ModelProto:
    """`op inputs -> output [attr=value ...]` line by line."""
    nodes = []
    for layer in layers:
        head, tail = layer.split(" -> ")
        output, *attrs = tail.split(" ", 1)
        op, names = head.split(" ", 1)
        nodes.append(node(op, names, output.replace(",", " "), **(eval(f"dict({attrs[0]})") if attrs else {})))
    return model(nodes, inputs or {"x": (1, 4, 6, 6)}, w)


ZERO_OUT = {"w": blanked(weights(6, 4, 3, 3), [0, 2]), "b": np.array([1, 0, -1, 0, 0, 0], np.float32)}
NEXT = {"v": weights(5, 6, 3, 3, seed=2), "c": weights(5, seed=3)}

UNREAD = (np.arange(9) // 3 != 1).astype(np.float32)[:, None, None]
EVERY_OTHER = (np.arange(8) % 2).astype(np.float32)[:, None, None]
KEPT_OUT = np.array([0, 1, 0, 1, 1, 1], np.float32)[:, None, None]

CASES = [
    # name, layers, constants, channels after of each layer with weights
    ("constants into an unpadded conv", ("Conv x w b -> h", "Conv h v c -> y"), ZERO_OUT | NEXT, [4, 5]),
    ("a constant is not what the padding holds", ("Conv x w b -> h", "Conv h v c -> y pads=[1, 1, 1, 1]"),
     ZERO_OUT | NEXT, [6, 5]),
    ("a ReLU makes it the zero point", ("Conv x w b -> g", "Relu g -> h", "Conv h v c -> y pads=[1, 1, 1, 1]"),
     ZERO_OUT | NEXT, [5, 5]),
    ("through a max pool", ("Conv x w b -> g", "MaxPool g -> h kernel_shape=[2, 2]", "Conv h v c -> y"),
     ZERO_OUT | NEXT, [4, 5]),
    ("through an average pool with padding", ("Conv x w b -> g", "Relu g -> r",
     "AveragePool r -> h kernel_shape=[3, 3], pads=[1, 1, 1, 1]", "Conv h v c -> y"), ZERO_OUT | NEXT, [4, 5]),
    ("padding counts in an average", ("Conv x w b -> g", "Relu g -> r",
     "AveragePool r -> h kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1", "Conv h v c -> y"),
     ZERO_OUT | NEXT, [5, 5]),
    ("through a table", ("Conv x w b -> g", "Sigmoid g -> h", "Conv h v c -> y"), ZERO_OUT | NEXT, [4, 5]),
    ("through a scale and shift of its own", ("Conv x w b -> g", "Tanh g -> t", "Mul t s -> h", "Conv h v c -> y"),
     ZERO_OUT | NEXT | {"s": weights(6, 1, 1, seed=7)}, [4, 4, 5]),
    ("through a concat of channels", ("Conv x w b -> a", "Conv x d b -> e", "Concat a e -> h axis=1", "Conv h v c -> y"),
     ZERO_OUT | {"d": weights(6, 4, 3, 3, seed=9), "v": weights(5, 12, 3, 3), "c": weights(5)}, [4, 6, 5]),
    ("through an add of two constants", ("Conv x w b -> a", "Conv x w b -> e", "Add a e -> h", "Conv h v c -> y"),
     ZERO_OUT | NEXT, [4, 4, 5]),
    ("an add of a constant and something stays", ("Conv x w b -> a", "Conv x d b -> e", "Add a e -> h", "Conv h v c -> y"),
     ZERO_OUT | NEXT | {"d": weights(6, 4, 3, 3, seed=9)}, [6, 6, 5]),
    ("behind a flatten", ("Conv x w b -> h", "Flatten h -> f", "Gemm f v -> y transB=1"),
     ZERO_OUT | {"v": weights(3, 96)}, [4, 3]),
    ("behind a global pool and a flatten", ("Conv x w b -> g", "GlobalAveragePool g -> h", "Flatten h -> f",
     "Gemm f v -> y transB=1"), ZERO_OUT | {"v": weights(3, 6)}, [4, 3]),
    ("a pad of its own", ("Conv x w b -> g", "Relu g -> r", "Pad r p -> h", "MaxPool h -> m kernel_shape=[2, 2]",
     "Conv m v c -> y"), ZERO_OUT | NEXT | {"p": [0, 0, 1, 1, 0, 0, 1, 1]}, [5, 5]),
    ("nobody reads them", ("Conv x w b -> h", "Conv h v c -> y"),
     {"w": weights(6, 4, 3, 3), "b": weights(6), "v": weights(5, 6, 3, 3) * np.arange(6).clip(0, 1)[:, None, None].astype(np.float32), "c": weights(5)}, [5, 5]),
    ("an output of the graph stays", ("Conv x w b -> y",), ZERO_OUT, [6]),
    ("all channels are constant", ("Conv x w b -> h", "Conv h v c -> y"),
     NEXT | {"w": np.zeros((6, 4, 3, 3), np.float32), "b": weights(6)}, [1, 5]),
    ("groups keep as many inputs each", ("Conv x w b -> h", "Conv h v c -> y group=2"),
     ZERO_OUT | {"v": weights(6, 3, 3, 3), "c": weights(6)}, [6, 6]),
    ("one constant in each group", ("Conv x w b -> h", "Conv h v c -> y group=3"),
     ZERO_OUT | {"w": blanked(weights(6, 4, 3, 3), [0, 3, 4]), "v": weights(6, 2, 3, 3), "c": weights(6)}, [3, 6]),
    ("a group that nobody reads", ("Conv x w b -> h", "Conv h v c -> k group=3", "Conv k u -> y"),
     {"w": weights(6, 4, 3, 3), "b": weights(6), "v": weights(9, 2, 3, 3), "c": weights(9), "u": weights(5, 9, 1, 1) * UNREAD}, [4, 6, 5]),
    ("one group is left", ("Conv x w b -> h", "Conv h v c -> k group=2", "Conv k u -> y"),
     {"w": weights(6, 4, 3, 3), "b": weights(6), "v": weights(6, 3, 3, 3), "c": weights(6), "u": weights(5, 6, 1, 1) * UNREAD[:6]}, [3, 3, 5]),
    ("outputs of groups that nobody reads", ("Conv x w b -> h", "Conv h v c -> k group=2", "Conv k u -> y"),
     {"w": weights(6, 4, 3, 3), "b": weights(6), "v": weights(8, 3, 3, 3), "c": weights(8), "u": weights(5, 8, 1, 1) * EVERY_OTHER}, [6, 4, 5]),
    ("a constant output of a group", ("Conv x w b -> h", "Conv h v c -> k group=2", "Conv k u -> y"),
     {"w": weights(6, 4, 3, 3), "b": weights(6), "v": blanked(weights(8, 3, 3, 3), [1, 6]), "c": weights(8), "u": weights(5, 8, 1, 1)}, [6, 6, 5]),
    ("a transposed convolution reads a constant that is the zero point",
     ("Conv x w b -> g", "Relu g -> h", "ConvTranspose h t c -> y strides=[2, 2]"),
     ZERO_OUT | {"t": weights(6, 5, 3, 3), "c": weights(5)}, [5, 5]),
    ("a transposed convolution reads any other constant", ("Conv x w b -> h", "ConvTranspose h t c -> y strides=[2, 2]"),
     ZERO_OUT | {"t": weights(6, 5, 3, 3), "c": weights(5)}, [6, 5]),
    ("constants from a transposed convolution", ("ConvTranspose x t b -> h strides=[2, 2]", "Conv h v c -> y"),
     ZERO_OUT | NEXT | {"t": weights(4, 6, 3, 3) * KEPT_OUT}, [4, 5]),
    ("a transposed convolution of groups", ("Conv x w b -> h", "ConvTranspose h t c -> k group=3", "Conv k u -> y"),
     {"w": weights(6, 4, 3, 3), "b": weights(6), "t": weights(6, 3, 3, 3), "c": weights(9), "u": weights(5, 9, 1, 1) * UNREAD}, [4, 6, 5]),
    ("what a slice leaves out", ("Conv x w b -> h", "Slice h i j a -> s", "Conv s v c -> y"),
     NEXT | {"w": weights(6, 4, 3, 3), "b": weights(6), "i": [2], "j": [5], "a": [1], "v": weights(5, 3, 3, 3)}, [3, 5]),
    ("a constant inside a slice", ("Conv x w b -> h", "Slice h i j a -> s", "Conv s v c -> y"),
     NEXT | ZERO_OUT | {"i": [1], "j": [5], "a": [1], "v": weights(5, 4, 3, 3)}, [3, 5]),
    ("two halves, one of which is read", ("Conv x w b -> h", "Split h -> s,t axis=1", "Conv s v c -> y"),
     NEXT | {"w": weights(6, 4, 3, 3), "b": weights(6), "v": weights(5, 3, 3, 3)}, [3, 5]),
    ("a slice in steps keeps all", ("Conv x w b -> h", "Slice h i j a d -> s", "Conv s v c -> y"),
     NEXT | ZERO_OUT | {"i": [1], "j": [6], "a": [1], "d": [2], "v": weights(5, 3, 3, 3)}, [6, 5]),
    ("depthwise with two outputs per input", ("Conv x w b -> g", "Relu g -> h", "Conv h v c -> k group=6", "Conv k u -> y"),
     ZERO_OUT | {"v": weights(12, 1, 3, 3), "c": weights(12), "u": weights(5, 12, 1, 1)}, [4, 8, 5]),
    ("a product with a gate", ("Conv x w b -> h", "GlobalAveragePool h -> p", "Sigmoid p -> q", "Mul h q -> m", "Conv m v c -> y"),
     ZERO_OUT | NEXT, [4, 5]),
    ("a softmax needs what may add to its sum", ("Flatten x -> f", "Gemm f v c -> g transB=1", "Softmax g -> s", "Gemm s u -> y"),
     {"v": weights(6, 144) * np.float32(0.02), "c": np.array([0, 0, -300, 0, 20, -9], np.float32), "u": weights(6, 3)}, [4, 3]),
    ("a softmax whose outputs are given out", ("Flatten x -> f", "Gemm f v c -> g transB=1", "Softmax g -> y"),
     {"v": weights(6, 144) * np.float32(0.02), "c": np.array([0, 0, -300, 0, 20, 0], np.float32)}, [6]),
    ("a softmax needs all", ("Flatten x -> f", "Gemm f v c -> g transB=1", "Softmax g -> s", "Gemm s u -> y"),
     {"v": blanked(weights(6, 144), [1]), "c": weights(6), "u": weights(6, 3)}, [6, 3]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "layers", "constants", "expected"), CASES, ids=[c[0] for c in CASES])
def test_channels(
    name: str, layers: tuple[str, ...], constants: Mapping[str, Any], expected: list[int], tmp_path: Path
) -> None:
    after, _ = simplified(small(*layers, w=constants), tmp_path)
    again, _ = drop_channels(after)
    assert [again.values[n].shape for n in again.values] == [after.values[n].shape for n in after.values]
    found = [after.values[n.outputs[0]].shape[-1] for n in after.nodes if ops()[n.op].has_weights]
    assert found == expected


# channels of a tensor, needed -> kept
FILLED = [
    (32, 31, 32), (64, 61, 64), (64, 60, 64), (128, 122, 128), (100, 97, 100), (16, 10, 12), (12, 10, 12), (8, 7, 8), (8, 5, 5),
    (11, 10, 10), (31, 30, 30), (32, 20, 20), (32, 16, 16), (4, 3, 3), (4, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("count", "live", "kept"), FILLED)
def test_dead_channels_fill_vectors(count: int, live: int, kept: int) -> None:
    assert filling(live, count) == kept


def test_a_channel_stays_that_dictates_the_shift(tmp_path: Path) -> None:
    """Its scale is the only one of 1/2 or more: without it the multipliers of all others would be rounded finer."""
    before = quantized(small("Conv x w b -> h", "Conv h v c -> y", w=ZERO_OUT | NEXT), tmp_path)
    first = next(n for n in before.nodes if n.op == "Conv")
    w = before.values[first.inputs[1]]
    assert w.qtype is not None
    y, x = (before.values[name].qtype for name in (first.outputs[0], first.inputs[0]))
    assert x is not None
    assert y is not None
    scale = list(w.qtype.scale)
    scale[0] = 1.5 * y.scale[0] / x.scale[0]
    values = {**before.values, w.name: replace(w, qtype=replace(w.qtype, scale=tuple(scale)))}
    before = replace(before, values=values)
    after, _ = simplify(before)
    same_bits(before, after)
    assert [after.values[n.outputs[0]].shape[-1] for n in after.nodes if n.op == "Conv"] == [5, 5]


def test_asymmetric_weights(tmp_path: Path) -> None:
    """A weight is zero where it equals its zero point."""
    before = quantized(small("Conv x w b -> h", "Conv h v c -> y", w=ZERO_OUT | NEXT), tmp_path)
    values = dict(before.values)
    for name, value in before.values.items():
        if value.qtype is not None and value.qtype.axis == 0:
            zero = tuple(range(-3, len(value.qtype.scale) - 3))
            values[name] = replace(value, qtype=replace(value.qtype, zero_point=zero))
    before = replace(before, values=values)
    after, _ = simplify(before)
    same_bits(before, after)
    assert [after.values[n.outputs[0]].shape[-1] for n in after.nodes if n.op == "Conv"] == [4, 5]


@settings(max_examples=40)
@given(data=st.data())
def test_random_networks(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Convolutions of all kinds in a row, with residual adds and squares, and channels blanked at random: `simplified` compares the bits."""
    net, count, rng = Net(), 3, np.random.default_rng(data.draw(st.integers(0, 2**16)))
    for _ in range(data.draw(st.integers(2, 5))):
        kinds = ["conv", "pointwise", "depthwise", "residual", "pool", "slice", "transposed", "square"]
        kind = data.draw(st.sampled_from([*kinds, "groups"] if count % 2 == 0 else kinds))
        before, pads = net.last, data.draw(st.sampled_from([0, 1]))
        if kind == "pool":
            op = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
            net.add(op, before, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            continue
        if kind == "square":
            net.add("Mul", f"{before} {before}")
            continue
        if kind == "slice":
            start = data.draw(st.integers(0, count - 1))
            net.slice(start, count)
            count -= start
            continue
        if kind == "transposed":
            outputs = data.draw(st.integers(1, 5))
            w = rng.normal(0, 0.3, (count, outputs, 2, 2)) * (rng.random((count, outputs, 1, 1)) < 0.6)
            net.conv(
                w * (rng.random((1, outputs, 1, 1)) < 0.7),
                rng.normal(0, 0.5, outputs),
                op="ConvTranspose",
                strides=[2, 2],
            )
            count = outputs
            continue
        outputs = count if kind in ("depthwise", "residual") else data.draw(st.integers(1, 7))
        outputs += outputs % 2 if kind == "groups" else 0
        size = 1 if kind == "pointwise" else 3
        group = {"depthwise": count, "groups": 2}.get(kind, 1)
        inner = count // group
        w = rng.normal(0, 0.4, (outputs, inner, size, size)) * (rng.random((outputs, 1, 1, 1)) < 0.6)
        w = w if kind == "depthwise" else w * (rng.random((1, inner, 1, 1)) < 0.8)
        keep = {"pads": [1] * 4} if kind == "residual" or pads else {}
        net.conv(
            w, rng.normal(0, 0.5, outputs), relu=data.draw(st.booleans()), group=group, **keep if size == 3 else {}
        )
        count = outputs
        if kind == "residual":
            net.add("Add", f"{before} {net.last}")
    simplified(net.finish(count), tmp_path_factory.mktemp("net"))


T1, T2, WIDE = QType("int8", (0.02,), (3,)), QType("int8", (0.01,), (-5,)), QType("int8", (0.5,), (0,))


def graph_of(nodes: list[Node], types: Mapping[str, QType], shape: tuple[int, ...] = (1, 4)) -> Graph:
    values = {name: Value(name, shape, qtype=qtype) for name, qtype in types.items()}
    return verify(Graph("g", tuple(nodes), values, ("x",), ("y",)))


def rescale(x: str, y: str) -> Node:
    return Node(f"r_{y}", "Rescale", (x,), (y,))


def unary(x: str, y: str) -> Node:
    return Node(f"u_{y}", "Tanh", (x,), (y,))


def relu(x: str, y: str, low: float = 0.0) -> Node:
    return Node(f"c_{y}", "Clip", (x,), (y,), {"min": low, "max": np.inf})


RESCALES = [
    ("same type", [rescale("x", "a"), unary("a", "y")], {"x": T1, "a": T1, "y": T2}, ["Tanh"]),
    ("up", [unary("x", "a"), rescale("a", "y")], {"x": T1, "a": T1, "y": T2}, ["Tanh"]),
    ("not up: the first clips", [unary("x", "a"), rescale("a", "y")], {"x": T1, "a": T2, "y": T1}, ["Tanh", "Rescale"]),
    ("down", [rescale("x", "a"), unary("a", "y")], {"x": T1, "a": WIDE, "y": T2}, ["Tanh"]),
    ("not down: the second clips", [rescale("x", "a"), unary("a", "y")], {"x": T1, "a": T2, "y": T2},
     ["Rescale", "Tanh"]),
    ("an input and an output: nothing can go", [rescale("x", "y")], {"x": T1, "y": T1}, ["Rescale"]),
    ("relu of what is not negative", [relu("x", "a"), relu("a", "y")], {"x": T1, "a": T1, "y": T1}, ["Clip"]),
    ("relu of what may be negative", [relu("x", "a", -1.0), relu("a", "y")], {"x": T1, "a": T1, "y": T1},
     ["Clip", "Clip"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "nodes", "types", "expected"), RESCALES, ids=[c[0] for c in RESCALES])
def test_rescales_and_clips(name: str, nodes: list[Node], types: Mapping[str, QType], expected: list[str]) -> None:
    before = graph_of(nodes, types)
    after, _ = simplify(before)
    assert [n.op for n in after.nodes] == expected
    feed = {"x": np.arange(-128, 128).astype(np.int8).reshape(64, 4)[::16].reshape(4, 4)[:1]}
    found, reference = (run_int(lower(g), feed)["y"] for g in (after, before))
    assert np.abs(found.astype(int) - reference).max() <= 1 + (T2.scale[0] < 0.02) * 1


def test_the_types_of_the_model_stay() -> None:
    before = graph_of([unary("x", "a"), rescale("a", "y")], {"x": T1, "a": T1, "y": T2})
    after, _ = simplify(before, {"a"})
    assert [n.op for n in after.nodes] == ["Tanh", "Rescale"]


def test_parts_of_a_concat_are_written_in_its_type() -> None:
    nodes = [unary("x", "a"), unary("x", "b"), Node("cat", "Concat", ("a", "b"), ("y",), {"axis": 1})]
    types = {"x": T1, "a": T2, "b": T1, "y": T1}
    values = {n: Value(n, (1, 8) if n == "y" else (1, 4), qtype=q) for n, q in types.items()}
    before = verify(Graph("g", tuple(nodes), values, ("x",), ("y",)))
    after, _ = simplify(before)
    assert after.values["a"].qtype == T1
    assert simplify(before, {"a"})[0].values["a"].qtype == T2
    x = np.array([[-128, -3, 40, 127]], np.int8)
    exact = T1.quantize(np.tanh(T1.dequantize(x)))
    assert np.array_equal(run_int(lower(after), {"x": x})["y"][:, :4], exact)


def test_constants_have_intervals() -> None:
    nodes = [Node("add", "Add", ("x", "k"), ("y",))]
    values = {name: Value(name, (1, 4), qtype=qtype) for name, qtype in (("x", T1), ("y", WIDE))}
    values["k"] = Value("k", (1, 4), qtype=T2, const=Const(np.array([[0.0, 1.0, -1.0, 0.5]], np.float32)))
    graph = verify(Graph("g", tuple(nodes), values, ("x",), ("y",)))
    bound = intervals(graph)["y"]
    assert (bound.low < bound.high).all()
    same_bits(graph, simplify(graph)[0])


@pytest.mark.parametrize(("op", "lowest"), [("Mul", 0), ("Add", -128), ("Sub", 0)])
def test_an_operand_that_is_there_twice_has_one_value(op: str, lowest: int) -> None:
    """x * x is least where x is 0, which is between the ends of x; x - x is always 0."""
    values = {
        "x": Value("x", (1, 4), qtype=QType("int8", (1.0,), (0,))),
        "y": Value("y", (1, 4), qtype=QType("int8", (256.0,), (0,))),
    }
    if op != "Mul":
        values["y"] = Value("y", (1, 4), qtype=QType("int8", (2.0,), (0,)))
    graph = verify(Graph("g", (Node("y", op, ("x", "x"), ("y",)),), values, ("x",), ("y",)))
    bound = intervals(graph)["y"]
    assert (bound.low == lowest).all()
    same_bits(graph, simplify(graph)[0])


def test_a_scalar_has_no_channels(tmp_path: Path) -> None:
    """A network with an output that is a constant scalar; the domain keeps it from being folded."""
    nodes = [
        node("DequantizeLinear", "o s", "d"), node("Tanh", "d", "r"), node("QuantizeLinear", "r t o", "q", domain="com.microsoft"),
        node("DequantizeLinear", "q t o", "y"), node("Relu", "x", "z"),
    ]  # fmt: skip
    constants = {"s": np.float32(0.02), "t": np.float32(0.05), "o": np.int8(-10)}
    proto = model(nodes, {"x": (1, 3, 8, 8)}, constants, outputs=("y", "z"))
    np.save(tmp_path / "data.npy", np.random.default_rng(0).normal(size=(8, 3, 8, 8)).astype(np.float32))
    options = CompileOptions("x86-64")
    bundle = compile_model(saved(proto, tmp_path), tmp_path / "out", options, data=tmp_path / "data.npy")
    assert bundle.graph.values["y"].shape == ()
