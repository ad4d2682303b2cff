"""Jobs for tests of clusters. Workers import them from here."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """A number, a file with another one, and what happens. dies: the name of a file that notes that a worker has died of this job, so
    that it dies once; always: it dies each time.
    """

    number: int
    file: Path
    dies: str = ""
    always: bool = False
    needs: tuple[str, ...] = ()


def product(job: Job) -> int:
    """The product of the two numbers."""
    if job.always or (job.dies and not Path(job.dies).exists()):
        if job.dies:
            Path(job.dies).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if job.number < 0:
        raise ValueError(f"{job.number} is negative")
    return job.number * int(job.file.read_text())
