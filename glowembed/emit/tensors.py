"""Prepares inputs and outputs for the templates: names in macros, types, offsets and places.

In: a graph, its Plan and the place of the weights. Out: dictionaries for the templates and for bundle.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from glowembed.emit.constants import dtype_of, float_literal
from glowembed.graph.cnames import comment, distinct, text
from glowembed.graph.ir import Graph, Value
from glowembed.graph.op import is_a
from glowembed.graph.plan import OUTSIDE, Plan, Ram, Weights
from glowembed.nest.dtypes import stored_ctype
from glowembed.ops.handover import TakeRows

OWN_MACROS = frozenset(
    """OK MORE STREAM_ROWS STREAM_HOP STATE_OFFSET STATE_SIZE ERROR_ARENA ERROR_LAYER ERROR_PLACES ERROR_WEIGHTS ERROR_STRUCTURE ERROR_DAMAGED ERROR_POSITION IO_ALIGN API ARENA ARENA_SIZE ARENA_ALIGN ALIGNED CAST HIDDEN LAYER_COUNT H GLOW_H KERNELS_H WEIGHTS_H
    MEM_ALIGN WEIGHTS_SIZE WEIGHTS_ALIGN WEIGHTS_CRC WEIGHTS_SECTION CONSTANT_MEM_SIZE MUTABLE_MEM_SIZE ACTIVATIONS_MEM_SIZE""".split()
)
"""The suffixes of a bundle's macros, in addition to those of inputs and outputs."""

MACROS = ("OFFSET", "ROWS", "ROW_SIZE", "SIZE", "COUNT", "RANK", "SHAPE", "SCALE", "ZERO_POINT", "LABELS")
"""The suffixes of the macros of an input or output."""


