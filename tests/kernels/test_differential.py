"""Random kernel-level nodes: every kernel of a core against the integer reference, bit for bit.

All families, dtypes and requantizations (random_nodes.py); weights and inputs take all of int8, -128 too; shapes are small
and odd, and now and then large. The tests take the first nodes that meet each kernel; for as long as one likes:

    python tests/kernels/test_differential.py --isa dsp --seconds 60 --seed 7
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Container
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from kernel_checker import HOST, boards_for, check_kernels
from random_nodes import equal_numbers, lowered

from glowembed.graph.ir import Graph, Node
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import load_target
from glowembed.run import kernel_qemu as emulated

ISA = {"portable": "", "x86": "x86", **{word: word for word in emulated.boards()}}
FILLS = ("random", "extremes")

ALWAYS, OFTEN = 1, 8
"""For one in how many of the params kernels are checked with params that the compiler knows."""

TRIED_MAX = 6000
"""The most nodes that are drawn in search of one for a kernel that has not been tested yet."""

EXEMPT = {"ge_take_rows", "ge_copy_rows", "ge_store_rows", "ge_avgpool_tflite_s8_dsp"}
"""Inputs from outside the arena, and states: test_places.py, test_states.py. Means whose scale is that of the input are
drawn too rarely: test_dsp_laws.py.
"""


def check_random(seed: int, number: int, isa: str, known: int, but: Container[str] = ()) -> Counter[str]:
    """Graph `number` of a seed through all kernels of an ISA that may compute its nodes, `but` some; how often each was right."""
    graph, rng, found = lowered(seed, number), np.random.default_rng((seed, number)), Counter[str]()
    for node in graph.nodes:
        try:
            found += check_kernels(node, graph, rng, FILLS, ISA[isa], known, but=but)
        except AssertionError as error:
            raise AssertionError(f"--isa {isa} --seed {seed}, node {number}: {error}") from error
    return found


def legal(node: Node, isa: str, kernels: Container[str]) -> bool:
    """Whether one of these kernels of an ISA may compute a node."""
    able = [k for k in kernel_ops()[node.op].kernels if k.symbol in kernels]
    targets = [load_target(board.target) for board in boards_for(isa, node)[:1]] if able else []
    return any(k.when(node, (targets or [HOST])[0]) is None for k in able)


@cache
def drawn(number: int) -> Graph:
    """Graph `number` of the tests, drawn once for all ISAs."""
    return lowered(1, number)


@pytest.mark.cc
@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("isa", ISA)
def test_random_nodes_meet_every_kernel(isa: str) -> None:
    written = (k for op in kernel_ops().values() for k in op.kernels if k.generated is None)
    missing, met = {k.symbol for k in written if k.isa == ISA[isa]} - EXEMPT, set[str]()
    for number in range(TRIED_MAX):
        if any(legal(node, isa, missing) for node in drawn(number).nodes):
            met |= check_random(1, number, isa, ALWAYS, met).keys()
            missing -= met
        if not missing:
            break
    emulated.close()
    assert not missing, "no random node is for these kernels: random_nodes.py has to draw what they are for"


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize("isa", emulated.boards())
@pytest.mark.parametrize("n", [4, 5, 8])
def test_params_that_are_equal_numbers(isa: str, n: int) -> None:
    """With constant params, an operand that advances and an input of the same value may share a register."""
    checked = Counter[str]()
    for graph in equal_numbers(n):
        checked += check_kernels(graph.nodes[0], graph, np.random.default_rng(n), ("random",), isa, ALWAYS)
    emulated.close()
    assert len(checked) >= 2


@pytest.mark.arm_gcc
@pytest.mark.qemu
@pytest.mark.parametrize(("isa", "seed", "number"), [("mve", 1818, 1447)])
def test_nodes_that_were_wrong(isa: str, seed: int, number: int) -> None:
    """1447: two rows of float32 by 16 outputs, the second of which was written over the first row's inputs."""
    assert check_random(seed, number, isa, ALWAYS)
    emulated.close()


def main() -> int:
    """Run cases until the time is over; print their number, or the seed and number of the case that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", choices=ISA, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    end, number, checked = time.monotonic() + args.seconds, 0, Counter[str]()
    while time.monotonic() < end:
        checked += check_random(args.seed, number, args.isa, OFTEN)
        number += 1
        if number % 50 == 0:
            emulated.close()
    emulated.close()
    print(
        f"{args.isa}, seed {args.seed}: {number} nodes, {checked.total()} checks of {len(checked)} kernels, all bits equal"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
