"""The pages of the commands. In: what a command found. Out: the text of an HTML file.

Each function gathers what it knows into a Page; the sections that several share are in parts.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glowembed.graph.clock import energy_text, time_text
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Tradeoff
from glowembed.graph.target import Board
from glowembed.judge.debugging import LayerReport
from glowembed.judge.fitting import Fit, OnTarget
from glowembed.judge.inspection import Inspection
from glowembed.judge.trial import Trial
from glowembed.judge.tune import ALL, Tuned
from glowembed.judge.validation import Validation
from glowembed.measure import Measurement
from glowembed.pipeline import Bundle
from glowembed.ranges.profile import Profile
from glowembed.show import curve_view, memory_view
from glowembed.show.inspection import BOARD_HEADS, TARGET_HEADS, board_rows, target_rows
from glowembed.show.memory_view import View
from glowembed.show.page import (
    Bar,
    Block,
    Cell,
    Figure,
    Page,
    Section,
    Tone,
    bars,
    charts,
    code,
    facts_of,
    folded,
    histograms,
    paragraph,
    parts,
    pictures,
    render,
    table,
)
from glowembed.show.report import ACCURACY_HEADS, OUTPUT_HEADS, accuracy_rows, cost_rows, line_rows, output_rows
from glowembed.show.tables import number, shape, size

Json = Mapping[str, Any]
Values = tuple[Profile, Graph]
"""The distribution of values, and the graph with their types."""


def validation(
    result: Validation,
    bundle: Bundle | None = None,
    board: Board | None = None,
    losses: Sequence[LayerReport] = (),
    values: Values | None = None,
) -> str:
    """The page of `validate --html`. losses: the loss of every layer against float."""
    json = result.json
    return render(
        Page(
            "glowembed validate",
            f"{json['model']} on {json['board']}",
            _verdict(json),
            "good" if json["bit_exact"] else "bad",
            tuple(note for note in result.notes if note.level == "warning"),
            _figures(json),
            _facts(result),
            _validated(result, bundle, board, losses, values),
        )
    )


def _validated(
    result: Validation,
    bundle: Bundle | None,
    board: Board | None,
    losses: Sequence[LayerReport],
    values: Values | None,
) -> tuple[Section, ...]:
    json, notes = result.json, [note for note in result.notes if note.level == "note"]
    graph = None if bundle is None else bundle.graph
    checks = tuple(check for check in result.layers)
    return (
        Section("Accuracy", _accuracy(result)),
        Section(
            "Memory",
            (*parts.memory_bars(json["memory"], board), *table(("", "on the board"), cost_rows(json))),
        ),
        parts.layers(result.manifest, json["layers"], graph, checks, losses),
        Section("Error of the layers", _error_bars(losses)),
        *([parts.network(bundle)] if bundle is not None else []),
        parts.memory_over_time(result.manifest),
        Section("Values", folded("Show histograms", histograms.drawings(*values)) if values is not None else ()),
        parts.done_to_it(result.manifest, notes),
        Section("Serial line", table(("", "measured"), line_rows(json)) if "line" in json else ()),
        *([parts.integration(bundle)] if bundle is not None else []),
    )


def _verdict(json: Json) -> str:
    where = f"{json['target']}, {json['transport']}, {json['samples']} samples"
    if json["bit_exact"]:
        return f"Bit-exact with the integer reference ({where})"
    words = ", ".join(f"{key} {value}" for key, value in json["first_difference"].items())
    return f"NOT bit-exact ({where}). First difference: {words}"


def _figures(json: Json) -> tuple[Figure, ...]:
    """The numbers that matter: accuracy, time, RAM, flash."""
    memory, found = json["memory"], []
    if json["accuracy"] is not None:
        (metric, before, after) = accuracy_rows(json["accuracy"])[0]
        found.append(Figure(metric, after, f"float: {before}"))
    if json["outputs"]:
        worst = min(out["sqnr_db"] for out in json["outputs"])
        found.append(Figure("SQNR against float", f"{worst:.1f} dB", "of the worst output"))
    if json.get("milliseconds"):
        how = "measured" if json["cycles_measured"] else "estimated"
        found.append(_time(how, json["milliseconds"], json["clock_hz"]))
    elif json.get("latency_us"):
        found.append(Figure("time, measured", f"{json['latency_us']:,.1f} µs", "on this computer"))
    if json.get("microjoules"):
        found.append(_energy(json["microjoules"]))
    cycles = json["cycles_measured"] or json["cycles_estimate"]
    if cycles:
        each = f"{cycles / json['macs']:.2f} per multiply-accumulate" if json["macs"] else ""
        found.append(Figure("cycles", number(cycles), each))
    ram, flash = memory["arena"] + (memory["stack"] or 0), memory["weights"] + memory["code"] + memory["rodata"]
    found.append(Figure("RAM", size(ram), f"arena {size(memory['arena'])}, stack {size(memory['stack'])}"))
    found.append(Figure("flash", size(flash), f"weights {size(memory['weights'])}, code {size(memory['code'])}"))
    return tuple(found)


def _time(how: str, milliseconds: float | None, clock_hz: int | None) -> Figure:
    time, _, clock = time_text(milliseconds, clock_hz).partition(" at ")
    return Figure(f"time, {how}", time, f"at {clock}" if clock else "")


def _energy(microjoules: float) -> Figure:
    return Figure("energy, estimated", energy_text(microjoules), "by the board's average")


def _facts(result: Validation) -> tuple[tuple[str, str], ...]:
    json = result.json
    known = facts_of(result.manifest) if result.manifest.get("model") else (("target", json["target"]),)
    calibration = (result.manifest.get("calibration") or {}).get("samples")
    return (
        *known,
        ("board", f"{json['board']}, {json['transport']}"),
        ("toolchain", json["toolchain"] or ""),
        ("samples", number(json["samples"])),
        ("calibration", f"{number(calibration)} samples" if calibration else ""),
        ("multiply-accumulates", number(json["macs"])),
    )


def _accuracy(result: Validation) -> tuple[Block, ...]:
    json = result.json
    against = table(ACCURACY_HEADS, accuracy_rows(json["accuracy"])) if json["accuracy"] else ()
    drawn = [("Confusion matrix", _confusion(result))]
    drawn += [(f"{name}: float model and device", charts.scatter(f, result.found[name])) for name, f in result.floats.items()]  # fmt: skip
    return (*against, *table(OUTPUT_HEADS, output_rows(json["outputs"])), *pictures(drawn))


def _confusion(result: Validation) -> str:
    if result.labels is None or not result.json["accuracy"] or result.json["accuracy"]["metric"] != "top1":
        return ""
    found = next(iter(result.found.values()))
    guesses = found.reshape(len(found), -1).argmax(axis=1)
    return charts.confusion(result.labels.reshape(-1).astype(np.int64), guesses, int(found[0].size))


def _error_bars(losses: Sequence[LayerReport]) -> tuple[Block, ...]:
    """The noise of every layer alone, with the float model's input: RMS over RMS of the signal."""
    known = [(loss.name, 10 ** (-loss.isolated.sqnr_db / 20)) for loss in losses if loss.isolated is not None]
    most = max([noise for _, noise in known], default=0.0) or 1.0
    entries = [Bar(name, noise / most, f"{100 * noise:.3g} %") for name, noise in known]
    words = "Each layer alone, with the inputs of the float model: RMS of its error over RMS of its output."
    return (*paragraph(words, "soft"), *bars(entries)) if entries else ()


