"""Shows a validation as one HTML page. In: a Validation. Out: the text of a self-contained page with inline SVG
pictures.

Accuracy and confusion matrix, outputs of the float model against those of the device, error, instructions or cycles of
every layer, histograms of its values with what their types hold, and the memory plan over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Graph
from glowembed.judge.debugging import LayerReport
from glowembed.judge.validation import Validation
from glowembed.ranges import plot
from glowembed.ranges.profile import Profile
from glowembed.show import memory_view
from glowembed.show.report import ACCURACY_HEADS, OUTPUT_HEADS, accuracy_rows, cost_rows, line_rows, output_rows

Json = Mapping[str, Any]
POINTS = 4000
"""The most points of a scatter plot; if there are more, they are picked evenly."""

SIDE = 360
WIDE = 860
PALETTE = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568", "#b7791f", "#2c7a7b")
STYLE = """
:root { color-scheme: light dark; --ink: #1a202c; --paper: #fff; --line: #cbd5e0; --soft: #edf2f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --paper: #1a202c; --line: #4a5568; --soft: #2d3748; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } td { white-space: nowrap } th, td { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child, td:first-child, .words { text-align: left } .good { color: #2f855a } .bad { color: #c53030 }
svg { max-width: 100%; height: auto } svg[role] { background: var(--soft) } svg[role] text { font: 11px system-ui, sans-serif; fill: var(--ink) }
.scroll { overflow-x: auto }
"""


def page(
    result: Validation,
    losses: Sequence[LayerReport] = (),
    values: tuple[Profile, Graph] | None = None,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
) -> str:
    """The page. losses: the loss of every layer against float. values: their distribution, and the graph with their
    types. first, last: further HTML before and after its sections.
    """
    json = result.json
    title = escape(f"{json['model']} on {json['board']}")
    parts = [
        *first,
        _verdict(json),
        *(f'<p class="bad">warning: {escape(str(note))}</p>' for note in result.notes if note.level == "warning"),
        section("Outputs against float", table(OUTPUT_HEADS, output_rows(json["outputs"]))),
        section("Accuracy against labels", table(ACCURACY_HEADS, accuracy_rows(json["accuracy"])))
        if json["accuracy"]
        else "",
        section("Confusion matrix", _confusion(result)),
        section("Float model and device", _scatters(result)),
        section("Layers", _layers(result, losses)),
        section("Values and the ranges of their types", plot.drawings(*values) if values is not None else ""),
        section("Memory over time", _memory(result)),
        section("Costs", table(("", "on the board"), cost_rows(json))),
        section("Serial line", table(("", "measured"), line_rows(json))) if "line" in json else "",
        *last,
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}{plot.STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        + "\n".join(filter(None, parts))
    ) + "\n</body></html>\n"


def section(title: str, body: str) -> str:
    """A part of the page with its title; nothing if it is empty."""
    return f"<h2>{escape(title)}</h2>\n{body}" if body else ""


def _verdict(json: Json) -> str:
    where = f"{json['target']}, {json['transport']}, {json['samples']} samples"
    if json["bit_exact"]:
        return f'<p>{escape(where)}: <b class="good">bit-exact</b> with the integer reference</p>'
    first = json["first_difference"]
    words = ", ".join(f"{key} {value}" for key, value in first.items())
    return f'<p>{escape(where)}: <b class="bad">NOT bit-exact</b>. First difference: {escape(words)}</p>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns without any known figure are left out."""
    rows = list(rows)
    known = [index for index in range(len(heads)) if any(row[index] != "-" for row in rows)]
    head = "".join(f"<th>{escape(heads[index])}</th>" for index in known)
    body = "".join("<tr>" + "".join(f"<td>{escape(row[index])}</td>" for index in known) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------------------------- pictures


def _confusion(result: Validation) -> str:
    """The confusion matrix. Rows are labels; columns are the device's answers."""
    labels, json = result.labels, result.json
    if labels is None or not json["accuracy"] or json["accuracy"]["metric"] != "top1":
        return ""
    found = next(iter(result.found.values()))
    guesses = found.reshape(len(found), -1).argmax(axis=1)
    classes = int(found[0].size)
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (labels.reshape(-1).astype(np.int64), guesses), 1)
    cell = max(8, min(36, SIDE // classes))
    most = max(1, int(counts.max()))
    squares = [_square(r, c, int(counts[r, c]), most, cell) for r in range(classes) for c in range(classes)]
    return _svg((classes + 1) * cell, (classes + 1) * cell, [*squares, *_numbers(classes, cell)])


def _square(row: int, column: int, count: int, most: int, cell: int) -> str:
    colour = PALETTE[2] if row == column else "#c53030"
    x, y = (column + 1) * cell, (row + 1) * cell
    label = (
        f'<text x="{x + cell / 2}" y="{y + cell / 2 + 4}" text-anchor="middle">{count}</text>'
        if count and cell > 20
        else ""
    )
    return (
        f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{colour}" fill-opacity="{count / most:.3f}" '
        f'stroke="var(--line)"><title>label {row}, device {column}: {count}</title></rect>{label}'
    )


def _numbers(classes: int, cell: int) -> list[str]:
    if cell < 14:
        return []
    across = [f'<text x="{(i + 1.5) * cell}" y="{cell - 4}" text-anchor="middle">{i}</text>' for i in range(classes)]
    down = [f'<text x="{cell - 4}" y="{(i + 1.5) * cell + 4}" text-anchor="end">{i}</text>' for i in range(classes)]
    return across + down


def _scatters(result: Validation) -> str:
    return "\n".join(_scatter(name, floats, result.found[name]) for name, floats in result.floats.items())


def _scatter(name: str, floats: Array, found: Array) -> str:
    """A scatter plot of every element of an output: float across, device up; correct elements lie on the diagonal."""
    x, y = floats.reshape(-1).astype(np.float64), found.reshape(-1).astype(np.float64)
    picked = np.linspace(0, len(x) - 1, min(POINTS, len(x))).astype(np.int64)
    x, y = x[picked], y[picked]
    low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
    scale = (SIDE - 40) / ((high - low) or 1.0)
    dots = [
        f'<circle cx="{20 + (a - low) * scale:.1f}" cy="{SIDE - 20 - (b - low) * scale:.1f}" r="2" fill="{PALETTE[0]}" '
        'fill-opacity=".35"/>'
        for a, b in zip(x, y, strict=True)
    ]
    line = f'<line x1="20" y1="{SIDE - 20}" x2="{SIDE - 20}" y2="20" stroke="var(--line)"/>'
    words = f'<text x="24" y="14">{escape(name)}: float across, device up; {low:.3g} to {high:.3g}</text>'
    return _svg(SIDE, SIDE, [line, *dots, words])


def _layers(result: Validation, losses: Sequence[LayerReport]) -> str:
    rows = result.json["layers"]
    checks, lost = {check.name: check for check in result.layers}, {loss.name: loss for loss in losses}
    cells = [
        (
            row["name"], row["op"], _text(row["macs"]), _text(row["instructions"]), _text(row["cycles_estimate"]),
            _text(row.get("cycles_measured")), *_check(checks.get(row["name"])), *_loss(lost.get(row["name"])),
        )
        for row in rows
    ]  # fmt: skip
    heads = (
        "layer", "op", "MACs", "instructions", "cycles, estimate", "cycles, measured", "saturated", "exact",
        "SQNR to here", "SQNR of the layer",
    )  # fmt: skip
    return _cost_bars(rows) + _error_bars(losses) + table(heads, cells)


def _loss(loss: LayerReport | None) -> tuple[str, str]:
    known = (None, None) if loss is None else (loss.cumulated, loss.isolated)
    here, alone = ("-" if found is None else f"{found.sqnr_db:.1f} dB" for found in known)
    return here, alone


def _check(check: Any) -> tuple[str, str]:
    return (
        ("-", "-") if check is None else (f"{100 * check.saturated:.1f} %", "yes" if check.difference is None else "NO")
    )


def _cost_bars(rows: Sequence[Json]) -> str:
    """The share of every layer in the cycles, instructions or MACs, whichever is known first."""
    known = [
        key
        for key in ("cycles_measured", "cycles_estimate", "instructions", "macs")
        if rows and rows[0].get(key) is not None
    ]
    if not known:
        return ""
    bars = [(row["name"], row[known[0]] or 0, _text(row[known[0]])) for row in rows]
    return _bars(known[0].replace("_", " "), bars, PALETTE[0])


def _error_bars(losses: Sequence[LayerReport]) -> str:
    """The noise of every layer alone, with the float model's input: RMS over RMS of the signal."""
    known = [(loss.name, 10 ** (-loss.isolated.sqnr_db / 20)) for loss in losses if loss.isolated is not None]
    bars = [(name, noise, f"{100 * noise:.3g} %") for name, noise in known]
    return _bars("error against float of the layer alone, RMS", bars, PALETTE[1]) if bars else ""


def _bars(title: str, bars: Sequence[tuple[str, float, str]], colour: str) -> str:
    """One line per layer: name, bar, text."""
    step, most = 18, max(1e-9, *(length for _, length, _ in bars))
    parts = [f'<text x="260" y="14">{escape(title)}</text>']
    for index, (name, length, words) in enumerate(bars):
        width = (WIDE - 360) * length / most
        y = 22 + index * step
        parts.append(f'<text x="4" y="{y + 12}">{escape(name[-40:])}</text>')
        parts.append(f'<rect x="260" y="{y}" width="{width:.1f}" height="{step - 4}" fill="{colour}"/>')
        parts.append(f'<text x="{264 + width:.1f}" y="{y + 12}">{escape(words)}</text>')
    return _svg(WIDE, 30 + len(bars) * step, parts)


def _memory(result: Validation) -> str:
    return memory_view.svg(memory_view.view(result.manifest)) if result.manifest.get("buffers") else ""


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    inner = "".join(parts)
    return f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img">{inner}</svg>\n'
