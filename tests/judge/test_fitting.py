"""The verdicts of `inspect --target` agree with a build and a run, for networks that fit, that fit with an option, and that do not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.errors import DoesNotFit, UsageError
from glowembed.graph.plan import PlanOptions
from glowembed.graph.target import load_board, target_names
from glowembed.judge import fitting
from glowembed.judge.fitting import Needs
from glowembed.judge.inspection import inspect_model
from glowembed.judge.validation import build_bundle, validate
from glowembed.pipeline import CompileOptions, compile_model, lowered
from glowembed.ranges.datasets import Dataset, Source


def images(side: int, channels: int, columns: int | None = None) -> onnx.ModelProto:
    """A network that needs much RAM."""
    nodes = [
        node("Conv", "x w", "c"),
        node("Relu", "c", "r"),
        node("Conv", "r v", "d"),
        node("GlobalAveragePool", "d", "y"),
    ]
    constants = {"w": weights(channels, 3, 3, 3), "v": weights(channels, channels, 3, 3)}
    return model(nodes, {"x": (1, 3, side, columns or side)}, constants)


def dense(rows: int, columns: int) -> onnx.ModelProto:
    """A network that needs much flash."""
    return model([node("MatMul", "x w", "y")], {"x": (1, rows)}, {"w": weights(rows, columns)})


CASES: list[tuple[str, onnx.ModelProto, dict[str, tuple[bool, bool]]]] = [
    # name, network, board -> whether it fits, whether only with options; M0 and M3 keep about a byte a weight by default
    ("small", images(12, 4), {"stm32vldiscovery": (True, False)}),
    ("much flash", dense(480, 290), {"microbit": (True, False), "stm32vldiscovery": (False, False)}),
    ("much RAM", images(76, 6), {"microbit": (False, False), "lm3s6965evb-m0": (True, False)}),
]
BOARDS = [(name, proto, board, *verdict) for name, proto, boards in CASES for board, verdict in boards.items()]


def given(options: CompileOptions, text: str) -> CompileOptions:
    """The options that `inspect` names."""
    words = dict(zip(text.split()[::2], map(int, text.split()[1::2]), strict=True))
    plan = replace(options.plan, ram=words.pop("--ram", None))
    flash = words.pop("--flash", None)
    assert not words
    return replace(options, plan=plan, flash=flash)


@pytest.mark.parametrize(
    ("proto", "board", "words"),
    [
        (images(12, 4), "stm32vldiscovery", ()),
        (images(24, 6, 240), "microbit", ("bytes of its ram", "no option makes it fit")),
        (images(56, 6), "microbit", ("bytes of its ram", "it fits with --ram ")),
        (dense(480, 290), "stm32vldiscovery", ("bytes of its flash", "no option makes it fit")),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_compile_warns_of_a_board_that_is_too_small(
    proto: Any, board: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = load_board(board).target
    file = saved(proto, tmp_path)
    options = ["--random", "2", "--target", target, "--optimize", "speed"]
    assert main(["compile", str(file), *options, "--board", board, "-o", str(tmp_path / "b")]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "[board-too-small]" in line]
    assert len(told) == (1 if words else 0) and all(word in told[0] for word in words)


def test_speed_may_use_the_flash_of_the_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(images(12, 4), tmp_path)
    words = ["compile", str(file), "--random", "2", "--optimize", "speed", "--json", "-", "-o", str(tmp_path / "b")]
    assert main([*words, "--board", "nrf52840-dk"]) == 0
    assert 700_000 < json.loads(capsys.readouterr().out)["options"]["flash"] < 1 << 20
    assert main([*words, "--board", "microbit"]) == 2
    assert "--board microbit does not run code for cortex-m4: give --target cortex-m0" in capsys.readouterr().err


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("name", "proto", "board", "fits", "limited"), BOARDS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_the_verdict_is_that_of_a_build_and_a_run(
    name: str, proto: Any, board: str, fits: bool, limited: bool, tmp_path: Path
) -> None:
    file, target = saved(proto, tmp_path), load_board(board).target
    found = next(fit for fit in inspect_model(file, target=target).boards if fit.board == board)
    assert (found.fits, bool(found.options)) == (fits, limited), name
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim][1:]
    x = np.random.default_rng(1).uniform(-3, 3, (9, *shape)).astype(np.float32)
    np.savez(tmp_path / "d.npz", calib_x=x, test_x=x[:1])
    bundle, options = tmp_path / "bundle", CompileOptions(target)
    if fits:
        compile_model(file, bundle, given(options, found.options), tmp_path / "d.npz")
        assert validate(bundle, tmp_path / "d.npz", board).bit_exact
    if fits and not limited:
        return
    for optimize in ("balanced",) if fits else ("ram", "size"):
        compile_model(file, bundle, replace(options, plan=PlanOptions(optimize=optimize)), tmp_path / "d.npz")  # type: ignore[arg-type]
        with pytest.raises(DoesNotFit):
            build_bundle(bundle, board, tmp_path / f"build-{optimize}")


def test_between_the_ends_only_a_build_tells() -> None:
    """Memories lie on both sides of both ends of the estimate, in RAM and in flash."""
    board = load_board("microbit")
    regions = {"CODE": "flash", "WEIGHTS": "flash", "DATA": "ram", "ARENA": "ram"}
    ram, flash = 16384 - board.stack_size, 262144
    for arena, expected in ((ram - 1200, True), (ram - 1199, None), (ram - 400, None), (ram - 399, False)):
        assert fitting._verdict(board, regions, Needs(arena, 0, 0, 0)) is expected
    for constants, expected in (
        (flash - 6400, True),
        (flash - 6399, None),
        (flash - 4600, None),
        (flash - 4599, False),
    ):
        assert fitting._verdict(board, regions, Needs(0, constants, 0, 0)) is expected


def test_with_samples_the_figures_are_those_of_the_bundle(tmp_path: Path) -> None:
    """Samples show which channels are dead: here all except two of the first convolution."""
    proto = images(12, 8)
    bias = np.full(8, -1e3, np.float32)
    bias[:2] = 0
    proto.graph.initializer.append(onnx.numpy_helper.from_array(bias, "b"))
    proto.graph.node[0].input.append("b")
    file, x = saved(proto, tmp_path), np.random.default_rng(1).uniform(-1, 1, (9, 3, 12, 12)).astype(np.float32)
    np.savez(tmp_path / "d.npz", calib_x=x, test_x=-x)
    manifest = compile_model(file, tmp_path / "bundle", CompileOptions(), tmp_path / "d.npz").manifest
    assert manifest["simplified"]["channels"] >= 6
    found = [inspect_model(file, data=data) for data in (Source(tmp_path / "d.npz"), None)]
    flash = [one.flash_estimate or 0 for one in found]
    assert found[0].arena_estimate == manifest["arena"]["size"]
    assert manifest["weights_bytes"] < flash[0] < flash[1]
    assert [len(one.notes) for one in found] == [0, 1]


def test_what_cannot_be_planned_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("no plan")

    monkeypatch.setattr("glowembed.judge.inspection.planned", refuse)
    found = inspect_model(saved(dense(4, 3), tmp_path), target="cortex-m4")
    assert (found.arena_estimate, found.boards) == (None, ())
    assert [(note.code, "no plan" in note.text) for note in found.notes] == [("estimate", True)]


def test_without_a_target_all_are_shown(tmp_path: Path) -> None:
    """Each target has the figures of a compilation for it; for a board that is too small, no options are looked for."""
    file = saved(dense(480, 290), tmp_path)
    found = {one.target: one for one in inspect_model(file, everywhere=True).targets}
    assert tuple(found) == target_names()
    verdicts = {fit.board: (fit.fits, fit.options) for name in ("cortex-m0", "cortex-m3") for fit in found[name].boards}
    assert verdicts["microbit"] == (True, "")
    assert verdicts["stm32vldiscovery"] == (False, "")
    np.savez(tmp_path / "d.npz", calib_x=np.random.default_rng(1).standard_normal((9, 480)).astype(np.float32))
    for name in ("cortex-m0", "cortex-m55", "riscv32"):
        made = compile_model(file, tmp_path / name, CompileOptions(name), tmp_path / "d.npz").manifest
        assert found[name].arena == pytest.approx(made["arena"]["size"], rel=0.05), name


def test_a_target_that_cannot_compute_a_type_says_why(tmp_path: Path) -> None:
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, (1, 4)) for name in "xy"]
    graph = onnx.helper.make_graph([node("Sin", "x", "y")], "small", tensors[:1], tensors[1:])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = CompileOptions("x86-64", dtype="model")
    graph = lowered(saved(proto, tmp_path), options, None, Dataset({"x": np.ones((2, 4))}, shapes={"x": (1, 4)}))
    problems = {one.target: one.problem for one in fitting.on_targets(graph, options, ("cortex-m4", "x86-64"))}
    assert "is float64" in problems["cortex-m4"]
    assert problems["x86-64"] == ""
