"""How far a cluster goes: a model of the scheduler, and the runs that it is checked with.

    python benchmarks/scale.py --model                 # 10 to 1,000 workers, 100 to 10,000 jobs, with the times in TIMES
    python benchmarks/scale.py --check 1,2,50,200      # jobs that sleep on so many workers, against the model

The model: client and scheduler are one server, which takes OVERHEAD seconds for each job, in the order in which workers become free; a
further ROUND seconds pass until the worker begins. A content that a worker does not have yet is first sent to it, at BANDWIDTH, from the
scheduler the first time and from a worker that has it afterwards; the scheduler sends one content at a time. A worker does one job at a time.

The workers of --check are threads of this process (Dask's LocalCluster without processes), because 200 processes do not fit into
this computer: they share one Python with scheduler and client, so that the overhead found is an upper bound.
"""

from __future__ import annotations

import argparse
import heapq
import logging
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

import distributed

from glowembed.jobs.cluster import Cluster

OVERHEAD = 0.0067
"""Seconds of the scheduler for a job: --check with 50 workers."""

ROUND = 0.012
"""Seconds between the end of a job and the beginning of the next one, without the scheduler's: --check with 1 worker."""

BANDWIDTH = 100e6
"""Bytes a second of a network of 1 Gbit/s."""

TIMES = {"regress": (5.4, 0.5), "tune": (0.5, 0.3), "tiny": (0.05, 0.1)}
"""Median seconds of a job, and the spread of its logarithm: a cell of `regress` (digits_cnn and kws on generic and cortex-m4: 21.8 processor
seconds for four), and assumed ones for the size of an evaluation of `tune` and for jobs that are shorter than is useful.
"""

CONTENT = 1e6
"""Bytes of a model with its samples."""


@dataclass(frozen=True)
class Job:
    """A job: its seconds, the content that it needs, and the bytes of that."""

    seconds: float
    content: int = 0
    size: float = 0.0


@dataclass(frozen=True)
class Run:
    """What a run took. used: the share of the workers' time in which they worked."""

    seconds: float
    used: float


def simulated(
    jobs: Sequence[Job], workers: int, overhead: float = OVERHEAD, bandwidth: float = BANDWIDTH, round_: float = ROUND
) -> Run:
    """A run of these jobs, in their order."""
    free = [(0.0, worker) for worker in range(workers)]
    had: list[set[int]] = [set() for _ in range(workers)]
    sent: set[int] = set()
    scheduler = uplink = last = 0.0
    for job in jobs:
        ready, worker = heapq.heappop(free)
        scheduler = max(scheduler, ready) + overhead
        begin = scheduler + round_
        if job.size and job.content not in had[worker]:
            taken = job.size / bandwidth
            if job.content not in sent:
                begin = uplink = max(begin, uplink) + taken
                sent.add(job.content)
            else:
                begin += taken
            had[worker].add(job.content)
        end = begin + job.seconds
        last = max(last, end)
        heapq.heappush(free, (end, worker))
    work = sum(job.seconds for job in jobs)
    return Run(last, work / (last * workers) if last else 1.0)


def drawn(kind: str, count: int, seed: int = 1) -> list[Job]:
    """Jobs of a kind, each 50th model a new content."""
    median, spread = TIMES[kind]
    generator = random.Random(seed)
    return [
        Job(median * generator.lognormvariate(0.0, spread), index // 50, CONTENT if kind != "tiny" else 0.0)
        for index in range(count)
    ]


def limit(jobs: Sequence[Job], workers: int, overhead: float = OVERHEAD) -> str:
    """What ends the run: the scheduler, the longest job, or the work itself."""
    work, longest = sum(job.seconds for job in jobs) / workers, max(job.seconds for job in jobs)
    limits = {"scheduler": overhead * len(jobs), "longest job": longest, "work": work}
    return max(limits, key=lambda name: limits[name])


def model() -> str:
    """The table of the model, in Markdown."""
    lines = ["| jobs | of | workers | seconds | speed-up | used | limit |", "|---|---|--:|--:|--:|--:|---|"]
    for kind in TIMES:
        for count in (100, 1_000, 10_000):
            jobs = drawn(kind, count)
            alone = simulated(jobs, 1).seconds
            for workers in (10, 100, 1_000):
                run = simulated(jobs, workers)
                figures = f"{run.seconds:,.1f} | {alone / run.seconds:,.0f} | {100 * run.used:.0f} %"
                lines.append(f"| {count:,} | {kind} | {workers:,} | {figures} | {limit(jobs, workers)} |")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------- runs


@dataclass(frozen=True)
class Sleep:
    """A job that does nothing for some seconds."""

    seconds: float


def slept(job: Sleep) -> float:
    """Sleep."""
    time.sleep(job.seconds)
    return job.seconds


def measured(crew: Any, seconds: Sequence[float]) -> float:
    """The seconds that sleeping jobs take."""
    begun = time.monotonic()
    wait([crew.submit(slept, Sleep(each)) for each in seconds])
    return time.monotonic() - begun


def check(workers: int, count: int, seconds: float, alone: float) -> tuple[str, float]:
    """A line of the table: sleeping jobs against the model, and the seconds that a job of no length takes. alone: those with one
    worker.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    words = {"processes": False, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    words |= {"silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=workers, **words) as local, distributed.Client(local) as client:
        crew = Cluster(client, lambda path: [])
        measured(crew, [0.0] * workers)
        overhead = measured(crew, [0.0] * count) / count
        ran = measured(crew, [seconds] * count)
        crew.shutdown()
    waited = max(0.0, (alone or overhead) - overhead)
    foreseen = simulated([Job(seconds)] * count, workers, overhead, round_=waited).seconds
    figures = f"{1e3 * overhead:.1f} | {ran:.2f} | {foreseen:.2f} | {100 * (ran / foreseen - 1):+.0f} %"
    return f"| {workers} | {count:,} | {seconds:g} | {figures} |", overhead


def main() -> int:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--check", default="", metavar="WORKERS,...")
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=0.5)
    given = parser.parse_args()
    if given.model:
        print(model())
    if given.check:
        print("| workers | jobs | seconds each | overhead, ms | ran, s | model, s | |\n|--:|--:|--:|--:|--:|--:|--:|")
    alone = 0.0
    for workers in map(int, given.check.split(",") if given.check else ()):
        line, overhead = check(workers, min(given.jobs, 40 * workers), given.seconds, alone)
        alone = alone or overhead
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