def trial(
    found: Trial,
    model: str,
    verdict: str,
    commands: Sequence[str],
    board: Board | None = None,
    losses: Sequence[LayerReport] = (),
    values: Values | None = None,
) -> str:
    """The page of `try`. model, verdict: each in one line. losses, values: of the first run."""
    first = found.runs[0]
    notes = {note.code: note for note in (*found.notes, *(n for run in found.runs for n in run.validation.notes))}
    tensors = [("in", t) for t in found.inspection.inputs] + [("out", t) for t in found.inspection.outputs]
    return render(
        Page(
            "glowembed try",
            f"{first.validation.json['model']} on {first.validation.json['board']}",
            verdict,
            _tone(found.bit_exact),
            tuple(note for note in notes.values() if note.level == "warning"),
            _figures(first.validation.json),
            _facts(first.validation),
            (
                Section(
                    "Model",
                    (*paragraph(model), *table(("", "tensor", "shape", "dtype"), [(kind, t.name, shape(t.shape), t.dtype) for kind, t in tensors], 2)),
                ),
                _boards(found.boards),
                *_plans(first.bundle.manifest["name"], found.plans, Tradeoff.taken(first.bundle.manifest)),
                *_validated(first.validation, first.bundle, board, losses, values),
                Section("What next", code("\n".join(commands))),
            ),
        )
    )  # fmt: skip


