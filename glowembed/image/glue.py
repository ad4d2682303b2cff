"""Connects a bundle to a board. In: bundle.json, a Board. Out: texts of ge_bundle.c, ge_board.h, memory.ld.

The harness is the same for all bundles and boards; it knows about them only what these three files say. Its one memory,
the window, holds the arena and, after a guard, the data that the bundle keeps outside the arena. Rows that a bundle
asks for also come from the window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from glowembed.errors import UsageError
from glowembed.files import documents
from glowembed.files.source import read_bytes
from glowembed.graph.plan import OUTSIDE, InputLayout, WeightsPlace
from glowembed.graph.target import Board
from glowembed.nest.dtypes import COMPUTED

Manifest = Mapping[str, Any]
GUARD_BYTES = 64
KEYS = ("schema", "name", "target", "hash", "arena", "inputs", "outputs", "layers", "sources")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLAIN_FILE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
NAME_MAX = 200
"""the number of characters that every file system allows in a file name"""
HEXADECIMAL = re.compile(r"[0-9a-f]+")
NOT_BUILT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Matches what a path must not contain: control characters, and bytes that are not UTF-8 (as the surrogates that Python
reads for them).
"""


def check_path(path: Path | str) -> None:
    """Raise UsageError if SCons cannot read the path."""
    if NOT_BUILT.search(str(path)):
        raise UsageError(
            f"{str(path)!r}: a path with control characters, or with bytes that are not UTF-8, cannot be built; rename it"
        )


def read_manifest(bundle: Path) -> Manifest:
    """Read the bundle.json of a bundle, and check the parts from which text is made."""
    path = bundle / "bundle.json"
    if not path.is_file():
        found = (
            "it has no bundle.json" if bundle.is_dir() else "it is a file" if bundle.exists() else "it does not exist"
        )
        raise UsageError(f"{bundle} is not a bundle: {found}; a bundle is the folder that 'glowembed compile' writes")
    manifest = documents.read_json(path)
    _check(path, manifest)
    checked: Manifest = manifest
    return checked


def _check(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict):
        raise UsageError(f"{path} is not from a bundle: expected an object")
    missing = [key for key in KEYS if key not in manifest]
    if missing:
        raise UsageError(f"{path} lacks {', '.join(missing)}; compile the model again")
    if not IDENTIFIER.fullmatch(str(manifest["name"])) or not HEXADECIMAL.fullmatch(str(manifest["hash"])):
        raise UsageError(f"{path}: name or hash are not what glowembed writes; compile the model again")
    documents.check(manifest, SCHEMA, str(path))
    for name in manifest["sources"]:
        if len(name) > NAME_MAX or not PLAIN_FILE.fullmatch(name) or not (path.parent / name).is_file():
            raise UsageError(f"{path} names the source {name!r:.100}, which is not a file of the bundle")


