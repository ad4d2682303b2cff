"""Places the states of a network: one block at the start of the arena, which no plan uses for anything else.

In: a kernel-level graph with states, or its plan. Out: the graph with nodes that write each new state over the old one
after its last reader, or the plan moved behind the block.
"""

from __future__ import annotations

from dataclasses import replace

from glowembed.graph.ir import Graph, Node, verify
from glowembed.graph.op import free_name
from glowembed.graph.plan import Buffer, Plan
from glowembed.graph.registry import kernel_ops
from glowembed.graph.states import State
from glowembed.plan.rows import stored_together

COUNTER = 4
"""The bytes of the number of hops, which follows the states."""

POSITION = 4
"""Bytes of the number of slices of a run that are done, behind the number of hops."""

WINDOW = "window for weights"
"""The name of the window in maps of the memory."""

WINDOW_ALIGN = 64
"""The alignment of the window in the arena: that of the longest vectors and of the lines of a data cache."""


def keep(graph: Graph) -> Graph:
    """The graph in which the output of each state is stored over its input after the input's last use."""
    together, old = stored_together(graph), {state.input for state in graph.states}
    for name in dict.fromkeys(graph.outputs):
        if old.intersection(together.get(name, ())) and not any(
            _is_over(graph, s) for s in graph.states if s.output == name
        ):
            graph = copied(graph, name)  # a view of the state would be overwritten with it
    for state in graph.states:
        value, kept = graph.values[state.output], graph.values[state.input]
        if _is_over(graph, state):
            values = {**graph.values, **{v.name: replace(v, place="state") for v in (value, kept)}}
            graph = replace(graph, values=values)
            continue
        if (copied_over := _copied_over(graph, state)) is not None:
            graph = copied_over
            continue
        made = replace(value, name=free_name(f"{state.output}/next", graph.values))
        params = kernel_ops()["store_rows"].params(1, value.bytes)
        name = free_name(f"{state.output}/keep", {n.name for n in graph.nodes})
        store = Node(name, "store_rows", (state.input, made.name), (state.output,), params=params, shares=0)
        nodes = [node.renamed({state.output: made.name}) for node in graph.nodes]
        placed = {v.name: replace(v, place="state") for v in (value, kept)}
        graph = graph.with_nodes([*nodes, store], {**graph.values, **placed, made.name: made})
    return verify(graph)


def _is_over(graph: Graph, state: State) -> bool:
    """Whether the node that makes the output already writes it over the input."""
    maker = graph.producer().get(state.output)
    return maker is not None and maker.params is not None and maker.shares == 0 and maker.inputs[0] == state.input


def _copied_over(graph: Graph, state: State) -> Graph | None:
    """The graph in which the copy that makes the output of a state writes over its input; None if the output is no
    copy, comes before the last use of the input, or is copied from a state.
    """
    made, together = _made(graph, state.output), stored_together(graph)
    op = kernel_ops().get(made[-1].op) if made else None
    if op is None or not op.into or op.rows(made[-1].params) != 1:
        return None
    copy, old = made[-1], set(together[state.input])
    if any(copy.inputs[0] in together[s.input] for s in graph.states):
        return None
    if any(old.intersection(n.inputs) for n in graph.nodes[graph.nodes.index(copy) :]):
        return None
    over = replace(copy, op=op.into, inputs=(state.input, *copy.inputs), shares=0)
    names = {state.input, *(name for n in made for name in n.outputs)}
    values = {n: replace(v, place="state") if n in names else v for n, v in graph.values.items()}
    return graph.with_nodes([over if n is copy else n for n in graph.nodes], values)


def _made(graph: Graph, name: str) -> list[Node]:
    """The nodes that make a value, the last one first: views, and the node whose result they show. Empty if another node
    reads what a view shows, or if the bundle has it as an output.
    """
    producer, found = graph.producer(), list[Node]()
    while (maker := producer.get(name)) is not None:
        found.append(maker)
        if maker.params is not None or maker.shares != 0:
            return found
        name = maker.inputs[0]
        if name in graph.outputs or sum(name in n.inputs for n in graph.nodes) > 1:
            break
    return []


def copied(graph: Graph, name: str) -> Graph:
    """Make an output a copy of its former value."""
    value = graph.values[name]
    inner = replace(value, name=free_name(f"{name}/kept", graph.values))
    params = kernel_ops()["copy_rows"].params(1, value.bytes)
    copy = Node(free_name(f"{name}/copy", {n.name for n in graph.nodes}), "copy_rows", (inner.name,), (name,), params=params)  # fmt: skip
    nodes = [node.renamed({name: inner.name}) for node in graph.nodes]
    return graph.with_nodes([*nodes, copy], {**graph.values, inner.name: inner})


def block(graph: Graph, alignment: int) -> dict[str, int]:
    """The offset of each state input in the block."""
    found, end = {}, 0
    for state in graph.states:
        found[state.input] = end
        end += aligned(graph.values[state.input].bytes, alignment)
    return found


def block_size(graph: Graph, alignment: int, slice_: int | None = None, window: int | None = None) -> int:
    """The bytes of the block: the states, of a stream the number of hops since the reset, the position in a run of slices, and the window
    for weights.
    """
    counter = aligned(COUNTER, alignment) if graph.stream is not None else 0
    position = aligned(POSITION, alignment) if slice_ is not None else 0
    states = sum(aligned(graph.values[state.input].bytes, alignment) for state in graph.states)
    size = position + counter + states
    return size if window is None else aligned(aligned(size, WINDOW_ALIGN) + window, alignment)


def window_offset(graph: Graph, alignment: int) -> int:
    """Where the window for weights begins in the arena of a bundle without slices."""
    return aligned(block_size(graph, alignment), WINDOW_ALIGN)


def with_block(graph: Graph, plan: Plan, slice_: int | None = None, window: int | None = None) -> Plan:
    """The plan with the block in front of it."""
    size = block_size(graph, plan.alignment, slice_, window)
    if not size:
        return plan
    together, offsets = stored_together(graph), {name: offset + size for name, offset in plan.offsets.items()}
    kept = []
    for name, offset in block(graph, plan.alignment).items():
        offsets.update(dict.fromkeys(together[name], offset))
        kept.append((Buffer(together[name], graph.values[name].bytes, -1, len(plan.steps)), offset))
    if window is not None:
        kept.append((Buffer((WINDOW,), window, -1, len(plan.steps)), window_offset(graph, plan.alignment)))
    return replace(
        plan,
        offsets=offsets,
        slots={name: tuple(slot + size for slot in slots) for name, slots in plan.slots.items()},
        scratch={name: offset + size for name, offset in plan.scratch.items()},
        scratch_slots={name: tuple(slot + size for slot in slots) for name, slots in plan.scratch_slots.items()},
        buffers=(*kept, *((buffer, offset + size) for buffer, offset in plan.buffers)),
        size=plan.size + size,
        bound=plan.bound + size,
        row_bound=plan.row_bound + size,
        live=tuple(bytes_alive + size for bytes_alive in plan.live),
        rams=tuple((ram, start + size) for ram, start in plan.rams),
    )


def aligned(size: int, alignment: int) -> int:
    """The size, rounded up to a multiple of the alignment."""
    return -(-size // alignment) * alignment
