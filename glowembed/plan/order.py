"""Finds the order of execution that needs the least memory when tensors are kept whole.

In: a kernel-level graph. Out: the same graph with its nodes in the best order found. The search is exact for networks
in which few sets of completed nodes are possible (chains, and networks with some branches); for others it is a wide
beam search. The order of the model is kept unless another one is better.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from glowembed.graph.ir import Graph, Node
from glowembed.plan.rows import rows_of

STATES = 2000
"""The number of sets of completed nodes that the exact search looks at before it gives up."""

BEAM_WORK = 12_000
"""The product of the number of nodes and the width of the beam."""

BEAM = 1024


def best_order(graph: Graph) -> Graph:
    """The nodes in an order that needs the fewest bytes at once; ties are resolved in favour of the existing order."""
    search = _search(graph)
    natural = _peak(search, range(len(graph.nodes)))
    found = _exact(search, natural)
    if found is None:
        found = _beam(search, max(8, min(BEAM, BEAM_WORK // max(1, len(graph.nodes)))))
    if _peak(search, found) >= natural:
        return graph
    return replace(graph, nodes=tuple(graph.nodes[i] for i in found))


@dataclass(frozen=True)
class _Search:
    """The search. Sets of nodes are the bits of an int. A storage is alive from its first writer to its last user."""

    before: tuple[int, ...]
    storages: tuple[tuple[int, int, bool, bool], ...]
    """(bytes, nodes that use it, alive before the first node, alive after the last)"""

    touched: tuple[tuple[int, ...], ...]

    after: tuple[tuple[int, ...], ...]
    """The nodes that read the output of each node."""


def _search(graph: Graph) -> _Search:
    rows = rows_of(graph)
    maker = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    before = tuple(
        sum({1 << maker[n] for n in node.inputs if n in maker} | {1 << i for i in overwritten(graph, node)})
        for node in graph.nodes
    )
    users = [0] * len(rows.storages)
    touched = []
    for i, node in enumerate(graph.nodes):
        mine = sorted({rows.storage_of[n] for n in (*node.inputs, *node.outputs) if n in rows.storage_of})
        touched.append(tuple(mine))
        for s in mine:
            users[s] |= 1 << i
    storages = tuple(
        (0 if s.outside else s.bytes, users[i], s.is_input, s.is_output) for i, s in enumerate(rows.storages)
    )
    after = tuple(tuple(r for r, needed in enumerate(before) if needed >> i & 1) for i in range(len(before)))
    return _Search(before, storages, tuple(touched), after)


def overwritten(graph: Graph, node: Node) -> set[int]:
    """The numbers of the other nodes that read what this one writes over."""
    if node.shares is None or node.kernel is None:
        return set()
    old = {node.inputs[node.shares]}
    for other in graph.nodes:
        if other.kernel is None and other.shares is not None and other.inputs[other.shares] in old:
            old.update(other.outputs)
    return {i for i, other in enumerate(graph.nodes) if other is not node and old.intersection(other.inputs)}


def _step(search: _Search, done: int, live: int, node: int) -> tuple[int, int]:
    """The bytes while `node` runs, and after it; `live` are those before."""
    during, dead, now = live, 0, done | 1 << node
    for s in search.touched[node]:
        size, users, old, kept = search.storages[s]
        if not old and not users & done:
            during += size
        if not kept and users & now == users:
            dead += size
    return during, during - dead


def _start(search: _Search) -> int:
    return sum(size for size, users, old, kept in search.storages if old and (users or kept))


def _peak(search: _Search, order: Sequence[int]) -> int:
    done, live, peak = 0, _start(search), 0
    for node in order:
        during, live = _step(search, done, live, node)
        done |= 1 << node
        peak = max(peak, during)
    return peak


def _first(search: _Search) -> tuple[int, ...]:
    """The nodes that need no other node."""
    return tuple(i for i, needed in enumerate(search.before) if not needed)


def _next(search: _Search, ready: tuple[int, ...], node: int, done: int) -> tuple[int, ...]:
    """The nodes whose inputs are complete when `node` was the last to be done."""
    free = (i for i in search.after[node] if search.before[i] & ~done == 0)
    return tuple(sorted({*ready, *free} - {node}))


def _moves(search: _Search, ready: tuple[int, ...], done: int, live: int, peak: int) -> list[tuple[int, int, int]]:
    """The nodes that may be next, each with the bytes while it runs and after it.

    A node that needs no more than the peak, and leaves no more bytes than before, is the only one: whatever runs after it needs
    no more than without it.
    """
    found = []
    for node in ready:
        during, after = _step(search, done, live, node)
        if during <= peak and after <= live:
            return [(node, during, after)]
        found.append((node, during, after))
    return found


def _exact(search: _Search, limit: int) -> list[int] | None:
    """The path from nothing done to everything done whose largest step is the smallest; None if there are too many
    states.
    """
    full = (1 << len(search.before)) - 1
    heap: list[tuple[int, int, int, int]] = [(0, 0, 0, _start(search))]
    came: dict[int, tuple[int, int]] = {}
    best, ready = {0: 0}, {0: _first(search)}
    seen = 0
    while heap:
        peak, _, done, live = heapq.heappop(heap)
        if done == full:
            return _path(came, full)
        if peak > best[done]:
            continue
        seen += 1
        if seen > STATES:
            return None
        for node, during, after in _moves(search, ready[done], done, live, peak):
            worst, now = max(peak, during), done | 1 << node
            if worst <= limit and worst < best.get(now, 1 << 62):
                best[now], came[now] = worst, (done, node)
                ready[now] = _next(search, ready[done], node, now)
                heapq.heappush(heap, (worst, -now.bit_count(), now, after))
    return _path(came, full) if full in came else list(range(len(search.before)))


def _path(came: dict[int, tuple[int, int]], done: int) -> list[int]:
    order = []
    while done:
        done, node = came[done]
        order.append(node)
    return order[::-1]


def _beam(search: _Search, width: int) -> list[int]:
    """Search with the `width` best sets of each size; ties are resolved by bytes alive, then by the nodes themselves."""
    beam: list[tuple[int, int, int, tuple[int, ...]]] = [(0, _start(search), 0, ())]
    ready = {0: _first(search)}
    for _ in search.before:
        grown: dict[int, tuple[int, int, int, tuple[int, ...]]] = {}
        for peak, live, done, path in beam:
            for node, during, after in _moves(search, ready[done], done, live, peak):
                now, entry = done | 1 << node, (max(peak, during), after, done | 1 << node, (*path, node))
                if now not in grown or entry < grown[now]:
                    grown[now] = entry
        beam = sorted(grown.values())[:width]
        ready = {done: _next(search, ready[done & ~(1 << path[-1])], path[-1], done) for _, _, done, path in beam}
    return list(beam[0][3])
