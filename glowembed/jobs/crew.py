"""Who does the jobs of a command: this process, some processes of this computer, or a cluster.

In: the numbers of --workers and the URL of --scheduler. Out: an ordinary Executor, whose jobs are functions of picklable data. `map` gives
results in the order of the jobs, so that what is made of them does not depend on who did them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

from glowembed.errors import UsageError
from glowembed.jobs import cluster
from glowembed.jobs.cluster import Parts


@contextmanager
def crew(
    workers: int | None, scheduler: str | None, parts: Parts, told: Callable[[str], None] = lambda text: None
) -> Iterator[Executor]:
    """This process where neither is given, so many processes, or the cluster of a scheduler. parts: see `cluster`. told: hears the
    address of the dashboard. Raises UsageError if both are given, and what `cluster` raises.
    """
    if scheduler is not None:
        if workers is not None:
            raise UsageError("--workers is for this computer: each worker of a cluster does one job at a time")
        with cluster.cluster(None, scheduler, parts) as made:
            told(f"dashboard: {made.link}")
            yield made
    elif workers is None:
        yield _Here()
    else:
        with _Pool(workers, get_context("spawn")) as pool:
            try:
                yield pool
            except BaseException:
                # What has not begun is forgotten first: Python 3.11 shows a traceback for what was cancelled when a worker ends.
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.terminate()
                raise


class _Here(Executor):
    """Does each job at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """A Future that has ended. An interrupt is not kept in it."""
        done: Future[Any] = Future()
        try:
            done.set_result(function(*args, **named))
        except Exception as error:
            done.set_exception(error)
        return done


class _Pool(ProcessPoolExecutor):
    """A pool of processes that do not receive Ctrl-C: this process receives it and ends them."""

    def submit(self, *args: Any, **named: Any) -> Future[Any]:
        with _interrupts_held_back():
            return super().submit(*args, **named)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Block interrupts while a process is created, so that it is created completely and inherits the mask. The handler
    is for threads without the mask.
    """
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if held:
        raise KeyboardInterrupt
