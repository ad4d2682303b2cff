"""Softmax in int16. Kernel-level: softmax_s16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.ir import Array, Const, Node
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext
from glowembed.law.fixedpoint import round_half_up
from glowembed.law.wide import HIGHEST
from glowembed.ops import softmax
from glowembed.ops.shared import broadcast
from glowembed.ops.softmax import VECTORS
from glowembed.records import dataclass


@dataclass(frozen=True)
class SoftmaxS16Params:
    """The sizes: each vector of the output sums to one."""

    rows: int = i32("rows of input and output")
    vectors: int = i32("vectors of a row")
    n: int = i32("elements of a vector, at most 65536")
    steps: int = i32("of the output that make 1.0, rounded down")
    sum_scale: int = i32("of the sum, in 2^-30: 2^30 where the steps are no rounded number")
    zero_point: int = i32("of the output, -32768..32767")


def _softmax(node: Node, c: LowerContext) -> None:
    x, y, shape = node.inputs[0], node.outputs[0], c.shape(node.inputs[0])
    rows, n = broadcast.rows_of(shape), shape[-1]
    if n > 65536:
        raise UnsupportedModelError(f"{node.name}: Softmax over {n} elements; at most 65536 are possible in int16")
    yq = c.qtype(y)
    params = SoftmaxS16Params(rows, prod(shape) // rows // n, n, *softmax.shares(yq.scale[0]), yq.zero_point[0])
    c.add(node, "softmax_s16", [x], y, params, {"table": _exp_table(c.qtype(x).scale[0])})


def _exp_table(scale: float) -> Const:
    """The table 2^31 * exp(-scale * d) for d = 0, 256, .. 65280, then for d = 0 .. 255."""

    def evaluate(distance: Array) -> Array:
        return np.asarray(round_half_up(np.exp(-scale * distance.astype(np.float64)) * 2.0**31), dtype=np.uint32)

    distances = np.concatenate([np.arange(256) * 256, np.arange(256)]).astype(np.int32)
    return Const(distances).then(f"exp(-{scale:g} d) * 2^31", evaluate)


class SoftmaxS16(KernelOp[SoftmaxS16Params]):
    """e = table[d >> 8] * table[256 + (d & 255)]. The rest is as in softmax_s8, except that the sum has 64 bits,
    because it may reach 2^47.
    """

    name = "softmax_s16"
    params = SoftmaxS16Params
    constants = {"table": "uint32_t"}
    kernels = (
        Kernel(
            "ge_softmax_s16",
            cost=lambda n, t: Cost(120.0 * n.params.rows * n.params.vectors * n.params.n, 260),
            store="elements",
        ),
    )
    geometry = VECTORS
    element_bytes = (2, 2)

    def int_ref(self, p: SoftmaxS16Params, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x, table = inputs[0].reshape(-1, p.n).astype(np.int32), constants["table"].astype(np.uint64)
        distance = x.max(axis=1, keepdims=True) - x
        product = table[distance >> 8] * table[256 + (distance & 255)]
        e = (product + np.uint64(2**30)) >> np.uint64(31)
        total = _scaled(e.sum(axis=1, keepdims=True, dtype=np.uint64), np.uint64(p.sum_scale))
        y = (e * np.uint64(p.steps) + total // np.uint64(2)) // total
        return np.asarray(
            np.minimum(y, np.uint64(HIGHEST - p.zero_point)).astype(np.int64) + p.zero_point, dtype=np.int16
        )


def _scaled(total: Array, scale: np.uint64) -> Array:
    """total * scale / 2^30, rounded down and computed in parts that fit 64 bits."""
    low, bits = np.uint64(2**30 - 1), np.uint64(30)
    return np.asarray((total >> bits) * scale + ((total & low) * scale >> bits))


LOWERINGS = {("Softmax", "int16"): _softmax}
KERNEL_OPS = (SoftmaxS16(),)