_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**40}
_TENSOR = {
    "type": "object",
    "required": ["name", "dtype", "shape", "bytes", "offset"],
    "properties": {
        "name": {"type": "string"},
        "id": {"type": "string", "pattern": "^[A-Za-z0-9_]+$"},
        "dtype": {"enum": sorted(COMPUTED)},
        "shape": {"type": "array", "items": _COUNT},
        "layout": {"type": ["array", "null"], "items": _COUNT},
        "bytes": _COUNT,
        "offset": {**_COUNT, "type": ["integer", "null"]},
        "scale": {"type": ["number", "null"]},
        "zero_point": {"type": ["integer", "null"]},
        "handed": {"enum": ["arena", *OUTSIDE, "state"]},
        "rows": {**_COUNT, "type": ["integer", "null"], "minimum": 1},
    },
}
_TENSORS = {"type": "array", "items": _TENSOR}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
SCHEMA = {
    "type": "object",
    "properties": {
        "schema": {"type": "integer"},
        "name": {"type": "string"},
        "target": {"type": "string"},
        "hash": {"type": "string"},
        "arena": {
            "type": "object",
            "required": ["size", "align"],
            "properties": {"size": _COUNT, "align": {**_COUNT, "minimum": 1, "maximum": 4096}},
        },
        "inputs": _TENSORS,
        "outputs": _TENSORS,
        "layers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "outputs"],
                "properties": {"name": {"type": "string"}, "outputs": {"type": "array", "items": {"type": "object"}}},
            },
        },
        "sources": {"type": "array", "items": {"type": "string"}},
        "cflags": {"type": "array", "items": {"type": "string"}},
        "levels": {"type": "array", "items": {"type": "string"}},
        "buffers": _OBJECTS,
        "rams": _OBJECTS,
        "precision": _OBJECTS,
        "model": {
            "type": "object",
            "required": ["file", "sha256"],
            "properties": {"file": {"type": "string"}, "sha256": {"type": "string"}},
        },
        "options": {
            "type": "object",
            "required": ["input_layout"],
            "properties": {
                "input_layout": {"enum": list(get_args(InputLayout))},
                "shapes": {"type": "object", "additionalProperties": {"type": "array", "items": _COUNT}},
            },
        },
        "weights": {
            "type": "object",
            "required": ["place", "file"],
            "properties": {"place": {"enum": list(get_args(WeightsPlace))}, "file": {"type": ["string", "null"]}},
        },
        "calibration": {"type": ["object", "null"]},
        "stream": {
            "type": "object",
            "required": ["input", "axis", "rows", "hop"],
            "properties": {"input": {"type": "string"}, "axis": _COUNT, "rows": _COUNT, "hop": _COUNT},
        },
        "slices": {
            "type": "object",
            "required": ["limit", "count", "longest", "position"],
            "properties": {"limit": _COUNT, "count": _COUNT, "longest": _COUNT, "position": _COUNT},
        },
        "state": {
            "type": "object",
            "required": ["offset", "size", "pairs"],
            "properties": {"offset": _COUNT, "size": _COUNT, "pairs": _OBJECTS},
        },
        "reference": {
            "type": "object",
            "propertyNames": {
                "enum": [
                    f"reference/{kind}{file}" for kind in ("", "window_") for file in ("graph.json", "constants.npz")
                ]
            },
            "additionalProperties": {"type": "string"},
        },
        "schedule": {
            "type": "object",
            "required": ["calls_by_layer", "live", "groups"],
            "properties": {
                "calls_by_layer": {"type": "array", "items": _COUNT},
                "live": {"type": "array", "items": _COUNT},
                "groups": {"type": "array"},
            },
        },
        "macs": _COUNT,
        "weights_bytes": _COUNT,
    },
}
"""The JSON Schema for those parts of bundle.json that are checked."""


def c_sources(manifest: Manifest) -> list[str]:
    """The names of the C files to compile, in the order of the manifest."""
    return [name for name in manifest["sources"] if name.endswith(".c")]


def cflags(manifest: Manifest) -> list[str]:
    """The flags for the C files in addition to those of the target; only flags that glowembed writes are taken."""
    return [flag for flag in manifest.get("cflags", ()) if flag == "-Os"]


def bundle_c(manifest: Manifest) -> str:
    """ge_bundle.c: the ge_bundle that the harness runs, and its arena between guards."""
    manifest = in_window(manifest)
    name, arena = manifest["name"], manifest["arena"]
    size, guard, window = int(arena["size"]), max(GUARD_BYTES, int(arena["align"])), window_size(manifest)
    run, run_layers, calls = _calls(manifest, f"memory + {guard}")
    outputs = [output for layer in manifest["layers"] for output in layer["outputs"]]
    firsts = _running_sums(len(layer["outputs"]) for layer in manifest["layers"])
    return f"""/* Made from bundle.json of {name}. */
#include "harness.h"

#include "{name}.h"

static uint8_t memory[{guard} + {-(-window // 4) * 4} + {GUARD_BYTES}]
    __attribute__((aligned({guard}), section(".bss.ge_arena")));
{calls}{_spans("inputs", manifest["inputs"])}
{_spans("outputs", manifest["outputs"])}
{_spans("layer_outputs", outputs)}
static const uint32_t layer_output_first[{len(firsts)}] = {{{_list(firsts)}}};

const ge_bundle ge_the_bundle = {{
    "{name}", "{manifest["hash"]}", {run}, {run_layers},
    memory + {guard}, {size}u, {window}u,
    {len(manifest["inputs"])}u, {len(manifest["outputs"])}u, {len(manifest["layers"])}u,
    inputs, outputs, layer_outputs, layer_output_first,
}};
"""