def _tone(good: bool) -> Tone:
    return "good" if good else "bad"


FITS: Mapping[str, Tone] = {"yes": "good", "no": "bad"}


def _boards(boards: Sequence[Fit]) -> Section:
    rows: list[tuple[str | Cell, ...]]
    rows = [(name, Cell(fits, tone=FITS.get(fits, "")), *others) for name, fits, *others in board_rows(boards)]
    words = "Estimated with plans that are found quickly: compile may need less. RAM and flash are those of the board."
    return Section("Boards", (*paragraph(words, "soft"), *table(BOARD_HEADS, rows)) if rows else ())


def _targets(targets: Sequence[OnTarget]) -> Section:
    words = "The arena is what compile plans by default; flash and cycles are estimated. --target NAME finds options for smaller boards."
    shown = table(TARGET_HEADS, target_rows(targets))
    return Section("Targets", (*paragraph(words, "soft"), *shown) if targets else ())


def inspection(found: Inspection) -> str:
    """The page of `inspect MODEL --html`."""
    refused, totals = found.unsupported, []
    if not refused:
        totals = [
            Figure("multiply-accumulates", number(found.macs)),
            Figure("parameters", number(found.parameters)),
            Figure("RAM", size(found.arena_estimate), f"arena, {found.target}"),
            Figure("flash", size(found.flash_estimate), f"estimated, {found.target}"),
            Figure("cycles", number(found.cycles_estimate), f"estimated, {found.target}"),
        ]
    verdict = f"{len(refused)} nodes are not supported" if refused else "Everything in this model can be compiled"
    return render(
        Page(
            "glowembed inspect",
            found.model,
            verdict,
            _tone(not refused),
            tuple(found.notes),
            tuple(figure for figure in totals if figure.value != "-"),
            (
                ("opset", str(found.opset)),
                ("made by", found.producer or ""),
                ("sha256", found.model_sha256[:16]),
                ("target", found.target),
            ),
            _inspected(found),
        )
    )


def _inspected(found: Inspection) -> tuple[Section, ...]:
    tensors = [("in", t) for t in found.inputs] + [("out", t) for t in found.outputs]
    io = [(kind, t.name, shape(t.shape), t.dtype, t.layout or "-") for kind, t in tensors]
    problems = [(p.node, p.op, p.reason, p.hint or "-") for p in found.unsupported]
    most = max([layer.macs for layer in found.layers], default=0) or 1
    layers: list[tuple[str | Cell, ...]] = [
        (
            x.name,
            x.op,
            shape(x.shape),
            Cell(number(x.macs), x.macs, x.macs / most),
            Cell(number(x.parameters), x.parameters),
        )
        for x in found.layers
    ]
    covered: list[tuple[str | Cell, ...]] = [
        (
            row.operator, ", ".join(row.dtypes) or "-", ", ".join(row.kernels) or "-", str(row.nodes), number(row.cycles),
            Cell(f"{row.share:.1%}", row.share, row.share), "; ".join((*row.refused, *row.reasons)) or "-",
        )
        for row in found.coverage
    ]  # fmt: skip
    return (
        Section("Not supported", table(("node", "op", "reason", "what to do"), problems, 4)),
        Section("Inputs and outputs", table(("", "tensor", "shape", "dtype", "layout"), io, 2)),
        _boards(found.boards),
        _targets(found.targets),
        Section("Operators", table(("operator", "dtype", "kernels", "nodes", "cycles, estimated", "share", "reason"), covered, 3)),
        Section("Layers", table(("layer", "op", "output", "MACs", "parameters"), layers, 2, sortable=True)),
    )  # fmt: skip


