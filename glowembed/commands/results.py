"""`glowembed results`: shows what a store of results has, and compares two versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glowembed.cli import STDOUT, HtmlFile, StoreUrl, show, write_json
from glowembed.errors import UsageError
from glowembed.files.output import write_file
from glowembed.jobs.store import DEFAULT, Record, open_store
from glowembed.judge import history, regress
from glowembed.show import results_view

PLACE = 87


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed results --where target=cortex-m4 --csv results.csv")(results)


def results(
    store: StoreUrl = DEFAULT,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="NAME=VALUE", help="Only those of this model, target, setting ... Repeatable."),
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
    """Show the results that `regress` has kept: of each model, target and setting the newest, or all.

    With `--compare`, the exit code is 5 if a figure is worse by more than its limit, which is nothing by default.
    `--html` has a graph over the versions for each figure.
    """
    kept = open_store(store, make=False)
    found = history.asked(kept.records(regress.KIND), where or [])
    if not found:
        raise UsageError(f"the store {store} has no such results: `glowembed regress --store {store}` adds some")
    chosen = found if everything else history.newest(found)
    if csv is not None:
        write_file(csv, results_view.as_csv(chosen))
    if parquet is not None:
        results_view.write_parquet(parquet, chosen)
    if html is not None:
        write_file(html, results_view.html(found, store))
    write_json(json_file, {"schema": 1, "results": results_view.entries(chosen)})
    if compare is not None:
        _compare(found, compare, limit or [])
    elif json_file != STDOUT:
        show(results_view.table(chosen))


def _compare(found: list[Record], pair: str, limits: list[str]) -> None:
    rows, earlier = history.compared(found, pair, history.limits_of(limits))
    show(results_view.comparison(rows, earlier))
    if code := regress.exit_code(rows):
        raise typer.Exit(code)