def host_c(manifest: Manifest) -> str:
    """ge_host.c: the functions ge_host_run and ge_host_run_layers of a shared library, which run the bundle on a
    window.
    """
    run, run_layers, calls = _calls(in_window(manifest), None)
    return f"""/* Made from bundle.json of {manifest["name"]}. */
#include "{manifest["name"]}.h"
{calls}
int32_t ge_host_run(void *arena);
int32_t ge_host_run_layers(void *arena, int32_t first, int32_t count);

int32_t ge_host_run(void *arena) {{
    return {run}(arena);
}}

int32_t ge_host_run_layers(void *arena, int32_t first, int32_t count) {{
    return {run_layers}(arena, first, count);
}}
"""


def in_window(manifest: Manifest) -> Manifest:
    """The manifest with an offset for every tensor: tensors outside the arena lie after it in the window."""
    ends = [*manifest["inputs"], *manifest["outputs"]]
    at, owners = _after(int(manifest["arena"]["size"])), {}
    for tensor in ends:
        if tensor["offset"] is None:
            owners[tensor["name"]] = at
            at = _aligned(at + int(tensor["bytes"]))
    if not owners:
        return manifest
    place = {t["name"]: t["name"] for t in ends}

    def placed(tensor: Mapping[str, Any]) -> dict[str, Any]:
        owner = tensor.get("in", place.get(tensor["name"]))
        return {**tensor, "offset": owners[owner] if tensor["offset"] is None else tensor["offset"]}

    layers = [{**layer, "outputs": [placed(t) for t in layer["outputs"]]} for layer in manifest["layers"]]
    inputs, outputs = ([placed(t) for t in manifest[key]] for key in ("inputs", "outputs"))
    return {**manifest, "inputs": inputs, "outputs": outputs, "layers": layers}


def window_size(manifest: Manifest) -> int:
    """The bytes of the window of a manifest whose tensors are in it; the bytes of the arena if nothing else is in it."""
    size = int(manifest["arena"]["size"])
    return max([size, *(int(t["offset"]) + int(t["bytes"]) for t in (*manifest["inputs"], *manifest["outputs"]))])


def _after(size: int) -> int:
    return _aligned(size + GUARD_BYTES)


