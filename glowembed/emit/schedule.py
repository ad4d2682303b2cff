"""Turns the schedule of a plan into tapes, row tables and buffers for the C files and the manifest of a bundle.

In: a kernel-level graph and its Plan. Out: rows for the templates, entries for bundle.json. Layers are the nodes with a
kernel, numbered in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glowembed.emit.tables import Joined
from glowembed.graph.cstruct import counting_type
from glowembed.graph.ir import Graph
from glowembed.graph.plan import SCRATCH, SLOT_UNIT, Plan
from glowembed.graph.registry import kernel_ops
from glowembed.graph.tiles import TiledGroup


def layer_numbers(graph: Graph) -> dict[int, int]:
    """The layer number of each node with a kernel, by node number."""
    computed = [i for i, node in enumerate(graph.nodes) if node.kernel]
    return {node: layer for layer, node in enumerate(computed)}


def groups(graph: Graph, plan: Plan) -> list[dict[str, Any]]:
    """For each streamed group that is not in strips: its layers, its tape (the layer of each call, counted from the
    first), and the rows in each call.
    """
    layer = layer_numbers(graph)
    found = []
    in_strips = {(group.first, group.last) for group in plan.tiled}
    for first, last in (group for group in plan.groups if group not in in_strips):
        nodes = [n for n in range(first, last) if n in layer]
        steps = [step for step in plan.steps if first <= step.node < last]
        block = max(step.last - step.first for step in steps)
        tape = [layer[step.node] - layer[nodes[0]] for step in steps]
        _prove(graph, nodes, steps, block)
        found.append(
            {
                "first": layer[nodes[0]],
                "last": layer[nodes[-1]],
                "count": len(nodes),
                "block": block,
                "tape": tape,
                "calls": len(tape),
            }
        )
    return found


def _prove(graph: Graph, nodes: Sequence[int], steps: Sequence[Any], block: int) -> None:
    """Check that the tape reproduces the steps: each call takes the next `block` rows of its layer, and the last call
    the remaining rows.
    """
    done = dict.fromkeys(nodes, 0)
    for step in steps:
        rows = kernel_ops()[graph.nodes[step.node].op].rows(graph.nodes[step.node].params)
        assert (step.first, step.last) == (done[step.node], min(rows, done[step.node] + block)), step
        done[step.node] = step.last


def slot_tables(plan: Plan) -> tuple[Joined, dict[str, str]]:
    """The tables of the places of rows, and for each value or scratch in slots the C expression of its own."""
    tables = {name: _slots(plan, offsets) for name, offsets in plan.tables.items()}
    joined = Joined("row_slots", "ge_slot", tables.values())
    return joined, {name: joined.at(table) for name, table in tables.items()}


def scratch_slot(slots: Mapping[str, str], node: str, row: str) -> str | None:
    """The C expression of the scratch of a node in the call that begins with this row; None if it has no slots."""
    table = slots.get(SCRATCH + node)
    return None if table is None else f"arena + GE_SLOT_UNIT * ({table})[{row}]"


def slot_type(plan: Plan) -> str:
    """The C type ge_slot of a bundle."""
    return counting_type(max((max(_slots(plan, offsets)) for offsets in plan.tables.values()), default=0), "uint16_t")


def _slots(plan: Plan, offsets: Sequence[int]) -> list[int]:
    """The offsets from the start of their RAM, in units of GE_SLOT_UNIT."""
    start = min(offsets) - plan.ram_at(min(offsets))[1]
    return [(offset - start) // SLOT_UNIT for offset in offsets]


def count_types(rows: Sequence[int]) -> dict[str, str]:
    """The C types of the counts of rows, for layers with this many."""
    most = max(rows, default=0)
    return {"done_type": counting_type(most), "rows_type": counting_type(most, "uint16_t")}


def with_tapes(*found: Sequence[dict[str, Any]]) -> Joined:
    """The tapes of all groups. Each group is given the C expression of its own."""
    every = [group for groups in found for group in groups]
    layers = max((group["count"] for group in every), default=1)
    joined = Joined("tapes", counting_type(layers - 1), (group["tape"] for group in every))
    for group in every:
        group["tape_at"] = joined.at(group["tape"])
    return joined


def is_whole(plan: Plan, node: int, value: str) -> bool:
    """Whether the value is in one piece in the arena after its layer, or the group of its layer, has run."""
    if value in plan.slots or plan.ram_at(plan.offsets.get(value, 0))[0] is not None:
        return False
    return all(not first <= node < last - 1 for first, last in plan.groups)


def buffers(plan: Plan) -> list[dict[str, Any]]:
    """The buffers for bundle.json. The rows of a streamed tensor are one entry, with [offset, birth, death] for each
    row.
    """
    rows: dict[tuple[str, ...], list[tuple[int, list[int]]]] = {}
    for buffer, offset in plan.buffers:
        if buffer.row is not None:
            rows.setdefault(buffer.values, []).append((buffer.row, [offset, buffer.birth, buffer.death]))
    found = []
    for buffer, offset in plan.buffers:
        head = {"values": list(buffer.values), "bytes": buffer.size}
        if buffer.row is None:
            lives = {"lives": [list(life) for life in buffer.lives]} if len(buffer.lives) > 1 else {}
            found.append({**head, "offset": offset, "birth": buffer.birth, "death": buffer.death, **lives})
        elif buffer.values in rows:
            found.append({**head, "rows": [row for _, row in sorted(rows.pop(buffer.values))]})
    return found


def schedule_entry(graph: Graph, plan: Plan) -> dict[str, Any]:
    """The entry of bundle.json for the plan."""
    layer = layer_numbers(graph)
    return {
        "calls_by_layer": [layer.get(step.node, -1) for step in plan.steps],
        "live": list(plan.live),
        "calls": sum(1 for step in plan.steps if graph.nodes[step.node].kernel),
        "fastest_cycles_estimate": plan.fastest_cycles,
        "extra_cycles_estimate": plan.extra_cycles,
        "row_bound": plan.row_bound,
        "proof": plan.proof,
        **({"simpler": plan.simpler} if plan.simpler else {}),
        "groups": [{k: g[k] for k in ("first", "last", "block", "calls")} for g in groups(graph, plan)],
        **({"strips": [_strips(group, layer, plan) for group in plan.tiled]} if plan.tiled else {}),
    }


def _strips(group: TiledGroup, layer: Mapping[int, int], plan: Plan) -> dict[str, int]:
    """A group in strips, for the manifest. calls: of all strips."""
    steps = [step for step in plan.steps if step.node in group.tiles]
    calls = sum(1 for _ in group.calls(steps))
    first, last = (layer[node] for node in (min(group.tiles), max(group.tiles)))
    return {"first": first, "last": last, "strips": group.strips, "patches": group.patches, "calls": calls}
