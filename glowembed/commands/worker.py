"""`glowembed worker`: makes this computer a worker of a Dask cluster, with the compilers and emulators that it has."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from glowembed.jobs import cluster

PLACE = 88


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example:  glowembed worker tcp://host:8786")(worker)


def worker(
    scheduler: Annotated[str, typer.Argument(metavar="SCHEDULER", help="Its URL; `dask scheduler` prints it.")],
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, help="Workers here; by default the cores.")
    ] = None,
) -> None:
    """Do jobs of `regress --scheduler` and `tune --scheduler` on this computer, until it is ended.

    Each worker does one job at a time. It gets only jobs whose compiler and emulator are here (`glowembed doctor`). It needs
    no files of the models and no shared folder: jobs bring what they need.
    """
    cluster.serve(scheduler, workers or os.cpu_count() or 1)
