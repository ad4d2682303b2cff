"""Turns the groups of a plan that are computed in strips into tables and layers, for the C files of a bundle.

In: a kernel-level graph, its Plan, and the layers as in the template's context. Out: rows for the template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glowembed.emit.schedule import layer_numbers, scratch_slot
from glowembed.emit.tables import Joined, lines
from glowembed.graph.cstruct import c_initialiser, counting_type, ctypes_struct
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Plan
from glowembed.graph.registry import kernel
from glowembed.graph.tiles import TiledGroup


def entries(graph: Graph, plan: Plan, layers: Sequence[Mapping[str, Any]], slots: Mapping[str, str]) -> dict[str, Any]:
    """The layers and the groups that are computed in strips, their tables and the types of these. slots: the C expressions of the tables of
    places.
    """
    number = layer_numbers(graph)
    groups = [_group(graph, plan, group, number) for group in plan.tiled]
    most = max((max(rows) for group in groups for rows in group["counts"]), default=0)
    made = [
        _layer(graph, slots, group, node, {**layers[number[node]], "layer": number[node]})
        for group in plan.tiled
        for node in sorted(group.tiles)
    ]
    return {
        "layers": made,
        "groups": groups,
        "tables": with_tables(made),
        "done_type": counting_type(most),
        "end_type": counting_type(max((max(group["ends"]) for group in groups), default=0), "uint16_t"),
        "shift_type": counting_type(max((max(group["shifts"], default=0) for group in groups), default=0), "uint16_t"),
    }


def _group(graph: Graph, plan: Plan, group: TiledGroup, number: Mapping[int, int]) -> dict[str, Any]:
    """A group: its layers, its tape (the layer of each call of one row, counted from the first), the ends of its
    sections, and for every second section the shifts of the slots of all layers.
    """
    nodes = sorted(group.tiles)
    steps = [step for step in plan.steps if step.node in group.tiles]
    place = {node: i for i, node in enumerate(nodes)}
    assert [number[node] for node in nodes] == list(range(number[nodes[0]], number[nodes[0]] + len(nodes)))
    shifts: list[int] = []
    for begin, end in zip(group.sections[::2], group.sections[1::2], strict=False):
        own = {step.node: step.shift for step in steps[begin:end]}
        shifts += [own.get(node, 0) for node in nodes]
    tape = [place[step.node] for step in steps]
    done = [0] * len(nodes)
    for step in steps:
        assert step.first + step.shift == done[place[step.node]] and step.last == step.first + 1, step
        done[place[step.node]] += 1
    return {
        "first": number[nodes[0]],
        "last": number[nodes[-1]],
        "count": len(nodes),
        "strips": group.strips,
        "patches": group.patches,
        "tape": tape,
        "calls": len(tape),
        "ends": list(group.sections),
        "end_lines": lines(group.sections, 24),
        "shifts": shifts,
        "shift_lines": lines(shifts, 24),
        "counts": [done],
    }


def with_tables(layers: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tables of the tiles, one for each type. Each layer is given the C expression of its own."""
    found = []
    for ctype in sorted({layer["place_type"] for layer in layers if layer["places"]}):
        mine = [layer for layer in layers if layer["places"] and layer["place_type"] == ctype]
        joined = Joined(f"tiles_{ctype}", ctype, (layer["places"] for layer in mine))
        for layer in mine:
            layer["places_at"] = joined.at(layer["places"])
        found.append(joined.entry())
    return found


def _layer(
    graph: Graph, slots: Mapping[str, str], group: TiledGroup, number: int, layer: Mapping[str, Any]
) -> dict[str, Any]:
    """A layer in strips. Equal params are stored once. places: the numbers that describe each tile, one after the other: which params it has,
    and the bytes before it in a row of each input and of the output; a number that is 0 in all tiles is left out.
    """
    node, tiles = graph.nodes[number], group.tiles[number]
    own = kernel(node.kernel or "")
    distinct = list(dict.fromkeys(tile.params for tile in tiles))
    rows = [(distinct.index(tile.params), *tile.read, tile.written) for tile in tiles]
    kept = [i for i, column in enumerate(zip(*rows, strict=True)) if any(column)]
    texts = [f"tile[{kept.index(i)}]" if i in kept else None for i in range(len(rows[0]))]
    functions: dict[str, list[int]] = {}
    for i, params in enumerate(distinct):
        functions.setdefault(own.symbol_for(params), []).append(i)
    nodes = sorted(group.tiles)
    patched = {graph.nodes[n].outputs[0]: nodes.index(n) for n in nodes if group.is_patched(n) and n != _last(group)}
    return {
        **layer,
        "scratch": scratch_slot(slots, node.name, "row") or layer["scratch"],
        "tile_params": [c_initialiser(params) for params in distinct],
        "tile_params_bytes": b"".join(bytes(ctypes_struct(params)) for params in distinct),
        "tile_params_at": f"tile_params{layer['layer']}",
        "tile_functions": list(functions.items()),
        "place_type": counting_type(max(max(row) for row in rows)),
        "places": [row[i] for row in rows for i in kept],
        "numbers": len(kept),
        "own_params": texts[0],
        "read": texts[1:-1],
        "written": texts[-1],
        "input_shifts": [patched.get(name) for name in node.inputs],
        "shift": nodes.index(number) if group.is_patched(number) else None,
        "output_shift": patched.get(node.outputs[0]),
    }


def _last(group: TiledGroup) -> int:
    """The last patched node, whose output is not computed twice."""
    return max((n for n in group.tiles if group.is_patched(n)), default=-1)
