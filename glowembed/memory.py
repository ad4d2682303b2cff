"""Where every tensor lives: lifetimes to offsets in one static arena.

In: a kernel-level graph with kernels chosen, and an alignment. Out: a Plan. Values that must share memory (views, the
parts of a concat) and element-wise outputs that may lie on an input that dies are one buffer. Constants are not here:
they are in flash. The plan states the liveness bound: what a perfect planner that keeps whole tensors would need.
"""

from __future__ import annotations

from collections.abc import Callable

from glowembed.ir import Graph, Node
from glowembed.op import kernel, kernel_ops
from glowembed.plan import Buffer, Plan


SCRATCH = "scratch of "


def plan(graph: Graph, alignment: int) -> Plan:
    """The smallest plan of several greedy orders. Inputs are alive before the first node, outputs after the last."""
    buffers = _buffers(graph, alignment)
    placed = min((_place(sorted(buffers, key=order)) for order in _ORDERS), key=_peak)
    offsets = {name: offset for buffer, offset in placed for name in buffer.values}
    return Plan(
        {n: o for n, o in offsets.items() if not n.startswith(SCRATCH)},
        {n.removeprefix(SCRATCH): o for n, o in offsets.items() if n.startswith(SCRATCH)},
        max(_peak(placed), alignment),
        _bound(buffers),
        alignment,
        tuple(sorted(placed, key=lambda p: (p[0].birth, p[1], p[0].values))),
    )


def check(graph: Graph, plan: Plan) -> None:
    """Prove the plan by replay: every read finds the value that was written there. Raises AssertionError.

    Separate from the planner on purpose: it knows addresses and the order of execution, not buffers or lifetimes.
    """
    owner: dict[int, str] = {}
    shared = {node.outputs[0]: node.inputs[node.shares] for node in graph.nodes if node.shares is not None}

    def root(name: str) -> str:
        return root(shared[name]) if name in shared else name

    def span(name: str) -> range:
        start = plan.offsets[name]
        return range(start, start + graph.values[name].bytes)

    def demand(name: str, reader: str) -> None:
        if graph.values[name].const is None:
            wrong = [b for b in span(name) if owner.get(b) != root(name)]
            assert not wrong, f"{reader} reads {name!r}, but {owner.get(wrong[0])!r} lies at byte {wrong[0]}"

    for name in graph.inputs:
        owner.update(dict.fromkeys(span(name), root(name)))
    for node in graph.nodes:
        for name in node.inputs:
            demand(name, node.name)
        if node.name in plan.scratch:
            size = kernel(node.kernel or "").scratch(node.params)
            start = plan.scratch[node.name]
            owner.update(dict.fromkeys(range(start, start + size), SCRATCH + node.name))
            for name in node.inputs:
                demand(name, node.name)
        owner.update(dict.fromkeys(span(node.outputs[0]), root(node.outputs[0])))
        assert max(span(node.outputs[0])) < plan.size, node.name
    for name in graph.outputs:
        demand(name, "the caller")


_ORDERS: tuple[Callable[[Buffer], tuple[int, ...] | tuple[int, int, tuple[str, ...]]], ...] = (
    lambda b: (-b.size, b.birth, b.values),
    lambda b: (b.birth - b.death, -b.size, b.values),
    lambda b: ((b.birth - b.death - 1) * b.size, b.birth, b.values),
    lambda b: (b.birth, -b.size, b.values),
)


def _buffers(graph: Graph, alignment: int) -> list[Buffer]:
    groups = _groups(graph)
    birth = dict.fromkeys(graph.inputs, -1)
    death = {name: len(graph.nodes) for name in graph.outputs}
    for step, node in enumerate(graph.nodes):
        for name in node.outputs:
            birth[name] = step
        for name in (*node.inputs, *node.outputs):
            death[name] = max(death.get(name, -1), step)
    buffers = []
    for members in groups:
        size = max(graph.values[name].bytes for name in members)
        first, last = min(birth[n] for n in members), max(death.get(n, birth[n]) for n in members)
        buffers.append(Buffer(tuple(members), _align(size, alignment), first, last))
    for step, node in enumerate(graph.nodes):
        if node.kernel and (size := kernel(node.kernel).scratch(node.params)):
            buffers.append(Buffer((SCRATCH + node.name,), _align(size, alignment), step, step))
    return buffers


def _groups(graph: Graph) -> list[list[str]]:
    """Activations that share one buffer: demanded by `shares`, or in place because the kernel allows it."""
    activations = [n for n, v in graph.values.items() if v.const is None]
    group = {name: [name] for name in activations}

    def join(a: str, b: str) -> None:
        if group[a] is not group[b]:
            group[a] += group[b]
            for name in group[b]:
                group[name] = group[a]

    for node in graph.nodes:
        if node.shares is not None and node.inputs[node.shares] in group:
            join(node.inputs[node.shares], node.outputs[0])
    last_read = {name: step for step, node in enumerate(graph.nodes) for name in node.inputs}
    last_read |= dict.fromkeys(graph.outputs, len(graph.nodes))
    for step, node in enumerate(graph.nodes):
        for name in _in_place_inputs(node):
            dies = name in group and all(last_read.get(n, -1) <= step for n in group[name])
            if dies and graph.values[name].bytes == graph.values[node.outputs[0]].bytes:
                join(name, node.outputs[0])
                break
    unique = {id(members): members for members in group.values()}
    return [sorted(members) for members in unique.values()]


def _in_place_inputs(node: Node) -> tuple[str, ...]:
    if node.kernel is None or kernel(node.kernel).store != "elements":
        return ()
    return node.inputs


def _align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _place(buffers: list[Buffer]) -> list[tuple[Buffer, int]]:
    """Each buffer at the lowest offset that is free for its whole life, in the given order."""
    placed: list[tuple[Buffer, int]] = []
    for buffer in buffers:
        offset = 0
        for other, start in sorted((p for p in placed if p[0].meets(buffer)), key=lambda p: p[1]):
            if start - offset >= buffer.size:
                break
            offset = max(offset, start + other.size)
        placed.append((buffer, offset))
    return placed


def _peak(placed: list[tuple[Buffer, int]]) -> int:
    return max((offset + buffer.size for buffer, offset in placed), default=0)


def _bound(buffers: list[Buffer]) -> int:
    steps = sorted({b.birth for b in buffers})
    return max((sum(b.size for b in buffers if b.birth <= s <= b.death) for s in steps), default=0)


def overlap_distance(node: Node, index: int = 0) -> int | None:
    """How many bytes the output must start before input `index` for rows computed in order; None: no overlap.

    Safe if and only if output offset <= input offset - distance (it may be negative). Found by scanning the rows:
    when row y has been written, no later row may need what lies below its end.
    """
    op = kernel_ops()[node.op]
    store = kernel(node.kernel).store if node.kernel else "disjoint"
    if store == "disjoint":
        return None
    rows, (strides, out_stride) = op.rows(node.params), op.row_bytes(node.params)
    distance, needed = None, None
    for y in reversed(range(rows)):
        later = op.needs(node.params, y)[index]
        needed = min(needed, later.start) if needed is not None and len(later) else (later.start if len(later) else needed)
        if needed is None:
            continue
        in_place = store == "elements" and strides[index] == out_stride
        end = y if in_place else y + 1
        candidate = end * out_stride - needed * strides[index]
        distance = candidate if distance is None else max(distance, candidate)
    return distance
