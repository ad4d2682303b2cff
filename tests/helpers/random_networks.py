"""Random networks for the planner. In: a random.Random, how many layers or blocks. Out: nodes and constants for small_models.model.

The input is x, 15 x 15 with one channel; the output is y.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onnx import NodeProto
from small_models import node, weights

Network = Callable[[random.Random, int], tuple[list[NodeProto], dict[str, Any]]]


def network(rng: random.Random, layers: int) -> tuple[list[NodeProto], dict[str, Any]]:
    """A network of random layers: convolutions, pools, and additions of values of the same size."""
    nodes, constants, channels, size = [], {}, {"x": 1}, {"x": 15}
    last = "x"
    for i in range(layers):
        kind = rng.choice(["conv", "conv", "depthwise", "add", "pool", "relu"])
        y = f"v{i}"
        same = [n for n in channels if n != last and (channels[n], size[n]) == (channels[last], size[last])]
        if kind == "add" and same:
            nodes.append(node("Add", f"{last} {rng.choice(same)}", y))
            channels[y], size[y] = channels[last], size[last]
        elif kind == "pool" and size[last] >= 4:
            nodes.append(node("MaxPool", last, y, kernel_shape=[2, 2], strides=[2, 2]))
            channels[y], size[y] = channels[last], size[last] // 2
        elif kind == "relu":
            nodes.append(node("Sigmoid", last, y))
            channels[y], size[y] = channels[last], size[last]
        else:
            k = rng.choice([1, 3, 5]) if size[last] > 5 else 1
            d = rng.choice([1, 2]) if k == 3 and size[last] > 6 else 1
            s = rng.choice([1, 1, 2]) if size[last] > 6 else 1
            depthwise = kind == "depthwise"
            out = channels[last] if depthwise else rng.choice([4, 8, 12])
            constants[f"w{i}"] = weights(out, 1 if depthwise else channels[last], k, k, seed=i)
            pad = d * (k - 1) // 2
            nodes.append(node("Conv", f"{last} w{i}", y, pads=[pad] * 4, strides=[s, s], dilations=[d, d],
                              group=channels[last] if depthwise else 1))  # fmt: skip
            channels[y], size[y] = out, (size[last] - 1) // s + 1
        last = y
    nodes.append(node("GlobalAveragePool", last, "y"))
    return nodes, constants


def branching(rng: random.Random, blocks: int) -> tuple[list[NodeProto], dict[str, Any]]:
    """Block after block: branches of different depth that are added or concatenated, squeeze and excite gates, splits,
    some of the channels; now and then a stride.
    """
    made = _Made(rng)
    last = made.conv("x", 1, 8, 3)
    kinds = rng.sample(BLOCKS, len(BLOCKS))
    for i in range(blocks):
        last = kinds[i % len(kinds)](made, last)
    made.add("GlobalAveragePool", last, output="y")
    return made.nodes, made.constants


@dataclass
class _Made:
    """Nodes so far; all values between blocks have 8 channels."""

    rng: random.Random
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)

    def add(self, op: str, inputs: str, output: str = "", **attrs: Any) -> str:
        output = output or f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, output, **attrs))
        return output.split()[0]

    def conv(self, x: str, channels: int, out: int, kernel: int, stride: int = 1) -> str:
        name = f"w{len(self.nodes)}"
        self.constants[name] = weights(out, channels, kernel, kernel, seed=len(self.nodes))
        return self.add("Conv", f"{x} {name}", pads=[kernel // 2] * 4, strides=[stride] * 2)

    def branch(self, x: str, channels: int, out: int) -> str:
        """A branch of up to three convolutions."""
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            x = self.conv(x, channels, channels, self.rng.choice([1, 3]))
        return self.conv(x, channels, out, self.rng.choice([1, 3]))


def _residual(made: _Made, x: str) -> str:
    other = x if made.rng.random() < 0.5 else made.branch(x, 8, 8)
    return made.add("Add", f"{made.branch(x, 8, 8)} {other}")


def _concat(made: _Made, x: str) -> str:
    sizes = made.rng.choice([(4, 4), (3, 5), (2, 4, 2)])
    return made.add("Concat", " ".join(made.branch(x, 8, size) for size in sizes), axis=1)


def _gate(made: _Made, x: str) -> str:
    squeezed = made.add("Relu", made.conv(made.add("GlobalAveragePool", x), 8, 4, 1))
    gate = made.add(made.rng.choice(["Sigmoid", "HardSigmoid"]), made.conv(squeezed, 4, 8, 1))
    return made.conv(made.add("Mul", f"{x} {gate}"), 8, 8, 1)


def _split(made: _Made, x: str) -> str:
    left = made.add("Split", x, f"left{len(made.nodes)} right{len(made.nodes)}", axis=1)
    right = left.replace("left", "right")
    sides = made.branch(left, 4, 4), right if made.rng.random() < 0.5 else made.branch(right, 4, 4)
    return made.add("Concat", " ".join(sides), axis=1)


def _channels(made: _Made, x: str) -> str:
    for name, number in (("one", 1), ("six", 6)):
        made.constants[name] = [number]
    return made.branch(made.add("Slice", f"{x} one six one"), 5, 8)


def _smaller(made: _Made, x: str) -> str:
    return made.conv(x, 8, 8, 3, stride=2)


BLOCKS = (_residual, _residual, _concat, _concat, _gate, _split, _channels, _smaller)
