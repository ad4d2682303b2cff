"""bundle.json for other commands, and the sizes in the header of a bundle for people. In:

the graph, its Plan, the origin of the bundle, and the context of the templates. Out: JSON, and lines of text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from glowembed.emit import prefetch as emit_prefetch
from glowembed.emit import schedule as emit_schedule
from glowembed.emit import slices as emit_slices
from glowembed.emit import states as emit_states
from glowembed.emit.tensors import tensor_entry
from glowembed.graph.ir import Graph, Value
from glowembed.graph.plan import Plan, Weights
from glowembed.graph.registry import kernel
from glowembed.graph.target import Target
from glowembed.plan.rows import outside
from glowembed.records import dataclass

SCHEMA = 1
"""The version of bundle.json."""


@dataclass(frozen=True)
class Origin:
    """The sources and options from which the bundle was made, for the header and the manifest."""

    version: str
    model_file: str
    options: Mapping[str, Any]
    precision: tuple[Mapping[str, Any], ...] = ()
    simplified: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] | None = None


def manifest_of(
    graph: Graph, plan: Plan, target: Target, origin: Origin, sources: Mapping[str, bytes], context: Mapping[str, Any]
) -> dict[str, Any]:
    digest = hashlib.sha256(b"".join(f.encode() + b"\0" + sources[f] + b"\0" for f in sorted(sources))).hexdigest()
    drop = (
        "comment",
        "scale_text",
        "scale_exact",
        "ctype",
        "direction",
        "member",
        "declaration",
        "where",
        "found_id",
        "labels_text",
    )
    owners = outside(graph)
    layers = [
        {
            "name": layer["name"],
            "origins": layer["origins"],
            "op": layer["op"],
            "kernel": layer["kernel"],
            "macs": layer["macs"],
            "streamed": layer["streamed"],
            "constants": layer["constants"],
            "outputs": [_value_entry(graph.values[n], plan, owners) for n in layer["outputs"]],
        }
        for layer in context["layers"]
    ]
    return {
        "schema": SCHEMA,
        "name": context["name"],
        "generator": f"glowembed {origin.version}",
        "target": target.name,
        "runs_on": target.runs_on or None,
        "hash": digest,
        "model": {"file": origin.model_file, "sha256": graph.model_sha256},
        "options": dict(origin.options),
        "calibration": origin.calibration,
        "precision": [dict(entry) for entry in origin.precision],
        "arena": {"size": plan.arena_size, "align": target.arena_align, "liveness_bound": plan.bound},
        "rams": [{"name": ram.name, "size": ram.size, "offset": start} for ram, start in plan.rams],
        "weights_bytes": context["weights_bytes"],
        "weights": _weights_entry(context),
        "macs": context["macs"],
        "simplified": origin.simplified,
        "inputs": [{k: v for k, v in t.items() if k not in drop} for t in context["inputs"]],
        "outputs": [{k: v for k, v in t.items() if k not in drop} for t in context["outputs"]],
        "layers": layers,
        **_optional(graph, context),
        "levels": [level.word for found in context["levels"].values() for level in found.values()],
        "schedule": emit_schedule.schedule_entry(graph, plan),
        "buffers": emit_schedule.buffers(plan),
        "cflags": list(context["cflags"]),
        "sources": [f for f in sorted(sources) if f.endswith(".c")],
        "headers": [f for f in sorted(sources) if f.endswith(".h")],
    }


def _optional(graph: Graph, context: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that only some bundles have."""
    recorded = {"state": emit_states.recorded, "slices": emit_slices.recorded, "prefetch": emit_prefetch.recorded}
    found = {key: record(context[key]) for key, record in recorded.items() if context[key]}
    stream = {} if graph.stream is None else {"stream": asdict(graph.stream)}
    return {
        key: {**found, **stream}[key]
        for key in ("state", "stream", "slices", "prefetch")
        if key in found or key in stream
    }


def sizes_of(graph: Graph, plan: Plan, context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every size of this bundle, and what is proved about it, for the header."""
    weights: Weights = context["weights"]
    ends, state = [*context["inputs"], *context["outputs"]], context["state"]
    inside, outside = (
        [t for t in ends if t["handed"] != "state" and (t["offset"] is None) == out] for out in (False, True)
    )
    yours = [t["bytes"] // (t["rows"] or 1) for t in outside if t["handed"] == "caller"]
    scratch = max((kernel(n.kernel).scratch(n.params) for n in graph.nodes if n.kernel), default=0)
    proved = (
        "proved to be the least that its order of calls can do with"
        if plan.proof == "optimal"
        else f"its order of calls cannot do with less than {plan.row_bound}"
    )
    where = {
        "flash": "bytes of flash",
        "ram": "bytes of RAM, and as many of flash to fill it from",
        "file": f"bytes of the file {weights.file}",
    }
    return [
        ("arena", f"{plan.arena_size:9} bytes of RAM; {proved}; whole tensors would need {plan.bound}"),
        *[("", f"{ram.size:9} bytes of the RAM {ram.name}, for what is used most") for ram, _ in plan.rams],
        ("scratch", f"{scratch:9} bytes of it, at most, for a kernel while it runs"),
        ("in, out", f"{sum(t['bytes'] for t in inside):9} bytes of it, if they lay apart, for inputs and outputs"),
        *([("window", f"{context['prefetch']['window']:9} bytes of it, for weights that are copied before they are used")] if context["prefetch"] else []),
        *([("state", f"{state['size']:9} bytes of it, kept from run to run")] if state else []),
        *([("yours", f"{sum(yours):9} bytes of RAM or flash for inputs and outputs in your buffers")] if yours else []),
        *[("rows", f"{t['bytes'] // t['rows']:9} bytes each of {t['comment']}, never kept whole") for t in outside if t["rows"]],
        ("weights", f"{context['weights_bytes']:9} {where[weights.place]}"),
        ("stack", "          as your compiler makes it: `glowembed build` and `validate` tell the bound and what was used"),
        ("work", f"{context['macs']:9} multiply-accumulates per run"),
    ]  # fmt: skip


def _weights_entry(context: Mapping[str, Any]) -> dict[str, Any]:
    own, weights = context["weights_file"], context["weights"]
    return {
        "place": weights.place,
        "file": weights.file,
        "file_bytes": own.size if own is not None else None,
        "structure": context["structure"],
        "crc": f"{context['weights_crc']:08x}",
    }


def _value_entry(value: Value, plan: Plan, owners: Mapping[str, str]) -> dict[str, Any]:
    entry = tensor_entry(value, plan, "")
    keys = ("name", "offset", "bytes", "dtype", "shape", "layout", "scale", "zero_point")
    owner = {"in": owners[value.name]} if value.name in owners else {}
    return {**{k: entry[k] for k in keys}, **owner}
