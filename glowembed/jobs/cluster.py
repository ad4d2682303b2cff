"""Runs jobs on a cluster of dask.distributed: workers on this computer, or those of a scheduler elsewhere.

In: a function of glowembed and a job, a frozen dataclass. Out: an ordinary Future. A job carries the contents of its
files by their hash, which the scheduler passes to each worker that needs them. It goes to a worker that has all tools
in `job.needs`. If the worker of a job dies, another worker repeats the job; it is given up if that happens repeatedly.
Workers with another version of glowembed or of its packages are refused, because their results could differ.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from glowembed.errors import ToolError, UsageError
from glowembed.jobs import contents, identity
from glowembed.jobs.contents import Content, Files
from glowembed.records import dataclass

CONNECT_SECONDS = 10
WORKER_SECONDS = 60
GIVE_UP_SECONDS = 120
WATCH_SECONDS = 5
Parts = Callable[[Path], Sequence[Path]]
"""A function that returns the further files that belong to a file, such as those with the tensors of a model."""


@dataclass(eq=False)
class _Call:
    """A job in progress. suspected: whether a worker has died while it ran this job, perhaps beside another one."""

    function: Callable[..., Any]
    job: Any
    args: Sequence[Any]
    named: Mapping[str, Any]
    needs: tuple[str, ...]
    given: Future[Any]
    suspected: bool = False


class Cluster(Executor):
    """An executor whose jobs run on the workers of a cluster. tools: the versions of all tools that workers have.

    The scheduler gets at most as many jobs at a time as there are workers, because it suspects all jobs that a dead
    worker had. Jobs that it gives up are tried again at the end, one at a time, so that only a job that kills its
    workers fails.
    """

    def __init__(self, client: Any, parts: Parts) -> None:
        self.client, self.parts = client, parts
        self.software = _same_software(client)
        self.tools = _same_tools(client)
        self.link: str = client.dashboard_link
        self._executor = client.get_executor(pure=False)
        self._contents: dict[Path, Content] = {}
        self._files: dict[Path, Files] = {}
        self._holders: dict[str, Any] = {}
        self._waiting, self._suspects, self._sent = deque[_Call](), deque[_Call](), list[_Call]()
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._workers = self._asked_for_workers()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Run function(*args, **named) on a worker. The first argument is the job; its files are sent with it."""
        needs = tuple(getattr(args[0], "needs", ()))
        given: Future[Any] = Future()
        if missing := [need for need in needs if not self._has(need)]:
            given.set_exception(
                ToolError(f"no worker has {', '.join(missing)}: run `glowembed worker SCHEDULER` where it is installed")
            )
            return given
        job = contents.packed(args[0], self._content)
        with self._lock:
            self._waiting.append(_Call(function, job, args[1:], named, needs, given))
        self._send()
        return given

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Drop all jobs; running jobs are not waited for, because nobody would take their results."""
        self._ended.set()
        with self._lock:
            self._waiting.clear()
            self._suspects.clear()
        with suppress(Exception):  # of a client whose scheduler has died: there is nothing to drop
            self._executor.shutdown(wait=False)

    def _send(self) -> None:
        """Send as many jobs as there are free workers: for each worker, the first job whose tools it has."""
        with self._lock:
            while len(self._sent) < len(self._workers) and (call := self._fitting()) is not None:
                self._waiting.remove(call)
                self._send_one(call)
            if self._suspects and not self._waiting and not self._sent:
                self._send_one(self._suspects.popleft())

    def _fitting(self) -> _Call | None:
        full = set()  # the needs of jobs for which all workers are busy
        for call in self._waiting:
            if call.needs not in full:
                able = sum(all(_offers(worker, need) for need in call.needs) for worker in self._workers.values())
                if sum(sent.needs == call.needs for sent in self._sent) < able:
                    return call
                full.add(call.needs)
        return None

    def _send_one(self, call: _Call) -> None:
        if call.given.cancelled():
            return
        self._sent.append(call)
        files = {content.key: self._held(content.key) for content in contents.contents(call.job)}
        words = (self.software, call.function, call.job, files, call.args, call.named)
        sent = self._executor.submit(_run, *words, resources=dict.fromkeys(call.needs, 1))
        sent.add_done_callback(lambda done: self._ended_call(call, done))

    def _ended_call(self, call: _Call, done: Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        with self._lock:
            self._sent.remove(call)
            if type(error).__name__ == "KilledWorker" and not call.suspected:
                call.suspected = True
                self._suspects.append(call)
            else:
                _hand_over(done, call.given)
        if not self._ended.is_set():
            self._send()

    def _watch(self) -> None:
        """Keep track of the workers, and give up all jobs if there are none for a while, because otherwise the run
        would never end.
        """
        since = time.monotonic()
        while not self._ended.wait(WATCH_SECONDS):
            self._workers = self._asked_for_workers()
            if self._workers:
                since = time.monotonic()
                self._send()
            elif time.monotonic() - since > GIVE_UP_SECONDS:
                self._give_up()

    def _give_up(self) -> None:
        with self._lock:
            left = [*self._sent, *self._waiting, *self._suspects]
            self._waiting.clear()
            self._suspects.clear()
        for call in left:
            with suppress(InvalidStateError):
                call.given.set_exception(ToolError(f"the cluster has had no workers for {GIVE_UP_SECONDS} s"))

    def _asked_for_workers(self) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = self.client.scheduler_info(n_workers=-1).get("workers", {})
        except (OSError, TimeoutError, RuntimeError):  # the scheduler has ended; its jobs report that
            return {}
        return found

    def _has(self, need: str) -> bool:
        return any(_offers(worker, need) for worker in self._workers.values())

    def _content(self, path: Path) -> Content | Path:
        if path not in self._contents:
            if not path.exists():  # for example the name of a source without files
                return path
            content, self._files[path] = contents.content(path, self.parts(path))
            self._contents[path] = content
        return self._contents[path]

    def _held(self, key: str) -> Any:
        """The files of a content as a task, not as scattered data, so that they are made again if the worker dies, and
        sent again if the scheduler has given them up.
        """
        held = self._holders.get(key)
        if held is None or held.status in ("error", "cancelled", "lost"):
            files = next(self._files[path] for path, content in self._contents.items() if content.key == key)
            held = self.client.submit(_content, files, key=f"content-{key}-{secrets.token_hex(4)}")
            self._holders[key] = held
        return held


def _offers(worker: Mapping[str, Any], need: str) -> bool:
    return bool(worker["resources"].get(need, 0) >= 1)


def _content(files: Files) -> Files:
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
    """Pass on a result, or an error message about why there is none."""
    if done.cancelled():
        error: BaseException | None = ToolError(
            "the scheduler of the cluster has ended; results that were finished are kept"
        )
    elif type(error := done.exception()).__name__ == "KilledWorker":
        error = ToolError("its workers died each time, also when no other job ran")
    with suppress(InvalidStateError):  # it was already cancelled or given up
        if error is None:
            given.set_result(done.result())
        else:
            given.set_exception(error)


def installed() -> bool:
    """Whether the extra `cluster` is installed."""
    return importlib.util.find_spec("distributed") is not None


@contextmanager
def cluster(workers: int | None, scheduler: str | None, parts: Parts) -> Iterator[Cluster]:
    """Connect to the cluster of a scheduler, or start N workers on this computer. Raises UsageError for an address that
    is none, and ToolError if the scheduler cannot be reached or has no workers.
    """
    if not installed():
        raise ToolError("a cluster needs dask.distributed; install it: pip install 'glowembed[cluster]'")
    distributed: Any = importlib.import_module("distributed")
    for name in ("distributed", "distributed.client"):  # the second one has a level of its own
        logging.getLogger(name).setLevel(logging.CRITICAL)  # everything that matters becomes an error or a row
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            nullcontext(scheduler) if scheduler is not None else _local(distributed, workers) as place,
            _client(distributed, place) as client,
        ):
            made = Cluster(client, parts)
            try:
                yield made
            finally:
                made.shutdown()


def _client(distributed: Any, place: Any) -> Any:
    """A client of a scheduler, by its address, or of a local cluster."""
    try:
        if isinstance(place, str):  # a client of what is no address never ends
            scheme, _ = distributed.comm.parse_address(place)
            distributed.comm.registry.get_backend(scheme)
            distributed.comm.get_address_host_port(place)
        return distributed.Client(place, timeout=CONNECT_SECONDS, set_as_default=False)
    except ValueError as error:
        raise UsageError(f"{place!r} is no address of a scheduler, such as tcp://host:8786 ({error})") from error
    except OSError as error:
        raise ToolError(f"the scheduler {place} cannot be reached ({error}); start one: dask scheduler") from error


def _local(distributed: Any, workers: int | None) -> Any:
    """A cluster on this computer with a constant number of workers: a worker that cannot be restarted is replaced."""
    count = workers or os.cpu_count() or 1
    local = distributed.LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        processes=True,
        resources=dict.fromkeys(identity.tools(), 1),
        dashboard_address=":0",
        memory_limit=0,
        silence_logs=logging.CRITICAL,
    )
    local.adapt(minimum=count, maximum=count)
    return local


def serve(scheduler: str, workers: int, more: Sequence[str] = ()) -> None:
    """Become N workers of a scheduler, with the tools of this computer and further resources, until the workers are
    stopped. Raises UsageError and ToolError as cluster() does.
    """
    if not installed():
        raise ToolError("a worker needs dask.distributed; install it: pip install 'glowembed[cluster]'")
    _client(importlib.import_module("distributed"), scheduler).close()
    tools = ",".join(f"{name}=1" for name in [*identity.tools(), *more])
    words = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--nthreads", "1", "--memory-limit", "0"]
    words += ["--nworkers", str(workers), *(["--resources", tools] if tools else [])]
    os.execv(sys.executable, words)


def _same_software(client: Any) -> dict[str, str]:
    """The versions on this computer, which all workers must have. Raises UsageError with both versions if one
    differs.
    """
    mine = identity.software()
    for worker, found in sorted(_asked(client, identity.software).items()):
        if found != mine:
            raise UsageError(_differs(f"the worker {worker}", found, mine))
    return mine


def _same_tools(client: Any) -> dict[str, str]:
    """The versions of the workers' tools. All workers must have the same version of a tool. Raises UsageError with both
    versions if one differs.
    """
    versions: dict[str, tuple[str, str]] = {}
    for worker, found in sorted(_asked(client, identity.tools).items()):
        for name, said in found.items():
            other, first = versions.setdefault(name, (worker, said))
            if said != first:
                told = [text.partition("\n")[0] for text in (first, said)]
                raise UsageError(f"the worker {other} has {told[0]!r} and {worker} has {told[1]!r}: use one version")
    return {name: said for name, (_, said) in versions.items()}


def _asked(client: Any, question: Callable[[], dict[str, str]]) -> dict[str, dict[str, str]]:
    """The answer of each worker. Raises ToolError if there is none."""
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
