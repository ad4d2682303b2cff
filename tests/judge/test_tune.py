"""tune: a network that loses accuracy in int8 gets it back with few lifted nodes, with the same result every time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import numpy as np
import onnxruntime
import pytest
from json_result import check_json
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.graph.plan import PlanOptions
from glowembed.jobs import cluster, crew
from glowembed.jobs.store import open_store
from glowembed.judge import tune
from glowembed.judge.regress import names_of
from glowembed.judge.tune import Budget, Task
from glowembed.pipeline import CompileOptions, profile_model
from glowembed.quantize import precision
from glowembed.ranges.datasets import Source
from glowembed.read import onnxfile

OPTIONS = CompileOptions(plan=PlanOptions(optimize="speed"))
"""Without the search for a smaller arena, which takes most of the time of an evaluation; `tune` does not look at it here."""

LAYERS = 5
HURT = 2
"""The layer whose output channels have ranges from 0.001 to 1000."""


def hurt_net(folder: Path) -> tuple[Path, Path]:
    """Five convolutions and a classifier; one output spans six decades over its channels, which the next layer undoes.

    Labels are the float model's own classes on samples where it is sure.
    """
    spread = np.float32(10.0) ** np.linspace(-3, 3, 8).astype(np.float32)
    constants: dict[str, np.ndarray] = {}
    nodes = []
    for i in range(LAYERS):
        w = weights(8, 8, 3, 3, seed=i) * np.float32(0.6)
        if i == HURT:
            w = w * spread[:, None, None, None]
        if i == HURT + 1:
            w = w / spread[None, :, None, None]
        constants[f"w{i}"] = w
        nodes.append(node("Conv", f"{'x' if i == 0 else f'r{i - 1}'} w{i}", f"c{i}", pads=[1, 1, 1, 1]))
        nodes.append(node("Relu", f"c{i}", f"r{i}"))
    constants["head"] = weights(5, 8, seed=99)
    nodes += [
        node("GlobalAveragePool", f"r{LAYERS - 1}", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f head", "y", transB=1),
    ]
    path = saved(model(nodes, {"x": [1, 8, 5, 5]}, constants), folder)
    samples = np.random.default_rng(0).normal(size=(400, 8, 5, 5)).astype(np.float32) * np.float32(2.0)
    session = onnxruntime.InferenceSession(str(path))
    logits = np.concatenate([session.run(None, {"x": s[None]})[0] for s in samples])
    logits -= logits.mean(axis=0)
    order = np.sort(logits, axis=1)
    sure = np.argsort(order[:, -2] - order[:, -1])[:60]
    data = folder / "data.npz"
    np.savez(data, calib_x=samples[:60], test_x=samples[sure], test_y=_classes(session, samples[sure]))
    return path, data


def _classes(session: onnxruntime.InferenceSession, samples: np.ndarray) -> np.ndarray:
    return np.array([session.run(None, {"x": s[None]})[0].argmax() for s in samples])


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("tune")
    path, data = hurt_net(folder)
    profile_model(path, data, CompileOptions()).save(folder / "profile.yaml")
    return Task(path, Source(data), folder / "profile.yaml", "rmse", 8, OPTIONS)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the search that the tests share: tests that write into it copy it."""
    return tmp_path_factory.mktemp("kept") / "store"


@pytest.fixture(scope="module")
def known(task: Task, kept: Path) -> tune.Tuned:
    """The result that the tests share; others show that it is the same every time."""
    return tune.tune(task, drop=0.05, store=open_store(str(kept)))


def test_a_net_that_int8_hurts_is_healed_by_less_than_a_third_of_its_nodes(known: tune.Tuned) -> None:
    result = known
    assert result.base.score < -0.15, "int8 must hurt, or this proves nothing"
    assert result.lifted
    assert len(result.lifted) * 3 < result.nodes
    assert result.tried[result.lifted].score >= result.goal


def test_classes_that_int8_confuses_all_come_back(task: Task) -> None:
    """Top-1 within 0.1 % of float, which is every one of the 60 samples, with less than a third of the nodes lifted."""
    result = tune.tune(replace(task, metric="top1", samples=None), drop=0.001)
    assert result.float_score == 1.0
    assert result.base.score < 0.9, "int8 must hurt, or this proves nothing"
    assert result.lifted is not None
    assert result.tried[result.lifted].score == 1.0
    assert len(result.lifted) * 3 < result.nodes


