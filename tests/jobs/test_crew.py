"""Who does the jobs of a command changes nothing in what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_jobs import Job, product
from small_models import model, node, saved, weights

from glowembed.errors import UsageError
from glowembed.jobs import crew
from glowembed.judge import trial
from glowembed.pipeline import CompileOptions, compile_model, tradeoffs
from glowembed.ranges.datasets import Source


class Enough(Exception):
    """Ends a compilation where kernels are chosen."""


def test_curves_and_boards_are_those_of_one_process(tmp_path: Path) -> None:
    nodes = [node("Conv", "x v", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"), node("GlobalAveragePool", "r", "y")]
    path = saved(model(nodes, {"x": (1, 3, 12, 12)}, {"v": weights(8, 3, 3, 3)}), tmp_path)
    options, made = CompileOptions("cortex-m4"), dict[str, Any]()

    def stop(stage: str, result: Any) -> None:
        made[stage] = result
        if stage == "lower":
            raise Enough

    samples = np.random.default_rng(1).normal(size=(4, 3, 12, 12)).astype(np.float32)
    with pytest.raises(Enough):
        compile_model(path, tmp_path / "bundle", options, {"calib_x": samples}, on_stage=stop)
    np.save(tmp_path / "x.npy", samples)
    found = []
    for workers in (None, 2):
        with crew.crew(workers, None, lambda path: ()) as able:
            points = tradeoffs(made["lower"], options, able.map)
            found.append((points, trial._boards(path, Source(tmp_path / "x.npy"), options, able.map)))
    assert found[0] == found[1]
    assert all(found[0])


def test_an_error_is_that_of_the_job_and_both_options_are_too_many(tmp_path: Path) -> None:
    with crew.crew(None, None, lambda path: ()) as here, pytest.raises(ValueError, match="-1 is negative"):
        here.submit(product, Job(-1, tmp_path / "none")).result()
    with pytest.raises(UsageError, match="--workers is for this computer"), crew.crew(2, "tcp://a:1", lambda path: ()):
        pass
