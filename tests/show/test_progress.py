"""Bars where there is a terminal, nothing if there is none."""

import io

from rich.console import Console
from rich.progress import Progress as Bars

from glowembed.progress import SILENT, Progress, TimeLeft, terminal


def used(progress: Progress) -> list[int]:
    with progress.stage("thinking"):
        taken = list(progress.track([3, 1, 2], "profiling"))
    with progress.counter("on a board") as counter:
        counter(1, 2)
        counter(2, 2)
    return taken


def test_bars_on_a_terminal_are_gone_at_the_end() -> None:
    text = io.StringIO()
    with terminal(Console(file=text, force_terminal=True, width=80)) as progress:
        assert used(progress) == [3, 1, 2]
    assert "on a board" in text.getvalue()
    assert text.getvalue().endswith("\x1b[2K") or "\x1b[?25h" in text.getvalue()


def test_nothing_where_there_is_no_terminal() -> None:
    text = io.StringIO()
    with terminal(Console(file=text)) as progress:
        assert progress is SILENT
        assert used(progress) == [3, 1, 2]
    assert text.getvalue() == ""


def test_the_time_that_is_left() -> None:
    now = [0.0]
    bars = Bars(get_time=lambda: now[0])
    task = bars.add_task("on a board", total=100)
    assert TimeLeft().render(bars.tasks[0]).plain == ""
    for done in range(40, 60):  # the first forty were there before
        bars.update(task, completed=done)
        now[0] += 2.0
    assert TimeLeft().render(bars.tasks[0]).plain == "0:01:22 left"
