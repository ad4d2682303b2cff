"""Kernels of the audio front end for dsp: the portable file with a faster transform. In: kernel-level nodes. Out:
`Kernel`s.
"""

from __future__ import annotations

from glowembed.graph.ir import Node
from glowembed.graph.op import Cost, Kernel, only
from glowembed.graph.target import PORTABLE, Target
from glowembed.ops.features import FeaturesParams, scratch

STEPS = {"features_steps.h": "features_steps_dsp.h"}


def _cost(node: Node, target: Target) -> Cost:
    p: FeaturesParams = node.params
    stages = p.points.bit_length() // 2
    cycles = p.points * (15.0 + 9.0 * stages) + p.bins * (70.0 if p.power == 0 else 40.0) + 100.0 * p.width
    return Cost(p.rows * (cycles + 6.0 * p.coefficients * p.bands), 2600)


def _kernel(element: str) -> Kernel:
    """The kernel for features of this type, made from the portable file."""
    return Kernel(
        f"ge_features_s16_{element}_dsp",
        isa="dsp",
        template="ge_features",
        folder=PORTABLE,
        headers={**STEPS, "features_s8.h": f"features_{element}.h"},
        scratch=scratch,
        cost=_cost,
        store="rows",
    )


KERNELS = {f"features_s16_{element}": only(_kernel(element)) for element in ("s8", "s16", "f32")}
