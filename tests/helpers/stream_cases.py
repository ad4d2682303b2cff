"""Networks over time for the tests of streams: what is asked of each, and the share of rows that no hop computes again."""

from __future__ import annotations

from small_models import model, node, weights

from glowembed.graph.ir import Array

ROWS, CHANNELS = 20, 6
FULL, DEPTH = (CHANNELS, 8), (8, 8)
"""Channels of the first layer and of the layers after it."""


def convolution(
    number: int, channels: tuple[int, int], taps: int, **attrs: object
) -> tuple[list[object], dict[str, Array]]:
    """A layer c<number> of the layer before it, and its weights."""
    group = int(attrs.get("group", 1))  # type: ignore[call-overload]
    shape = (channels[1], channels[0] // group, taps)
    name = f"c{number}"
    before = f"r{number - 1}" if number else "x"
    nodes = [node("Conv", f"{before} w{number}", name, **attrs), node("Relu", name, f"r{number}")]
    return nodes, {f"w{number}": weights(*shape, seed=number + 1)}


def chain(*layers: tuple[tuple[int, int], int, dict[str, object]], tail: str = "pool") -> object:
    """Convolutions in time over [1, CHANNELS, ROWS], then a mean or maximum over time or a fully connected layer over all rows."""
    nodes, constants, rows = [], {}, ROWS
    for number, (channels, taps, attrs) in enumerate(layers):
        more, arrays = convolution(number, channels, taps, **attrs)
        nodes += more
        constants |= arrays
        before, after = attrs.get("pads", (0, 0))  # type: ignore[misc]
        (step,), (apart,) = attrs.get("strides", [1]), attrs.get("dilations", [1])  # type: ignore[misc]
        rows = (rows + before + after - (taps - 1) * apart - 1) // step + 1
    last, out = f"r{len(layers) - 1}", layers[-1][0][1]
    nodes += [node("GlobalAveragePool", last, "pooled")] if tail == "pool" else []
    nodes += [node("GlobalMaxPool", last, "pooled")] if tail == "maximum" else []
    features = out * rows if tail == "fc" else out
    nodes += [node("Flatten", last if tail == "fc" else "pooled", "flat"), node("MatMul", "flat d", "y")]
    return model(nodes, {"x": [1, CHANNELS, ROWS]}, {**constants, "d": weights(features, 3, seed=9)})


def causal_layers(rows: int) -> object:
    """Two causal convolutions over so many rows, whose output has all of them."""
    nodes, constants = [], {}
    for number, (channels, attrs) in enumerate([(FULL, {"pads": [2, 0]}), (DEPTH, {"pads": [4, 0], "dilations": [2]})]):
        more, arrays = convolution(number, channels, 3, **attrs)
        nodes += more
        constants |= arrays
    return model(nodes, {"x": [1, CHANNELS, rows]}, constants, ("r1",))


def image() -> object:
    """Two axes, with a residual, a pool and a stride of 2 in time."""
    nodes = [
        node("Conv", "x a", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("Conv", "r b", "d", pads=[1, 1, 1, 1]),
        node("Add", "d r", "sum"),
        node("MaxPool", "sum", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", "m", "p", kernel_shape=[3, 1], strides=[1, 1], pads=[1, 0, 1, 0]),
        node("Sigmoid", "p", "s"),
        node("Flatten", "s", "flat"),
        node("MatMul", "flat e", "y"),
    ]
    constants = {"a": weights(5, 3, 3, 3), "b": weights(5, 5, 3, 3, seed=2), "e": weights(5 * 10 * 2, 3, seed=3)}
    return model(nodes, {"x": [1, 3, ROWS, 4]}, constants)


def pooled_image() -> object:
    """Two axes with padding at both ends, and the mean of the last layer."""
    nodes = [
        node("Conv", "x a", "c", pads=[2, 1, 2, 1], strides=[2, 1]),
        node("Relu", "c", "r"),
        node("Conv", "r b", "d", pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", "d", "p"),
        node("Flatten", "p", "flat"),
        node("MatMul", "flat e", "y"),
    ]
    constants = {"a": weights(5, 3, 5, 3), "b": weights(5, 5, 3, 3, seed=2), "e": weights(5, 3, seed=3)}
    return model(nodes, {"x": [1, 3, 3 * ROWS, 4]}, constants)


def time_last() -> object:
    """[1, 1, bands, time] as audio networks of PyTorch have it: strides along bands, and along time in a pool."""
    nodes = [
        node("Conv", "x a", "c", pads=[1, 1, 1, 1], strides=[2, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "m", kernel_shape=[1, 2], strides=[1, 2]),
        node("Conv", "m b", "d", group=5, pads=[1, 0, 1, 0]),
        node("GlobalAveragePool", "d", "p"),
        node("Flatten", "p", "flat"),
        node("MatMul", "flat e", "y"),
    ]
    constants = {"a": weights(5, 1, 3, 3), "b": weights(5, 1, 3, 3, seed=2), "e": weights(5, 3, seed=3)}
    return model(nodes, {"x": [1, 1, 7, ROWS]}, constants)


def cropped(first: int, behind: int, tail: str) -> object:
    """A residual around a convolution without padding, whose crop takes all rows but `first` above and `behind` below."""
    taps, rows = first + behind + 1, ROWS - 2 - first - behind
    nodes = [
        node("Conv", "x a", "c"),
        node("Relu", "c", "r"),
        node("Conv", "r b", "d", group=8),
        node("Slice", "r from to axes", "s"),
        node("Add", "d s", "sum"),
        *([node("Conv", "sum f", "e", pads=[2, 0])] if tail == "causal" else []),
        node(tail if tail.startswith("Global") else "Identity", "e" if tail == "causal" else "sum", "p"),
        node("Flatten", "p", "flat"),
        node("MatMul", "flat g", "y"),
    ]
    features = 8 if tail.startswith("Global") else 8 * rows
    constants = {
        "a": weights(8, CHANNELS, 3),
        "b": weights(8, 1, taps, seed=2),
        "f": weights(8, 8, 3, seed=4),
        "g": weights(features, 3, seed=3),
    }
    slices = {"from": [first], "to": [first + rows], "axes": [2]}
    return model(nodes, {"x": [1, CHANNELS, ROWS]}, {**constants, **slices})


def every(step: int, first: int, pads: int, tail: str) -> object:
    """Every so many rows of a layer, then a layer without padding, and a mean, a maximum or all rows."""
    rows = len(range(first, ROWS - 2 + 2 * pads, step)) - 1
    nodes = [
        node("Conv", "x a", "c", pads=[pads, pads]),
        node("Relu", "c", "r"),
        node("Slice", "r from to axes steps", "s"),
        node("Conv", "s b", "d"),
        node(tail, "d", "p"),
        node("Flatten", "p", "flat"),
        node("MatMul", "flat g", "y"),
    ]
    features = DEPTH[1] * (1 if tail.startswith("Global") else rows)
    constants = {"a": weights(8, CHANNELS, 3), "b": weights(8, 8, 2, seed=2), "g": weights(features, 3, seed=3)}
    slices = {"from": [first], "to": [ROWS], "axes": [2], "steps": [step]}
    return model(nodes, {"x": [1, CHANNELS, ROWS]}, {**constants, **slices})


def mean_of_input() -> object:
    """Nothing but a mean over time and a classifier."""
    nodes = [node("ReduceMean", "x", "m", axes=[1], keepdims=0), node("MatMul", "m d", "y")]
    return model(nodes, {"x": [1, ROWS, CHANNELS]}, {"d": weights(CHANNELS, 3)})


def mean_and_maximum() -> object:
    """Both over time, of images, so that each reads the rows under another shape."""
    nodes = [
        node("Conv", "x a", "c", strides=[2, 1]),
        node("ReduceMean", "c", "m", axes=[2], keepdims=0),
        node("ReduceMax", "c", "n", axes=[2], keepdims=0),
        node("Concat", "m n", "both", axis=1),
        node("Flatten", "both", "flat"),
        node("MatMul", "flat d", "y"),
    ]
    return model(nodes, {"x": [1, 1, ROWS + 1, 4]}, {"a": weights(12, 1, 3, 1), "d": weights(96, 3, seed=2)})


VALID = chain((FULL, 3, {}), (DEPTH, 5, {"group": 8}), (DEPTH, 1, {}), tail="fc")
NETWORKS = {
    "valid": (VALID, "x:2:1", 0.35),
    "valid, hop 3": (VALID, "x:2:3", 0.6),
    "same": (chain((FULL, 3, {"pads": [1, 1]}), (DEPTH, 3, {"group": 8, "pads": [1, 1]})), "x:2:1", 0.35),
    "causal": (chain((FULL, 3, {"pads": [2, 0]}), (DEPTH, 3, {"pads": [4, 0], "dilations": [2]})), "x:2:2", 0.75),
    "stride": (chain((FULL, 4, {"strides": [2]}), (DEPTH, 3, {"pads": [1, 1]})), "x:2:4", 0.9),
    "phases of two strides": (
        chain((FULL, 4, {"strides": [2]}), (DEPTH, 3, {"strides": [2]}), tail="maximum"),
        "x:2:1",
        0.5,
    ),
    "phases, hop 3": (chain((FULL, 4, {"strides": [2]}), (DEPTH, 3, {"pads": [1, 1]}), tail="fc"), "x:2:3", 0.9),
    "image": (image(), "x:2:2", 0.75),
    "time last": (time_last(), "x:3:2", 0.4),
    "a crop at both ends": (cropped(2, 2, "GlobalAveragePool"), "x:2:1", 0.2),
    "a crop at the begin": (cropped(4, 0, "GlobalMaxPool"), "x:2:3", 0.3),
    "a crop at the end, then padding": (cropped(0, 3, "causal"), "x:2:2", 0.5),
    "every second row": (every(2, 1, 0, "Identity"), "x:2:4", 0.35),
    "every second row, phases": (every(2, 0, 0, "GlobalAveragePool"), "x:2:1", 0.2),
    "every third row, padding": (every(3, 2, 1, "GlobalMaxPool"), "x:2:3", 0.4),
    "mean of the input": (mean_of_input(), "x:1:3", 1.0),
    "mean and maximum": (mean_and_maximum(), "x:2:3", 0.9),
    "early tops": (pooled_image(), "x:2:2", 0.4),
    "early tops, phases": (pooled_image(), "x:2:1", 0.4),
    "taps far apart": (chain((FULL, 3, {}), (DEPTH, 5, {"dilations": [4]}), tail="maximum"), "x:2:1", 0.95),
    "taps far apart, hop 2": (chain((FULL, 3, {"dilations": [3]}), (DEPTH, 3, {"dilations": [4]})), "x:2:2", 0.5),
    "all rows go out": (causal_layers(ROWS), "x:2:3", 0.9),
    # the last row sees one row of padding as the first one does, but below: as many rows are needed, at other taps
    "padding at both ends": (chain((FULL, 3, {}), (DEPTH, 3, {"pads": [1, 1]})), f"x:2:{ROWS - 4}", 1.0),
    "only padding": (chain((FULL, 3, {}), (DEPTH, 2, {"pads": [3, 0]}), tail="maximum"), "x:2:1", 0.3),
    "single taps with padding": (
        chain((FULL, 1, {"pads": [1, 2]}), (DEPTH, 1, {"group": 8, "pads": [2, 0]}), tail="maximum"),
        "x:2:1",
        0.4,
    ),
    "only padding in both parts": (chain((FULL, 3, {"pads": [3, 3]}), (DEPTH, 2, {}), tail="maximum"), "x:2:2", 0.6),
}
