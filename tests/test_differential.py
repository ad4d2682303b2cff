"""Random kernel-level nodes: every kernel of a core against the integer reference, bit for bit.

Weights and inputs take all of int8, -128 too; shapes are small and odd. A few nodes in each run of the tests; for as long as
one likes:

    python tests/test_differential.py --isa dsp --seconds 60 --seed 7

Every fourth call has its params as constants of the program, as in a bundle: the compiler then knows all numbers, and
assembly whose operands are declared wrongly gets registers that it did not expect.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checker import Call, _check_kernel, boards_for, variants

from glowembed.ir import Const, Node
from glowembed.op import Kernel, kernel_ops
from glowembed.ops.conv import Conv2dParams
from glowembed.ops.gemm import FcParams
from glowembed.run import kernel as host
from glowembed.run import kernel_qemu as emulated
from glowembed.target import load_target

HOST = load_target("x86-64")
ISA = ("portable", "dsp", "mve", "armv7m", "armv6m")
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33, 48)
CONSTANT_EVERY = 4
WEIGHTS_MAX = 6000
"""Of a node: an emulated core takes images of some 64 KB at once."""


def requantization(chance: random.Random, out_c: int, reach: int) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """Params and constants with which outputs fill int8 and saturate now and then."""
    rng = np.random.default_rng(chance.randrange(1 << 30))
    shift = chance.choice((32, 32, 32, 31, 29))
    scale = 2.0**shift * chance.choice((60, 128, 300)) / max(reach, 200)
    multiplier = np.clip(rng.uniform(0.5, 1.0, out_c) * scale, 1, 2**31 - 1).astype(np.int32)
    bias = rng.integers(-reach // 3 - 1, reach // 3 + 2, out_c).astype(np.int32)
    lo, hi = chance.choice(((-128, 127), (-128, 127), (-100, 90)))
    return {"shift": shift, "out_zero_point": chance.randint(-128, 127), "lo": lo, "hi": hi}, {
        "bias": bias,
        "multiplier": multiplier,
    }


def weights(chance: random.Random, *shape: int) -> np.ndarray:
    """All of int8, or without -128, or small."""
    low, high = chance.choice(((-128, 127), (-127, 127), (-127, 127), (-20, 20)))
    rng = np.random.default_rng(chance.randrange(1 << 30))
    return rng.integers(low, high + 1, shape).astype(np.int8)


def convolution(chance: random.Random, depthwise: bool) -> tuple[str, Conv2dParams, dict[str, np.ndarray]]:
    """Any window, stride, dilation, padding; groups or channel multipliers."""
    while True:
        kh, kw = chance.choice(((1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (2, 3), (4, 1), (1, 5), (7, 7)))
        stride, dilation = (
            chance.choice(((1, 1), (1, 1), (2, 2), (1, 2), (3, 2))),
            chance.choice(((1, 1), (1, 1), (2, 2), (3, 1))),
        )
        h, w = chance.randint(1, 12), chance.choice((1, 2, 3, 5, 8, 13))
        top, left = chance.randint(0, kh - 1), chance.randint(0, kw - 1)
        out_h = (h + 2 * top - (kh - 1) * dilation[0] - 1) // stride[0] + 1
        out_w = (w + 2 * left - (kw - 1) * dilation[1] - 1) // stride[1] + 1
        if out_h >= 1 and out_w >= 1:
            break
    groups = 1 if chance.random() < 0.8 else chance.choice((2, 3))
    in_c = chance.choice(CHANNELS) * (1 if depthwise else groups)
    out_c = in_c * chance.choice((1, 1, 1, 2, 3)) if depthwise else chance.choice(CHANNELS) * groups
    shape = (kh, kw, out_c) if depthwise else (out_c, kh, kw, in_c // groups)
    if np.prod(shape) > WEIGHTS_MAX:
        return convolution(chance, depthwise)
    reach = kh * kw * (1 if depthwise else in_c // groups) * 5000
    law, constants = requantization(chance, out_c, reach)
    p = Conv2dParams(
        h, w, in_c, out_h, out_w, out_c, kh, kw, *stride, *dilation, top, left, in_c if depthwise else groups,
        chance.randint(-128, 127), **law,
    )  # fmt: skip
    return ("depthwise_s8" if depthwise else "conv2d_s8"), p, {"weights": weights(chance, *shape), **constants}


def fully_connected(chance: random.Random) -> tuple[str, FcParams, dict[str, np.ndarray]]:
    rows, in_c, out_c = chance.choice((1, 1, 2, 5)), chance.choice((*CHANNELS, 64, 100, 257)), chance.choice(CHANNELS)
    law, constants = requantization(chance, out_c, in_c * 5000)
    return "fc_s8", FcParams(rows, in_c, out_c, **law), {"weights": weights(chance, out_c, in_c), **constants}


FAMILIES: tuple[Callable[[random.Random], tuple[str, object, dict[str, np.ndarray]]], ...] = (
    lambda chance: convolution(chance, depthwise=False),
    lambda chance: convolution(chance, depthwise=True),
    fully_connected,
)


def check_random(seed: int, number: int, isa: str) -> int:
    """Node `number` of the sequence of a seed, through every kernel of an ISA that may compute it; how many there were."""
    chance = random.Random(f"{seed} {number}")
    name, params, constants = FAMILIES[number % len(FAMILIES)](chance)
    op = kernel_ops()[name]
    rng = np.random.default_rng(chance.randrange(1 << 30))
    in_bytes = op.row_bytes(params)[0][0]
    rows = params.in_h if isinstance(params, Conv2dParams) else params.rows  # type: ignore[attr-defined]
    x = rng.integers(-128, 128, rows * in_bytes).astype(np.int8)
    if chance.random() < 0.25:
        x = np.where(x < 0, -128, 127).astype(np.int8)
    node = Node("random", name, ("x",), ("y",), params=params, constants={n: Const(c) for n, c in constants.items()})
    expected = np.asarray(op.int_ref(params, (x,), constants)).astype(np.int8)
    call = Call(op, params, (x,), constants, expected, None)
    checked = 0
    for kernel in op.kernels:
        for how in _ways(kernel, node, isa, constant=number % CONSTANT_EVERY == 0):
            try:
                _check_kernel(how(), call, rng, thorough=number % 3 == 0)
            except AssertionError as error:
                raise AssertionError(f"--seed {seed}, node {number}: {error}") from error
            checked += 1
    return checked


def _ways(kernel: Kernel, node: Node, isa: str, constant: bool) -> list[Callable[[], host.HostKernel]]:
    op = kernel_ops()[node.op]
    if isa == "portable":
        legal = not kernel.isa and kernel.when(node, HOST) is None
        return (
            [lambda level=level: host.load(op, kernel, node.params, level) for level in variants(kernel)]
            if legal
            else []
        )
    if kernel.isa != isa:
        return []
    boards = boards_for(kernel, node)[:1]
    return [lambda board=board: emulated.load(op, kernel, node.params, board, constant) for board in boards]


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("isa", ISA)
def test_random_nodes(isa: str) -> None:
    checked = sum(check_random(1, number, isa) for number in range(24))
    assert checked >= 6, "hardly any kernel of this core was legal"
    emulated.close()


def main() -> int:
    """Until the time is over; prints what was done, or the seed and number of what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", choices=ISA, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    end, number, checked = time.monotonic() + args.seconds, 0, 0
    while time.monotonic() < end:
        checked += check_random(args.seed, number, args.isa)
        number += 1
        if number % 50 == 0:
            emulated.close()
    emulated.close()
    print(f"{args.isa}, seed {args.seed}: {number} nodes, {checked} kernels of them checked, all bits equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
