"""Turns graph and plan into a bundle: a folder of C that can be added to any project.

In: a kernel-level graph with kernels and a Plan. Out: the text of every file of the bundle, the same bytes for the same
input on every machine. Decisions are made here and named; the templates only loop.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
import numpy as np

from glowembed.emit import buildfiles, graphfile
from glowembed.emit import schedule as emit_schedule
from glowembed.emit import states as emit_states
from glowembed.emit.kernels import kernels_header, levels_used
from glowembed.emit.weights import FNV_OFFSET, FNV_PRIME, HEAD, weights_file
from glowembed.errors import UnsupportedModelError
from glowembed.graph.cnames import comment, distinct, identifier, text
from glowembed.graph.cstruct import c_initialiser, numpy_type, struct_name
from glowembed.graph.ir import OUTSIDE, Array, Graph, Node, Value
from glowembed.graph.op import is_a
from glowembed.graph.plan import Plan, Ram, Weights
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import Target
from glowembed.nest.dtypes import NIBBLES, stored_ctype
from glowembed.ops.handover import TakeRows
from glowembed.plan.rows import outside

SCHEMA = 1
"""The version of bundle.json."""

OFFSET_MAX = 2**31 - 1
"""The most bytes of an arena, and of a tensor."""

SIZE_FLAGS = ("-Os",)
"""The flags for a bundle with the least flash, added to those of its target."""

OWN_MACROS = frozenset(
    """OK STATE_OFFSET STATE_SIZE ERROR_ARENA ERROR_LAYER ERROR_PLACES ERROR_WEIGHTS IO_ALIGN API ARENA ARENA_SIZE ARENA_ALIGN ALIGNED CAST HIDDEN LAYER_COUNT H GLOW_H KERNELS_H WEIGHTS_H
    MEM_ALIGN WEIGHTS_SIZE WEIGHTS_ALIGN WEIGHTS_SECTION CONSTANT_MEM_SIZE MUTABLE_MEM_SIZE ACTIVATIONS_MEM_SIZE""".split()
)
"""The suffixes of a bundle's macros, besides those of inputs and outputs."""

MACROS = ("OFFSET", "ROWS", "ROW_SIZE", "SIZE", "COUNT", "RANK", "SHAPE", "SCALE", "ZERO_POINT", "LABELS")
"""What is appended to the name of an input or output for its macros."""

IN_FLASH = Weights()


@dataclass(frozen=True)
class Origin:
    """The sources and options from which the bundle was made, for the header and the manifest."""

    version: str
    model_file: str
    options: Mapping[str, Any]
    precision: tuple[Mapping[str, Any], ...] = ()
    simplified: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] | None = None


def emit(graph: Graph, plan: Plan, target: Target, origin: Origin, weights: Weights = IN_FLASH) -> dict[str, bytes]:
    """A mapping from file name to content, for the whole bundle."""
    name = identifier(graph.name)
    _refuse_too_large(graph, plan)
    constants = _constants(graph, name)
    arrays = _arrays(constants.values())
    weights_align = target.arena_align if levels_used(graph) else plan.alignment
    own = weights_file([a["data"] for a in arrays], weights_align) if weights.place == "file" else None
    for array, offset in zip(arrays, own.offsets if own is not None else (), strict=False):
        array["offset"] = offset
    tensors = _tensors(graph, plan)
    layers = _layers(graph, plan, constants)
    groups = emit_schedule.groups(graph, plan)
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
        "arrays": arrays,
        "inputs": tensors["inputs"],
        "outputs": tensors["outputs"],
        **_places(tensors, name, weights, plan),
        "layers": layers,
        "groups": groups,
        **emit_schedule.group_types(groups, [layer["rows"] for layer in layers]),
        "slot_tables": emit_schedule.slot_tables(plan),
        "macs": sum(node.macs for node in graph.nodes),
        "levels": levels_used(graph),
        "weights_bytes": sum(a["bytes"] for a in arrays),
        "weights": weights,
        "weights_file": own,
        "weights_align": weights_align,
        "fnv": {"offset": FNV_OFFSET, "prime": FNV_PRIME, "head": HEAD},
        "sources": [f"{name}.c", *([] if own is not None else [f"{name}_weights.c"])],
        "cflags": SIZE_FLAGS if origin.options.get("optimize") == "size" else (),
    }
    context["glow"] = _placeholders(tensors, target.arena_align, plan.arena_size, context["rams"])
    context["sizes"] = _sizes(graph, plan, context)
    files = {
        f"{name}.h": _render("bundle.h.j2", context),
        f"{name}.c": _render("bundle.c.j2", context),
        f"{name}_kernels.h": kernels_header(graph, name, origin.version, emit_schedule.slot_type(plan)),
        f"{name}_weights.h": _render("weights.h.j2", context),
        f"{name}_glow.h": _render("glow.h.j2", context),
    }
    if own is None:
        files[f"{name}_weights.c"] = _render("weights.c.j2", context)
    sources = {file: text.encode("ascii") for file, text in files.items()}
    reference = graphfile.files(graph)
    sums = {file: hashlib.sha256(content).hexdigest() for file, content in reference.items()}
    manifest = _manifest(graph, plan, target, origin, sources, context) | {"reference": sums}
    built = {
        **sources,
        **({weights.file: own.content} if own is not None and weights.file is not None else {}),
        **{file: text.encode("ascii") for file, text in _build_files(target, context).items()},
        "bundle.json": (json.dumps(manifest, indent=1) + "\n").encode("ascii"),
        **reference,
    }
    return dict(sorted(built.items()))