def _aligned(offset: int) -> int:
    return -(-offset // GUARD_BYTES) * GUARD_BYTES


def entries(manifest: Manifest) -> tuple[str, str]:
    """The functions that the harness calls: those of the bundle, or wrappers that pass the addresses of all data
    outside the arena, or that run a bundle with slices slice by slice.
    """
    ends = (*manifest["inputs"], *manifest["outputs"])
    outside = (
        has_weights_file(manifest) or manifest.get("rams") or any(t.get("handed", "arena") in OUTSIDE for t in ends)
    )
    name = "ge_window" if outside or "slices" in manifest else manifest["name"]
    return f"{name}_run", f"{name}_run_layers"


def _calls(manifest: Manifest, window: str | None) -> tuple[str, str, str]:
    """The names of the functions that run the bundle on a window, and the C code that defines them unless they are the
    bundle's own. window: the C expression of its address, if that is constant; the functions then need no stack for the places of data.
    """
    name, (run, run_layers) = manifest["name"], entries(manifest)
    ends = [
        (t, kind) for kind in ("input", "output") for t in manifest[f"{kind}s"] if t.get("handed", "arena") in OUTSIDE
    ]
    own_weights, rams = has_weights_file(manifest), manifest.get("rams", [])
    if not ends and not own_weights and not rams:
        if "slices" not in manifest:
            return run, run_layers, ""
        return run, run_layers, _wrappers(manifest, "", "", "")
    rows = "".join(_rows_c(t) for t, _ in ends if t["handed"] == "rows")
    members = "".join(f"    .{kind}_{t['id'].lower()} = {_member(t, window or 'window')},\n" for t, kind in ends)
    members += "    .weights = ge_file_weights,\n" if own_weights else ""
    members += "".join(f"    .ram_{ram['name'].lower()} = ram_{ram['name'].lower()},\n" for ram in rams)
    rows += "".join(_ram_c(ram, int(manifest["arena"]["align"])) for ram in rams)
    rows += "\nextern const uint8_t ge_file_weights[];\n" if own_weights else ""
    places = f"const {name}_places places = {{\n{members}}};\n"
    if window is not None:
        return run, run_layers, _wrappers(manifest, f"{rows}\nstatic {places}", "", ", &places")
    begin = "uint8_t *const window = arena;\n" if ends else ""
    return run, run_layers, _wrappers(manifest, rows, begin + places, ", &places")


def by_slices(manifest: Manifest) -> Manifest:
    """The manifest in which each slice counts as a layer without outputs."""
    layers = [{"name": f"slice {i}", "outputs": []} for i in range(manifest["slices"]["count"])]
    return {**manifest, "layers": layers, "by_slices": True}


def _wrappers(manifest: Manifest, before: str, inside: str, passed: str) -> str:
    """The functions that the harness calls. before, inside: definitions that precede them, and that they begin with; passed: what they
    give to the bundle besides the arena.
    """
    name, (run, run_layers) = manifest["name"], entries(manifest)
    whole, layers = (
        f"    return {name}_run(arena{passed});\n",
        f"    return {name}_run_layers(arena{passed}, first, count);\n",
    )
    begin, end = (
        f"memset((uint8_t *)arena + {name.upper()}_POSITION_OFFSET, 0, 4u);",
        "    return status > 0 ? 0 : status;\n",
    )
    if "slices" in manifest:
        whole = f"""    int32_t status;
    {begin}
    do {{
        status = {name}_step(arena{passed});
    }} while (status == {name.upper()}_MORE);
{end}"""
    if manifest.get("by_slices"):
        layers = f"""    int32_t status;
    if (first == 0) {{
        {begin}
    }}
    status = {name}_step(arena{passed});
    (void)count;
{end}"""
    return f"""
#include <string.h>
{before}
static int32_t {run}(void *arena) {{
{inside}{whole}}}

static int32_t {run_layers}(void *arena, int32_t first, int32_t count) {{
{inside}{layers}}}
"""


def _ram_c(ram: Mapping[str, Any], align: int) -> str:
    return f"""
static uint8_t ram_{ram["name"].lower()}[{ram["size"]}] __attribute__((aligned({align}), section("ge_ram_{ram["name"]}")));
"""


def check_rams(manifest: Manifest, board: Board) -> None:
    """Raise UsageError if the bundle needs a RAM that the board does not have."""
    there = [memory.name for memory in board.memories if memory.kind != "flash"]
    for ram in manifest.get("rams", []):
        if ram["name"] not in there:
            raise UsageError(
                f"the bundle {manifest['name']} keeps {ram['size']} bytes in the RAM {ram['name']!r}, and board "
                f"{board.name!r} has {', '.join(there)}: compile with one of these for --memory NAME=BYTES, or without"
            )


def has_weights_file(manifest: Manifest) -> bool:
    """Whether the bundle's constants are in a file that the program is given at run time."""
    return bool(manifest.get("weights", {}).get("place") == "file")


def weights_c(manifest: Manifest, bundle: Path, symbol: str = "ge_file_weights") -> str | None:
    """The weights file of a bundle as an array of this name; None if the bundle has no such file."""
    if not has_weights_file(manifest):
        return None
    name = str(manifest["weights"]["file"])
    if not PLAIN_FILE.fullmatch(name) or not (bundle / name).is_file():
        raise UsageError(f"{bundle} names the weights {name!r}, which is not a file of the bundle")
    content = read_bytes(bundle / name)
    lines = ",\n    ".join(", ".join(map(str, content[i : i + 24])) for i in range(0, len(content), 24))
    return f"""/* Made from {name} of {manifest["name"]}. */
#include <stdint.h>

#if defined(__GNUC__)
#define FILE_ALIGNED __attribute__((aligned(64)))
#else
#define FILE_ALIGNED
#endif
extern const uint8_t {symbol}[];
const uint8_t {symbol}[{len(content)}] FILE_ALIGNED = {{
    {lines}
}};
"""


def _member(tensor: Mapping[str, Any], window: str) -> str:
    pointer = f"(void *)({window} + {tensor['offset']})"
    return f"{{row_of_{tensor['id'].lower()}, {pointer}}}" if tensor["handed"] == "rows" else pointer


def _rows_c(tensor: Mapping[str, Any]) -> str:
    size = tensor["bytes"] // tensor["rows"]
    return f"""
static void row_of_{tensor["id"].lower()}(void *context, int32_t row, void *data) {{
    memcpy(data, (const uint8_t *)context + (size_t)row * {size}u, {size}u);
}}
"""


def _spans(name: str, tensors: Sequence[Mapping[str, Any]]) -> str:
    rows = [f"{{{int(tensor['offset'])}u, {int(tensor['bytes'])}u}}" for tensor in tensors] or ["{0u, 0u}"]
    return f"static const ge_span {name}[{len(rows)}] = {{{', '.join(rows)}}};"


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number}u" for number in numbers)


