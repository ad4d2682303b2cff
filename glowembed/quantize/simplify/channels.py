"""Removes dead channels, on which no output depends, and folds channels with a constant value into biases.

In: a quantized semantic graph. Out: the same graph with fewer channels, and every bit of every output the same. A
channel of a tensor is live if an output of the graph, or an op that is not understood, reads it, or a sum of products
whose own channel is live reads it with a weight that is not 0. A channel that holds one value k for every input is not
read by a sum without padding, nor by one whose padding is k; k times the weights is added to the bias. Ops that work
channel by channel tie channels together: either all of them stay or none. The remaining groups of a convolution keep
the same number of channels each. A Softmax reads the channels that may contribute to its sum. A few dead channels stay
if that fills whole vectors.

No bit changes, because an integer accumulator loses only terms that are 0 or are now in the bias, and nothing reads a
removed channel. Multipliers are made for each channel but share a shift; a channel stays if the shift would change
without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from glowembed.graph import limits
from glowembed.graph.ir import Array, Graph, GraphError, Node, Value
from glowembed.graph.registry import ops
from glowembed.ops.shared.linear import LinearConstants
from glowembed.quantize.simplify.intervals import (
    Intervals,
    channels_read,
    constants_of,
    dependence,
    folded_zero,
    intervals,
    is_depthwise,
    is_padded,
    is_sum,
    is_understood,
    lowered,
    softmax_terms,
    sources,
    weights_of,
)
from glowembed.records import dataclass

WIDTHS = (16, 8, 4)
"""Numbers of channels that kernels compute at once, on x86, Helium and the DSP extension: 31 channels can take twice as long
as 32.
"""

Kept = Mapping[str, Array]
"""The remaining channels of each value that loses some, in ascending order."""


def drop_channels(graph: Graph) -> tuple[Graph, Kept]:
    """The graph without dead channels, and the remaining channels of the tensors that became smaller."""
    known = intervals(graph)
    ties = _tie(graph, known)
    while True:
        _spread(graph, ties, known)
        if not (_keep_one(ties) or _keep_groups(graph, ties) or _keep_laws(graph, ties) or _keep_widths(graph, ties)):
            break
    kept = {name: indices for name in ties.first if len(indices := ties.live_channels(name)) < ties.count[name]}
    return (_rewritten(graph, kept, known), kept) if kept else (graph, kept)


@dataclass
class _Ties:
    """The channels of all tensors, numbered consecutively. Tied channels have one root, which is live or not."""

    first: dict[str, int]
    count: dict[str, int]
    parent: list[int]
    live: set[int] = field(default_factory=set)

    def root(self, channel: int) -> int:
        while self.parent[channel] != channel:
            self.parent[channel] = self.parent[self.parent[channel]]
            channel = self.parent[channel]
        return channel

    def tie(self, a: int, b: int) -> None:
        self.parent[self.root(a)] = self.root(b)

    def mark(self, name: str, channels: Array | range | None = None) -> bool:
        """Make channels (all by default) of a tensor live. Returns whether any of them was not live before."""
        indices = range(self.count[name]) if channels is None else channels
        roots = {self.root(self.first[name] + int(c)) for c in indices}
        new = roots - self.live
        self.live |= new
        return bool(new)

    def is_live(self, name: str) -> Array:
        start = self.first[name]
        return np.array([self.root(start + c) in self.live for c in range(self.count[name])], dtype=bool)

    def live_channels(self, name: str) -> Array:
        return np.flatnonzero(self.is_live(name))


def _tie(graph: Graph, known: Intervals) -> _Ties:
    """All ties, and the channels that are live from the start."""
    parameters = {name for node in graph.nodes if ops()[node.op].has_weights for name in node.inputs[1:]}
    names = [name for name, value in graph.values.items() if value.shape and name not in parameters]
    count = {name: graph.values[name].shape[-1] for name in names}
    starts = np.cumsum([0, *count.values()]).tolist()
    ties = _Ties(dict(zip(names, starts[:-1], strict=True)), count, list(range(starts[-1])))
    barriers = []
    for node in graph.nodes:
        if not _tie_node(graph, node, ties, known):
            barriers += [*node.inputs, *node.outputs]
    for name in (*graph.inputs, *graph.outputs, *barriers):
        if name in count:  # a scalar has no channels
            ties.mark(name)
    return ties


def _tie_node(graph: Graph, node: Node, ties: _Ties, known: Intervals) -> bool:
    """Tie the channels of a node. Returns False for an op that needs all channels of its inputs and makes all channels
    of its output.
    """
    y = node.outputs[0]
    if not is_understood(graph, node):
        return False
    if is_sum(graph, node):
        return True
    if is_depthwise(graph, node):
        per_input = ties.count[y] // ties.count[node.inputs[0]]
        for c in range(ties.count[y]):
            ties.tie(ties.first[node.inputs[0]] + c // per_input, ties.first[y] + c)
        return True
    if dependence(node) == "move":
        return _tie_move(graph, node, ties)
    if dependence(node) == "axis" and (
        _is_long(graph, node) or softmax_terms(graph, node, known[node.inputs[0]]) is None
    ):
        return False
    if dependence(node) in ("pointwise", "window", "pair", "axis"):
        data = node.inputs[:1] if ops()[node.op].has_weights else node.inputs
        for name in data:
            for c in range(ties.count[y] if ties.count[name] == ties.count[y] else 0):
                ties.tie(ties.first[name] + c, ties.first[y] + c)
            if ties.count[name] != ties.count[y]:
                ties.mark(name)
        return True
    return False


def _tie_move(graph: Graph, node: Node, ties: _Ties) -> bool:
    if not ops()[node.op].keeps_channels(node.attrs):
        return False
    numbers = np.concatenate([[-1], *(ties.first[n] + np.arange(ties.count[n]) for n in node.inputs)]).astype(np.int64)
    origin, first = sources(graph, node), ties.first[node.outputs[0]]
    pairs = np.unique((np.arange(origin.shape[1]) * numbers.size + origin)[origin > 0])
    for c, source in zip(*(part.tolist() for part in np.divmod(pairs, numbers.size)), strict=True):
        ties.tie(int(numbers[source]), first + c)
    return True


def _spread(graph: Graph, ties: _Ties, known: Intervals) -> None:
    """Propagate liveness from channels of sums to the channels that they read, until nothing changes."""
    reads = {
        node.name: _reads(graph, node, known)
        for node in graph.nodes
        if is_understood(graph, node)
        and (is_sum(graph, node) or (dependence(node) == "axis" and not _is_long(graph, node)))
    }
    changed = True
    while changed:
        changed = False
        for node in reversed(graph.nodes):
            if node.name in reads:
                needed = reads[node.name][ties.is_live(node.outputs[0])].any(axis=0)
                changed |= ties.mark(node.inputs[0], np.flatnonzero(needed))


def _is_long(graph: Graph, node: Node) -> bool:
    """Whether a tensor is too long for a table of which element needs which other element."""
    return graph.values[node.outputs[0]].shape[-1] > limits.SOFTMAX


def _reads(graph: Graph, node: Node, known: Intervals) -> Array:
    """Whether the sum for an output needs an input channel, as [outputs, inputs]."""
    outputs, inputs = (graph.values[name].shape[-1] for name in (node.outputs[0], node.inputs[0]))
    needed = np.zeros((outputs, inputs), dtype=bool)
    if dependence(node) == "axis":
        found = softmax_terms(graph, node, known[node.inputs[0]])
        needed[:] = True if found is None else found[0] != 0
        return needed
    weights, read = weights_of(constants_of(graph, node)), channels_read(graph, node)
    np.put_along_axis(needed, read, (weights.reshape(*weights.shape[:2], -1) != 0).any(axis=2), axis=1)
    return np.asarray(needed & ~foldable(graph, node, known))


def foldable(graph: Graph, node: Node, known: Intervals) -> Array:
    """The input channels that hold one value which the padding has, too."""
    x, zero = known[node.inputs[0]], graph.values[node.inputs[0]].qtype
    assert zero is not None
    return np.asarray(x.constant & ((x.low == zero.zero_point[0]) | (not is_padded(node))))


def _keep_one(ties: _Ties) -> bool:
    """Keep one channel of a tensor that would lose all channels."""
    changed = False
    for name in ties.first:
        if not ties.is_live(name).any():
            changed |= ties.mark(name, range(1))
    return changed


def _keep_groups(graph: Graph, ties: _Ties) -> bool:
    """Let all groups with a live channel keep as many inputs and outputs as the group that needs most."""
    changed = False
    for node in graph.nodes:
        if node.attrs.get("group", 1) == 1 or not is_understood(graph, node) or not is_sum(graph, node):
            continue
        names = (node.inputs[0], node.outputs[0])
        live = [ties.is_live(name).reshape(node.attrs["group"], -1) for name in names]
        stay = live[0].any(axis=1) | live[1].any(axis=1)
        for name, part in zip(names, live, strict=True):
            wanted, size = max(1, int(part.sum(axis=1).max())), part.shape[1]
            for group in np.flatnonzero(stay & (part.sum(axis=1) < wanted)):
                spare = np.flatnonzero(~part[group])[: wanted - int(part[group].sum())]
                changed |= ties.mark(name, group * size + spare)
    return changed


def _keep_widths(graph: Graph, ties: _Ties) -> bool:
    """Keep as many outputs of a sum as fill the vectors of kernels, if that costs less than it saves."""
    changed = False
    for name in [node.outputs[0] for node in graph.nodes if is_understood(graph, node) and is_sum(graph, node)]:
        live = ties.is_live(name)
        spare = filling(int(live.sum()), ties.count[name]) - int(live.sum())
        if spare:
            changed |= ties.mark(name, np.flatnonzero(~live)[:spare])
    return changed


def filling(live: int, count: int) -> int:
    """The number of channels to keep of `count`, of which `live` are needed: `live` rounded up to whole vectors of w
    channels, for the first w in WIDTHS for which that adds at most one part in w; else `live`.
    """
    for width in WIDTHS:
        whole = -(-live // width) * width
        if whole <= count and (whole - live) * width <= live:
            return whole
    return live


def _keep_laws(graph: Graph, ties: _Ties) -> bool:
    """Keep the channel with the largest scale if the shift that channels share would change without it."""
    changed = False
    for node in graph.nodes:
        if not ops()[node.op].has_weights or not is_understood(graph, node):
            continue
        live = ties.live_channels(node.outputs[0])
        if 0 < len(live) < ties.count[node.outputs[0]] and not _same_law(graph, node, live):
            changed |= ties.mark(node.outputs[0], _largest(graph, node, ties))
    return changed


def _same_law(graph: Graph, node: Node, live: Array) -> bool:
    """Whether the constants of the live channels are the same if they are made for these channels only."""
    if is_sum(graph, node):
        return _same_multipliers(graph, node, live)
    before, after = (lowered(g, node).nodes[0] for g in (graph, _with_outputs(graph, node, live)))
    if before.params.shift != after.params.shift:
        return False
    channels = graph.values[node.outputs[0]].shape[-1]
    for name in ("multiplier", "offset"):
        if name in before.constants:
            old = before.constants[name].materialize().reshape(channels, -1)
            if not np.array_equal(old[live].reshape(-1), after.constants[name].materialize().reshape(-1)):
                return False
    return True


def _same_multipliers(graph: Graph, node: Node, live: Array) -> bool:
    """Whether the multipliers of a sum are the same; they depend only on the scales of its outputs."""
    values = dict(graph.values)
    for name in node.inputs[1:]:
        values[name] = _taken(values[name], live, 0, name)
    before, after = (constants_of(g, node).requant for g in (graph, replace(graph, values=values)))
    words = np.asarray(before.multiplier).reshape(graph.values[node.outputs[0]].shape[-1], -1)
    return before.shift == after.shift and np.array_equal(words[live].reshape(-1), after.multiplier)


def _with_outputs(graph: Graph, node: Node, live: Array) -> Graph:
    """The graph in which this depthwise node makes only these output channels; it is valid only for lowering this
    node.
    """
    x = graph.values[node.inputs[0]].shape[-1]
    kept = {
        node.outputs[0]: live,
        node.inputs[0]: np.unique(live // (graph.values[node.outputs[0]].shape[-1] // x)),
    }
    values = dict(graph.values)
    for name, channels in kept.items():
        values[name] = _narrowed(values[name], channels)
    for name in node.inputs[1:]:
        if values[name].shape[0] != 1 or graph.values[node.outputs[0]].shape[-1] == 1:
            values[name] = _taken(values[name], live, 0, name)
    return replace(graph, values=values)


def _largest(graph: Graph, node: Node, ties: _Ties) -> Array:
    """The channel that determines the shift, or all channels if the largest scale does not determine it."""
    everything, w = np.arange(ties.count[node.outputs[0]]), graph.values[node.inputs[1]]
    if dependence(node) != "sum" or w.qtype is None:
        return everything
    largest = int(np.asarray(w.qtype.scale).argmax())
    return everything if ties.is_live(node.outputs[0])[largest] else everything[largest : largest + 1]


def _rewritten(graph: Graph, kept: Kept, known: Intervals) -> Graph:
    values = {name: _narrowed(v, kept[name]) if name in kept else v for name, v in graph.values.items()}
    nodes = [_smaller(graph, node, kept, known, values) for node in graph.nodes]
    return _checked(graph.with_nodes(nodes, values))


def _checked(graph: Graph) -> Graph:
    """Check that every node makes the shape that its output has."""
    for node in graph.nodes:
        shapes = ops()[node.op].infer(node.attrs, [graph.values[name].shape for name in node.inputs])
        if tuple(shapes[0]) != graph.values[node.outputs[0]].shape:
            raise GraphError(f"{node.op} {node.name!r} makes {shapes[0]}, not {graph.values[node.outputs[0]].shape}")
    return graph


def _narrowed(value: Value, channels: Array) -> Value:
    if value.const is not None:
        return _taken(value, channels, -1, value.name)
    return replace(value, shape=(*value.shape[:-1], len(channels)))


def _taken(value: Value, channels: Array, axis: int, name: str) -> Value:
    """A constant reduced to these indices of an axis; its type keeps a scale for each of them."""
    assert value.const is not None
    const = value.const.then(f"take({len(channels)})", lambda a: np.take(a, channels, axis=axis))
    qtype = value.qtype
    if qtype is not None and qtype.axis is not None and qtype.axis == axis % len(value.shape):
        chosen = channels.tolist()
        qtype = replace(
            qtype, scale=tuple(qtype.scale[c] for c in chosen), zero_point=tuple(qtype.zero_point[c] for c in chosen)
        )
    shape = list(value.shape)
    shape[axis] = len(channels)
    return replace(value, name=name, const=const, qtype=qtype, shape=tuple(shape))


def _smaller(graph: Graph, node: Node, kept: Kept, known: Intervals, values: dict[str, Value]) -> Node:
    """The node on narrower tensors."""
    if not any(name in kept for name in (*node.inputs, *node.outputs)):
        return node
    if is_sum(graph, node):
        return _smaller_sum(graph, node, kept, known, values)
    if ops()[node.op].has_weights:
        return _smaller_by_channel(graph, node, kept, values)
    return replace(node, attrs=_narrowed_attrs(node, kept, values))


def _narrowed_attrs(node: Node, kept: Kept, values: Mapping[str, Value]) -> Mapping[str, Any]:
    x, y = (values[name].shape for name in (node.inputs[0], node.outputs[0]))
    return ops()[node.op].narrowed(node.attrs, kept.get(node.inputs[0]), x, y)


def _smaller_by_channel(graph: Graph, node: Node, kept: Kept, values: dict[str, Value]) -> Node:
    """A smaller depthwise Conv or Affine."""
    x, *parameters = node.inputs
    channels, names = kept[node.outputs[0]], []
    for name in parameters:
        if not node.attrs.get("per_channel", True):
            names.append(name)
            continue
        narrow = _taken(graph.values[name], channels, 0, _fresh(values, f"{name}/kept", node))
        values[narrow.name] = narrow
        names.append(narrow.name)
    return replace(node, inputs=(x, *names), attrs=_narrowed_attrs(node, kept, values))


@dataclass(frozen=True, eq=False)
class _Cut:
    """The parts of a sum that remain. outputs: their channels; columns: the second indices of their weights, [outputs,
    kept inputs of a group]; stays: whether the channel of a weight stays, [all outputs, inputs of a group]; group: the
    number of groups.
    """

    outputs: Array
    columns: Array
    stays: Array
    group: int

    def weights(self, array: Array) -> Array:
        rows = array[self.outputs]
        return np.take_along_axis(rows, self.columns.reshape(*self.columns.shape, *[1] * (array.ndim - 2)), axis=1)


def _cut(graph: Graph, node: Node, kept: Kept) -> _Cut:
    x, w, _ = node.inputs
    outputs = kept.get(node.outputs[0], np.arange(graph.values[w].shape[0]))
    inputs = kept.get(x, np.arange(graph.values[x].shape[-1]))
    stays = np.isin(channels_read(graph, node), inputs)
    columns = np.stack([np.flatnonzero(row) for row in stays[outputs]])
    return _Cut(outputs, columns, stays, len(inputs) // columns.shape[1])


def _smaller_sum(graph: Graph, node: Node, kept: Kept, known: Intervals, values: dict[str, Value]) -> Node:
    """A smaller Conv, ConvTranspose or Gemm: its weights without the removed channels, and constant channels folded
    into the bias.
    """
    x, w, b = node.inputs
    cut, before = _cut(graph, node, kept), constants_of(graph, node)
    weights = _taken(graph.values[w], cut.outputs, 0, _fresh(values, f"{w}/kept", node))
    old, source = graph.values[w].const, graph.values[b].const
    assert old is not None and source is not None
    shape = (*cut.columns.shape, *weights.shape[2:])
    values[weights.name] = replace(weights, const=old.then(f"take{cut.columns.shape}", cut.weights), shape=shape)
    steps, folded = _folded_bias(graph, node, cut, known, before)
    bias = replace(graph.values[b], name=_fresh(values, f"{b}/kept", node), shape=(len(cut.outputs),))
    real = (folded * steps)[cut.outputs]
    values[bias.name] = replace(bias, const=replace(source, grid=None).then("fold_constants", lambda _: real))
    attrs = {**node.attrs, "group": cut.group} if "group" in node.attrs else node.attrs
    made = replace(node, inputs=(x, weights.name, bias.name), attrs=attrs)
    _prove(graph, made, values, before, cut, _lost(graph, node, cut, known, before))
    return made


def _per_input(before: LinearConstants) -> Array:
    weights = weights_of(before)
    return np.asarray(weights.reshape(*weights.shape[:2], -1).sum(axis=2))


def _folded_bias(graph: Graph, node: Node, cut: _Cut, known: Intervals, before: LinearConstants) -> tuple[Array, Array]:
    """The step of the bias, and the bias in steps with w * (k - zero point) added for each constant channel that is
    removed.
    """
    x, w = graph.values[node.inputs[0]].qtype, graph.values[node.inputs[1]].qtype
    assert x is not None and w is not None
    per_input, zero = _per_input(before), x.zero_point[0]
    plain = before.bias.materialize().astype(np.int64) + folded_zero(graph, node) * per_input.sum(axis=1)
    value = np.where(foldable(graph, node, known), known[node.inputs[0]].low, zero)[channels_read(graph, node)]
    steps = x.scale[0] * np.broadcast_to(np.asarray(w.scale, dtype=np.float64), plain.shape)
    return steps, plain + (per_input * (value - zero) * ~cut.stays).sum(axis=1)


def _lost(graph: Graph, node: Node, cut: _Cut, known: Intervals, before: LinearConstants) -> Array:
    """How much each output's accumulator loses with the removed channels, which are constant or have weights of 0."""
    x = graph.values[node.inputs[0]].qtype
    assert x is not None
    given = x.zero_point[0] - folded_zero(graph, node)
    constant = known[node.inputs[0]].low[channels_read(graph, node)] - given
    return np.asarray((_per_input(before) * constant * ~cut.stays).sum(axis=1))


