"""Turns a network on windows into a network on hops, which takes new rows and gives the results of the window that ends
with them. In:

a kernel-level graph, its streamed input, and the number of new rows. Out: a kernel-level graph with the same bits,
whose states are the rows that the next hops need. For each value that moves (reuse.py), smaller copies of its node,
with the same constants, compute the rows at the top and at the bottom that see padding or new rows; the rows in between
are kept from hop to hop. All other values are computed whole. The result is executed and planned like any other graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from glowembed.errors import UsageError, unknown_name
from glowembed.graph.ir import Array, Graph, Node, Value, verify
from glowembed.graph.plan import Places
from glowembed.graph.registry import kernel_ops
from glowembed.graph.spatial import ConvParams
from glowembed.graph.states import State, Stream, in_sequence
from glowembed.lower.reuse import Moved, is_renamed, moved
from glowembed.ops.handover import PIECES, JoinParams, SlideParams
from glowembed.options.table import CompileOptions
from glowembed.options.words import Streamed


def hops(graph: Graph, options: CompileOptions) -> Graph:
    """The graph of a hop if the options ask for a stream, else the graph itself. Raises UsageError if the options do
    not fit the network.
    """
    wanted = options.stream
    if wanted is None:
        return graph
    if wanted.input not in graph.inputs:
        raise unknown_name("input of the model for --stream:", wanted.input, graph.inputs)
    if len(graph.inputs) > 1:
        others = [name for name in graph.inputs if name != wanted.input]
        raise UsageError(
            f"--stream {wanted.input}: the network has other inputs, {', '.join(others)}, and a stream needs one input alone"
        )
    if options.places != Places():
        raise UsageError(f"--stream {wanted.input}: new rows go into the arena; leave out --io and --input")
    return hop_graph(graph, replace(_window(graph.values[wanted.input], wanted), padding=options.stream_padding))


def _window(value: Value, wanted: Streamed) -> Stream:
    """The window of an input; its rows are the second stored axis."""
    rank, layout = len(value.shape), value.layout or tuple(range(len(value.shape)))
    if rank not in (3, 4) or value.shape[0] != 1 or wanted.axis >= rank or layout[1] != wanted.axis:
        usual = f": {wanted.input}:{layout[1]}" if rank in (3, 4) else ""
        raise UsageError(
            f"--stream {wanted.input}:{wanted.axis}: the input has shape {list(value.shape)} as stored, and a stream runs along the"
            f" rows of [1, rows, channels] or [1, rows, columns, channels], which are axis 1, or axis 2 behind the channels{usual}"
        )
    rows = value.shape[1]
    if wanted.hop >= rows:
        raise UsageError(
            f"--stream {wanted.input}: a hop of {wanted.hop} keeps nothing of {rows} rows; the most is {rows - 1}"
        )
    return Stream(wanted.input, wanted.axis, rows, wanted.hop)


def hop_graph(graph: Graph, stream: Stream) -> Graph:
    """The graph of a hop. Raises UsageError if no layer can keep anything; the error names the layer that mixes the
    rows.
    """
    found = moved(graph, stream)
    if stream.causal:
        _require_causal(graph, stream, found)
    _require_reuse(graph, stream, found)
    rewriting = _Rewriting(graph, stream, found)
    for node in graph.nodes:
        rewriting.node(node)
    return rewriting.finished()


def reuse(window: Graph, hops: Graph) -> str:
    """A sentence that says what a hop computes, keeps, and where reuse ends."""
    stream = hops.stream
    assert stream is not None
    found = moved(window, stream)
    products, total = (sum(node.macs for node in graph.nodes) for graph in (hops, window))
    share = f"{100 * products / total:.1f} % of the {total} products of a window" if total else "no products"
    kept = sum(hops.values[state.input].bytes for state in hops.states)
    whole = [n.name for n in window.nodes if n.outputs[0] not in found and any(name in found for name in n.inputs)]
    end = f"; computed whole from {', '.join(map(repr, whole))} on" if whole else ""
    return f"a hop of {stream.hop} of {stream.rows} rows computes {share} and keeps {kept} bytes of rows{end}"


Runner = Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]]
"""A reference: computes the values of a graph for these inputs."""


def prove(window: Graph, hops: Graph, run: Runner) -> None:
    """Run two successive windows and the hop between them, on random rows. Raises AssertionError if the hop, starting
    from the states that the first window leaves, does not give the outputs and the states of the second window.

    Because the states hold rows of a window, this is the induction step over all hops. A causal stream agrees only with
    the first window after a reset, and is compared with that.
    """
    stream = hops.stream
    assert stream is not None
    if stream.causal:
        _prove_first_window(window, hops, stream, run)
        return
    found, value = moved(window, stream), window.values[stream.input]
    frames = _random(value, stream.rows + stream.hop)
    before, after = (
        run(window, {stream.input: frames[first : first + stream.rows].reshape(value.shape)})
        for first in (0, stream.hop)
    )

    def left(values: Mapping[str, Array], state: State) -> Array:
        """The rows that a window leaves for the next hop, in the shape of the state."""
        name, kept = state.input.removesuffix(KEPT), hops.values[state.input]
        one, count = found[name], kept.bytes // found[name].row_bytes
        rows = values[name].reshape(one.rows, -1)[one.last + one.shift - count : one.last + one.shift]
        return np.ascontiguousarray(rows).reshape(kept.shape)

    given = {state.input: left(before, state) for state in hops.states}
    new = frames[stream.rows :].reshape(hops.values[stream.input].shape)
    made = run(hops, {stream.input: new, **given})
    for name in window.outputs:
        assert np.array_equal(made[name], after[name]), f"the hop gives another {name!r} than the window"
    for state in hops.states:
        assert np.array_equal(made[state.output], left(after, state)), f"the hop leaves other rows in {state.input!r}"


def _prove_first_window(window: Graph, hops: Graph, stream: Stream, run: Runner) -> None:
    """Run a window hop by hop after a reset, and at once. Before a reset there are zeros, as in the padding, so both
    must agree.
    """
    value = window.values[stream.input]
    frames = _random(value, stream.rows)
    right = run(window, {stream.input: frames.reshape(value.shape)})
    shape = hops.values[stream.input].shape
    samples = ({stream.input: new.reshape(shape)} for new in np.split(frames, stream.hops))
    first = {state.input: hops.values[state.input].zeros() for state in hops.states}
    made = [values for _, values in in_sequence(hops.states, first, samples, lambda inputs: run(hops, inputs))][-1]
    for name in window.outputs:
        assert np.array_equal(made[name], right[name]), f"the hops of the first window give another {name!r}"


def _random(value: Value, rows: int) -> Array:
    """Random rows of a value, from the whole range of its type."""
    generator, size = np.random.default_rng(0), value.elements // value.shape[1]
    if value.qtype is None:
        return generator.normal(size=(rows, size)).astype(value.dtype)
    low, high = value.qtype.limits
    return generator.integers(low, high + 1, (rows, size)).astype(value.qtype.dtype)


def _require_causal(graph: Graph, stream: Stream, found: Mapping[str, Moved]) -> None:
    """Refuse layers whose padding cannot stand for rows before the window."""
    if stream.rows % stream.hop:
        raise UsageError(
            f"--stream-padding causal: a hop of {stream.hop} does not divide the window of {stream.rows} rows, and the first window must"
            " begin with a reset"
        )
    early = {stream.input: 0}
    for node in graph.nodes:
        streamed = [name for name in node.inputs if name in found]
        if not streamed:
            continue
        before = max(early.get(name, 0) for name in streamed)
        early[node.outputs[0]] = _early(node, before)
        reason = _not_causal(node, node.outputs[0] in found, before)
        if reason and getattr(node.params, "pad_top", 0) > 0:
            raise UsageError(
                f"--stream-padding causal: the padding of {node.name!r} cannot stand for rows before the window, because {reason};"
                " leave the option out"
            )


def _early(node: Node, before: int) -> int:
    """How many output rows above the first would depend on rows of the window if they were computed. before: the same
    number for the input.
    """
    p = node.params
    if not hasattr(p, "kernel_h"):
        return before
    return max(0, int((p.kernel_h - 1) * p.dilation_h + before - p.pad_top) // int(p.stride_h))


def _not_causal(node: Node, moves: bool, before: int) -> str:
    """Why the padding of a node cannot stand for rows before the window; "" if it can."""
    if not isinstance(node.params, ConvParams):
        return "it is no convolution"
    if not moves:
        return "it sees more rows than a window has"
    return (
        "a layer before it has less padding than taps, so that rows before the window are no zeros at first"
        if before
        else ""
    )


def _require_reuse(graph: Graph, stream: Stream, found: Mapping[str, Moved]) -> None:
    """Refuse a hop for which a layer cannot keep rows that it could keep for a multiple of the hop, and streams in
    which no layer keeps any.
    """
    for hop in range(2 * stream.hop, min(MULTIPLES * stream.hop, stream.rows // 2) + 1, stream.hop):
        more = moved(graph, replace(stream, hop=hop))
        node = next((n for n in graph.nodes if n.outputs[0] in more and n.outputs[0] not in found), None)
        if node is not None:
            raise UsageError(
                f"--stream {stream.input}: a hop of {stream.hop} rows does not fit the stride of {node.name!r}; a hop of {hop} does,"
                " and every multiple of it"
            )
    kept = [node for node in graph.nodes if node.outputs[0] in found and not is_renamed(graph, node)]
    if not kept:
        first = next((n for n in graph.nodes if stream.input in _sources(graph, n)), None)
        name = first.name if first is not None else "no layer"
        raise UsageError(
            f"--stream {stream.input}: {name!r}, which reads it, mixes its {stream.rows} rows or computes all of them anew at a hop of"
            f" {stream.hop}, so every layer would have to be computed whole; compile it without --stream"
        )


def _sources(graph: Graph, node: Node) -> Iterator[str]:
    """The inputs of a node under their original names."""
    made = graph.producer()
    for name in node.inputs:
        while name in made and is_renamed(graph, made[name]):
            name = made[name].inputs[0]
        yield name


KEPT = "/kept"
"""The suffix that turns the name of a value into that of the state that keeps rows of it."""

MULTIPLES = 8
"""The largest product of strides along the rows; with a larger one, a layer counts as one that mixes rows."""


@dataclass
class _Rewriting:
    """The hop graph under construction. A value that moves has up to three pieces: top, kept and bottom."""

    graph: Graph
    stream: Stream
    found: Mapping[str, Moved]
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    joined: dict[tuple[str, int, int], str] = field(default_factory=dict)
    needed: dict[str, int] = field(default_factory=dict)
    """for each value, the first of the kept rows that its readers need"""

    def __post_init__(self) -> None:
        self.renamed = {}
        for node in self.graph.nodes:
            if is_renamed(self.graph, node) and node.inputs[0] in self.found:
                self.renamed[node.outputs[0]] = self.renamed.get(node.inputs[0], node.inputs[0])
        self.values = {v.name: v for v in self.graph.values.values() if v.const is not None}
        for node in self.graph.nodes:
            for i, name in enumerate(node.inputs):
                for rows in self.read(node, i):
                    self.need(self.source(name), rows)
        for name in self.graph.outputs:
            self.need(self.source(name), self.all_rows(self.source(name)))
        for name, first in self.needed.items():
            kept = self.found[name].last - first
            self.values[f"{name}{KEPT}"] = self.sized(self.graph.values[name], f"{name}{KEPT}", kept)
        taken = self.stream.input
        self.values[taken] = self.sized(self.graph.values[taken], taken, self.stream.hop)

    def source(self, name: str) -> str:
        return self.renamed.get(name, name)

    def all_rows(self, name: str) -> range:
        return range(self.found[name].rows if name in self.found else 1)

    def parts(self, node: Node) -> list[tuple[str, range]]:
        """The rows of a node that a hop computes, as role and rows; none if it computes all."""
        one = self.found.get(node.outputs[0])
        if one is None or is_renamed(self.graph, node):
            return []
        ends = [("top", range(one.first)), ("bottom", range(one.last, one.rows))]
        return [(role, rows) for role, rows in ends if rows]

    def read(self, node: Node, i: int) -> list[range]:
        """The rows of input i that a hop reads."""
        name = self.source(node.inputs[i])
        if name not in self.found or (is_renamed(self.graph, node) and node.outputs[0] in self.renamed):
            return []
        parts = self.parts(node)
        return [self.span(node, i, out) for _, out in parts] if parts else [self.all_rows(name)]

    def span(self, node: Node, i: int, out: range) -> range:
        """The rows of input i that these rows of the output need."""
        needs = [kernel_ops()[node.op].needs(node.params, y)[i] for y in out]
        return range(min(rows.start for rows in needs if rows), max(rows.stop for rows in needs if rows))

    def need(self, name: str, rows: range) -> None:
        one = self.found.get(name)
        if one is not None and rows.start < one.last and rows.stop > one.first:
            self.needed[name] = min(self.needed.get(name, one.last), max(rows.start, one.first))

    def sized(self, value: Value, name: str, rows: int) -> Value:
        """A value with this many rows, otherwise like another one."""
        total = self.found[self.source(value.name)].rows
        shape = value.shape
        axis = 1 if len(shape) > 2 and shape[1] == total else 0
        if shape[axis] != total:
            return replace(value, name=name, shape=(rows, value.elements // total))
        return replace(value, name=name, shape=(*shape[:axis], rows, *shape[axis + 1 :]))

    def pieces(self, name: str) -> list[tuple[str, range]]:
        """The tensors that hold rows of a value, in order."""
        one = self.found[name]
        first = self.needed.get(name, one.last)
        bottom = name if name == self.stream.input else f"{name}/bottom"
        ends = [
            (f"{name}/top", range(one.first)),
            (f"{name}{KEPT}", range(first, one.last)),
            (bottom, range(one.last, one.rows)),
        ]
        return [(piece, rows) for piece, rows in ends if rows]

    def rows(self, name: str, wanted: range) -> str:
        """A tensor with these rows of a value, one after the other."""
        name = self.source(name)
        if name not in self.found:
            return name
        overlaps = [
            (piece, have, range(max(have.start, wanted.start), min(have.stop, wanted.stop)))
            for piece, have in self.pieces(name)
        ]
        overlaps = [(piece, have, use) for piece, have, use in overlaps if use]
        assert sum(len(use) for *_, use in overlaps) == len(wanted), f"rows {wanted} of {name!r} are not all there"
        if len(overlaps) == 1 and overlaps[0][1] == wanted:
            return overlaps[0][0]
        key = (name, wanted.start, wanted.stop)
        if key not in self.joined:
            self.joined[key] = self.join(name, overlaps, f"{name}/rows{wanted.start}to{wanted.stop}", len(wanted))
        return self.joined[key]

    def join(self, name: str, parts: list[tuple[str, range, range]], joined: str, count: int) -> str:
        """Copy rows of pieces into one tensor."""
        size = self.found[name].row_bytes
        spans = [((use.start - have.start) * size, len(use) * size) for _, have, use in parts]
        spans += [(0, 0)] * (PIECES - len(spans))
        inputs = [piece for piece, *_ in parts]
        inputs += inputs[-1:] * (PIECES - len(inputs))
        sizes = [self.values[piece].bytes for piece in inputs]
        params = JoinParams(count * size, *sizes, *(number for span in spans for number in span))
        self.values[joined] = self.sized(self.graph.values[name], joined, count)
        self.nodes.append(Node(joined, "join_rows", tuple(inputs), (joined,), origins=(name,), params=params))
        return joined

    def node(self, node: Node) -> None:
        if node.outputs[0] in self.renamed:
            return
        parts = self.parts(node)
        for role, out in parts:
            self.part(node, role, out)
        if not parts:
            inputs = tuple(map(self.all, node.inputs))
            self.nodes.append(replace(node, inputs=inputs))
            self.values |= {name: self.graph.values[name] for name in node.outputs}

    def all(self, name: str) -> str:
        """All rows of a value, in the shape of the value."""
        tensor = self.rows(name, self.all_rows(self.source(name)))
        if name not in self.renamed:
            return tensor
        if name not in self.values:
            self.values[name] = self.graph.values[name]
            self.nodes.append(Node(f"{name}/all", "view", (tensor,), (name,), shares=0))
        return name

    def part(self, node: Node, role: str, out: range) -> None:
        """Compute the rows `out` of a node from just the rows that they need."""
        op = kernel_ops()[node.op]
        spans = [self.span(node, i, out) for i in range(len(node.inputs))]
        streamed = [i for i, name in enumerate(node.inputs) if self.graph.values[name].const is None]
        inputs = tuple(self.rows(name, spans[i]) if i in streamed else name for i, name in enumerate(node.inputs))
        assert op.geometry.part is not None
        params = op.geometry.part(node.params, out, spans[streamed[0]])
        output = f"{node.outputs[0]}/{role}"
        share = len(out) / op.rows(node.params)
        self.values[output] = self.sized(self.graph.values[node.outputs[0]], output, len(out))
        self.nodes.append(
            replace(
                node,
                name=f"{node.name}/{role}",
                inputs=inputs,
                outputs=(output,),
                params=params,
                macs=round(node.macs * share),
            )
        )

    def finished(self) -> Graph:
        """The graph with its states, in which the rows of each output are in one tensor."""
        for name in self.graph.outputs:
            if self.all(name) != name:
                self.own(self.all(name), name)
        states = []
        for name, first in self.needed.items():
            self.slide(name, first, self.found[name])
            states.append(State(f"{name}/kept_next", f"{name}{KEPT}"))
        inputs = (self.stream.input, *(state.input for state in states))
        outputs = (*self.graph.outputs, *(state.output for state in states))
        made = replace(
            self.graph,
            nodes=tuple(self.nodes),
            values=self.values,
            inputs=inputs,
            outputs=outputs,
            states=tuple(states),
            stream=self.stream,
        )
        return verify(made.with_nodes(made.nodes))

    def slide(self, name: str, first: int, one: Moved) -> None:
        """Move the rows that the next hop needs to the place where it reads them."""
        stays = max(0, one.last - first - one.shift)
        bottom = name if name == self.stream.input else f"{name}/bottom"
        skipped = max(0, first + one.shift - one.last)
        size, value = one.row_bytes, self.values[f"{name}{KEPT}"]
        params = SlideParams(value.bytes, stays * size, self.values[bottom].bytes, skipped * size)
        self.values[f"{name}/kept_next"] = replace(value, name=f"{name}/kept_next")
        inputs = (f"{name}{KEPT}", bottom)
        outputs = (f"{name}/kept_next",)
        self.nodes.append(Node(outputs[0], "slide_rows", inputs, outputs, origins=(name,), params=params, shares=0))

    def own(self, tensor: str, name: str) -> str:
        """A tensor under another name."""
        self.values[name] = replace(self.values[tensor], name=name)
        self.nodes.append(Node(name, "view", (tensor,), (name,), shares=0))
        return name