def small_task(folder: Path) -> Task:
    path, data = two_of_each(folder)
    profile_model(path, data, CompileOptions()).save(folder / "p.yaml")
    return Task(path, Source(data), folder / "p.yaml", "rmse", None, OPTIONS)


@pytest.mark.filterwarnings("ignore")  # those of distributed
def test_the_answer_of_a_cluster_is_the_same(tmp_path: Path) -> None:
    task = small_task(tmp_path)
    known = tune.tune(task, drop=1e-4)
    assert known.lifted
    with cluster.cluster(2, None, onnxfile.beside) as able:
        found = tune.tune(task, drop=1e-4, executor=able)
    assert (found.lifted, found.tried, found.yaml()) == (known.lifted, known.tried, known.yaml())


@pytest.mark.shared
def test_kws_has_the_same_bytes_with_one_and_with_two_workers(shared_models: Path, tmp_path: Path) -> None:
    """Two processes, and this one alone; the samples are few, and only a change of the calibration and int16 are tried."""
    model, data = shared_models / "kws" / "model.onnx", shared_models / "kws" / "data.npz"
    profile_model(model, Source(data, limit=4), CompileOptions()).save(tmp_path / "p.yaml")
    task = Task(model, Source(data), tmp_path / "p.yaml", "rmse", 2, OPTIONS)
    found = []
    for workers in (None, 2):
        with crew.crew(workers, None, onnxfile.beside) as able:
            result = tune.tune(task, drop=0.001, lifts=("int16",), executor=able)
        found.append((tune.table(result), result.yaml() if result.lifted is not None else ""))
    assert found[0] == found[1]
    assert found[0][0].count("\n") > 20, "nodes must be lifted alone, or this proves little"


def test_nothing_is_lifted_where_int8_is_good_enough(task: Task) -> None:
    assert tune.tune(task, drop=9.0).lifted == ()


def test_weights_of_four_bits_where_the_flash_is_too_small(tmp_path: Path) -> None:
    sizes = (48, 96, 96, 8)
    constants = {f"w{i}": weights(sizes[i + 1], sizes[i], seed=i) for i in range(3)}
    names = ["x", "a", "b", "y"]
    nodes = [node("Gemm", f"{names[i]} w{i}", names[i + 1], transB=1) for i in range(3)]
    path = saved(model(nodes, {"x": (1, 48)}, constants), tmp_path)
    np.save(tmp_path / "data.npy", np.random.default_rng(2).normal(size=(8, 48)).astype(np.float32))
    profile_model(path, tmp_path / "data.npy", CompileOptions()).save(tmp_path / "profile.yaml")
    own = Task(path, Source(tmp_path / "data.npy"), tmp_path / "profile.yaml", "rmse", 4, OPTIONS)
    plain = tune.tune(own, drop=9.0).base
    result = tune.tune(own, drop=9.0, budget=Budget(flash=plain.flash - 4000))
    everywhere = tuple(sorted((name, "int4 weights") for name in ("n_a", "n_b", "n_y")))
    assert result.lifted == everywhere, "all layers in one way are tried first"
    assert len(result.tried) <= 8
    worst = max(tune.evaluate(own, tuple((n, change) for n, _ in everywhere)).score for change in tune.NARROW)
    result = tune.tune(own, drop=-(worst + 1e-9), budget=Budget(flash=plain.flash - 4000))
    assert result.lifted is not None
    assert result.tried[result.lifted].score > worst
    assert {change for _, change in result.lifted} <= set(tune.NARROW)
    for name, change in result.lifted:
        noises = {other: result.tried[((name, other),)].noise for other in tune.NARROW}
        assert change == min(noises, key=lambda other: noises[other])
    assert result.tried[result.lifted].flash <= plain.flash - 4000
    assert "weights: compressed" in result.yaml() or "weights: int4" in result.yaml()


