"""The choice of kernels: they must be legal, and some must be allowed by an option."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_checker import check_kernels
from numpy.typing import NDArray
from small_models import canonical, model, node, weights

from glowembed.__main__ import main
from glowembed.graph.ir import Const, Graph, Node
from glowembed.graph.plan import Optimize
from glowembed.graph.registry import kernel
from glowembed.graph.target import load_target
from glowembed.kernels.dsp import polynomial, winograd
from glowembed.lower import choose as choose_module
from glowembed.lower.choose import choose
from glowembed.lower.nodes import lower
from glowembed.quantize.types import quantize
from glowembed.run import kernel_qemu as emulated


@pytest.fixture
def convolutions(tmp_path: Path) -> Graph:
    """3x3 of 16 channels on 16x16: `a` with stride 1, `y` with stride 2."""
    nodes = [node("Conv", "x w0", "a", pads=[1] * 4), node("Conv", "a w1", "y", pads=[1] * 4, strides=[2, 2])]
    constants = {"w0": weights(16, 16, 3, 3), "w1": weights(16, 16, 3, 3)}
    graph = canonical(model(nodes, {"x": (1, 16, 16, 16)}, constants), tmp_path, twice=False)
    ranges = dict.fromkeys(graph.values, (-30.0, 30.0))
    return lower(quantize(graph, lambda name, settings: ranges[name]))


def test_a_kernel_with_an_option_must_be_allowed(convolutions: Graph) -> None:
    target = load_target("cortex-m4")
    graph, choices = choose(convolutions, target)
    assert not any(kernel(n.kernel or "").option for n in graph.nodes if n.op == "conv2d_s8")
    first, second = (c for c in choices if c.kernel == "ge_conv2d_winograd_s8_dsp")
    assert first.reason == f"needs --winograd: {first.cycles:,.0f} cycles"
    assert second.reason is not None and "stride 1" in second.reason


def test_winograd_where_it_is_legal_and_faster(convolutions: Graph) -> None:
    graph, choices = choose(convolutions, load_target("cortex-m4"), ("winograd",))
    taken = [n.kernel for n in graph.nodes if n.op == "conv2d_s8"]
    assert taken == ["ge_conv2d_winograd_s8_dsp", "ge_conv2d_strip_s8_dsp"]
    assert any(c.reason and "stride 1" in c.reason for c in choices if c.kernel == taken[0])
    assert not any(n.kernel == taken[0] for n in choose(convolutions, load_target("cortex-m3"), ("winograd",))[0].nodes)


def test_speed_takes_winograd_wherever_a_limit_on_flash_leaves_room(convolutions: Graph) -> None:
    target = load_target("cortex-m4")
    named, _ = choose(convolutions, target, ("winograd",), "speed")
    for flash, kernels in {None: choose(convolutions, target, (), "speed")[0], 1 << 20: named}.items():
        graph, _ = choose(convolutions, target, (), "speed", flash)
        assert [n.kernel for n in graph.nodes] == [n.kernel for n in kernels.nodes]
    assert [n.kernel for n in named.nodes] != [n.kernel for n in choose(convolutions, target, (), "speed")[0].nodes]
    tight, _ = choose(convolutions, target, (), "speed", 9000)
    assert "ge_conv2d_winograd_s8_dsp" not in {n.kernel for n in tight.nodes}


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3"])
def test_constants_are_dense_unless_flash_has_room(
    target: str, convolutions: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed words take 2.7 bytes per weight; `speed`, and a limit that they fit, choose them nevertheless. The scratch
    of dense constants must not count in so small a network, so it costs nothing here.
    """
    monkeypatch.setattr(choose_module, "RAM_RATE", 0)

    def constants(optimize: Optimize, flash: int | None) -> int:
        _, choices = choose(convolutions, load_target(target), (), optimize, flash)
        return sum(c.constants for c in choices if c.reason is None)

    most, packed = choose_module.dense(convolutions), constants("speed", None)
    assert constants("balanced", None) <= most < packed
    assert constants("balanced", 200_000) == packed


def test_no_layer_keeps_a_kernel_of_its_own_when_constants_have_become_dense(tmp_path: Path) -> None:
    """Once the other layers have dense constants, packed words of the smallest one would still be within the limit."""
    sizes = (640, 128, 128, 8, 128, 640)
    names = ["x", *(f"t{i}" for i in range(1, len(sizes) - 1)), "y"]
    nodes = [node("MatMul", f"{names[i]} w{i}", names[i + 1]) for i in range(len(sizes) - 1)]
    constants = {f"w{i}": weights(*sizes[i : i + 2]) for i in range(len(sizes) - 1)}
    graph = canonical(model(nodes, {"x": (1, sizes[0])}, constants), tmp_path, twice=False)
    ranges = dict.fromkeys(graph.values, (-30.0, 30.0))
    taken, _ = choose(
        lower(quantize(graph, lambda name, settings: ranges[name])), load_target("cortex-m0"), (), "balanced"
    )
    assert {n.kernel for n in taken.nodes if n.op == "fc_s8"} == {"ge_fc_eights_s8_armv6m"}


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m3"])
@pytest.mark.parametrize("channels", [5, 10, 18])
def test_a_small_network_keeps_its_fast_kernels(target: str, channels: int, tmp_path: Path) -> None:
    """Its constants are less than half of its flash. Dense ones would leave only portable kernels, five times slower."""
    nodes = [node("Conv", "x w b", "a"), node("Conv", "a v c", "y")]
    constants = {
        "w": weights(channels, 16, 1, 1),
        "b": weights(channels),
        "v": weights(16, channels, 1, 1),
        "c": weights(16),
    }
    graph = canonical(model(nodes, {"x": (1, 16, 12, 12)}, constants), tmp_path, twice=False)
    layers = lower(quantize(graph, lambda name, settings: (-30.0, 30.0)))

    def cycles(optimize: Optimize) -> float:
        choices = choose(layers, load_target(target), optimize=optimize)[1]
        return sum(c.cycles for c in choices if c.legal and c.reason is None)

    assert cycles("balanced") <= 1.1 * cycles("speed")


