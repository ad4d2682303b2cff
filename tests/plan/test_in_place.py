"""Planes become pixels, and pixels planes, in the same bytes: every shape, every core, and the RAM that it saves."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.graph.ir import Node
from glowembed.graph.plan import Places, PlanOptions
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import load_target
from glowembed.judge.validation import validate
from glowembed.ops.transpose import ChannelsLastParams
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.run import kernel as host

IN_PLACE = "ge_channels_last_in_place_s8"
SIZES = (1, 2, 7, 8, 13, 16, 64)
QUICK = PlanOptions("greedy", effort=0, optimize="ram")


@pytest.mark.cc
@pytest.mark.parametrize(
    ("planes", "sizes"), [*((n, SIZES) for n in (2, 3, 4, 5, 17)), (61, (1, 8)), (256, (16, 17))], ids=str
)
def test_every_shape(planes: int, sizes: tuple[int, ...]) -> None:
    """Small, odd, prime, powers of two, one row, one column; and the way back, which has more planes than pixels."""
    op = kernel_ops()["channels_last_s8"]
    shapes = [(planes, h, w) for h, w in product(sizes, sizes) if h * w > 1]
    for channels, rows, columns in [*shapes, *((h * w, planes, 1) for _, h, w in shapes)]:
        p = ChannelsLastParams(rows, columns, channels)
        x = np.random.default_rng(rows * columns).integers(-128, 128, channels * rows * columns).astype(np.int8)
        arena = host.Arena(x.size)
        planes_at, pixels_at = (
            host.in_one_piece(0, channels * rows, columns),
            host.in_one_piece(0, rows, columns * channels),
        )
        arena.write(planes_at, x)
        host.load(op, kernel(IN_PLACE), p).run(arena, p, [planes_at], {}, pixels_at, range(rows))
        found = arena.read(pixels_at, np.int8)
        np.testing.assert_array_equal(found, op.int_ref(p, [x], {}).reshape(-1), err_msg=str(p))


def test_more_planes_than_scratch_are_refused() -> None:
    def why_not(planes: int, rows: int) -> str | None:
        p = ChannelsLastParams(rows, 1, planes)
        return kernel(IN_PLACE).when(Node("n", "channels_last_s8", (), (), params=p), load_target("cortex-m4"))

    assert why_not(257, 257) == "more than 256 planes, and pixels"
    assert why_not(256, 257) is why_not(257, 256) is None


def network() -> object:
    """An image and an output in planes."""
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Conv", "a v", "y", strides=[2, 2], pads=[1, 1, 1, 1])]
    return model(nodes, {"x": [1, 3, 24, 24]}, {"w": weights(8, 3, 3, 3), "v": weights(12, 8, 3, 3)})


def compiled(folder: Path, target: str, places: Places) -> Bundle:
    data = np.random.default_rng(0).normal(size=(4, 3, 24, 24)).astype(np.float32)
    np.savez(folder / "data.npz", calib_x=data, test_x=data)
    options = CompileOptions(target, name="net", plan=QUICK, places=places)
    return compile_model(saved(network(), folder), folder / "net", options, folder / "data.npz")  # type: ignore[arg-type]


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board"), [("cortex-m0", "microbit"), ("cortex-m4", "mps2-an386")])
def test_a_firmware_turns_its_input_and_its_output_where_they_lie(target: str, board: str, tmp_path: Path) -> None:
    bundle = compiled(tmp_path, target, Places())
    assert [n.kernel for n in bundle.graph.nodes if n.op == "channels_last_s8"] == [IN_PLACE, IN_PLACE]
    assert validate(bundle, tmp_path / "data.npz", board, layers=True).bit_exact


def test_what_is_of_the_caller_is_not_turned(tmp_path: Path) -> None:
    bundle = compiled(tmp_path, "cortex-m4", Places("caller"))
    assert IN_PLACE not in [n.kernel for n in bundle.graph.nodes]


@pytest.mark.shared
def test_an_image_in_planes_takes_no_more_than_one_in_pixels(shared_models: Path, tmp_path: Path) -> None:
    """12,288 of these bytes are the input."""
    folder = shared_models / "mobilenetv2"
    options = CompileOptions("cortex-m4", plan=QUICK)
    bundle = compile_model(folder / "model.onnx", tmp_path / "net", options, folder / "data.npz")
    assert bundle.manifest["arena"]["size"] <= 16_000
