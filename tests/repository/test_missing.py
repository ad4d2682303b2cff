"""Every op that has only portable C on a core with kernels has a reason, and no reason is superfluous."""

import pytest
from missing_kernels import WHY, family, missing

from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import load_target

TARGETS = ("cortex-m4", "cortex-m55", "x86-64")


def test_no_reason_is_left_over():
    found = {op for target in TARGETS for op in missing(load_target(target))}
    assert set(WHY) <= {family(op) for op in found}, "WHY has a family that has kernels everywhere"


@pytest.mark.parametrize(
    ("target", "op"),
    [
        (target, f"{op}_s16{weights}")
        for target in TARGETS[:2]
        for op in ("conv2d", "depthwise", "fc")
        for weights in ("", "_w16")
    ]
    + [(target, f"{op}_f32") for target in TARGETS for op in ("conv2d", "depthwise")]
    + [
        (target, f"{op}_{kind}")
        for target in (*TARGETS, "cortex-m0", "cortex-m3")
        for op in ("add", "mul", "maxpool", "avgpool")
        for kind in ("s16", "f32")
    ],
)
def test_what_networks_spend_their_time_in_has_a_kernel(target, op):
    assert op in kernel_ops()
    assert op not in missing(load_target(target))