def bundle(opened: Bundle) -> str:
    """The page of `inspect BUNDLE --html`."""
    manifest = opened.manifest
    return render(
        Page(
            "glowembed inspect",
            f"{manifest['name']} for {manifest['target']}",
            figures=(
                Figure("arena (RAM)", size(manifest["arena"]["size"]), f"whole tensors would need {size(manifest['arena']['liveness_bound'])}"),
                Figure("weights", size(manifest["weights_bytes"]), str(manifest["weights"]["place"])),
                Figure("multiply-accumulates", number(manifest["macs"])),
                Figure("layers", number(len(manifest["layers"]))),
            ),
            facts=facts_of(manifest),
            sections=(
                Section("Inputs and outputs", _tensors(manifest)),
                parts.layers(manifest, (), opened.graph),
                parts.network(opened),
                parts.memory_over_time(manifest),
                parts.done_to_it(manifest, opened.notes),
                parts.integration(opened),
            ),
        )
    )  # fmt: skip


def _tensors(manifest: Json) -> tuple[Block, ...]:
    pairs = [("in", t) for t in manifest["inputs"]] + [("out", t) for t in manifest["outputs"]]
    rows = [
        (kind, t["name"], shape(t["shape"]), t["dtype"], "-" if t["scale"] is None else f"{t['scale']:.6g}", "-" if t["zero_point"] is None else str(t["zero_point"]))
        for kind, t in pairs
    ]  # fmt: skip
    return table(("", "tensor", "shape", "dtype", "scale", "zero point"), rows, 2)


def memory(shown: View) -> str:
    """The page of `inspect BUNDLE --memory-map FILE.html`."""
    blocks = (*pictures([("", memory_view.svg(shown))]), *code(memory_view.text(shown)))
    return render(
        Page(
            "glowembed inspect --memory-map", f"Memory of {shown.name}", sections=(Section("Memory over time", blocks),)
        )
    )


def measurement(found: Measurement, opened: Bundle) -> str:
    """The page of `measure --html`."""
    json = found.json()
    cycles = found.total.cycles
    how = "estimated" if found.ruler == "table" else f"by {found.ruler}"
    span = "" if cycles is None else f"the model allows {cycles.low:,.0f} to {cycles.high:,.0f}"
    figures = [
        Figure("instructions", number(found.total.instructions), "counted"),
        *([Figure(f"cycles, {how}", f"{cycles.point:,.0f}", span)] if cycles is not None else []),
    ]
    if found.milliseconds is not None:
        figures.append(_time("estimated", found.milliseconds, found.clock_hz))
    if found.microjoules is not None:
        figures.append(_energy(found.microjoules))
    rows = [
        (f["name"], number(f["instructions"]), number(f["cycles_estimate"]))
        for f in json["functions"]
    ]  # fmt: skip
    hot = [
        block
        for spot in found.hot
        for block in (
            *paragraph(f"{100 * spot.share:.1f} % of all cycles in this stretch of {spot.function}"),
            *table(
                ("machine code", "address", "times", "cycles each"),
                [(" ".join(x.text.split()), f"{x.address:x}", number(x.times), f"{x.cycles:.2f}") for x in spot.lines],
            ),
        )
    ]
    return render(
        Page(
            "glowembed measure",
            f"{found.bundle} on {found.board}",
            notes=(),
            figures=tuple(figures),
            facts=(
                *facts_of(found.manifest),
                ("board", found.board),
                ("samples", number(found.samples)),
                ("note", found.note or ""),
            ),
            sections=(
                parts.layers(found.manifest, json["layers"], opened.graph),
                Section("Functions", table(("function", "instructions", "cycles, estimated"), rows, sortable=True)),
                Section("Hot spots", tuple(hot)),
            ),
        )
    )


