"""Jobs on a real cluster of dask.distributed: the same results whoever does them and whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from cluster_jobs import Job, product
from distributed.client import ClosedClientError
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.errors import ToolError, UsageError
from glowembed.jobs import cluster, identity
from glowembed.jobs.cluster import Cluster
from glowembed.jobs.scripts import Call, call
from glowembed.jobs.store import open_store

pytestmark = pytest.mark.filterwarnings("ignore")  # those of distributed


@pytest.fixture(scope="module")
def crew() -> Iterator[Cluster]:
    import distributed  # noqa: F401  whose defaults must be there before one is changed

    few = {"distributed.scheduler.allowed-failures": 1}  # a new worker takes a second
    with dask.config.set(few), cluster.cluster(2, None, lambda path: []) as made:
        yield made


def jobs(folder: Path, count: int, deaths: int = 0) -> list[Job]:
    """Jobs with two files among them; a worker dies of every job whose number `deaths` divides."""
    for factor in (3, 5):
        (folder / f"{factor}.txt").write_text(str(factor))
    return [
        Job(n, folder / f"{(3, 5)[n % 2]}.txt", str(folder / f"died {n}") if deaths and n % deaths == 0 else "")
        for n in range(count)
    ]


def test_a_worker_that_dies_in_every_tenth_job_loses_nothing(crew: Cluster, tmp_path: Path) -> None:
    wanted = jobs(tmp_path, 60, deaths=10)
    found = [future.result() for future in [crew.submit(product, job) for job in wanted]]
    assert len(list(tmp_path.glob("died *"))) == 6
    assert found == [job.number * int(job.file.read_text()) for job in wanted]


def test_a_job_that_no_worker_survives_is_an_error_of_its_own(crew: Cluster, tmp_path: Path) -> None:
    good, *_ = jobs(tmp_path, 1)
    bad = crew.submit(product, Job(1, good.file, always=True))
    assert crew.submit(product, good).result() == 0
    with pytest.raises(ToolError, match="its workers died"):
        bad.result()


def test_contents_travel_and_not_paths(crew: Cluster, tmp_path: Path) -> None:
    (job, *_) = jobs(tmp_path, 2)[1:]
    first = crew.submit(product, job)
    assert first.result() == 5
    job.file.unlink()
    assert crew.submit(product, job).result() == 5, "it is sent once and kept by its hash"


def test_a_script_travels_with_its_jobs(crew: Cluster, tmp_path: Path) -> None:
    """Workers have no such module; what it returns is plain data."""
    (tmp_path / "one_script.py").write_text("def joined(word, path):\n    return [word, path.read_text()]\n")
    (tmp_path / "text").write_text("there")
    job = Call(tmp_path, "one_script.joined", ("here",), (tmp_path / "text",))
    assert crew.submit(call, job).result() == ["here", "there"]


def test_errors_of_a_job_are_its_own(crew: Cluster, tmp_path: Path) -> None:
    jobs(tmp_path, 1)
    with pytest.raises(ValueError, match="-1 is negative"):
        crew.submit(product, Job(-1, tmp_path / "3.txt")).result()


class Recorder:
    """A client and its executor, whose jobs never end. One of its three workers has a tool."""

    dashboard_link = ""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {str(n): {"resources": {"gcc": 1} if n == 0 else {}} for n in range(3)}}

    def get_executor(self, pure: bool) -> Recorder:
        return self

    def submit(self, function: Any, *words: Any, **named: Any) -> Future[Any]:
        self.numbers.append(words[2].number)
        return Future()

    def shutdown(self, wait: bool) -> None:
        pass


def test_jobs_that_wait_for_a_tool_leave_other_workers_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_asked", lambda client, question: {})
    client = Recorder()
    crew = Cluster(client, lambda path: [])
    for number in range(6):
        crew.submit(product, Job(number, tmp_path / "none", needs=("gcc",) if number < 3 else ()))
    crew.shutdown()
    assert client.numbers == [0, 3, 4], "one for the tool, and two for the workers without it"


class Closed(Recorder):
    """The client of a scheduler that has died, after it has given up to connect again."""

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {}

    def shutdown(self, wait: bool) -> None:
        raise ClosedClientError


def test_a_run_ends_in_order_after_its_scheduler_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_asked", lambda client, question: {})
    Cluster(Closed(), lambda path: []).shutdown()


def test_a_tool_that_no_worker_has_is_named(crew: Cluster, tmp_path: Path) -> None:
    jobs(tmp_path, 1)
    with pytest.raises(ToolError, match="no worker has gcc-of-mars"):
        crew.submit(product, Job(1, tmp_path / "3.txt", needs=("gcc-of-mars",))).result()
    here = next(iter(identity.tools()))
    assert crew.submit(product, Job(1, tmp_path / "3.txt", needs=(here,))).result() == 3


def test_other_versions_are_refused_with_both(crew: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs(tmp_path, 1)
    theirs = identity.software()
    own = {**theirs, "numpy": "0.0.1"}
    monkeypatch.setattr(cluster.identity, "software", lambda: own)
    monkeypatch.setattr(cluster, "_asked", lambda client, question: {"tcp://a:1": theirs})
    with pytest.raises(UsageError, match=rf"tcp://a:1 has numpy {theirs['numpy']} and not 0\.0\.1"):
        cluster._same_software(crew.client)
    monkeypatch.setattr(crew, "software", own)
    with pytest.raises(UsageError, match=r"a worker that came later has numpy"):  # said by the worker itself
        crew.submit(product, Job(1, tmp_path / "3.txt")).result()


def test_tools_of_two_versions_are_refused_with_both(crew: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"tcp://a:1": {"cc": "cc 12\nmore"}, "tcp://b:1": {"cc": "cc 13\nmore", "qemu": "9"}}
    monkeypatch.setattr(cluster, "_asked", lambda client, question: answers)
    with pytest.raises(UsageError, match=r"a:1 has 'cc 12' and tcp://b:1 has 'cc 13'"):
        cluster._same_tools(crew.client)


def test_a_scheduler_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], digits: Path) -> None:
    words = ["regress", "--models", f"{digits}/model.onnx:{digits}/data.npz", "--store", str(tmp_path / "store")]
    monkey = pytest.MonkeyPatch()
    monkey.setattr(cluster, "CONNECT_SECONDS", 1)
    with monkey.context():
        assert main([*words, "--targets", "generic", "--scheduler", "tcp://127.0.0.1:9"]) == 4
    monkey.undo()
    assert "the scheduler tcp://127.0.0.1:9 cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["nowhere", "tcp://host", "http://host:8786", "tcp://host:port"])
def test_an_address_that_is_none(address: str, capsys: pytest.CaptureFixture[str], digits: Path) -> None:
    run = ["regress", "--models", f"{digits}/model.onnx:{digits}/data.npz", "--targets", "generic", "--scheduler"]
    for words in (run, ["worker"]):
        assert main([*words, address]) == 2
        assert f"{address!r} is no address of a scheduler" in capsys.readouterr().err


SPEC = """
models: [{model: model.onnx, data: x.npy}]
targets: [generic]
settings: {a: {}, b: {optimize: size}}
samples: 2
"""


@pytest.mark.cc
def test_what_was_finished_survives_the_scheduler(tmp_path: Path) -> None:
    """The scheduler is killed after the first result: the same command does only the rest, here without a cluster."""
    saved(model([node("Gemm", "x w", "y")], {"x": (1, 4)}, {"w": weights(4, 3)}), tmp_path)
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32))
    (tmp_path / "regress.yaml").write_text(SPEC)
    words = [sys.executable, "-m", "glowembed", "regress", "regress.yaml", "--store", "store", "--json", "rows.json"]
    store = tmp_path / "store"
    address = tmp_path / "scheduler.json"
    begin = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--port",
        "0",
        "--host",
        "127.0.0.1",
        "--no-dashboard",
    ]
    with subprocess.Popen([*begin, "--scheduler-file", str(address)], stderr=subprocess.DEVNULL) as scheduler:
        while not address.is_file() or not address.read_text().endswith("}"):
            assert scheduler.poll() is None, "the scheduler does not start"
            time.sleep(0.05)
        place = str(json.loads(address.read_text())["address"])
        serve = [sys.executable, "-m", "glowembed", "worker", place, "--workers", "1"]
        with subprocess.Popen(serve, cwd=tmp_path, stderr=subprocess.DEVNULL) as worker:
            with subprocess.Popen(
                [*words, "--scheduler", place], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as run:
                while not list(store.glob("regress/*/*.json")) and run.poll() is None:
                    time.sleep(0.02)
                scheduler.kill()
                printed, said = run.communicate()
            worker.send_signal(signal.SIGTERM)
    assert run.returncode == 4, said
    assert "the scheduler of the cluster has ended" in printed
    assert not any(word in said for word in ("Traceback", "distributed.client")), said
    kept = {path: path.stat().st_mtime_ns for path in store.glob("regress/*/*.json")}
    assert len(kept) == 1
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, env=os.environ).returncode == 0
    assert len(list(open_store(str(store)).records("regress"))) == 2
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "what was finished is not done again"
