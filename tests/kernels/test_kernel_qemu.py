"""Kernels on emulated cores, where it depends on the pipes and not on the kernel: large images, firmware that ends."""

from __future__ import annotations

import numpy as np
import pytest

from glowembed.errors import ToolError
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import load_board
from glowembed.ops.gemm import FcParams
from glowembed.run import kernel_qemu as emulated
from glowembed.run.kernel import GUARD, Arena, in_one_piece, packed_constants

pytestmark = [pytest.mark.arm_gcc, pytest.mark.qemu]

PORTABLE = kernel("ge_fc_s8")


def fully_connected(in_c: int, out_c: int, board: str) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of the firmware, and those of the law."""
    op, rng = kernel_ops()["fc_s8"], np.random.default_rng(in_c)
    p = FcParams(1, in_c, out_c, shift=32, out_zero_point=3, lo=-128, hi=127)
    constants = {
        "weights": rng.integers(-127, 128, (out_c, in_c)).astype(np.int8),
        "bias": rng.integers(-1000, 1000, out_c).astype(np.int32),
        "multiplier": np.full(out_c, 1 << 20, np.int32),
    }
    x = rng.integers(-128, 128, in_c).astype(np.int8)
    places = in_one_piece(0, 1, in_c), in_one_piece(in_c + GUARD, 1, out_c)
    arena = Arena(places[1].end)
    arena.write(places[0], x)
    packed = packed_constants(op, PORTABLE, constants, p)
    (fc,) = emulated.load(op, [PORTABLE], p, load_board(board))
    fc.run(arena, p, places[:1], packed, places[1], range(1))
    return arena.read(places[1], np.int8), op.int_ref(p, (x,), constants)


@pytest.mark.parametrize("board", sorted(boards[0] for boards in emulated.boards().values()))
@pytest.mark.parametrize("out_c", [64, 300])
def test_an_image_of_memory_may_be_larger_than_what_a_pipe_holds(board: str, out_c: int) -> None:
    found, law = fully_connected(1024, out_c, board)
    np.testing.assert_array_equal(found, law.reshape(-1))


def test_a_firmware_that_ends_is_named_and_the_next_call_starts_it_again() -> None:
    with pytest.raises(ToolError, match="ge_fc_s8 on microbit under QEMU ended with exit code 64"):
        fully_connected(1024, 100, "microbit")
    found, law = fully_connected(128, 4, "microbit")
    np.testing.assert_array_equal(found, law.reshape(-1))