@pytest.mark.parametrize(("rate", "widened"), [(0, True), (10**6, False)])
def test_flash_is_not_saved_for_too_much_scratch(
    rate: int, widened: bool, convolutions: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dense constants need scratch, where weights are widened: `balanced` weighs one against the other, `ram` takes none."""

    def scratch(optimize: Optimize) -> int:
        _, choices = choose(convolutions, load_target("cortex-m0"), (), optimize)
        return max(c.scratch for c in choices if c.reason is None)

    monkeypatch.setattr(choose_module, "RAM_RATE", rate)
    assert (scratch("balanced") > scratch("ram")) == widened


def test_winograd_is_exact_for_the_largest_weights_and_inputs() -> None:
    """The matrices of winograd.py give four times the convolution, within int16 where the kernel keeps int16."""
    rng = np.random.default_rng(5)
    b = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    a = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])
    for _ in range(200):
        g = rng.choice([-127, 127, 0, 64], (3, 3))
        d = rng.choice([-128, 127, 0], (4, 4))
        u, v = winograd.TWICE_G @ g @ winograd.TWICE_G.T, b @ d @ b.T
        assert np.abs(u).max() < 2**15 and np.abs(v).max() < 2**15
        direct = [[(d[y : y + 3, x : x + 3] * g).sum() for x in range(2)] for y in range(2)]
        assert np.array_equal(a @ (u * v) @ a.T, 4 * np.array(direct))


def test_polynomial_refuses_sums_that_do_not_fit_a_field(tmp_path: Path) -> None:
    """8191 is the largest sum of |w| that 21 bits of a field take: 65 weights of 127 are too many, 64 are not."""
    target = load_target("cortex-m4")
    for channels, legal in ((64, True), (68, False)):
        w = np.ones((4, channels, 1, 1), np.float32)
        graph = canonical(
            model([node("Conv", "x w", "y")], {"x": (1, channels, 4, 4)}, {"w": w}), tmp_path, twice=False
        )
        ranges = dict.fromkeys(graph.values, (-30.0, 30.0))
        conv = lower(quantize(graph, lambda name, settings, r=ranges: r[name]))
        reason = polynomial.ONE_TAP.when(next(n for n in conv.nodes if n.op == "conv2d_s8"), target)
        assert (reason is None) == legal
        assert legal or "can reach" in reason


def test_winograd_refuses_sums_whose_fourfold_does_not_fit(convolutions: Graph) -> None:
    conv = next(n for n in convolutions.nodes if n.op == "conv2d_s8")
    bias = np.full(16, 2**29, np.int32)
    big = replace(conv, constants={**conv.constants, "bias": Const(bias)})
    reason = winograd.KERNEL.when(big, load_target("cortex-m4"))
    assert reason is not None and "four times" in reason
    assert winograd.KERNEL.when(conv, load_target("cortex-m4")) is None


def test_an_option_that_changes_nothing_says_why(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compile", str(digits / "model.onnx"), "--data", str(digits / "data.npz"), "-o", str(tmp_path / "bundle")]
    assert main([*words, "--target", "cortex-m0", "--winograd", "--json", "-"]) == 0
    told = capsys.readouterr()
    assert told.err.strip() == "--winograd changes nothing: cortex-m0 has no such kernels"
    assert json.loads(told.out)["target"] == "cortex-m0"
    assert main([*words, "--target", "cortex-m55", "--polynomial"]) == 0
    assert (
        "makes no layer faster: 2 x it is for windows of one tap and one group; 1 x slower" in capsys.readouterr().out
    )


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("isa", ["armv6m", "armv7m"])
def test_the_largest_sums_of_plain_weights_are_exact(convolutions: Graph, isa: str) -> None:
    conv = next(n for n in convolutions.nodes if n.op == "conv2d_s8")
    shape = conv.constants["weights"].materialize().shape
    for value in (-128, 127):
        weights = np.full(shape, value, np.int8)
        fills = ("low", "high", "extremes")
        found = check_kernels(with_weights(conv, weights), convolutions, np.random.default_rng(3), fills, isa)
        assert found[f"ge_conv2d_plain_s8_{isa}"] >= len(fills), "the kernel refused these weights"
    emulated.close()


def with_weights(node: Node, weights: NDArray[np.int8]) -> Node:
    return replace(node, constants={**node.constants, "weights": Const(weights)})
