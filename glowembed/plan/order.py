"""Finds the order of execution that needs the least memory if tensors are kept whole.

In: a kernel-level graph. Out: the same graph with its nodes in the best order found. The search is exact for networks
in which few sets of completed nodes are possible (chains, and networks with some branches); for others it is a wide
beam search. The order of the model is kept unless another one is better.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from glowembed.graph.ir import Graph, Node
from glowembed.plan.rows import reserves, rows_of
from glowembed.records import dataclass

STATES, MOVES = 2000, 400_000
"""The number of sets of completed nodes, and of possible next nodes, that the exact search visits before it gives up."""

BEAM_WORK, BEAM_MOVES = 12_000, 2_400_000
"""The limits of the number of nodes times the width of the beam, and of both times the possible next nodes. Beyond the
latter, only those nodes are visited that the last node has made possible, and the first of the others.
"""

BEAM, NARROWEST, FEWEST = 1024, 8, 16


def best_order(graph: Graph) -> Graph:
    """The nodes in an order that needs the fewest bytes at once; ties are resolved in favour of the existing order."""
    search = _search(graph)
    natural = _peak(search, range(len(search.before)))
    found = _exact(search, natural)
    if found is None:
        found = _beam(search)
    if _peak(search, found) >= natural:
        return graph
    return replace(graph, nodes=_reserved(graph, [search.nodes[i] for i in found]))


def _reserved(graph: Graph, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Put nodes in order, each after the nodes that reserve the memory that it is the first to write."""
    waiting = {node.outputs[0]: node for node in graph.nodes if reserves(node)}
    found: list[Node] = []
    for node in nodes:
        found += [waiting.pop(name) for name in node.inputs if name in waiting]
        found.append(node)
    return (*found, *waiting.values())


@dataclass(frozen=True)
class _Search:
    """The data of the search, without nodes that only reserve memory. Sets of nodes are the bits of an int. A storage is alive from its first writer to its
    last user.
    """

    nodes: tuple[Node, ...]
    before: tuple[int, ...]
    storages: tuple[tuple[int, int, bool, bool], ...]
    """(bytes, nodes that use it, alive before the first node, alive after the last)"""

    touched: tuple[tuple[int, ...], ...]

    after: tuple[tuple[int, ...], ...]
    """The nodes that cannot be before each node."""


def _search(graph: Graph) -> _Search:
    rows = rows_of(graph)
    nodes = tuple(node for node in graph.nodes if not reserves(node))
    maker = {name: i for i, node in enumerate(nodes) for name in node.outputs}
    over = _overwritten(nodes)
    first = [{maker[n] for n in node.inputs if n in maker} | over.get(i, set()) for i, node in enumerate(nodes)]
    users = [0] * len(rows.storages)
    touched = []
    after: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        mine = sorted({rows.storage_of[n] for n in (*node.inputs, *node.outputs) if n in rows.storage_of})
        touched.append(tuple(mine))
        for s in mine:
            users[s] |= 1 << i
        for needed in first[i]:
            after[needed].append(i)
    storages = tuple(
        (0 if s.outside else s.bytes, users[i], s.is_input, s.is_output) for i, s in enumerate(rows.storages)
    )
    before = tuple(sum(1 << i for i in needed) for needed in first)
    return _Search(nodes, before, storages, tuple(touched), tuple(map(tuple, after)))


