"""Turns a network on windows into a network on hops, which takes new rows and gives the results of the window that ends
with them. In:

a kernel-level graph, its streamed input, and the number of new rows. Out: a kernel-level graph with the same bits,
whose states are the rows that the next hops need. For each value that moves (reuse.py), smaller copies of its node,
with the same constants, compute the rows at the top and at the bottom that see padding or new rows; the rows in between
are kept from hop to hop. All other values are computed whole. The result is executed and planned like any other graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from glowembed.errors import NoReuse, UsageError, unknown_name
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.notes import Note
from glowembed.graph.plan import Places
from glowembed.graph.spatial import ConvParams
from glowembed.graph.states import State, Stream, in_sequence
from glowembed.lower.crops import with_crops
from glowembed.lower.hop import Hop
from glowembed.lower.reuse import Moved, is_renamed, moved
from glowembed.lower.sums import is_sum, with_sums
from glowembed.ops.handover import CropParams
from glowembed.ops.recurrent_kernels import RecurrentParams
from glowembed.options.table import CompileOptions
from glowembed.options.words import Streamed

STEPS = (
    "; a recurrent layer keeps nothing of a window: export the network for one step, and give its state with --state"
)


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


def prepared(graph: Graph, options: CompileOptions) -> Graph:
    """The graph of the window that a stream has the bits of, in the form that hops are made from; the graph itself without a stream.

    Raises UsageError if the options do not fit the network.
    """
    wanted = options.stream
    if wanted is None or wanted.input not in graph.inputs:
        return graph
    stream = _window(graph.values[wanted.input], wanted)
    graph = with_crops(graph, stream)
    return _padded(graph, stream) if options.stream_padding == "zero-start" else graph


def _padded(graph: Graph, stream: Stream) -> Graph:
    """The window whose convolutions along a stream have all their padding above.

    Each of them is then late by the rows that were padded below. Raises UsageError if a layer joins values that are late by different numbers of
    rows.
    """
    found, late, nodes = moved(graph, stream), {stream.input: (0, 1)}, []
    for node in graph.nodes:
        inputs = {late[name] for name in node.inputs if name in late}
        if inputs and node.outputs[0] in found:
            if len(inputs) > 1:
                raise UsageError(
                    f"--stream-padding zero-start: the inputs of {node.origin!r} would be late by different numbers of rows,"
                    f" {' and '.join(str(rows) for rows, _ in sorted(inputs))}; causal keeps the padding below"
                )
            ((rows, step),) = inputs
            p, below = node.params, _padding_below(node)
            if below:
                node = replace(node, params=replace(p, pad_top=p.pad_top + below))
            late[node.outputs[0]] = rows + step * below, step * _stride(node)
        nodes.append(node)
    return graph.with_nodes(nodes)


def _stride(node: Node) -> int:
    """The rows from one row of the output to the next."""
    p = node.params
    return p.step if isinstance(p, CropParams) else int(getattr(p, "stride_h", 1))


def _padding_below(node: Node) -> int:
    """The rows that a convolution pads below; 0 for all other nodes."""
    p = node.params
    if not isinstance(p, ConvParams):
        return 0
    return int(max(0, (p.out_h - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1 - p.in_h - p.pad_top))


def _window(value: Value, wanted: Streamed) -> Stream:
    """The window of an input; its rows are the second stored axis."""
    rank, layout = len(value.shape), value.layout or tuple(range(len(value.shape)))
    if rank not in (3, 4) or value.shape[0] != 1 or wanted.axis >= rank or layout[1] != wanted.axis:
        hint = STEPS if rank == 3 and value.shape[0] > 1 and value.shape[1] == 1 else ""
        raise UsageError(
            f"--stream {wanted.input}:{wanted.axis}: the input has shape {[value.shape[i] for i in np.argsort(layout)]}, and a stream runs along an axis"
            f" behind the batch of an input of three or four axes, whose batch is 1{hint}"
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
        _require_fit(graph, stream, found)
        _require_causal(graph, stream, found)
    _require_reuse(graph, stream, found)
    return _hop(graph, stream).made()


def _hop(graph: Graph, stream: Stream) -> Hop:
    """The hop graph before it is made."""
    summed = with_sums(graph, moved(graph, stream))
    return Hop(summed, stream, moved(summed, stream))


def reuse(window: Graph, hops: Graph) -> tuple[Note, ...]:
    """Notes that say what a hop computes, keeps, and where reuse ends."""
    stream = hops.stream
    assert stream is not None
    summed = with_sums(window, moved(window, stream))
    found, names = moved(summed, stream), {node.name for node in summed.nodes}
    products, total = (sum(node.macs for node in graph.nodes) for graph in (hops, window))
    share = f"{100 * products / total:.1f} % of the {total} products of a window" if total else "no products"
    kept = sum(hops.values[state.input].bytes for state in hops.states)
    sums = _listed_once(node for node in window.nodes if node.name not in names)
    whole = _listed_once(
        node
        for node in summed.nodes
        if node.outputs[0] not in found and not is_sum(node) and any(name in found for name in node.inputs)
    )
    text = f"a hop of {stream.hop} of {stream.rows} rows computes {share} and keeps {kept} bytes of rows"
    text += _phases(summed, found, stream)
    text += f"; the sums of {sums} go on from hop to hop" if sums else ""
    text += f"; computed whole from {whole} on" if whole else ""
    if not total or products < total or sums:
        return (Note("stream", text),)
    recomputed = (
        f"a hop of {stream.hop} of {stream.rows} rows computes as many products as the whole window, because"
        f" {whole or 'padding'} ends the reuse before a layer with products keeps a row; compiled without --stream, the network does the same work"
        " without these rows"
    )
    return Note("stream", text), Note("stream-recomputed", recomputed)


def _listed_once(nodes: Iterable[Node]) -> str:
    """The nodes of the model, each once."""
    return ", ".join(map(repr, dict.fromkeys(node.origin for node in nodes)))


Runner = Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]]
"""A reference: computes the values of a graph for these inputs."""


def prove(window: Graph, hops: Graph, run: Runner) -> None:
    """Run successive windows and a hop between them, on random rows. Raises AssertionError if the hop, starting from the states that the
    windows before it leave, does not give the outputs of its window and the states that this one leaves.

    Because the states are functions of the windows, this is the induction step over all hops. A causal stream agrees only with
    the first window after a reset, and is compared with that.
    """
    stream = hops.stream
    assert stream is not None
    if stream.causal:
        _prove_first_window(window, hops, stream, run)
        return
    hop, value = _hop(window, stream), window.values[stream.input]
    hop.made()
    later = max(hop.early, *(one.period for one in hop.found.values())) + 1
    frames = _random(value, stream.rows + later * stream.hop)
    windows = [
        run(window, {stream.input: frames[first : first + stream.rows].reshape(value.shape)})
        for first in range(0, len(frames) - stream.rows + 1, stream.hop)
    ]

    def left(state: State, windows: Sequence[Mapping[str, Array]]) -> Array:
        return hop.left[state.input](windows).reshape(hops.values[state.input].shape)

    given = {state.input: left(state, windows) for state in hops.states}
    new = frames[stream.rows : stream.rows + stream.hop].reshape(hops.values[stream.input].shape)
    made = run(hops, {stream.input: new, **given})
    for name in window.outputs:
        assert np.array_equal(made[name], windows[1][name]), f"the hop gives another {name!r} than the window"
    for state in hops.states:
        after = left(state, windows[1:])
        assert np.array_equal(made[state.output].reshape(after.shape), after), (
            f"the hop leaves other rows in {state.input!r}"
        )


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
                f"--stream-padding {stream.padding}: the padding of {node.origin!r} cannot stand for rows before the window, because {reason};"
                " leave the option out"
            )


def _early(node: Node, before: int) -> int:
    """How many output rows above the first would depend on rows of the window if they were computed. before: the same
    number for the input.
    """
    p = node.params
    if isinstance(p, CropParams):
        return (before + p.first) // p.step
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


def _require_fit(graph: Graph, stream: Stream, found: Mapping[str, Moved]) -> None:
    """Refuse a hop of a causal stream that does not divide the window, or would need phases."""
    strided = _strided(graph, stream, found)
    if not stream.rows % stream.hop and strided is None:
        return
    hops = (replace(stream, hop=hop) for hop in range(1, stream.rows) if stream.rows % hop == 0)
    fit = [one.hop for one in hops if _strided(graph, one, moved(graph, one)) is None]
    reason = f"does not divide the window of {stream.rows} rows, and the first window must begin with a reset"
    if strided is not None:
        reason = f"does not fit the stride of {strided.origin!r}"
    others = f"a hop of {_listed(fit)} does" if fit else f"no hop that divides the {stream.rows} rows does"
    raise UsageError(
        f"--stream {stream.input} --stream-padding {stream.padding}: a hop of {stream.hop} {reason}; {others}."
        " Without --stream-padding, a hop may be any number of rows"
    )


def _strided(graph: Graph, stream: Stream, found: Mapping[str, Moved]) -> Node | None:
    """The first node whose stride the hop of a causal stream does not fit; None if there is none."""
    for node in graph.nodes:
        one = found.get(node.inputs[0]) if node.inputs else None
        if one is not None and one.shift % _stride(node) and node.outputs[0] not in found:
            return node
    return None


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last


def _phases(graph: Graph, found: Mapping[str, Moved], stream: Stream) -> str:
    """What a hop costs that is no multiple of a stride; "" if it is one."""
    period = math.lcm(*(one.period for one in found.values()))
    if period == 1:
        return ""
    first = next(n for n in graph.nodes if n.outputs[0] in found and found[n.outputs[0]].period > 1)
    return (
        f"; {period} phases, because the hop does not fit the stride of {first.origin!r}, so it keeps the rows behind that layer that many"
        f" times (a hop of {period * stream.hop} or a multiple: once)"
    )


def _require_reuse(graph: Graph, stream: Stream, found: Mapping[str, Moved]) -> None:
    """Refuse streams in which no layer keeps rows and no sum goes on."""
    kept = [node for node in graph.nodes if node.outputs[0] in found and not is_renamed(graph, node)]
    kept += filter(is_sum, with_sums(graph, found).nodes)
    if not kept:
        first = _mixing(graph, stream)
        raise NoReuse(
            f"--stream {stream.input}:{stream.axis}:{stream.hop}: {(first.origin if first else stream.input)!r} mixes the {stream.rows} rows along"
            f" axis {stream.axis}, or computes all of its own anew, so every layer would have to be computed whole"
            f"{STEPS if first and isinstance(first.params, RecurrentParams) else ''}"
        )


def _mixing(graph: Graph, stream: Stream) -> Node | None:
    """The first layer of the model that reads a streamed input; None if nothing does."""
    names = {stream.input}
    for node in graph.nodes:
        if names.isdisjoint(node.inputs):
            continue
        # A Transpose of the input itself is not in the model, and one that moves nothing mixes nothing.
        if node.origins != (stream.input,) and not is_renamed(graph, node):
            return node
        names.update(node.outputs)
    return None