def _prove(
    graph: Graph, made: Node, values: Mapping[str, Value], before: LinearConstants, cut: _Cut, lost: Array
) -> None:
    """Check that lowering makes the same constants for the smaller node as for the original, except for the removed
    channels.
    """
    after = constants_of(replace(graph, values={**graph.values, **values}), made)
    old, outputs = weights_of(before), cut.outputs
    expected = before.bias.materialize().astype(np.int64)[outputs] + lost[outputs]
    words = len(before.requant.multiplier) // old.shape[0]
    multipliers = np.asarray(before.requant.multiplier).reshape(-1, words)[outputs].reshape(-1)
    same = (
        np.array_equal(weights_of(after), cut.weights(old))
        and np.array_equal(after.bias.materialize(), expected)
        and np.array_equal(np.asarray(after.requant.multiplier), multipliers)
        and after.requant.shift == before.requant.shift
    )
    if not same:
        raise GraphError(f"{made.op} {made.name!r}: dropping channels would change its bits")


def _fresh(values: Mapping[str, Value], name: str, node: Node) -> str:
    if name in values:
        name = f"{name}_for_{node.name}"
    while name in values:
        name += "'"
    return name


def count(kept: Kept, graph: Graph) -> int:
    """The number of removed channels."""
    return sum(graph.values[name].shape[-1] - len(channels) for name, channels in kept.items())


def figures(graph: Graph) -> tuple[int, int]:
    """The multiply-accumulates, and the bytes of weights and biases, of all sums of products."""
    macs = weights = 0
    for node in graph.nodes:
        if ops()[node.op].has_weights:
            w, y = graph.values[node.inputs[1]], graph.values[node.outputs[0]]
            macs += y.elements * int(np.prod(w.shape[1:], dtype=np.int64))
            weights += w.bytes + 4 * graph.values[node.inputs[2]].elements
    return macs, weights
