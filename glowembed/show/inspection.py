"""Formats what `inspect` found in a model: operators, layers, totals, and the boards that fit. In: an Inspection. Out: rich tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from glowembed.graph.clock import time_text
from glowembed.judge.fitting import Fit, OnTarget
from glowembed.judge.inspection import Inspection, Tensor
from glowembed.show.tables import number, shape, size, table


def inspection(found: Inspection) -> RenderableType:
    """The description of a model, or everything in it that is not supported."""
    head = Text(
        f"{found.model}: opset {found.opset}{f', made by {found.producer}' if found.producer else ''}", style="bold"
    )
    notes = [Text(f"note: {note}", style="dim") for note in found.notes]
    covered = [_coverage(found)] if found.coverage else []
    if found.unsupported:
        return Group(head, *notes, *covered, _unsupported(found))
    boards = [_boards_that_fit(found)] if found.boards else []
    targets = [_targets(found)] if found.targets else []
    return Group(head, *notes, _io(found), *(covered or [_model_layers(found)]), _totals(found), *boards, *targets)


def _coverage(found: Inspection) -> Table:
    if found.unsupported:
        why = [(row.operator, str(row.nodes), "; ".join(row.refused) or "-") for row in found.coverage]
        return table("Operators", ("operator", "nodes", "not supported, because"), why, left=1)
    rows = [
        (
            row.operator,
            str(row.nodes),
            " ".join(row.dtypes) or "-",
            " ".join(row.kernels),
            number(row.cycles),
            f"{row.share:.1%}",
            "; ".join(row.reasons) or "-",
        )
        for row in found.coverage
    ]
    return table(
        f"Operators on {found.target}",
        ("operator", "nodes", "dtype", "kernels", "cycles, estimated", "share", "generated, because"),
        rows,
        left=1,
    )


def _unsupported(found: Inspection) -> Table:
    rows = [(p.node, p.op, p.reason, p.hint or "-") for p in found.unsupported]
    return table(f"Not supported: {len(rows)}", ("node", "op", "reason", "what to do"), rows, left=4)


def _io(found: Inspection) -> Table:
    def row(kind: str, t: Tensor) -> tuple[str, ...]:
        return kind, t.name, shape(t.shape), t.dtype, t.layout or "-"

    rows = [*(row("in", t) for t in found.inputs), *(row("out", t) for t in found.outputs)]
    return table("", ("", "tensor", "shape", "dtype", "layout"), rows, left=5)


def _model_layers(found: Inspection) -> Table:
    rows = [(x.name, x.op, shape(x.shape), number(x.macs), number(x.parameters)) for x in found.layers]
    return table("Layers", ("layer", "op", "output", "MACs", "parameters"), rows, left=3)


def _totals(found: Inspection) -> Table:
    rows = [
        ("multiply-accumulates", number(found.macs)),
        ("parameters", number(found.parameters)),
        ("arena (RAM), as compile plans it", size(found.arena_estimate)),
        ("flash, estimated", size(found.flash_estimate)),
        ("cycles, estimated", number(found.cycles_estimate)),
        *([("time, estimated", time_text(found.milliseconds, found.clock_hz))] if found.clock_hz else []),
    ]
    return table("Totals", ("", f"int8, {found.target}"), rows)


BOARD_HEADS = ("board", "fits", "with", "RAM", "flash", "one inference, estimated")


def board_rows(boards: Iterable[Fit]) -> list[tuple[str, ...]]:
    """Whether a network fits each board, with which options, and its time there."""
    words = {True: "yes", False: "no", None: "too close to call"}
    return [
        (
            b.board, words[b.fits] if b.flash else "-", b.options, size(b.ram or None), size(b.flash or None),
            time_text(b.milliseconds, b.clock_hz),
        )
        for b in boards
    ]  # fmt: skip


TARGET_HEADS = ("target", "arena (RAM)", "flash", "cycles", "fits", "may fit with options")


def target_rows(targets: Iterable[OnTarget]) -> list[tuple[str, ...]]:
    """What a network needs on each target, and its boards by verdict; one that is too small may fit with --ram or --flash."""
    return [_target_row(found) for found in targets]


def _target_row(found: OnTarget) -> tuple[str, ...]:
    if found.problem:
        return found.target, "-", "-", "-", found.problem, "-"
    able = ", ".join(fit.board for fit in found.boards if fit.fits) or "-"
    other = ", ".join(fit.board for fit in found.boards if not fit.fits and fit.flash) or "-"
    return found.target, size(found.arena), size(found.flash), number(found.cycles), able, other


def _targets(found: Inspection) -> Table:
    shown = table(
        "Targets, with the default options; --target NAME finds options for smaller boards",
        TARGET_HEADS,
        target_rows(found.targets),
    )
    for column in shown.columns[-2:]:
        column.justify = "left"
    return shown


def _boards_that_fit(found: Inspection) -> Table:
    return table("Boards, with the firmware of validate", BOARD_HEADS, board_rows(found.boards), left=3)
