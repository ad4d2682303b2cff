"""How far a cluster goes: a model of the scheduler, and the runs that it is checked with.

    python benchmarks/scale.py --model                 # 10 to 1,000 workers, 100 to 10,000 jobs, with the times in TIMES
    python benchmarks/scale.py --check 1,2,50,200      # jobs that sleep on so many workers, against the model
    python benchmarks/scale.py --check 200 --processes # the same with workers in processes of their own
    python benchmarks/scale.py --regress MODELS        # 50 models x 7 targets with one worker, with two, and again
    python benchmarks/scale.py --regress MODELS --cells 8 --samples 2       # only some of the cells
    python benchmarks/scale.py --regress MODELS --keep FOLDER               # goes on where it was interrupted
    python benchmarks/scale.py --regress MODELS --cells 60 --samples 1 --turn 60        # on an idle computer

The model: client and scheduler are one server, which takes OVERHEAD seconds for each job, in the order in which workers become free; a
further ROUND seconds pass until the worker begins. A content that a worker does not have yet is first sent to it, at BANDWIDTH, from the
scheduler the first time and from a worker that has it afterwards; the scheduler sends one content at a time. A worker does one job at a time.

The workers of --check are threads of this process (Dask's LocalCluster without processes): they share one Python with scheduler and client,
so that the overhead found is an upper bound. With --processes they are forked from this process before it starts anything, so that they
share the memory of the libraries.

The 50 models of --regress are the models of the folder, each with several settings. One worker and two take turns, a few cells each, so
that what else the computer does slows both alike. At the end of each turn, one of two workers waits for the other's last cell, so that on
an idle computer one turn is best. `busy`: processor seconds by seconds, that is how many cores worked.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import logging
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import distributed

from glowembed.jobs import cluster, identity
from glowembed.jobs.cluster import Cluster
from glowembed.jobs.store import Store, open_store
from glowembed.judge import farm, regress

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


@contextmanager
def forked(count: int) -> Iterator[Callable[[str], None]]:
    """Processes that become workers of the scheduler whose address they are told. Nothing may run here yet."""
    context = multiprocessing.get_context("fork")
    addresses = context.SimpleQueue()
    identity.software()  # which the processes inherit, as they do the versions of tools
    identity.tools()
    processes = [context.Process(target=_serve, args=(addresses,), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()

    def tell(address: str) -> None:
        for _ in range(count):
            addresses.put(address)

    try:
        yield tell
    finally:
        for process in processes:
            process.kill()


def _serve(addresses: Any) -> None:
    """Be a worker."""
    address = addresses.get()

    async def work() -> None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        async with distributed.Worker(address, nthreads=1, memory_limit=0, dashboard=False) as worker:
            await worker.finished()

    asyncio.run(work())


def check(workers: int, count: int, seconds: float, alone: float, processes: bool) -> tuple[str, float]:
    """A line of the table: sleeping jobs against the model, and the seconds that a job of no length takes. alone: those with one
    worker. processes: whether each worker is one.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    words = {"processes": False, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    words |= {"silence_logs": logging.CRITICAL, "n_workers": 0 if processes else workers}
    with (
        forked(workers if processes else 0) as tell,
        distributed.LocalCluster(**words, host="127.0.0.1", protocol="tcp") as local,
        distributed.Client(local) as client,
    ):
        tell(local.scheduler_address)
        client.wait_for_workers(workers)
        crew = Cluster(client, lambda path: [])
        measured(crew, [0.0] * workers)
        overhead = measured(crew, [0.0] * count) / count
        ran = measured(crew, [seconds] * count)
        crew.shutdown()
    waited = max(0.0, (alone or overhead) - overhead)
    foreseen = simulated([Job(seconds)] * count, workers, overhead, round_=waited).seconds
    figures = f"{1e3 * overhead:.1f} | {ran:.2f} | {foreseen:.2f} | {100 * (ran / foreseen - 1):+.0f} %"
    return f"| {workers} | {count:,} | {seconds:g} | {figures} |", overhead


TARGETS = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "riscv32")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "int8": {},
    "size": {"optimize": "size"},
    "ram": {"optimize": "ram"},
    "speed": {"optimize": "speed"},
    "tensor": {"per_channel": False},
    "int16": {"dtype": "int16"},
    "tflite": {"requantization": "tflite"},
    "glow": {"requantization": "glow"},
}
MODELS = 50
TURN = 10
"""So many cells are done by one worker, and then by two, unless --turn says otherwise."""

STEP = 97
"""The distance of two cells that follow each other; it has no common factor with their number."""