def _running_sums(counts: Iterable[int]) -> list[int]:
    sums = [0]
    for count in counts:
        sums.append(sums[-1] + count)
    return sums


def board_h(board: Board) -> str:
    """ge_board.h: the numbers of board.toml for C code."""
    if board.uart is None:
        raise UsageError(f"board {board.name!r} has no [uart] in its board.toml, which firmware needs")
    flash = sum(m.size for m in board.memories if m.kind == "flash")
    total = {"flash": flash, "ram": sum(m.size for m in board.memories) - flash}
    return f"""/* Made from board.toml of {board.name}. */
#ifndef GE_BOARD_H
#define GE_BOARD_H
#define GE_BOARD "{board.name}"
#define GE_TARGET "{board.target}"
#define GE_CLOCK_HZ {board.clock_hz}u
#define GE_FLASH_BYTES {total["flash"]}u
#define GE_RAM_BYTES {total["ram"]}u
#define GE_UART_BASE 0x{board.uart.base:08X}u
#define GE_UART_CLOCK_HZ {board.uart.clock_hz}u
#define GE_UART_BAUD {board.uart.baud}u
#endif
"""


def memory_ld(board: Board) -> str:
    """memory.ld: the memories of board.toml for the linker."""
    rows = [
        f"    {memory.name} ({'rx' if memory.kind == 'flash' else 'rw'}) : "
        f"ORIGIN = 0x{memory.start:08X}, LENGTH = 0x{memory.size:X}"
        for memory in board.memories
    ]
    others = [
        f"SECTIONS {{ .ge_ram_{m.name} (NOLOAD) : ALIGN(64) {{ *(ge_ram_{m.name}) }} > {m.name} }} INSERT AFTER .bss;"
        for m in board.memories
        if m.kind != "flash"
    ]
    lines = ["MEMORY", "{", *rows, "}", *others, f"ge_stack_size = 0x{board.stack_size:X};", ""]
    return f"/* Made from board.toml of {board.name}. */\n" + "\n".join(lines)
