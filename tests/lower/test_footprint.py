"""The choice of kernels by flash: balanced, size, a limit. Estimates are near the built sizes; compile --verbose
explains the choice.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from checkout import SHARED
from small_models import model, node, weights

from glowembed import pipeline
from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.graph.ir import Graph
from glowembed.graph.plan import PlanOptions
from glowembed.graph.registry import kernel
from glowembed.graph.target import load_target
from glowembed.judge import validation
from glowembed.lower import choose, footprint
from glowembed.pipeline import Bundle, CompileOptions
from glowembed.ranges.profile import Profile

KWS = SHARED / "kws"


@cache
def ranges() -> Profile:
    """The ranges of the network, which depend on no target and no option here."""
    return pipeline.profile_model(KWS / "model.onnx", KWS / "data.npz", CompileOptions())


def compiled(folder: Path, target: str = "cortex-m4", optimize: str = "balanced", flash: int | None = None) -> Bundle:
    options = CompileOptions(target, name="net", plan=PlanOptions("greedy", effort=0, optimize=optimize), flash=flash)
    return pipeline.compile_model(KWS / "model.onnx", folder / "net", options, profile=ranges())


def cycles(bundle: Bundle) -> float:
    return sum(c.cycles for c in bundle.choices if c.reason is None)


def code(bundle: Bundle) -> int:
    return sum({c.function: c.code for c in bundle.choices if c.reason is None}.values())


def fastest_with_plain_weights(bundle: Bundle) -> dict[str, float]:
    """The cycles of each node."""
    legal = [c for c in bundle.choices if c.legal]
    least = {c.node: min(other.constants for other in legal if other.node == c.node) for c in legal}
    plain = sorted((c.node, c.cycles) for c in legal if c.constants <= choose.PLAIN * least[c.node])
    return dict(reversed(plain))


def kernels_by_op(graph: Graph) -> dict[str, set[str]]:
    used: dict[str, set[str]] = {}
    for n in graph.nodes:
        if n.kernel is not None:
            used.setdefault(n.op, set()).add(n.kernel)
    return used


@pytest.mark.shared
def test_speed_takes_the_fastest_and_balanced_little_more(tmp_path: Path) -> None:
    fast, balanced = compiled(tmp_path, optimize="speed"), compiled(tmp_path)
    fastest: dict[str, float] = {}
    for c in fast.choices:
        fastest[c.node] = min(fastest.get(c.node, c.cycles), c.cycles) if c.legal else fastest.get(c.node, np.inf)
    assert cycles(fast) == sum(fastest.values())
    assert cycles(balanced) <= cycles(fast) * (1 + choose.FLASH_SHARE)
    assert code(balanced) < code(fast)


@pytest.mark.shared
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55"])
def test_size_takes_one_kernel_for_an_op_and_plain_weights(target: str, tmp_path: Path) -> None:
    fast, small = compiled(tmp_path, target, "speed"), compiled(tmp_path, target, "size")
    assert all(len(kernels) == 1 for kernels in kernels_by_op(small.graph).values()), kernels_by_op(small.graph)
    plain = {n.name: sum(c.materialize().nbytes for c in n.constants.values()) for n in small.graph.nodes}
    assert small.manifest["weights_bytes"] <= choose.PLAIN * sum(plain.values()) + 64 * len(plain), "packed copies"
    assert cycles(small) <= choose.SIZE_LIMIT * sum(fastest_with_plain_weights(fast).values())
    assert small.manifest["cflags"] == ["-Os"] and fast.manifest["cflags"] == []
    assert small.manifest["weights_bytes"] <= fast.manifest["weights_bytes"]


@pytest.mark.shared
@pytest.mark.arm_gcc
def test_code_of_a_small_bundle(tmp_path: Path) -> None:
    image = validation.build_bundle(compiled(tmp_path, optimize="size"), "mps2-an386")
    assert image.code + image.rodata <= 6 * 1024


@pytest.mark.shared
@pytest.mark.arm_gcc
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("optimize", ["balanced", "size"])
def test_the_estimate_of_flash_is_near_what_is_built(target: str, optimize: str, tmp_path: Path) -> None:
    options = CompileOptions(target, name="net", plan=PlanOptions("greedy", effort=0, optimize=optimize))
    stages: dict[str, object] = {}
    pipeline.compile_model(KWS / "model.onnx", tmp_path / "net", options, profile=ranges(), on_stage=stages.__setitem__)
    bundle = pipeline.load_bundle(tmp_path / "net")
    image = validation.build_bundle(bundle, validation.load_board(BOARDS[target]).name)
    built = image.code + image.rodata + image.weights
    flag = "-Os" if optimize == "size" else "-O2"
    estimate = footprint.flash(bundle.graph, stages["plan"], load_target(target), flag)
    assert estimate == pytest.approx(built, rel=0.08)


BOARDS = {"cortex-m0": "nrf51-large", "cortex-m4": "mps2-an386", "cortex-m55": "mps3-an547"}


@pytest.mark.shared
def test_a_limit_of_flash_is_met_with_the_fastest_that_fits(tmp_path: Path) -> None:
    target, before = load_target("cortex-m0"), 0.0
    for limit in (120_000, 80_000, 60_000, 50_000, 40_000, 36_000):
        stages: dict[str, object] = {}
        options = CompileOptions("cortex-m0", name="net", plan=PlanOptions("greedy"), flash=limit)
        bundle = pipeline.compile_model(
            KWS / "model.onnx", tmp_path / "net", options, profile=ranges(), on_stage=stages.__setitem__
        )
        assert footprint.flash(bundle.graph, stages["plan"], target) <= limit
        assert cycles(bundle) >= before, "less flash is not faster"
        before = cycles(bundle)
    with pytest.raises(
        UsageError, match=r"does not fit --flash 20000: at least it needs about \d+ bytes, with --optimize size"
    ):
        compiled(tmp_path, "cortex-m0", flash=20_000)


@pytest.mark.shared
def test_the_planner_takes_no_kernel_that_would_need_more_code(tmp_path: Path) -> None:
    bundle = compiled(tmp_path, optimize="size")
    known = choose.within(bundle.choices, "size", None)
    used = {c.function for c in bundle.choices if c.reason is None}
    for name, choices in known.items():
        params = next(n.params for n in bundle.graph.nodes if n.name == name)
        assert {kernel(symbol).symbol_for(params) for symbol, _ in choices} <= used


def test_verbose_tells_every_kernel_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = model(
        [node("Conv", "x w b", "c", pads=[1, 1, 1, 1]), node("Softmax", "c", "y", axis=1)],
        {"x": [1, 4, 6, 6]},
        {"w": weights(8, 4, 3, 3), "b": np.zeros(8, np.float32)},
    )
    (tmp_path / "net.onnx").write_bytes(net.SerializeToString())
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(4, 4, 6, 6)).astype(np.float32))
    for target, words in {
        "cortex-m4": ("conv2d_s8 ", "conv2d_s8_dsp", "conv2d_strip_s8_dsp", "taken", "slower", "softmax_s8"),
        "cortex-m0": ("conv2d_s8_armv6m", "taken", "slower"),
        "x86-64": ("conv2d_s8", "taken"),
    }.items():
        data, out = tmp_path / "x.npy", tmp_path / target
        assert (
            main(["compile", str(tmp_path / "net.onnx"), "--data", str(data), "--target", target, "-v", "-o", str(out)])
            == 0
        )
        said = capsys.readouterr().out
        for word in words:
            assert word in said, (target, word)
        assert "dsp" not in said or target == "cortex-m4"
