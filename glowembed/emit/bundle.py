"""Turns graph and plan into a bundle: a folder of C files that can be added to any project.

In: a kernel-level graph with kernels and a Plan. Out: the text of every file of the bundle, the same bytes for the same
input on every machine. All decisions are made here; the templates only loop over the results.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

from glowembed.emit import buildfiles, graphfile
from glowembed.emit import prefetch as emit_prefetch
from glowembed.emit import schedule as emit_schedule
from glowembed.emit import slices as emit_slices
from glowembed.emit import states as emit_states
from glowembed.emit import tiles as emit_tiles
from glowembed.emit.constants import Stored, arrays_of, constants_of
from glowembed.emit.kernels import kernels_header, levels_used
from glowembed.emit.manifest import Origin, manifest_of, sizes_of
from glowembed.emit.render import render
from glowembed.emit.structure import structure_of
from glowembed.emit.tensors import ids_of, placeholders, places_of, ram_member, tensors_of
from glowembed.emit.weights import CRC_START, Piece, WeightsFile, crc_of, stored_bytes, weights_file
from glowembed.errors import UnsupportedModelError
from glowembed.graph.cnames import comment, distinct, identifier
from glowembed.graph.cstruct import c_initialiser, ctypes_struct, struct_name
from glowembed.graph.ir import Graph, Node
from glowembed.graph.isa import Layer
from glowembed.graph.plan import Plan, Ram, Weights
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import Target
from glowembed.graph.tiles import with_tiles
from glowembed.plan.prefetch import Prefetch
from glowembed.plan.rows import outside
from glowembed.plan.slices import Calls, Slices

OFFSET_MAX = 2**31 - 1
"""The most bytes of an arena, and of a tensor."""

X86_ARRAYS = 16
"""The alignment of array variables of 16 bytes and more in the System V ABI for x86-64 (3.1.2), on which compilers rely for arrays that
another file defines.
"""

SIZE_FLAGS = ("-Os",)
"""The flags for a bundle with the least flash, added to those of its target."""

IN_FLASH = Weights()


def emit(
    graph: Graph,
    plan: Plan,
    target: Target,
    origin: Origin,
    weights: Weights = IN_FLASH,
    window: Graph | None = None,
    calls: Calls | None = None,
) -> dict[str, bytes]:
    """The content of every file of the bundle, by file name. window: the network on whole windows, for a stream.
    calls: those of a run in slices, or between copies of weights, or None.
    """
    name = identifier(graph.name)
    _refuse_too_large(graph, plan)
    context = _context(graph, plan, target, origin, weights, calls)
    divided = calls is not None or plan.tiled
    files = {
        f"{name}.h": render("bundle.h.j2", context),
        f"{name}.c": render("bundle.c.j2", context),
        f"{name}_kernels.h": kernels_header(
            with_tiles(graph, plan.tiled),
            name,
            origin.version,
            emit_schedule.slot_type(plan),
            target,
            _stored_params(graph, plan, calls) if weights.place != "file" and not levels_used(graph, target) else (),
            {} if divided or weights.place == "file" else _known(graph, plan, context["constants"]),
        ),
    }
    own = None if context["weights_file"] is None else _finished(context, files.values())
    files[f"{name}_weights.h"] = render("weights.h.j2", context)
    files[f"{name}_glow.h"] = render("glow.h.j2", context)
    if own is None:
        files[f"{name}_weights.c"] = render("weights.c.j2", context)
    sources = {file: text.encode("ascii") for file, text in files.items()}
    reference = graphfile.files(graph)
    if window is not None and graph.stream is not None:
        reference |= graphfile.files(window, graphfile.WINDOW)
    sums = {file: hashlib.sha256(content).hexdigest() for file, content in reference.items()}
    beside = {weights.file: own} if own is not None and weights.file is not None else {}
    manifest = manifest_of(graph, plan, target, origin, {**sources, **beside}, context) | {"reference": sums}
    built = {
        **sources,
        **beside,
        **{file: text.encode("ascii") for file, text in _build_files(target, context).items()},
        "bundle.json": (json.dumps(manifest, indent=1) + "\n").encode("ascii"),
        **reference,
    }
    return dict(sorted(built.items()))


def _stored_params(graph: Graph, plan: Plan, calls: Calls | None) -> Iterator[Any]:
    """All params in the text of a bundle."""
    yield from (node.params for node in with_tiles(graph, plan.tiled).nodes if node.kernel)
    for one in calls.divisions.values() if calls is not None else ():
        yield from (part.node.params for part in one.parts)


def _known(graph: Graph, plan: Plan, constants: Mapping[tuple[str, str], Stored]) -> Mapping[str, Layer]:
    """The layers as the texts of their kernels can depend on them, by name."""
    rows: dict[int, set[int]] = {}
    for step in plan.steps:
        rows.setdefault(step.node, set()).add(step.last - step.first)
    found = {}
    for number, node in enumerate(graph.nodes):
        if node.kernel is not None and kernel(node.kernel).macros is not None:
            own = {c: constants[node.name, c].array for c in kernel(node.kernel).ctypes(kernel_ops()[node.op])}
            found[node.name] = Layer(node.params, frozenset(rows[number]), number in plan.streamed, own)
    return found


def _finished(context: dict[str, Any], texts: Iterable[str]) -> bytes:
    """The weights file for programs with these texts. Its structure and CRC are added to the context."""
    own: WeightsFile = context["weights_file"]
    words = {piece.word: f"{piece.ctype}@{offset}" for piece, offset in own.placed}
    structure = structure_of(texts, context["name"], words)
    content = own.content(structure)
    context |= {"structure": f"{structure:016x}", "weights_crc": crc32(content[CRC_START:])}
    return content


def _context(
    graph: Graph, plan: Plan, target: Target, origin: Origin, weights: Weights, calls: Calls | None
) -> dict[str, Any]:
    """The values that the templates print."""
    name = identifier(graph.name)
    constants = constants_of(with_tiles(graph, plan.tiled), name, alike=weights.place != "file")
    arrays = arrays_of(constants.values())
    tensors = tensors_of(graph, plan)
    row_slots, slots = emit_schedule.slot_tables(plan)
    layers = _layers(graph, plan, constants, slots)
    groups = emit_schedule.groups(graph, plan)
    strips = emit_tiles.entries(graph, plan, layers, slots)
    tapes = emit_schedule.with_tapes(groups, strips["groups"])
    cut = emit_slices.entry(graph, plan, calls if isinstance(calls, Slices) else None, layers)
    fetched = emit_prefetch.entry(graph, plan, calls if isinstance(calls, Prefetch) else None, layers, constants)
    weights_align = target.arena_align if levels_used(graph, target) else plan.alignment
    inside = weights.place != "file"
    own = None if inside else weights_file(_pieces(name.upper(), tensors, layers, cut, strips, arrays), weights_align)
    context = {
        "name": name,
        "arena_align": target.arena_align,
        "NAME": name.upper(),
        "macros": buildfiles.header_macros(name.upper(), target.arena_align),
        "hidden": buildfiles.hidden(name.upper()),
        "origin": origin,
        "model": comment(origin.model_file),
        "model_sha256": graph.model_sha256,
        "target": target,
        "plan": plan,
        "state": emit_states.entry(graph, plan),
        "stream": graph.stream,
        "slices": cut,
        "prefetch": fetched,
        "calls": cut or fetched,
        "constants": constants,
        "arrays": arrays,
        **tensors,
        **places_of(tensors, name, weights, plan),
        "layers": layers,
        "groups": groups,
        "strips": strips,
        "tape_type": tapes.ctype,
        **emit_schedule.count_types([layer["rows"] for layer in layers]),
        "tables": [joined.entry() for joined in (row_slots, tapes)] + strips["tables"],
        "macs": sum(node.macs for node in graph.nodes),
        "levels": levels_used(graph, target),
        "weights_bytes": sum(a["bytes"] for a in arrays),
        "weights": weights,
        "weights_file": own,
        "weights_align": weights_align,
        "arrays_align": max(weights_align, X86_ARRAYS) if target.compiler == "cc" else weights_align,
        "weights_crc": crc_of([a["data"] for a in arrays if a["checked"]]),
        "crc_start": CRC_START,
        "structure": None,
        "sources": [f"{name}.c", *([] if own is not None else [f"{name}_weights.c"])],
        "cflags": SIZE_FLAGS if origin.options.get("optimize") == "size" else (),
    }
    context["glow"] = placeholders(tensors, target.arena_align, plan.arena_size, context["rams"])
    context["sizes"] = sizes_of(graph, plan, context)
    return context


def _pieces(
    prefix: str,
    tensors: Mapping[str, list[dict[str, Any]]],
    layers: list[dict[str, Any]],
    slices: Mapping[str, Any] | None,
    strips: Mapping[str, Any],
    arrays: list[dict[str, Any]],
) -> list[Piece]:
    """The pieces of a weights file: scales, params and constants. The layers are changed to refer to it."""
    pieces = []
    for tensor in (*tensors["inputs"], *tensors["outputs"]):
        if tensor["scale"] is not None:
            word = f"{prefix}_{tensor['direction']}_{tensor['id']}"
            pieces.append(Piece(f"{word}_SCALE_AT", "float", struct.pack("<f", tensor["scale"])))
            pieces.append(Piece(f"{word}_ZERO_POINT_AT", "int32_t", struct.pack("<i", tensor["zero_point"])))
    for number, layer in enumerate(layers):
        layer["params_at"] = f"{prefix}_PARAMS_{number}"
        pieces.append(Piece(layer["params_at"], layer["type"], layer["params_bytes"]))
    for layer in slices["divided"] if slices is not None else ():
        layer["part_params_at"] = f"{prefix}_PART_PARAMS_{layer['layer']}"
        pieces.append(Piece(layer["part_params_at"], layer["type"], b"".join(layer["part_params_bytes"])))
    for layer in strips["layers"]:
        layer["tile_params_at"] = f"{prefix}_TILE_PARAMS_{layer['layer']}"
        pieces.append(Piece(layer["tile_params_at"], layer["type"], layer["tile_params_bytes"]))
    return [*pieces, *(Piece(a["id"], a["ctype"], stored_bytes(a["data"])) for a in arrays)]


def _build_files(target: Target, context: Mapping[str, Any]) -> Mapping[str, str]:
    shared = "-fPIC" in target.cflags
    return buildfiles.build_files(context["name"], context["sources"], context["cflags"], shared)


def _refuse_too_large(graph: Graph, plan: Plan) -> None:
    """Refuse a bundle that is too large, because kernels compute offsets in int32_t."""
    sizes = {value.name: value.bytes for value in graph.values.values()}
    largest = max(sizes, key=sizes.__getitem__)
    if max(plan.arena_size, sizes[largest]) > OFFSET_MAX:
        raise UnsupportedModelError(
            f"{graph.name} needs an arena of {plan.arena_size} bytes, and its largest tensor, {largest!r}, takes "
            f"{sizes[largest]}; a bundle cannot hold more than {OFFSET_MAX} in either: use a smaller input"
        )


def _layers(
    graph: Graph, plan: Plan, constants: Mapping[tuple[str, str], Stored], slots: Mapping[str, str]
) -> list[dict[str, Any]]:
    computed = [node.name for node in graph.nodes if node.kernel]
    names = dict(zip(computed, distinct(computed), strict=True))
    members = _members(graph)
    layers = []
    for number, node in enumerate(graph.nodes):
        if node.kernel is None:
            continue
        op = kernel_ops()[node.op]
        strides, out_stride = op.row_bytes(node.params)
        places = {v: _rows(graph, plan, constants, slots, members, v) for v in (*node.inputs, node.outputs[0])}
        rows = [f"{places[v]}, {s}" for v, s in zip(node.inputs, strides, strict=True)]
        layers.append(
            {
                "id": names[node.name],
                "name": node.name,
                "comment": comment(node.name),
                "origins": list(node.origins),
                "from": _from(node),
                "op": node.op,
                "kernel": node.kernel,
                "function": kernel(node.kernel).symbol_for(node.params),
                "macs": node.macs,
                "out_shape": " x ".join(str(d) for d in graph.values[node.outputs[0]].shape),
                "type": struct_name(op.params),
                "params": _wrap(_initialiser(node)),
                "params_bytes": bytes(ctypes_struct(node.params)),
                "params_at": f"&{names[node.name]}_params",
                "inputs": [{"id": f"in{i}", "init": r} for i, r in enumerate(rows)],
                "output": {"id": "out", "init": f"{places[node.outputs[0]]}, {out_stride}"},
                "constants": [constants[node.name, c].id for c in kernel(node.kernel).ctypes(op)],
                "rows": op.rows(node.params),
                "in_strips": any(number in group.tiles for group in plan.tiled),
                "scratch": emit_schedule.scratch_slot(slots, node.name, "first")
                or (_address(plan, plan.scratch[node.name]) if node.name in plan.scratch else "NULL"),
                "streamed": number in plan.streamed,
                "outputs": [v for v in node.outputs if emit_schedule.is_whole(plan, number, v)],
            }
        )
    return layers


ORIGINS_SHOWN = 6
"""The most names of ONNX nodes in a comment; bundle.json has all of them."""


def _from(node: Node) -> str:
    """The ONNX nodes from which a layer came, for a comment; "" if it is the one node with the layer's name."""
    if node.origins in ((), (node.name,)):
        return ""
    more = f" and {len(node.origins) - ORIGINS_SHOWN} more" if len(node.origins) > ORIGINS_SHOWN else ""
    return ", ".join(comment(name) for name in node.origins[:ORIGINS_SHOWN]) + more


