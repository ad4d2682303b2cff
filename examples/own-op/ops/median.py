"""my.ops:Median3, an operator with a C kernel: the median of each element and its two neighbours along the last axis.

An Op is what a node means in float, a KernelOp its integer arithmetic, and median3_s8.c a kernel that computes it bit for bit. The
ends have themselves as the missing neighbour.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import per_row
from glowembed.graph.op import Cost, Kernel, KernelOp, Op


def _median3(x):
    around = np.concatenate([x[..., :1], x, x[..., -1:]], axis=-1)
    return np.median(np.stack([around[..., :-2], x, around[..., 2:]]), axis=0).astype(x.dtype)


class Median3(Op):
    """y[i] = median(x[i - 1], x[i], x[i + 1])."""

    name = "Median3"
    onnx = ("my.ops:Median3",)
    output_type = "input"  # the output has the scale and zero point of the input, so the kernel only compares integers

    def import_onnx(self, node, b):
        b.add(self.name, [node.inputs[0]], {}, node.outputs[0])

    def infer(self, attrs, shapes):
        return (shapes[0],)

    def float_ref(self, attrs, inputs):
        return (_median3(inputs[0]),)

    def lower(self, node, c):
        shape = c.shape(node.inputs[0])
        c.add(node, "median3_s8", node.inputs, node.outputs[0], Median3Params(prod(shape[:-1]), shape[-1]))


@dataclass(frozen=True)
class Median3Params:
    """The numbers that the kernel reads: a struct in C, ge_median3_params."""

    rows: int = i32("vectors along the last axis")
    size: int = i32("elements of a vector")


class Median3S8(KernelOp[Median3Params]):
    """The median of stored integers. A row is one vector."""

    name = "median3_s8"
    params = Median3Params
    geometry = per_row(lambda p: ((p.size,), p.size))
    kernels = (Kernel("ge_median3_s8", cost=lambda n, t: Cost(20.0 * n.params.rows * n.params.size, 120)),)

    def int_ref(self, p, inputs, constants):
        return _median3(inputs[0].reshape(p.rows, p.size))


OPS = (Median3(),)
KERNEL_OPS = (Median3S8(),)