def placeholders(
    tensors: Mapping[str, list[dict[str, Any]]], align: int, arena: int, rams: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The offsets of inputs and outputs in the mutable memory of the Glow interface, aligned and one after the other,
    and the offsets of other RAMs after the arena in the activations.

    If a placeholder's macro would equal one of the bundle's own, its name gets the suffix _TENSOR.
    """
    offset, at, names = 0, {}, {}
    for tensor in (*tensors["inputs"], *tensors["outputs"]):
        ident = tensor["id"]
        if ident not in at:
            at[ident], offset = offset, offset + -(-tensor["bytes"] // align) * align
            taken = ident in OWN_MACROS or ident.startswith(("INPUT_", "OUTPUT_", "RAM_"))
            names[ident] = f"{ident}_TENSOR" if taken else ident
    places: list[tuple[int, Mapping[str, Any]]] = []
    end = arena
    for ram in rams:
        places.append((-(-end // align) * align, ram))
        end = places[-1][0] + ram["size"]
    return {"size": offset, "at": at, "names": names, "rams": places, "activations": end}


def tensors_of(graph: Graph, plan: Plan) -> dict[str, list[dict[str, Any]]]:
    ids = ids_of(graph)
    tensors = {
        "inputs": [_end(graph, n, plan, ids[n], "INPUT") for n in graph.inputs],
        "outputs": [_end(graph, n, plan, ids[n], "OUTPUT") for n in graph.outputs],
    }
    for tensor in tensors["outputs"]:
        if "found" in tensor:
            tensor["found_id"] = ids[tensor["found"]]
    return tensors


def ids_of(graph: Graph) -> dict[str, str]:
    """For each input and output, its name in macros."""
    ends = list(dict.fromkeys((*graph.inputs, *graph.outputs)))
    return dict(zip(ends, distinct(ends, upper=True, suffixes=MACROS), strict=True))


def _end(graph: Graph, name: str, plan: Plan, ident: str, direction: str) -> dict[str, Any]:
    """An input or output. handed: its place; rows: the number of rows if they are handed over one by one."""
    value = graph.values[name]
    taker = next((n for n in graph.nodes if is_a(n, TakeRows) and n.inputs[0] == name), None)
    return {
        **tensor_entry(value, plan, ident),
        "handed": value.place,
        "rows": taker.params.rows if taker is not None else None,
        "direction": direction,
        "member": f"{direction}_{ident}".lower(),
        "declaration": _declaration(value, f"{direction}_{ident}".lower(), direction == "INPUT"),
    }


def _declaration(value: Value, member: str, is_input: bool) -> str:
    if value.place == "rows":
        return f"ge_source {member}"
    return f"{'const ' if is_input else ''}{stored_ctype(dtype_of(value))} *{member}"


def places_of(tensors: Mapping[str, list[dict[str, Any]]], name: str, weights: Weights, plan: Plan) -> dict[str, Any]:
    """The data outside the arena: members of the struct, parameters and arguments of functions, and the checks of
    pointers.
    """
    ends = [*tensors["inputs"], *tensors["outputs"]]
    for end in ends:
        end["where"] = _where(end, ends, name.upper())
    found = [end for end in ends if end["handed"] in OUTSIDE]
    rams = [
        {"member": ram_member(ram), "id": ram.name.upper(), "size": ram.size, "name": ram.name} for ram, _ in plan.rams
    ]
    if not found and not rams and weights.place != "file":
        return {"rams": [], "places": [], "members": [], "takes": "", "gives": "", "misplaced": ""}
    wrong = [f"places->{t['member']}.row == NULL" for t in found if t["handed"] == "rows"]
    for t in found:
        if t["handed"] == "caller":
            pointer = f"places->{t['member']}"
            wrong += [f"{pointer} == NULL", f"(uintptr_t){pointer} % {name.upper()}_IO_ALIGN != 0"]
    for ram in rams:
        pointer = f"places->{ram['member']}"
        wrong += [f"{pointer} == NULL", f"(uintptr_t){pointer} % {name.upper()}_ARENA_ALIGN != 0"]
    misplaced = " ||\n        ".join(["places == NULL", *wrong])
    members = [
        *(t["member"] for t in found),
        *(r["member"] for r in rams),
        *(["weights"] if weights.place == "file" else []),
    ]
    return {
        "places": found,
        "rams": rams,
        "members": members,
        "takes": f", const {name}_places *places",
        "gives": ", places",
        "misplaced": misplaced,
    }


def _where(end: Mapping[str, Any], ends: Iterable[Mapping[str, Any]], prefix: str) -> list[str]:
    """A comment for the header that says where an input or output lies and what it overlaps."""
    start, stop = end["offset"], end["bytes"] + (end["offset"] or 0)
    if end["handed"] == "rows":
        macro = f"{prefix}_INPUT_{end['id']}"
        return [f"Handed over by places->{end['member']}, in {macro}_ROWS rows of {macro}_ROW_SIZE bytes."]
    if end["handed"] == "state":
        return [
            f"A state: bytes {start} to {stop - 1} of the arena, kept from run to run and set by {prefix.lower()}_reset."
        ]
    if end["handed"] == "caller":
        only = "read, never written" if end["direction"] == "INPUT" else "written while it runs"
        return [f"In your buffer places->{end['member']}, which is {only}."]
    over = [
        f"{other['direction'].lower()} {other['comment']}"
        for other in ends
        if other is not end and other["offset"] is not None
        and other["offset"] < stop and start < other["offset"] + other["bytes"]
    ]  # fmt: skip
    lines = [
        f"In the arena, bytes {start} to {stop - 1}{', over the same bytes as ' + ', '.join(over) if over else ''}."
    ]
    if over and end["direction"] == "OUTPUT":
        lines.append("Read it before you write what lies there for the next run.")
    return lines


def tensor_entry(value: Value, plan: Plan, ident: str) -> dict[str, Any]:
    qtype = value.qtype
    return {
        "name": value.name,
        "comment": comment(value.name),
        "id": ident,
        "shape": list(value.shape),
        "layout": list(value.layout) if value.layout else None,
        "dtype": dtype_of(value),
        "model_dtype": value.model_dtype,
        "ctype": stored_ctype(dtype_of(value)),
        "scale": qtype.scale[0] if qtype else None,
        "scale_text": float_literal(qtype.scale[0]) if qtype else None,
        "scale_exact": repr(float(qtype.scale[0])) if qtype else None,
        "zero_point": qtype.zero_point[0] if qtype else None,
        "elements": value.elements,
        "offset": plan.offsets.get(value.name),
        "bytes": value.bytes,
        **({"found": value.found[0], "found_axis": value.found[1]} if value.found else {}),
        **({"labels": list(value.labels), "labels_text": ", ".join(map(text, value.labels))} if value.labels else {}),
    }


def ram_member(ram: Ram) -> str:
    """The name of an additional RAM in the struct of places."""
    return f"ram_{ram.name.lower()}"