def test_an_interrupted_search_goes_on(
    task: Task, known: tune.Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations before the interruption are not repeated, and the result is the same."""
    store, real = open_store(str(tmp_path / "store")), tune.evaluate
    done: list[tune.Lifted] = []

    def interrupted(t: Task, lifted: tune.Lifted) -> tune.Evaluation:
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(lifted)
        return real(t, lifted)

    monkeypatch.setattr(tune, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(task, drop=0.05, store=store)
    first, again = list(done), list[tune.Lifted]()
    monkeypatch.setattr(tune, "evaluate", lambda t, lifted: again.append(lifted) or real(t, lifted))
    with ThreadPoolExecutor(2) as executor:
        resumed = tune.tune(task, drop=0.05, store=store, executor=executor)
    monkeypatch.undo()
    assert not set(first) & set(again)
    assert (resumed.lifted, resumed.tried) == (known.lifted, known.tried), "nor does it depend on who evaluates"
    assert (known.remembered, resumed.remembered) == (0, len(first))


@pytest.mark.parametrize("result", [{"q": 1}, {"score": "x"}, {"score": None}])
def test_a_spoilt_evaluation_is_made_again(
    task: Task, known: tune.Tuned, kept: Path, tmp_path: Path, result: dict
) -> None:
    folder = shutil.copytree(kept, tmp_path / "store")
    path = sorted((folder / "tune").glob("*/*.json"))[0]
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "result": result if "q" in result else {**whole["result"], **result}}))
    assert tune.tune(task, drop=0.05, store=open_store(str(folder))).lifted == known.lifted
    assert json.loads(path.read_text())["result"] == whole["result"]


def test_a_budget_that_nothing_fits_has_no_answer(task: Task, tmp_path: Path) -> None:
    assert tune.tune(task, drop=0.05, budget=Budget(arena=16), lifts=("float32",)).lifted is None


def test_the_written_file_is_a_precision_configuration(known: tune.Tuned, tmp_path: Path) -> None:
    result = known
    path = tmp_path / "precision.yaml"
    path.write_text(result.yaml(), "utf-8")
    config = precision.load(path)
    lifted = [(tune.glob(name), tune.CHANGES[change]) for name, change in result.lifted or () if name != tune.ALL]
    assert [(rule.names[0], dict(rule.settings)) for rule in config.rules] == lifted
    assert lifted


def test_a_calibration_is_tried_before_any_node_is_lifted(tmp_path: Path) -> None:
    """One sample of calibration is far out: min-max loses on all others what a clip keeps."""
    rng = np.random.default_rng(2)
    path = saved(model([node("Gemm", "x w", "y", transB=1)], {"x": (1, 6)}, {"w": weights(4, 6)}), tmp_path)
    calib = rng.normal(size=(2000, 6)).astype(np.float32)
    calib[0] *= 20
    np.savez(tmp_path / "data.npz", calib_x=calib, test_x=calib[1:41])
    profile_model(path, tmp_path / "data.npz", CompileOptions()).save(tmp_path / "p.yaml")
    options = CompileOptions(calibration="minmax")
    asked = Task(path, Source(tmp_path / "data.npz"), tmp_path / "p.yaml", "rmse", None, options)
    result = tune.tune(asked, drop=0.08)
    assert result.base.score < result.goal
    assert result.lifted is not None
    ((name, change),) = result.lifted
    assert name == tune.ALL
    assert result.yaml() == f"defaults:\n  dtype: int8\n  calibration: {change}\nrules: []\n"


def test_weights_of_int16_are_found_where_only_they_help(tmp_path: Path) -> None:
    nodes = [node("Gemm", "x u", "h", transB=1), node("Relu", "h", "r"), node("Gemm", "r v", "y", transB=1)]
    constants = {"u": weights(16, 16), "v": weights(8, 16, seed=3)}
    path = saved(model(nodes, {"x": (1, 16)}, constants), tmp_path)
    np.savez(tmp_path / "data.npz", calib_x=np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32))
    profile_model(path, tmp_path / "data.npz", CompileOptions()).save(tmp_path / "p.yaml")
    task = Task(path, Source(tmp_path / "data.npz"), tmp_path / "p.yaml", "rmse", None, OPTIONS)
    result = tune.tune(task, drop=0.0005)
    assert result.lifted == (("n_h", "int16 weights"), ("n_y", "int16 weights"))


def two_of_each(folder: Path) -> tuple[Path, Path]:
    nodes = [node("Gemm", "a w", "p", transB=1), node("Gemm", "b v", "q", transB=1), node("Add", "p q", "r"),
             node("Mul", "p q", "y")]  # fmt: skip
    constants = {"w": weights(3, 4), "v": weights(3, 4, seed=2)}
    path = saved(model(nodes, {"a": (1, 4), "b": (1, 4)}, constants, ("r", "y")), folder)
    rng = np.random.default_rng(1)
    arrays = {
        f"{kind}_{name}": rng.normal(size=(24, 4)).astype(np.float32) for kind in ("calib", "test") for name in "ab"
    }
    np.savez(folder / "data.npz", **arrays)
    return path, folder / "data.npz"


def worst(outputs: Mapping[str, np.ndarray], labels: np.ndarray | None) -> float:
    """A metric as a user writes one: the largest number of any output."""
    return float(max(np.abs(outputs["r"]).max(), np.abs(outputs["y"]).max()))


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of this file are named to the code under test, which imports it."""
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.mark.parametrize("metric", ["rmse", "cosine", "python:test_tune.worst"])
def test_several_inputs_and_outputs_and_any_metric(metric: str, tmp_path: Path) -> None:
    path, data = two_of_each(tmp_path)
    profile_model(path, data, CompileOptions()).save(tmp_path / "p.yaml")
    result = tune.tune(Task(path, Source(data), tmp_path / "p.yaml", metric, None, OPTIONS), drop=1e-4)
    assert result.lifted is not None
    assert result.lifted or metric.startswith(tune.PYTHON)
    assert result.tried[result.lifted].score >= result.goal


def test_a_budget_of_flash_counts_weights_and_code(task: Task, known: tune.Tuned, kept: Path, tmp_path: Path) -> None:
    store = open_store(str(shutil.copytree(kept, tmp_path / "store")))
    assert known.lifted is not None
    needed = known.tried[known.lifted].flash
    enough = tune.tune(task, drop=0.05, budget=Budget(flash=needed), store=store)
    assert enough.lifted == known.lifted
    less = tune.tune(task, drop=0.05, budget=Budget(flash=known.base.flash), lifts=("float32",), store=store)
    assert less.lifted is None


@pytest.mark.parametrize("name", ["plain", "a*b", "a?[0]", "[x]"])
def test_a_glob_matches_its_name_alone(name: str) -> None:
    from fnmatch import fnmatchcase

    assert fnmatchcase(name, tune.glob(name))
    assert not fnmatchcase(name + "x", tune.glob(name)) and not fnmatchcase("aXb", tune.glob(name))


METRICS = [
    ("python:no_such_module.f", "no_such_module"),
    ("python:json.no_such_function", "no_such_function"),
    ("python:json", "module.function"),
    ("python:operator.truediv", "raised TypeError"),
]


@pytest.mark.parametrize(("metric", "words"), METRICS)
def test_a_metric_that_cannot_be_used_is_named(task: Task, metric: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tune.tune(Task(task.model, task.data, task.profile, metric, 4, task.options), 0.01)


def test_the_command_writes_the_file_and_says_what_it_did(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "precision.yaml"
    words = ["tune", str(task.model), "--data", str(task.data.path), "--metric", "rmse", "--drop", "5%", "-o", str(out)]
    store = ["--store", str(tmp_path / "store")]
    result = tmp_path / "result.json"
    assert main([*words, *store, "--samples", "10", "--workers", "1", "--json", str(result)]) == 0
    assert precision.load(out).rules
    assert "lifted:" in capsys.readouterr().out
    found = json.loads(result.read_text("utf-8"))
    check_json("tune", found)
    assert [rule.names[0] for rule in precision.load(out).rules] == [
        tune.glob(c["node"]) for c in found["lifted"] if c["node"]
    ]
    report = (tmp_path / "precision.yaml.report.md").read_text("utf-8")
    assert report.count("| chosen |") == 1
    assert "| nothing |" in report
    kept = list(open_store(store[1]).records(tune.KIND))
    assert len(kept) == report.count("\n") - 4
    assert {record.about["model"] for record in kept} == set(names_of([task.model]))


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal goes to the workers too, as from a terminal. None of them prints anything."""
    out, store = tmp_path / "p.yaml", tmp_path / "store"
    words = ["tune", str(task.model), "--data", str(task.data.path), "--metric", "rmse", "--drop", "5%", "-o", str(out)]
    words += ["--store", str(store)]
    command = [sys.executable, "-m", "glowembed", *words, "--workers", "2"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True) as process:
        while not list(store.glob("tune/*/*.json")) and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        printed, said = process.communicate()
    assert (process.returncode, printed) == (130, "")
    assert said == f"error: interrupted\nwhat was tried is in {store}: the same command goes on from there\n"
    assert not out.exists()
    kept = len(list(store.glob("tune/*/*.json")))
    assert main([*words, "--workers", "1"]) == 0
    assert f", {kept} of them before the interruption" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("drop", ["", "x%", "-1%", "100%"])
def test_a_drop_that_is_none_is_refused(task: Task, drop: str, tmp_path: Path) -> None:
    words = ["tune", str(task.model), "--data", str(task.data.path), "--drop", drop, "-o", str(tmp_path / "p.yaml")]
    assert main(words) == 2
    assert not (tmp_path / "p.yaml").exists()