def _overwritten(nodes: Sequence[Node]) -> dict[int, set[int]]:
    """For each node that writes over an input, the numbers of the other nodes that read it."""
    readers: dict[str, list[int]] = {}
    views: dict[str, list[str]] = {}
    for i, node in enumerate(nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(i)
        if node.kernel is None and node.shares is not None:
            views.setdefault(node.inputs[node.shares], []).extend(node.outputs)
    found = {}
    for i, node in enumerate(nodes):
        if node.shares is not None and node.kernel is not None:
            old = [node.inputs[node.shares]]
            for name in old:  # it grows
                old += views.get(name, ())
            found[i] = {r for name in old for r in readers.get(name, ())} - {i}
    return found


def _step(search: _Search, done: int, live: int, node: int) -> tuple[int, int]:
    """The bytes while `node` runs, and after it. live: the bytes before it."""
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
    """The nodes that depend on no other node."""
    return tuple(i for i, needed in enumerate(search.before) if not needed)


def _next(search: _Search, ready: tuple[int, ...], node: int, done: int) -> tuple[int, ...]:
    """The nodes whose inputs are complete after `node` was executed."""
    free = (i for i in search.after[node] if search.before[i] & ~done == 0)
    return tuple(sorted({*ready, *free} - {node}))


def _moves(search: _Search, ready: tuple[int, ...], done: int, live: int, peak: int) -> list[tuple[int, int, int]]:
    """The nodes that may be next, each with the bytes while it runs and after it.

    If a node needs no more than the peak and leaves no more bytes than before, only that node is returned, because all
    later nodes then need no more memory than without it.
    """
    found = []
    for node in ready:
        during, after = _step(search, done, live, node)
        if during <= peak and after <= live:
            return [(node, during, after)]
        found.append((node, during, after))
    return found


def _exact(search: _Search, limit: int) -> list[int] | None:
    """The path from no node to all nodes whose largest step is the smallest; None if there are too many states."""
    full = (1 << len(search.before)) - 1
    heap: list[tuple[int, int, int, int]] = [(0, 0, 0, _start(search))]
    came: dict[int, tuple[int, int]] = {}
    best, ready = {0: 0}, {0: _first(search)}
    seen = looked = 0
    while heap:
        peak, _, done, live = heapq.heappop(heap)
        if done == full:
            return _path(came, full)
        if peak > best[done]:
            continue
        if done not in ready:
            last, node = came[done]
            ready[done] = _next(search, ready[last], node, done)
        seen, looked = seen + 1, looked + len(ready[done])
        if seen > STATES or looked > MOVES:
            return None
        for node, during, after in _moves(search, ready[done], done, live, peak):
            worst, now = max(peak, during), done | 1 << node
            if worst <= limit and worst < best.get(now, 1 << 62):
                best[now], came[now] = worst, (done, node)
                heapq.heappush(heap, (worst, -now.bit_count(), now, after))
    return _path(came, full) if full in came else list(range(len(search.before)))


def _path(came: dict[int, tuple[int, int]], done: int) -> list[int]:
    order = []
    while done:
        done, node = came[done]
        order.append(node)
    return order[::-1]


def _beam(search: _Search) -> list[int]:
    """Search with the best sets of each size; ties are resolved by bytes alive, then by the nodes themselves."""
    count = max(1, len(search.before))
    width = max(NARROWEST, min(BEAM, BEAM_WORK // count))
    most = max(FEWEST, BEAM_MOVES // (width * count))
    beam, ready = [(0, _start(search), 0, (0, -1))], [_first(search)]  # in order of their paths
    steps: list[list[tuple[int, int]]] = []
    for _ in search.before:
        grown: dict[int, tuple[int, int, int, tuple[int, int]]] = {}
        for number, (peak, live, done, (_, last)) in enumerate(beam):
            for node, during, after in _moves(search, _nearest(search, ready[number], last, most), done, live, peak):
                now, entry = done | 1 << node, (max(peak, during), after, done | 1 << node, (number, node))
                if now not in grown or entry < grown[now]:
                    grown[now] = entry
        beam = sorted(heapq.nsmallest(width, grown.values()), key=lambda entry: entry[3])
        ready = [_next(search, ready[number], node, done) for _, _, done, (number, node) in beam]
        steps.append([entry[3] for entry in beam])
    at, path = 0, []
    for step in reversed(steps):
        at, node = step[at]
        path.append(node)
    return path[::-1]


def _nearest(search: _Search, ready: tuple[int, ...], last: int, most: int) -> tuple[int, ...]:
    """Of too many possible next nodes, return those that `last` has made possible and the first `most` of the
    others.
    """
    if len(ready) <= most:
        return ready
    others = set(ready)
    return tuple(sorted({*(i for i in (search.after[last] if last >= 0 else ()) if i in others), *ready[:most]}))