def _initialiser(node: Node) -> str:
    try:
        return c_initialiser(node.params)
    except ValueError as error:
        raise UnsupportedModelError(f"node {node.name!r} ({node.op}): {error}; use a smaller tensor there") from error


def _members(graph: Graph) -> dict[str, str]:
    """For each value outside the arena, the C expression of its address."""
    ids = ids_of(graph)
    found = {}
    for name, owner in outside(graph).items():
        is_input, by_rows = owner in graph.inputs, graph.values[owner].place == "rows"
        member = f"places->{'input' if is_input else 'output'}_{ids[owner].lower()}"
        found[name] = f"(void *)(uintptr_t){'&' if by_rows else ''}{member}" if is_input else member
    return found


def _rows(
    graph: Graph, plan: Plan, constants: Mapping[tuple[str, str], Stored], slots: Mapping[str, str],
    members: Mapping[str, str], name: str,
) -> str:  # fmt: skip
    """The data and slots of the ge_rows of a value. Constants and inputs of the caller are only read; this is the only
    place that casts away their const.
    """
    if graph.values[name].const is not None:
        return f"(void *)(uintptr_t){constants['', name].id}, NULL"
    if name in members:
        return f"{members[name]}, NULL"
    if name in slots:
        return f"{_base(plan.ram_at(min(plan.slots[name]))[0])}, {slots[name]}"
    return f"{_address(plan, plan.offsets[name])}, NULL"


def _address(plan: Plan, offset: int) -> str:
    ram, inside = plan.ram_at(offset)
    return f"{_base(ram)} + {inside}"


def _base(ram: Ram | None) -> str:
    return "arena" if ram is None else f"(uint8_t *)places->{ram_member(ram)}"


def _wrap(initialiser: str, width: int = 96) -> list[str]:
    """An initialiser in lines of at most `width`, broken at commas."""
    lines, current = [], ""
    for part in re.split(r"(?<=,) ", initialiser[1:-1]):
        if current and len(current) + len(part) + 1 > width:
            lines.append(current)
            current = part
        else:
            current = f"{current} {part}".strip()
    return [*lines, current]
