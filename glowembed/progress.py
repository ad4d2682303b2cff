"""Shows the progress of long work. In: loops and stages. Out: bars on a terminal, nothing elsewhere.

Stages take a `Progress` and do not know what displays it: `for sample in progress.track(samples, "profiling"): ...`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

T = TypeVar("T")
Counter = Callable[[int, int], None]


class Progress(Protocol):
    """The interface through which a stage reports its progress."""

    def track(self, items: Sequence[T], label: str) -> Iterator[T]:
        """Iterate over the items; the number of items taken is shown."""

    def stage(self, label: str) -> AbstractContextManager[None]:
        """Show work that cannot be counted while it lasts."""

    def counter(self, label: str) -> AbstractContextManager[Counter]:
        """A function for work that is done elsewhere: call it with (done, total)."""


class Silent:
    """A Progress that shows nothing."""

    def track(self, items: Sequence[T], label: str) -> Iterator[T]:
        yield from items

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def counter(self, label: str) -> Iterator[Counter]:
        yield lambda done, total: None


SILENT: Progress = Silent()


class TimeLeft(ProgressColumn):
    """The remaining time, from the speed of the last half minute; empty if work cannot be counted or has just begun."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        return Text("" if seconds is None else f"{timedelta(seconds=round(seconds))} left", "progress.remaining")


class Terminal:
    """Shows bars on a terminal, and removes them when the work is done. Use `terminal()`."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars

    def track(self, items: Sequence[T], label: str) -> Iterator[T]:
        task = self.bars.add_task(label, total=len(items), count="")
        try:
            for done, item in enumerate(items, start=1):
                yield item
                self.bars.update(task, completed=done, count=f"{done}/{len(items)}")
        finally:
            self.bars.remove_task(task)

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[None]:
        task = self.bars.add_task(label, total=None, count="")
        try:
            yield
        finally:
            self.bars.remove_task(task)

    @contextlib.contextmanager
    def counter(self, label: str) -> Iterator[Counter]:
        task = self.bars.add_task(label, total=None, count="")
        try:
            yield lambda done, total: self.bars.update(task, completed=done, total=total, count=f"{done}/{total}")
        finally:
            self.bars.remove_task(task)


@contextlib.contextmanager
def terminal(console: Console) -> Iterator[Progress]:
    """Bars on this console while the context lasts; SILENT if it is not a terminal."""
    if not console.is_terminal:
        yield SILENT
        return
    columns = (TextColumn("{task.description:<14}"), BarColumn(30), TextColumn("{task.fields[count]}"))
    with Bars(*columns, TimeElapsedColumn(), TimeLeft(), console=console, transient=True) as bars:
        yield Terminal(bars)
