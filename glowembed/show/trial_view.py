"""Shows what `try` found. In: a Trial, and the commands to copy next. Out: rich tables, or one HTML page.

The page is that of the validation on the emulated board, with the verdict, the boards and the next commands added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from glowembed.graph.clock import energy_text, time_text
from glowembed.judge.trial import Trial
from glowembed.show import report
from glowembed.show.inspection import BOARD_HEADS, board_rows
from glowembed.show.tables import number, shape, size, table

TENSOR_HEADS = ("", "tensor", "shape", "dtype")
BOARDS_TITLE = "Boards, estimated with quick plans: compile may need less"


def shown(found: Trial) -> RenderableType:
    """The model, the boards and the runs."""
    results = [run.validation.json for run in found.runs]
    warnings = [Text(f"warning: {note} [{note.code}]", style=report.WARNING) for note in _warnings(found)]
    return Group(
        Text(model_text(found), style="bold"),
        table("", TENSOR_HEADS, _tensors(found), left=4),
        table(BOARDS_TITLE, BOARD_HEADS, board_rows(found.boards), left=3),
        report.summary(results),
        Text(verdict(results[0]), style=report.GOOD if found.bit_exact else report.BAD),
        *warnings,
    )


def verdict(json: Mapping[str, Any]) -> str:
    """What matters, in one line."""
    memory, accuracy = json["memory"], json["accuracy"]
    parts = ["every bit as in the reference" if json["bit_exact"] else "NOT every bit as in the reference"]
    if accuracy is not None:
        (_, before, after) = report.accuracy_rows(accuracy)[0]
        parts.append(f"{accuracy['metric']} {after} (float {before})")
    else:
        parts.append(f"SQNR against float {min(out['sqnr_db'] for out in json['outputs']):.1f} dB")
    flash = memory["weights"] + memory["code"] + memory["rodata"]
    parts.append(f"{size(memory['arena'] + memory['stack'])} RAM")
    parts.append(f"{size(flash)} flash")
    if json["milliseconds"] is not None:
        parts.append(f"{time_text(json['milliseconds'], json['clock_hz'])}, estimated")
    if json["microjoules"] is not None:
        parts.append(f"{energy_text(json['microjoules'])}, estimated")
    return f"{json['target']} on {json['board']}: " + "; ".join(parts)


def _warnings(found: Trial) -> list[Any]:
    """All warnings, each once: those of the compilation, and of the validations."""
    notes = [*found.notes, *(note for run in found.runs for note in run.validation.notes)]
    return list({note.code: note for note in notes if note.level == "warning"}.values())


def model_text(found: Trial) -> str:
    """What the model is, in one line."""
    model = found.inspection
    made = f", made by {model.producer}" if model.producer else ""
    return (
        f"{model.model}: opset {model.opset}{made}; {number(len(model.layers))} layers, "
        f"{number(model.parameters)} parameters, {number(model.macs)} multiply-accumulates"
    )


def _tensors(found: Trial) -> list[tuple[str, ...]]:
    model = found.inspection
    pairs = [*(("in", tensor) for tensor in model.inputs), *(("out", tensor) for tensor in model.outputs)]
    return [(kind, tensor.name, shape(tensor.shape), tensor.dtype) for kind, tensor in pairs]
