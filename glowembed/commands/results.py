"""`glowembed results`: shows what a store of results has, and compares two versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed.cli import STDOUT, HtmlFile, StoreUrl, show, write_json
from glowembed.errors import LimitExceeded, UsageError
from glowembed.files.output import write_file
from glowembed.jobs.store import DEFAULT, open_store
from glowembed.judge import history
from glowembed.show import results_view

PLACE = 87


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed results --where target=cortex-m4 --csv results.csv")(results)


def results(
    store: StoreUrl = DEFAULT,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="NAME=VALUE", help="Only those of this command, model, target, setting ... Repeatable."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="OLD,NEW", help="Compare the newest results of two commits or versions."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="FIGURE=N", help="With --compare: how much worse a figure may be. Repeatable."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All results, and not only the newest of each cell.")
    ] = False,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write them as CSV.")] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Also write them as Parquet; it needs pyarrow.")
    ] = None,
    html: HtmlFile = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write them as JSON; - prints only that.")
    ] = None,
) -> None:
    """Show the results that `regress`, `measure` and `tune` have kept: of each model, target and setting the newest, or all.

    With `--compare`, the exit code is 5 if a figure is worse by more than its limit, which is nothing by default.
    `--html` has a graph over the versions for each figure.
    """
    if limit and compare is None:
        raise UsageError("--limit is for --compare OLD,NEW, which is not given")
    kept = open_store(store, make=False)
    there = history.records(kept)
    found = history.asked(there, where or [])
    if not found and there:
        raise UsageError(f"none of the {len(there)} results in {store} is of {' and '.join(where or [])}")
    if not found:
        raise UsageError(
            f"the store {store} has no results yet: regress, measure and tune add some with --store {store}"
        )
    chosen = found if everything else history.newest(found)
    if parquet is not None:  # first, because it may need a package that is not there
        results_view.write_parquet(parquet, chosen)
    if csv is not None:
        write_file(csv, results_view.as_csv(chosen))
    if html is not None:
        write_file(html, results_view.html(found, store))
    write_json(json_file, {"schema": 1, "results": results_view.entries(chosen)})
    if compare is not None:
        _compare(history.compared(found, compare, history.limits_of(limit or [])), json_file)
    elif json_file != STDOUT:
        for one in results_view.tables(chosen):
            show(one)


def _compare(changes: list[history.Change], json_file: Path | None) -> None:
    if json_file != STDOUT:
        show(results_view.comparison(changes))
    worse = [f"{history.named(change.cell)}: {said}" for change in changes for said in change.worse]
    if worse:
        raise LimitExceeded("\n".join(worse))
