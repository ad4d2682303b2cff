"""Groups of layers that are computed in strips, as data. plan/tiles.py makes them; emit/tiles.py and plan/replay.py read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from glowembed.graph.ir import Graph, Node
from glowembed.graph.registry import kernel_ops
from glowembed.records import dataclass

AStep = TypeVar("AStep")


@dataclass(frozen=True)
class Tile:
    """Some columns of the rows of a node, in the unit of its geometry, and the params that compute them. read: for each
    input, the bytes of a stored row that come before those that are read. written: the bytes of an output row that come
    before those that are written.
    """

    columns: range
    params: Any
    read: tuple[int, ...]
    written: int

    def node(self, whole: Node) -> Node:
        """The node that computes the tile."""
        columns = kernel_ops()[whole.op].geometry.columns(whole.params)
        return replace(whole, params=self.params, macs=whole.macs * len(self.columns) // columns)


@dataclass(frozen=True)
class TiledGroup:
    """A group of nodes whose steps are executed once for each strip. tiles: for each node, by number, what it computes
    in each strip or, for patched nodes, in each patch of each strip. sections: its steps fall into runs that end at
    these numbers, counted from the first step; every second run consists of patched nodes and is executed once for each
    patch. rows: the bytes of a stored row of the values that only the group uses.
    """

    first: int
    last: int
    strips: int
    patches: int
    tiles: Mapping[int, tuple[Tile, ...]]
    sections: tuple[int, ...]
    rows: Mapping[str, int]

    def is_patched(self, node: int) -> bool:
        """Whether the node has a tile for each patch."""
        return len(self.tiles[node]) > self.strips

    def calls(self, steps: Sequence[AStep]) -> Iterator[tuple[AStep, int]]:
        """The steps of the group, or what stands for them, in the order of execution, each with the number of its
        tile.
        """
        for strip in range(self.strips):
            start = 0
            for number, end in enumerate(self.sections):
                for patch in range(self.patches if number % 2 else 1):
                    for step in steps[start:end]:
                        yield step, strip * self.patches + patch if number % 2 else strip
                start = end


def with_tiles(graph: Graph, groups: Iterable[TiledGroup]) -> Graph:
    """The graph with a node for each different tile, with the same constants, in place of the nodes that are computed
    in strips.
    """
    tiles = {number: tiles for group in groups for number, tiles in group.tiles.items()}
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        distinct = {tile.params: tile for tile in tiles.get(number, ())}
        nodes += [tile.node(node) for tile in distinct.values()] or [node]
    return replace(graph, nodes=tuple(nodes))
