"""Runs jobs on a cluster of dask.distributed: workers of this computer, or those of a scheduler somewhere.

In: a function of glowembed and a job, a frozen dataclass. Out: an ordinary Future. A job carries the contents of its files by their
hash, which the scheduler passes to each worker that needs them. It goes to a worker that has all tools in `job.needs`. A job whose
worker dies is done again, by another one or by the one that takes its place; after four deaths it is given up. Workers of
another version of glowembed or of its packages are refused, because their results could differ.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from glowembed.errors import ToolError, UsageError
from glowembed.jobs import contents, identity
from glowembed.jobs.contents import Content, Files

CONNECT_SECONDS = 10
WORKER_SECONDS = 30
Parts = Callable[[Path], Sequence[Path]]
"""The further files that belong to one, such as those with the tensors of a model."""


class Cluster(Executor):
    """An executor whose jobs run on the workers of a cluster. tools: the versions of all tools that workers have."""

    def __init__(self, client: Any, parts: Parts) -> None:
        self.client, self.parts = client, parts
        self.software = _same_software(client)
        self.tools = _same_tools(client)
        self.link: str = client.dashboard_link
        self._executor = client.get_executor(pure=False)
        self._contents: dict[Path, Content] = {}
        self._held: dict[str, Any] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Run function(*args, **named) on a worker. The first argument is the job. Its files are sent along."""
        needs = getattr(args[0], "needs", ())
        job = contents.packed(args[0], self._content)
        files = {content.key: self._held[content.key] for content in contents.contents(job)}
        given: Future[Any] = Future()
        missing = [need for need in needs if not self._has(need)]
        if missing:
            given.set_exception(
                ToolError(f"no worker has {', '.join(missing)}: run `glowembed worker SCHEDULER` where it is installed")
            )
            return given
        what = (self.software, function, job, files, args[1:], named)
        sent = self._executor.submit(_run, *what, resources=dict.fromkeys(needs, 1))
        sent.add_done_callback(lambda done: _hand_over(done, given))
        return given

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Forget all jobs; a job that runs is not waited for, because its result would not be taken."""
        self._executor.shutdown(wait=False)

    def _content(self, path: Path) -> Content:
        if path not in self._contents:
            content, files = contents.content(path, self.parts(path))
            self._contents[path] = content
            if (
                content.key not in self._held
            ):  # a task and not scattered data, so that it is made again if its worker dies
                self._held[content.key] = self.client.submit(_held, files, key=f"content-{content.key}")
        return self._contents[path]

    def _has(self, need: str) -> bool:
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return any(worker["resources"].get(need, 0) >= 1 for worker in workers)


def _held(files: Files) -> Files:
    return files


def _run(
    software: Mapping[str, str],
    function: Callable[..., Any],
    job: Any,
    files: Mapping[str, Files],
    args: Sequence[Any],
    named: Mapping[str, Any],
) -> Any:
    """Run a job on a worker."""
    here = identity.software()
    if here != software:
        raise UsageError(_differs("a worker that came later", here, software))
    folder = Path(importlib.import_module("distributed").get_worker().local_directory) / "contents"
    return function(contents.unpacked(job, files, folder), *args, **named)


def _hand_over(done: Future[Any], given: Future[Any]) -> None:
    """Give a result on, or what went wrong with it in words."""
    if given.cancelled():
        return
    if done.cancelled():
        given.set_exception(ToolError("the scheduler of the cluster has ended; results that were finished are kept"))
        return
    error = done.exception()
    if error is None:
        given.set_result(done.result())
    elif type(error).__name__ == "KilledWorker":
        given.set_exception(ToolError("its workers died while they ran it, four times in succession"))
    else:
        given.set_exception(error)


# ---------------------------------------------------------------------------------------------- connecting


def installed() -> bool:
    """Whether the extra `cluster` is installed."""
    return importlib.util.find_spec("distributed") is not None


@contextmanager
def cluster(workers: int | None, scheduler: str | None, parts: Parts) -> Iterator[Cluster]:
    """A cluster: that of a scheduler, or N workers of this computer. Raises ToolError if it cannot be reached or has no workers."""
    if not installed():
        raise ToolError("a cluster needs dask.distributed; install it: pip install 'glowembed[cluster]'")
    distributed: Any = importlib.import_module("distributed")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters becomes an error or a row
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with nullcontext(scheduler) if scheduler is not None else _local(distributed, workers) as place:
            try:
                client = distributed.Client(place, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError) as error:
                raise ToolError(
                    f"the scheduler {scheduler} cannot be reached ({error}); start one: dask scheduler"
                ) from error
            with client:
                made = Cluster(client, parts)
                try:
                    yield made
                finally:
                    made.shutdown()


def _local(distributed: Any, workers: int | None) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        resources=dict.fromkeys(identity.tools(), 1),
        dashboard_address=":0",
        memory_limit=0,
    )


def serve(scheduler: str, workers: int) -> None:
    """Become N workers of a scheduler, with the tools that are here, until they are ended."""
    if not installed():
        raise ToolError("a worker needs dask.distributed; install it: pip install 'glowembed[cluster]'")
    tools = ",".join(f"{name}=1" for name in identity.tools())
    words = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--nthreads", "1", "--memory-limit", "0"]
    words += ["--nworkers", str(workers), *(["--resources", tools] if tools else [])]
    os.execv(sys.executable, words)


def _same_software(client: Any) -> dict[str, str]:
    """The versions of this computer, which must be those of all workers. Raises UsageError with both."""
    mine = identity.software()
    for worker, found in sorted(_asked(client, identity.software).items()):
        if found != mine:
            raise UsageError(_differs(f"the worker {worker}", found, mine))
    return mine


def _same_tools(client: Any) -> dict[str, str]:
    """The versions of tools. Workers that have the same tool must have the same version of it. Raises UsageError with both."""
    versions: dict[str, tuple[str, str]] = {}
    for worker, found in sorted(_asked(client, identity.tools).items()):
        for name, said in found.items():
            other, first = versions.setdefault(name, (worker, said))
            if said != first:
                told = [text.partition("\n")[0] for text in (first, said)]
                raise UsageError(f"the worker {other} has {told[0]!r} and {worker} has {told[1]!r}: use one version")
    return {name: said for name, (_, said) in versions.items()}


def _asked(client: Any, question: Callable[[], dict[str, str]]) -> dict[str, dict[str, str]]:
    """The answer of each worker. Raises ToolError where there is none."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
        answers: dict[str, dict[str, str]] = client.run(question)
    except TimeoutError as error:
        raise ToolError("the cluster has no workers: start some with `glowembed worker SCHEDULER`") from error
    except (ImportError, AttributeError) as error:
        raise ToolError(f"a worker has no glowembed of this version ({error}); install it there") from error
    return answers


def _differs(worker: str, found: Mapping[str, str], mine: Mapping[str, str]) -> str:
    pairs = [f"{name} {found.get(name)} and not {mine[name]}" for name in mine if found.get(name) != mine[name]]
    return f"{worker} has {'; '.join(pairs)}: its results could differ, install the same versions on all computers"
