"""`glowembed worker`: makes this computer a worker of a Dask cluster, with the compilers and emulators that it has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from glowembed.errors import UsageError
from glowembed.jobs import cluster
from glowembed.judge import farm

PLACE = 88


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed worker tcp://host:8786")(worker)


def worker(
    scheduler: Annotated[str, typer.Argument(metavar="SCHEDULER", help="Its URL; `dask scheduler` prints it.")],
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, help="Workers here; by default the cores.")
    ] = None,
    boards: Annotated[
        Path | None, typer.Option("--boards", metavar="FARM.yaml", help="Also offer these boards, as `board:NAME`.")
    ] = None,
) -> None:
    """Do jobs of commands with `--scheduler` on this computer, until it is ended.

    Each worker does one job at a time. It gets only jobs whose compiler and emulator are here (`glowembed doctor`). It needs
    no files of the models and no shared folder: jobs bring what they need.
    """
    if boards is not None and (workers or 1) > 1:
        raise UsageError(
            "--boards: each worker offers all boards of the file; start one for each board, without --workers"
        )
    offered = [f"board:{place.plain_name}" for place in farm.read(boards)] if boards is not None else []
    cluster.serve(scheduler, 1 if offered else workers or os.cpu_count() or 1, offered)
