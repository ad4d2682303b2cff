"""Sections that several pages have: memory, layers, graph, what was done to the network, integration. In: a bundle and results.
Out: Sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from glowembed.graph.ir import Graph
from glowembed.graph.registry import kernel
from glowembed.graph.target import Board
from glowembed.judge.debugging import LayerReport
from glowembed.judge.validation import LayerCheck
from glowembed.pipeline import Bundle
from glowembed.show import bundleview, memory_view
from glowembed.show.page import Bar, Block, Cell, Section, bars, code, folded, paragraph, pictures, table
from glowembed.show.tables import number, shape, size

Json = Mapping[str, Any]

LARGE_GRAPH = 400
"""A graph of more nodes is not drawn: it would be too tall to read."""


def memory_bars(memory: Json, board: Board | None) -> tuple[Block, ...]:
    """RAM and flash of the network against what the board has, and their parts against each other."""
    ram = {"arena": memory["arena"], "stack": memory["stack"] or 0, "variables": memory["data"] + memory["bss"]}
    flash = {"weights": memory["weights"], "code": memory["code"], "other constants": memory["rodata"]}
    entries = [*_of_board("RAM", ram, board, False), *_of_board("flash", flash, board, True)]
    return bars(entries)


def _of_board(what: str, parts: Mapping[str, int], board: Board | None, flash: bool) -> Iterator[Bar]:
    taken = sum(parts.values())
    there = sum(m.size for m in board.memories if (m.kind == "flash") == flash) if board is not None else 0
    if there:
        yield Bar(f"{what} of the board", taken / there, f"{size(taken)} of {size(there)}, {100 * taken / there:.1f} %")
    for name, count in parts.items():
        if count:
            yield Bar(f"{name} ({what})", count / taken, size(count))


def memory_over_time(manifest: Json) -> Section:
    """The memory map, and the plan as a table."""
    if not manifest.get("buffers"):
        return Section("Memory over time", ())
    shown = memory_view.view(manifest)
    peak = shown.peak
    steps = f"step {peak.first}" if peak.first == peak.last else f"steps {peak.first} to {peak.last}"
    words = (
        "Each rectangle is a tensor, or a row of one, from the step that writes it to the last one that reads it. Point at it"
        f" for its name and size. The peak is in {steps}, {peak.name}: {size(peak.live)} are alive."
    )
    return Section(
        "Memory over time",
        (
            *paragraph(words, "soft"),
            *pictures([("", memory_view.svg(shown))]),
            *folded("Addresses and lifetimes", code(memory_view.text(shown))),
        ),
    )


LAYER_HEADS = (
    "layer", "kernel", "dtype", "output", "MACs", "instructions", "cycles", "cycles measured", "share", "cycles/MAC",
    "weights B", "output B", "saturated", "exact", "SQNR alone", "SQNR to here",
)  # fmt: skip


def layers(
    manifest: Json,
    rows: Sequence[Json] = (),
    graph: Graph | None = None,
    checks: Sequence[LayerCheck] = (),
    losses: Sequence[LayerReport] = (),
) -> Section:
    """All that is known of each layer. rows: its figures, as results have them. losses: its error against float."""
    known = manifest.get("layers", [])
    figures = {row["name"]: row for row in rows}
    cost = next((key for key in COSTS if any(row.get(key) for row in rows)), "macs")
    whole = sum(figures.get(layer["name"], layer).get(cost) or 0 for layer in known)
    weights = _weights(graph) if graph is not None else {}
    checked, lost = {c.name: c for c in checks}, {loss.name: loss for loss in losses}
    cells: list[tuple[str | Cell, ...]] = []
    for layer in known:
        name, row = layer["name"], figures.get(layer["name"], layer)
        share = (row.get(cost) or 0) / whole if whole else 0.0
        cells.append(
            (
                Cell(name, title=_origins(layer)),
                str(layer.get("kernel") or layer["op"]).removeprefix("ge_"),
                *_output(layer),
                *_costs(row),
                Cell(f"{100 * share:.1f} %", share, share),
                _each(row),
                _count(weights.get(name)),
                _count(sum(out["bytes"] for out in layer.get("outputs", [])) or None),
                *_check(checked.get(name)),
                *_loss(lost.get(name)),
            )
        )
    words = (
        f"Shares are of the {COSTS[cost]}. SQNR is against the float model: of the layer alone, and with the error of all layers"
        " before it. Point at a name for the ONNX nodes that the layer came from."
    )
    return Section("Layers", (*paragraph(words, "soft"), *table(LAYER_HEADS, cells, 3, sortable=True)) if cells else ())


COSTS = {
    "cycles_measured": "cycles measured", "cycles_estimate": "estimated cycles", "instructions": "instructions", "macs": "MACs",
}  # fmt: skip
"""The figures of a layer that tell its share, the best known first."""


def _weights(graph: Graph) -> dict[str, int]:
    """The bytes of flash of the constants of each layer, as its kernel reads them."""
    found = {}
    for node in graph.nodes:
        if node.kernel:
            plain = {name: const.materialize() for name, const in node.constants.items()}
            found[node.name] = sum(a.nbytes for a in kernel(node.kernel).packed(plain, node.params).values())
    return found


def _origins(layer: Json) -> str:
    return "from " + ", ".join(layer["origins"]) if layer.get("origins") else ""


def _output(layer: Json) -> tuple[str, str]:
    outputs = layer.get("outputs") or []
    return ", ".join(out["dtype"] for out in outputs) or "-", ", ".join(shape(out["shape"]) for out in outputs) or "-"


def _costs(row: Json) -> tuple[Cell, ...]:
    return tuple(_count(row.get(key)) for key in ("macs", "instructions", "cycles_estimate", "cycles_measured"))


def _count(value: int | None) -> Cell:
    return Cell(number(value or None), value or 0)


def _each(row: Json) -> Cell:
    cycles = row.get("cycles_measured") or row.get("cycles_estimate")
    if not cycles or not row.get("macs"):
        return Cell("-", -1.0)
    return Cell(f"{cycles / row['macs']:.2f}", cycles / row["macs"])


def _check(check: LayerCheck | None) -> tuple[Cell, Cell]:
    if check is None:
        return Cell("-"), Cell("-")
    exact = check.difference is None
    saturated = Cell(f"{100 * check.saturated:.1f} %", check.saturated)
    return saturated, Cell("yes" if exact else "NO", tone="good" if exact else "bad")


def _loss(loss: LayerReport | None) -> tuple[Cell, Cell]:
    known = (None, None) if loss is None else (loss.isolated, loss.cumulated)
    alone, here = (Cell("-", 1e9) if f is None else Cell(f"{f.sqnr_db:.1f} dB", f.sqnr_db) for f in known)
    return alone, here


def network(bundle: Bundle) -> Section:
    """The graph, with kernels and types."""
    if len(bundle.graph.nodes) > LARGE_GRAPH:
        words = (
            f"The graph has {len(bundle.graph.nodes)} nodes; draw it with glowembed inspect BUNDLE --graph FILE.svg."
        )
        return Section("Graph", paragraph(words))
    return Section("Graph", folded("Show the graph", pictures([("", bundleview.svg(bundle))])))


def done_to_it(manifest: Json, notes: Sequence[object] = ()) -> Section:
    """What the compiler read, folded, removed and chose, with reasons."""
    lines = [f"{note}" for note in notes]
    simplified = manifest.get("simplified")
    if simplified and simplified["channels"]:
        lines.append(
            f"{number(simplified['channels'])} channels that are constant or unread were removed: {number(simplified['macs_before'])} ->"
            f" {number(simplified['macs_after'])} multiply-accumulates."
        )
    merged = sum(len(layer.get("origins", [])) > 1 for layer in manifest.get("layers", []))
    if merged:
        lines.append(f"{merged} layers compute several ONNX nodes in one; the table of layers names them.")
    rows = [
        (entry["node"], entry["op"], entry["dtype"], entry["weights"] or "-", entry["output"], entry["reason"] or "-")
        for entry in manifest.get("precision", [])
    ]
    heads = ("node", "op", "computed in", "weights", "output: dtype, scale, zero point", "why")
    blocks = [block for line in lines for block in paragraph(line)]
    return Section("What was done", (*blocks, *folded("Precision of every node", table(heads, rows, 2, sortable=True))))


def integration(bundle: Bundle) -> Section:
    """How a program uses the bundle: the manual at the head of its header."""
    name = bundle.manifest["name"]
    header = Path(bundle.path) / f"{name}.h"
    if not header.is_file():
        return Section("Integration", ())
    manual = header.read_text(encoding="utf-8").split("*/")[0].removeprefix("/*")
    lines = [line.removeprefix(" *").removeprefix(" ").rstrip() for line in manual.splitlines()]
    words = f"Add these files of the bundle to your project: {', '.join(bundle.manifest['sources'])}. The head of {name}.h says:"
    return Section("Integration", (*paragraph(words), *code("\n".join(lines).strip())))
