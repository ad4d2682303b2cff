"""MaxPool and AveragePool in int16. Kernel-level: maxpool_s16, avgpool_s16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Array, Const, Node
from glowembed.graph.op import Cost, KernelOp, LowerContext, Params, of_element
from glowembed.graph.spatial import PoolParams, Window
from glowembed.law import wide
from glowembed.law.wide import LOWEST
from glowembed.ops import pool
from glowembed.ops.pool import AvgpoolParams
from glowembed.ops.shared.windows import POOL, window_of


def _maxpool(node: Node, c: LowerContext) -> None:
    x, y = node.inputs[0], node.outputs[0]
    assert c.qtype(x) == c.qtype(y), f"{node.name}: a MaxPool changes no QType; a Rescale does"
    fields = pool.window_fields(Window.of(node.attrs), c.shape(x), c.shape(y))
    c.add(node, "maxpool_s16", [x], y, PoolParams(**fields))


def _avgpool(node: Node, c: LowerContext) -> None:
    x, y, elements = node.inputs[0], node.outputs[0], prod(node.attrs["kernel"])
    if 65536 * elements >= 2**31:
        raise UnsupportedModelError(f"{node.name}: the sum of {elements} elements of int16 does not fit int32")
    params, multiplier = pool.average_params(node.attrs, c.shape(x), c.shape(y), c.qtype(x), c.qtype(y), "default")
    c.add(node, "avgpool_s16", [x], y, params, {"multiplier": Const(np.asarray(multiplier, dtype=np.int32))})


class _PoolS16(KernelOp[Params]):
    geometry = POOL
    element_bytes = (2, 2)


def _pool_cost(node: Node, _: Any) -> Cost:
    p = node.params
    return Cost(13.0 * p.out_h * p.out_w * p.channels * (1 + p.kernel_h * p.kernel_w), 320)


class MaxpoolS16(_PoolS16[PoolParams]):
    """The largest element of each window. Padding counts as the lowest number."""

    name = "maxpool_s16"
    params = PoolParams
    kernels = (of_element("ge_maxpool", "s16", "ge_maxpool_s16", cost=_pool_cost, store="rows"),)

    def int_ref(self, p: PoolParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.channels)
        return np.asarray(window_of(p).views(x, LOWEST).max(axis=(2, 3)))


class AvgpoolS16(_PoolS16[AvgpoolParams]):
    """y = requantize(sum of x - in_zero_point over the elements inside the input), with the multiplier for the number
    of elements that count.
    """

    name = "avgpool_s16"
    params = AvgpoolParams
    constants = {"multiplier": "int32_t"}
    kernels = (of_element("ge_avgpool", "s16", "ge_avgpool_s16", cost=_pool_cost, store="rows"),)

    def int_ref(self, p: AvgpoolParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        x = inputs[0].reshape(p.in_h, p.in_w, p.channels).astype(np.int64)
        window = window_of(p)
        acc = window.views(x - p.in_zero_point, 0).sum(axis=(2, 3)).reshape(-1, p.channels)
        rows = pool.tap_counts(window, (p.out_h, p.out_w), 0, p.count_top, p.count_bottom)
        columns = pool.tap_counts(window, (p.out_h, p.out_w), 1, p.count_left, p.count_right)
        index = np.add.outer((rows - p.min_rows) * p.table_columns, columns - p.min_columns)
        q = wide.WideRequant(tuple(constants["multiplier"][index.reshape(-1)].tolist()), p.shift)
        return wide.requantize(acc.T, q, p.out_zero_point, p.lo, p.hi).T


LOWERINGS = {("MaxPool", "int16"): _maxpool, ("AveragePool", "int16"): _avgpool}
KERNEL_OPS = (MaxpoolS16(), AvgpoolS16())