def cells_of(folder: Path, count: int | None, samples: int) -> list[regress.Job]:
    """The cells of 50 models on 7 targets, or `count` of them, mixed so that each turn has fast and slow ones."""
    models = sorted(path.parent for path in folder.glob("*/model.onnx") if (path.parent / "data.npz").exists())
    pairs = [(model, name) for name in SETTINGS for model in models][:MODELS]
    words = {name: regress.words_of(name, given) for name, given in SETTINGS.items()}
    found = [
        job
        for model, name in pairs
        for job in regress.jobs([(model / "model.onnx", model / "data.npz")], TARGETS, {name: words[name]}, samples)
    ]
    if len(pairs) < MODELS:
        print(f"only {len(pairs)} models: {folder} has {len(models)}", file=sys.stderr)
    mixed = [found[STEP * i % len(found)] for i in range(len(found))]
    return mixed[:count]


@dataclass(frozen=True)
class Turn:
    """What the cells of a turn took with one worker and with two: seconds by the clock, and processor seconds of the workers."""

    seconds: tuple[float, float]
    processor: tuple[float, float]


def processor(crew: Cluster) -> float:
    """The processor seconds that the workers and their ended processes have used."""
    return float(sum(crew.client.run(used).values()))


def used() -> float:
    """Those of this process and of its ended children."""
    asked = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(found.ru_utime + found.ru_stime for found in asked)


def timed(cells: Sequence[regress.Job], crew: Cluster, store: Store) -> tuple[float, float]:
    """Seconds by the clock and of the processor until the cells are done."""
    begun, worked = time.monotonic(), processor(crew)
    regress.run_all(cells, crew, store, crew.tools)
    return time.monotonic() - begun, processor(crew) - worked


def table(cells: Sequence[regress.Job], folder: Path, size: int) -> str:
    """A line for each of: cold with one worker, cold with two, and again. folder: keeps the rows and turns.json, so that the turns that are
    in it are not done again. size: the cells of a turn. Raises AssertionError where the rows differ.
    """
    kept = folder / "turns.json"
    turns = [Turn(**each) for each in json.loads(kept.read_text())] if kept.exists() else []
    stores = [open_store(str(folder / f"store{workers}")) for workers in (1, 2)]
    with cluster.cluster(1, None, farm.parts_of) as one, cluster.cluster(2, None, farm.parts_of) as two:
        for first in range(size * len(turns), len(cells), size):
            both = [timed(cells[first : first + size], *each) for each in zip((one, two), stores, strict=True)]
            turns.append(Turn(*zip(*both, strict=True)))
            kept.write_text(json.dumps([asdict(turn) for turn in turns]))
            print(f"{min(first + size, len(cells))} of {len(cells)} cells", file=sys.stderr)
        begun = time.monotonic()
        rows = regress.run_all(cells, two, stores[1], two.tools)[0]
        warm = time.monotonic() - begun
        assert rows == regress.run_all(cells, one, stores[0], one.tools)[0], "rows depend on the number of workers"
    seconds = [sum(turn.seconds[which] for turn in turns) for which in (0, 1)]
    worked = [sum(turn.processor[which] for turn in turns) for which in (0, 1)]
    failed = [row for row in rows if row.exit_code != 0]
    for row in failed:
        print(f"{row.where}: exit code {row.exit_code}, {row.error}", file=sys.stderr)
    cold = f"{seconds[0]:.1f} | {seconds[1]:.1f} | {seconds[0] / seconds[1]:.2f} | {worked[0]:.1f} | {worked[1]:.1f}"
    busy = " | ".join(f"{worked[which] / seconds[which]:.2f}" for which in (0, 1))
    head = "| cells | failed | 1 worker, s | 2 workers, s | times | processor s, 1 | processor s, 2 | busy, 1 | busy, 2"
    line = f"| {len(cells)} | {len(failed)} | {cold} | {busy} | {warm:.2f} | {100 * warm / seconds[1]:.1f} % |"
    return f"{head} | again, s | of the cold time |\n{'|--:' * 11}|\n{line}"


def main() -> int:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--check", default="", metavar="WORKERS,...")
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument(
        "--regress", type=Path, metavar="MODELS", help="a folder with NAME/model.onnx and NAME/data.npz"
    )
    parser.add_argument("--cells", type=int, metavar="N", help="only N of them")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--turn", type=int, default=TURN, metavar="N", help=f"cells of a turn; by default {TURN}")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep rows and times there, and go on with them")
    given = parser.parse_args()
    if given.model:
        print(model())
    if given.check:
        print("| workers | jobs | seconds each | overhead, ms | ran, s | model, s | |\n|--:|--:|--:|--:|--:|--:|--:|")
    alone = 0.0
    for workers in map(int, given.check.split(",") if given.check else ()):
        line, overhead = check(workers, min(given.jobs, 40 * workers), given.seconds, alone, given.processes)
        alone = alone or overhead
        print(line, flush=True)
    if given.regress is not None:
        with tempfile.TemporaryDirectory(prefix="glowembed-scale-") as passing:
            folder = given.keep or Path(passing)
            folder.mkdir(parents=True, exist_ok=True)
            print(table(cells_of(given.regress, given.cells, given.samples), folder, given.turn))
    return 0


if __name__ == "__main__":
    sys.exit(main())
