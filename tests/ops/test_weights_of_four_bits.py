"""Weights of int4 and compressed weights, two in a byte, in every op that has such a form and in every requantization."""

from pathlib import Path

import pytest
from checker import case, check_op, weights
from compiled_models import level_here

from glowembed.graph.target import load_board
from glowembed.judge.validation import validate
from glowembed.law.modes import MODES
from glowembed.options.words import FOUR_BITS
from glowembed.pipeline import CompileOptions, compile_model

pytestmark = pytest.mark.cc

CASES = [
    case("1x1 16 to 20", "Conv", (1, 16, 3, 5), weights(20, 16, 1, 1), weights(20)),
    case("3x3 5 to 7", "Conv", (1, 5, 6, 5), weights(7, 5, 3, 3), weights(7), pads=[1, 1, 1, 1]),
    case("groups", "Conv", (1, 6, 5, 5), weights(9, 2, 3, 2), None, group=3, pads=[0, 1, 1, 0], strides=[2, 1]),
    case("1-D, dilated", "Conv", (1, 4, 19), weights(5, 4, 3), weights(5), dilations=[2], pads=[2, 2]),
    case(
        "dilated groups of odd channels",
        "Conv",
        (1, 6, 9, 7),
        weights(10, 3, 3, 2),
        weights(10),
        group=2,
        dilations=[2, 3],
    ),
    case(
        "transposed", "ConvTranspose", (1, 3, 4, 5), weights(3, 5, 3, 3), weights(5), strides=[2, 2], pads=[1, 0, 1, 0]
    ),
    case("few products", "Conv", (1, 1, 13, 6), weights(8, 1, 10, 4), weights(8), pads=[4, 1, 5, 1], strides=[2, 2]),
    case("depthwise 3x3", "Conv", (1, 8, 6, 5), weights(8, 1, 3, 3), weights(8), group=8, pads=[1, 1, 1, 1]),
    case("depthwise 1-D", "Conv", (1, 5, 17), weights(5, 1, 4), None, group=5, pads=[1, 2]),
    case("depthwise 5x2, multiplier 2", "Conv", (1, 3, 7, 5), weights(6, 1, 5, 2), None, group=3),
    case("one output of many products", "Conv", (1, 24, 6, 3), weights(1, 24, 7, 7), weights(1), pads=[5, 4, 5, 4]),
    case("one vector, in parts", "Gemm", (1, 160), weights(37, 160), weights(37), transB=1),
    case("rows, in parts", "MatMul", (1, 3, 130), weights(130, 33)),
    case("a small matrix", "Gemm", (2, 17), weights(7, 17), weights(7), transB=1),
]


STEPS = {"default": 1.01, "onnx": 1.01, "glow": 3.0, "tflite": 1.51}
OTHERS = [law for law in MODES if law != "default"]
TRIED = [
    (case, kind, "default" if (i + j) % 2 else OTHERS[i // 2 % len(OTHERS)])
    for i, case in enumerate(CASES)
    for j, kind in enumerate(FOUR_BITS)
]
"""Each case with one kind of weights in the default law, and with the other kind in another law: every kind meets every law."""


@pytest.mark.parametrize(("case", "kind", "law"), TRIED, ids=str)
def test_weights_of_four_bits(case, kind, law):
    check_op(case, steps=STEPS[law], settings={"weights": kind, "requantization": law})


@pytest.mark.parametrize("board", ["host", pytest.param("mps3-an547", marks=[pytest.mark.qemu, pytest.mark.arm_gcc])])
def test_a_bundle_has_the_bits_of_the_reference_and_takes_less_flash(digits: Path, tmp_path: Path, board: str) -> None:
    flash = {}
    for dtype in (*FOUR_BITS, "int8"):
        levels = level_here() if board == "host" else ()
        options = CompileOptions(load_board(board).target, weights_dtype=dtype, levels=levels)
        bundle = compile_model(digits / "model.onnx", tmp_path / dtype, options, digits / "data.npz")
        flash[dtype] = bundle.manifest["weights_bytes"]
    for dtype in FOUR_BITS:
        assert flash[dtype] < 0.75 * flash["int8"]
        assert validate(tmp_path / dtype, digits / "data.npz", board, samples=3, layers=True).bit_exact