def tuned(result: Tuned, model: str) -> str:
    """The page of `tune --html`: everything that was tried, accuracy against cost."""
    answer = result.lifted
    lines = [] if answer is None else [f"{change}: {name or 'all nodes'}" for name, change in answer]
    lost = max([1 - e.score / (result.float_score or 1.0) for e in result.tried.values()], default=0.0) or 1.0
    rows = [
        (
            Cell(", ".join(f"{name or 'all nodes'}: {change}" for name, change in lifted) or "plain int8", tone="good" if lifted == answer else ""),
            str(sum(name != ALL for name, _ in lifted)),
            Cell(f"{e.score:.4f}", e.score, min(1.0, max(0.0, (1 - e.score / (result.float_score or 1.0)) / lost))),
            f"{e.noise:.4f}",
            Cell(number(e.arena), e.arena),
            Cell(number(e.flash), e.flash),
            Cell(number(round(e.cycles)), e.cycles),
        )
        for lifted, e in result.tried.items()
    ]  # fmt: skip
    ends = [] if answer is None else [
        Figure("score", f"{result.tried[answer].score:.4f}", f"plain int8: {result.base.score:.4f}, float: {result.float_score:.4f}"),
        Figure("cycles, estimated", number(round(result.tried[answer].cycles)), f"plain int8: {number(round(result.base.cycles))}"),
        Figure("arena", size(result.tried[answer].arena), f"plain int8: {size(result.base.arena)}"),
        Figure("flash", size(result.tried[answer].flash), f"plain int8: {size(result.base.flash)}"),
    ]  # fmt: skip
    verdict = f"The goal of {result.goal:.4f} was not reached by any of {len(result.tried)} configurations"
    if answer is not None:
        verdict = f"The goal of {result.goal:.4f} is reached with {sum(name != ALL for name, _ in answer)} of {result.nodes} nodes lifted"
    heads = ("lifted", "nodes lifted", "score", "noise", "arena, bytes", "flash, bytes", "cycles, estimated")
    return render(
        Page(
            "glowembed tune",
            f"Precision of {model}",
            verdict,
            _tone(answer is not None),
            figures=tuple(ends),
            facts=(("tried", f"{len(result.tried)} configurations"),),
            sections=(
                Section("Lifted nodes", tuple(block for line in lines for block in paragraph(line))),
                Section("What was tried", table(heads, rows, sortable=True)),
            ),
        )
    )


def curve(
    name: str, points: Sequence[Tradeoff], chosen: Tradeoff | None = None, cycles: str = "estimated cycles"
) -> str:
    """The page of `compile --curve FILE.html`. chosen: the plan of the bundle."""
    figures = () if chosen is None else (
        Figure("arena of this bundle", size(chosen.ram)),
        Figure(cycles, f"{chosen.cycles:,.0f}", f"{100 * chosen.extra:.1f} % more than the fastest kernels"),
    )  # fmt: skip
    sections = _plans(name, points, chosen, cycles)
    return render(
        Page("glowembed compile --curve", f"RAM against cycles of {name}", figures=figures, sections=sections)
    )


def _plans(
    name: str, points: Sequence[Tradeoff], chosen: Tradeoff | None, cycles: str = "estimated cycles"
) -> tuple[Section, ...]:
    """RAM against cycles of the plans of a network, with the chosen one marked; nothing if there are no plans."""
    if not points:
        return ()
    words = "Each dot is a plan that no other plan beats in both. compile --ram BYTES takes the fastest plan within a limit."
    rows = [(number(p.ram), f"{p.cycles:,.0f}", f"{100 * p.extra:.1f} %") for p in points]
    blocks = (
        *paragraph(words, "soft"),
        *pictures([("", curve_view.svg(name, points, chosen, cycles))]),
        *table(("RAM, bytes", cycles, "more than the fastest kernels"), rows, 0),
    )
    return (Section("Plans", blocks),)


def profile(ranges: Profile, graph: Graph) -> str:
    """The page of `profile --plot` and `compile --plot`. graph: with the types that the options choose."""
    return render(
        Page(
            "glowembed profile",
            f"Values of {graph.name}",
            notes=tuple(ranges.notes),
            facts=(("samples", number(ranges.samples)), ("sha256 of the model", ranges.model_sha256[:16])),
            sections=(Section("Values", histograms.drawings(ranges, graph)),),
        )
    )
