"""Random networks on windows of a stream, and a recurrent one with a state. In: a kind and a seed. Out: the model, and what --stream takes.

Layers, padding, strides, dilations, branches, hop and tail are drawn; every network is one that a stream takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from small_models import model, node, weights

from glowembed.graph.ir import Array

KINDS = ("tcn", "residual", "branches", "squeeze", "images", "time last", "channels last")
TAILS = ("mean", "maximum", "both", "fc", "rows")


@dataclass
class Drawn:
    """A network that is being drawn. rows: of time, now. along: the axis of time of an image among its rows and columns; None: a signal."""

    generator: np.random.Generator
    rows: int
    channels: int
    width: int | None = None
    time_last: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def one_of(self, *numbers: int) -> int:
        return int(self.generator.choice(numbers))

    def add(self, op: str, inputs: str, **attrs: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, name, **attrs))
        return name

    def constant(self, array: Array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = array
        return name

    def both(self, time: int, other: int) -> list[int]:
        """Numbers for the axes of space."""
        return [time] if self.width is None else [other, time] if self.time_last else [time, other]

    def conv(self, x: str, out: int, taps: int, how: str, stride: int = 1, apart: int = 1, group: int = 1) -> str:
        """A convolution in time, over three columns of images; how: same, causal, valid, or late (padding below alone)."""
        reach = (taps - 1) * apart
        above = {"same": reach // 2, "causal": reach}.get(how, 0)
        below = {"same": reach - reach // 2, "late": reach}.get(how, 0)
        side = 1 if self.width is not None else 0
        w = weights(out, self.channels // group, *self.both(taps, 3), seed=int(self.generator.integers(1000)))
        pads = [*self.both(above, side), *self.both(below, side)]
        y = self.add(
            "Conv",
            f"{x} {self.constant(w)}",
            pads=pads,
            group=group,
            strides=self.both(stride, 1),
            dilations=self.both(apart, 1),
        )
        self.rows, self.channels = (self.rows + above + below - reach - 1) // stride + 1, out
        return y

    def layer(
        self, x: str, hows: Sequence[str] = ("same", "causal", "valid", "late"), strides: Sequence[int] = (1, 1, 1, 2)
    ) -> str:
        """A dense or a separable convolution with an activation, with as many taps as the rows allow."""
        how = str(self.generator.choice(hows))
        taps = self.one_of(1, 2, 3, 5)
        apart = self.one_of(1, 1, 2, 3)
        if (taps - 1) * apart > self.rows // 4:
            taps, apart = 2, 1
        stride = self.one_of(*strides) if self.rows > 12 else 1
        if self.one_of(0, 1):
            x = self.conv(x, self.channels, taps, how, stride, apart, self.channels)
            return self.add("Relu", self.conv(x, self.one_of(4, 6, 8), 1, "valid"))
        x = self.conv(x, self.one_of(4, 6, 8), taps, how, stride, apart)
        return self.add(str(self.generator.choice(["Relu", "Tanh", "Sigmoid"])), x)

    def pooled(self, x: str) -> str:
        """A pool of two rows."""
        self.rows //= 2
        op = str(self.generator.choice(["MaxPool", "AveragePool"]))
        return self.add(op, x, kernel_shape=self.both(2, 1), strides=self.both(2, 1))

    def residual(self, x: str) -> str:
        channels = self.channels
        y = self.conv(x, channels, 3, "same", group=channels)
        return self.add("Add", f"{self.conv(self.add('Relu', y), channels, 1, 'valid')} {x}")

    def branches(self, x: str) -> str:
        rows, channels = self.rows, self.channels
        a = self.layer(x, ("same", "causal"), (1,))
        first, self.rows, self.channels = self.channels, rows, channels
        b = self.layer(x, ("same", "causal", "late"), (1,))
        self.channels += first
        return self.add("Concat", f"{a} {b}", axis=1)

    def squeeze(self, x: str) -> str:
        """A gate by the mean over time, which ends the reuse."""
        pooled = self.add("GlobalAveragePool", x)
        ones = [1] * (1 if self.width is None else 2)
        w = self.constant(weights(self.channels, self.channels, *ones, seed=7))
        return self.add("Mul", f"{x} {self.add('Sigmoid', self.add('Conv', f'{pooled} {w}'))}")

    def tail(self, x: str, kind: str) -> str:
        """The outputs: a classifier of a mean, a maximum, both or all rows, or the rows themselves."""
        if kind == "rows":
            return x
        if kind == "fc":
            flat, features = self.add("Flatten", x), self.channels * self.rows * (self.width or 1)
        else:
            ops = {"mean": ["Average"], "maximum": ["Max"], "both": ["Average", "Max"]}[kind]
            flats = [self.add("Flatten", self.add(f"Global{op}Pool", x)) for op in ops]
            flat = flats[0] if len(flats) == 1 else self.add("Concat", " ".join(flats), axis=1)
            features = self.channels * len(flats)
        return self.add("MatMul", f"{flat} {self.constant(weights(features, 3, seed=9))}")


def windowed(kind: str, seed: int) -> tuple[onnx.ModelProto, str]:
    """A network of a kind, and its --stream."""
    generator = np.random.default_rng([KINDS.index(kind), seed])
    image = kind in ("images", "time last", "channels last")
    drawn = Drawn(generator, int(generator.integers(14, 29)), int(generator.choice([1, 3, 4] if image else [3, 5, 8])))
    drawn.width, drawn.time_last = (int(generator.integers(3, 6)) if image else None), kind == "time last"
    rows = drawn.rows
    shape, axis = [1, drawn.channels, *drawn.both(rows, drawn.width or 0)], 3 if kind == "time last" else 2
    x = "x"
    if kind == "channels last":
        shape, axis = [1, rows, drawn.width or 0, drawn.channels], 1
        x = drawn.add("Transpose", "x", perm=[0, 3, 1, 2])
    for number in range(drawn.one_of(1, 2, 3)):
        x = drawn.layer(x)
        if number == 0 and drawn.one_of(0, 0, 1) and drawn.rows > 10:
            x = drawn.pooled(x)
        if kind == "residual" or (image and drawn.one_of(0, 1)):
            x = drawn.residual(x)
        if kind == "branches":
            x = drawn.branches(x)
    if kind == "squeeze":
        x = drawn.layer(drawn.squeeze(x), strides=(1,))
    y = drawn.tail(x, str(generator.choice(TAILS)))
    hop = drawn.one_of(1, 1, 2, 3, 4)
    return model(drawn.nodes, {"x": shape}, drawn.constants, (y,)), f"x:{axis}:{hop}"


def recurrent(seed: int) -> onnx.ModelProto:
    """A GRU or an LSTM of one step, whose states are inputs and outputs, behind a layer and before a classifier."""
    generator = np.random.default_rng(seed)
    features, units = int(generator.integers(3, 9)), int(generator.integers(4, 13))
    kind, gates = [("GRU", 3), ("LSTM", 4)][seed % 2]
    states, lasts = ("h0 c0", "hn cn") if kind == "LSTM" else ("h0", "hn")
    nodes = [
        node(kind, f"x w r b _ {states}", f"all {lasts}", hidden_size=units),
        node("Flatten", "all", "flat"),
        node("MatMul", "flat d", "y"),
    ]
    constants = {
        "w": weights(1, gates * units, features, seed=seed + 1),
        "r": weights(1, gates * units, units, seed=seed + 2),
        "b": weights(1, 2 * gates * units, seed=seed + 3),
        "d": weights(units, 3, seed=seed + 4),
    }
    inputs = {"x": [1, 1, features], **{name: [1, 1, units] for name in states.split()}}
    return model(nodes, inputs, constants, ("y", *lasts.split()))
