"""Limits for the figures of a validation, for CI. In: the result of `validate`, limits. Out: a sentence for each limit that does not
hold, with the figure, the limit and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from glowembed.errors import LimitExceeded, UsageError
from glowembed.records import dataclass

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure that may be limited. of: from the result of `validate` and bundle.json; None if it is not known.

    least: whether the limit is the least that is allowed, not the most. missing: why it may be unknown, and what to do.
    """

    option: str
    what: str
    unit: str
    of: Callable[[Json, Json], float | None]
    advice: str
    missing: str = ""
    least: bool = False


def _accuracy(result: Json, manifest: Json) -> float | None:
    found = result["accuracy"]
    return float(found["quantized"]) if found is not None and found["metric"] == "top1" else None


def _drop(result: Json, manifest: Json) -> float | None:
    """What quantization costs: accuracy that is lost, or error that is added."""
    found = result["accuracy"]
    if found is None:
        return None
    lost = found["float"] - found["quantized"]
    return float(lost if found["metric"] == "top1" else -lost)


def _cycles(result: Json, manifest: Json) -> float | None:
    found: float | None = result["cycles_measured"] or result["cycles_estimate"]
    return found


def _ram(result: Json, manifest: Json) -> float:
    memory = result["memory"]
    return float(memory["arena"] + memory["stack"] + sum(ram["size"] for ram in manifest.get("rams", ())))


def _flash(result: Json, manifest: Json) -> float:
    memory = result["memory"]
    return float(memory["weights"] + memory["code"] + memory["rodata"])


MORE_ACCURACY = "try `tune`, --weights-schema, --calibration or int16 for some nodes (docs/quantization.md)"
NO_LABELS = "the data has no labels of classes: give them with --labels KEY"

FIGURES: Mapping[str, Figure] = {
    "min_accuracy": Figure("--min-accuracy", "accuracy", "", _accuracy, MORE_ACCURACY, NO_LABELS, least=True),
    "max_drop": Figure("--max-drop", "loss of accuracy against float", "", _drop, MORE_ACCURACY, "the data has no labels: give them with --labels KEY"),
    "max_cycles": Figure(
        "--max-cycles",
        "cycles per inference",
        "",
        _cycles,
        "try --optimize speed or a faster core; `measure` shows where they go",
        "this board has no cycles: choose an emulated board, or a real one by --port",
    ),
    "max_ram": Figure(
        "--max-ram", "RAM of arena and stack", " bytes", _ram, "compile with --ram BYTES or --optimize ram (docs/memory.md)"
    ),
    "max_flash": Figure(
        "--max-flash", "flash of weights, code and constants", " bytes", _flash, "compile with --flash BYTES or --optimize size"
    ),
}  # fmt: skip


def exceeded(result: Json, manifest: Json, limits: Mapping[str, float | None]) -> list[str]:
    """The figures that exceed these limits, by the names of FIGURES; None means no limit.

    Raises UsageError for a limit of a figure that is not known.
    """
    found = []
    for name, bound in limits.items():
        if bound is None:
            continue
        figure = FIGURES[name]
        value = figure.of(result, manifest)
        if value is None:
            raise UsageError(f"{figure.option} cannot be checked: {figure.missing}")
        if value < bound if figure.least else value > bound:
            sign = "below" if figure.least else "above"
            found.append(
                f"the {figure.what} of {_number(value)}{figure.unit} is {sign} {figure.option} {_number(bound)}: {figure.advice}"
            )
    return found


def require(result: Json, manifest: Json, limits: Mapping[str, float | None]) -> None:
    """Raise LimitExceeded if any limit does not hold."""
    found = exceeded(result, manifest, limits)
    if found:
        raise LimitExceeded("\n".join(found))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) > 1 else f"{value:.4f}"