def _build_files(target: Target, context: Mapping[str, Any]) -> Mapping[str, str]:
    shared = "-fPIC" in target.cflags
    return buildfiles.build_files(context["name"], context["sources"], context["cflags"], shared)


def _refuse_too_large(graph: Graph, plan: Plan) -> None:
    """Refuse bundles that are too large, because kernels compute offsets in int32_t."""
    sizes = {value.name: value.bytes for value in graph.values.values()}
    largest = max(sizes, key=sizes.__getitem__)
    if max(plan.arena_size, sizes[largest]) > OFFSET_MAX:
        raise UnsupportedModelError(
            f"{graph.name} needs an arena of {plan.arena_size} bytes, and its largest tensor, {largest!r}, takes "
            f"{sizes[largest]}; a bundle cannot hold more than {OFFSET_MAX} in either: use a smaller input"
        )


def _render(template: str, context: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(context)


@cache
def _environment() -> jinja2.Environment:
    """The template environment, which is shared by all bundles because it keeps the compiled templates."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("glowembed.emit", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  C text, made safe by cnames
    )


# ---------------------------------------------------------------------------------------------- tensors


def _placeholders(
    tensors: Mapping[str, list[dict[str, Any]]], align: int, arena: int, rams: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The offsets of inputs and outputs in the mutable memory of the Glow interface, each aligned, one after the other,
    and the offsets of other RAMs after the arena in the activations.

    A placeholder whose macro would be one of the bundle's own gets _TENSOR appended to its name.
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


def _tensors(graph: Graph, plan: Plan) -> dict[str, list[dict[str, Any]]]:
    ids = _ids(graph)
    tensors = {
        "inputs": [_end(graph, n, plan, ids[n], "INPUT") for n in graph.inputs],
        "outputs": [_end(graph, n, plan, ids[n], "OUTPUT") for n in graph.outputs],
    }
    for tensor in tensors["outputs"]:
        if "found" in tensor:
            tensor["found_id"] = ids[tensor["found"]]
    return tensors


def _ids(graph: Graph) -> dict[str, str]:
    """A mapping from an input or output to its name in macros."""
    ends = list(dict.fromkeys((*graph.inputs, *graph.outputs)))
    return dict(zip(ends, distinct(ends, upper=True, suffixes=MACROS), strict=True))


def _end(graph: Graph, name: str, plan: Plan, ident: str, direction: str) -> dict[str, Any]:
    """An input or output. handed: its place; rows: the number of rows if they are handed over one by
    one.
    """
    value = graph.values[name]
    taker = next((n for n in graph.nodes if is_a(n, TakeRows) and n.inputs[0] == name), None)
    return {
        **_tensor(value, plan, ident),
        "handed": value.place,
        "rows": taker.params.rows if taker is not None else None,
        "direction": direction,
        "member": f"{direction}_{ident}".lower(),
        "declaration": _declaration(value, f"{direction}_{ident}".lower(), direction == "INPUT"),
    }


def _declaration(value: Value, member: str, is_input: bool) -> str:
    if value.place == "rows":
        return f"ge_source {member}"
    return f"{'const ' if is_input else ''}{stored_ctype(_dtype(value))} *{member}"


def _places(tensors: Mapping[str, list[dict[str, Any]]], name: str, weights: Weights, plan: Plan) -> dict[str, Any]:
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
    """A comment for the header: where an input or output lies, and what it overlaps."""
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


def _tensor(value: Value, plan: Plan, ident: str) -> dict[str, Any]:
    qtype = value.qtype
    return {
        "name": value.name,
        "comment": comment(value.name),
        "id": ident,
        "shape": list(value.shape),
        "layout": list(value.layout) if value.layout else None,
        "dtype": _dtype(value),
        "model_dtype": value.model_dtype,
        "ctype": stored_ctype(_dtype(value)),
        "scale": qtype.scale[0] if qtype else None,
        "scale_text": _float_literal(qtype.scale[0]) if qtype else None,
        "zero_point": qtype.zero_point[0] if qtype else None,
        "elements": value.elements,
        "offset": plan.offsets.get(value.name),
        "bytes": value.bytes,
        **({"found": value.found[0], "found_axis": value.found[1]} if value.found else {}),
        **({"labels": list(value.labels), "labels_text": ", ".join(map(text, value.labels))} if value.labels else {}),
    }


def _dtype(value: Value) -> str:
    return value.qtype.dtype if value.qtype else value.dtype


def _float_literal(x: float) -> str:
    text = repr(float(np.float32(x)))
    shortest = np.format_float_scientific(np.float32(x), unique=True, trim="0")
    return f"{shortest if float(np.float32(shortest)) == float(text) else text}f"


# ---------------------------------------------------------------------------------------------- layers


@dataclass(frozen=True, eq=False)
class _Stored:
    """A constant array of the bundle under its C name."""

    id: str
    ctype: str
    array: Array


def _constants(graph: Graph, bundle: str) -> dict[tuple[str, str], _Stored]:
    """A mapping from (node name, constant name) or ("", value name) to an array.

    Equal contents of the same type are one array, which has the name of the first.
    """
    found: dict[tuple[str, str], tuple[str, Array]] = {}
    for node in (n for n in graph.nodes if n.kernel):
        found |= {(node.name, c): packed for c, packed in _packed(node).items()}
    for name, value in graph.values.items():
        if value.const is not None:
            found["", name] = (stored_ctype(_dtype(value)), graphfile.stored_constant(value))
    ids = distinct([f"{node}_{name}" if node else name for node, name in found])
    known: dict[tuple[str, bytes], _Stored] = {}
    return {
        key: known.setdefault((ctype, array.tobytes()), _Stored(f"{bundle}_{ident}", ctype, array))
        for ident, (key, (ctype, array)) in zip(ids, found.items(), strict=True)
    }


def _packed(node: Node) -> dict[str, tuple[str, Array]]:
    """A mapping from name to C type and content of the constants of a node, in the form that its kernel reads."""
    chosen = kernel(node.kernel or "")
    arrays = chosen.packed({name: const.materialize() for name, const in node.constants.items()}, node.params)
    types = chosen.ctypes(kernel_ops()[node.op])
    return {name: (ctype, _of_type(ctype, arrays[name])) for name, ctype in types.items()}


def _of_type(ctype: str, packed: Array) -> Array:
    """The content in its C type. Raises ValueError if that type cannot hold one of the numbers."""
    stored = np.ascontiguousarray(packed).astype(numpy_type(ctype), casting="same_kind")
    if stored.dtype.kind in "iu" and not np.array_equal(stored, packed):
        raise ValueError(f"{packed.min()} to {packed.max()} does not fit {ctype}")
    return stored


def _arrays(constants: Iterable[_Stored]) -> list[dict[str, Any]]:
    """Every array once, for the templates."""
    return [
        {
            "id": one.id,
            "ctype": one.ctype,
            "count": max(one.array.size, 1),
            "bytes": one.array.nbytes,
            "lines": _lines(one.array) or ["0,"],
            "data": one.array,
        }
        for one in {one.id: one for one in constants}.values()
    ]


def weights_bytes(graph: Graph) -> int:
    """The bytes of all constants of a graph with kernels."""
    return sum({one.id: one.array.nbytes for one in _constants(graph, "").values()}.values())


def _lines(array: Array) -> list[str]:
    flat = array.reshape(-1)
    if flat.dtype == np.float64:
        texts = [float(v).hex() if np.isfinite(v) else _not_finite(v) for v in flat.tolist()]
    elif flat.dtype == np.float32:
        texts = [_float_literal(v) if np.isfinite(v) else _not_finite(v) for v in flat.tolist()]
    else:
        texts = [_literal(int(v)) for v in _as_integers(flat).tolist()]
    width = 20 if array.dtype.itemsize == 1 else 8
    return [", ".join(texts[i : i + width]) + "," for i in range(0, len(texts), width)]


def _as_integers(array: Array) -> Array:
    """The elements as C stores them: floats of less than 32 bits are their bits, bools and small integers numbers."""
    if array.dtype.kind in "iu":
        return array
    if array.dtype.name in NIBBLES:
        return array.astype(np.int8)
    return array.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)


def _not_finite(value: float) -> str:
    """Infinity and NaN as a constant expression of C99 without a header."""
    return "(0.0f / 0.0f)" if value != value else f"({'-' if value < 0 else ''}1.0f / 0.0f)"


def _literal(value: int) -> str:
    if value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    if value > 2**63 - 1:
        return f"{value}ULL"
    if value == -(2**31):
        return "(-2147483647 - 1)"
    if not -(2**31) <= value < 2**32:
        return f"{value}LL"
    return f"{value}u" if value > 2**31 - 1 else str(value)


def _layers(graph: Graph, plan: Plan, constants: Mapping[tuple[str, str], _Stored]) -> list[dict[str, Any]]:
    computed = [node.name for node in graph.nodes if node.kernel]
    names = dict(zip(computed, distinct(computed), strict=True))
    slots = emit_schedule.slot_ids(plan)
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
                "inputs": [{"id": f"in{i}", "init": r} for i, r in enumerate(rows)],
                "output": {"id": "out", "init": f"{places[node.outputs[0]]}, {out_stride}"},
                "constants": [constants[node.name, c].id for c in kernel(node.kernel).ctypes(op)],
                "rows": op.rows(node.params),
                "scratch": _address(plan, plan.scratch[node.name]) if node.name in plan.scratch else "NULL",
                "streamed": number in plan.streamed,
                "outputs": [v for v in node.outputs if emit_schedule.is_whole(plan, number, v)],
            }
        )
    return layers


ORIGINS_SHOWN = 6
"""The most names of ONNX nodes in a comment; bundle.json has all of them."""


def _from(node: Node) -> str:
    """The ONNX nodes from which a layer came, for a comment; empty if it came from the one node of its own name."""
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
    """A mapping from each value outside the arena to the C expression of its address."""
    ids = _ids(graph)
    found = {}
    for name, owner in outside(graph).items():
        is_input, by_rows = owner in graph.inputs, graph.values[owner].place == "rows"
        member = f"places->{'input' if is_input else 'output'}_{ids[owner].lower()}"
        found[name] = f"(void *)(uintptr_t){'&' if by_rows else ''}{member}" if is_input else member
    return found


def _rows(
    graph: Graph, plan: Plan, constants: Mapping[tuple[str, str], _Stored], slots: Mapping[str, str],
    members: Mapping[str, str], name: str,
) -> str:  # fmt: skip
    """The data and slots of the ge_rows of a value. Constants and inputs of the caller are only read; their const is
    cast away here and nowhere else.
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


def ram_member(ram: Ram) -> str:
    """The name of a RAM besides the arena in the struct of places."""
    return f"ram_{ram.name.lower()}"


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


# ---------------------------------------------------------------------------------------------- manifest


def _manifest(
    graph: Graph, plan: Plan, target: Target, origin: Origin, sources: Mapping[str, bytes], context: Mapping[str, Any]
) -> dict[str, Any]:
    digest = hashlib.sha256(b"".join(f.encode() + b"\0" + sources[f] + b"\0" for f in sorted(sources))).hexdigest()
    drop = ("comment", "scale_text", "ctype", "direction", "member", "declaration", "where", "found_id", "labels_text")
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
        **({"state": emit_states.recorded(context["state"])} if context["state"] else {}),
        "levels": [level.word for levels in context["levels"].values() for level in levels],
        "schedule": emit_schedule.schedule_entry(graph, plan),
        "buffers": emit_schedule.buffers(plan),
        "cflags": list(context["cflags"]),
        "sources": [f for f in sorted(sources) if f.endswith(".c")],
        "headers": [f for f in sorted(sources) if f.endswith(".h")],
    }


def _sizes(graph: Graph, plan: Plan, context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every size of this bundle, and what is proved about it, for the header."""
    weights: Weights = context["weights"]
    ends, state = [*context["inputs"], *context["outputs"]], context["state"]
    inside, outside = ([t for t in ends if (t["offset"] is None) == out] for out in (False, True))
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
        "file_bytes": len(own.content) if own is not None else None,
        "hash": f"{own.hash:016x}" if own is not None else None,
    }


def _value_entry(value: Value, plan: Plan, owners: Mapping[str, str]) -> dict[str, Any]:
    entry = _tensor(value, plan, "")
    keys = ("name", "offset", "bytes", "dtype", "shape", "layout", "scale", "zero_point")
    owner = {"in": owners[value.name]} if value.name in owners else {}
    return {**{k: entry[k] for k in keys}, **owner}
